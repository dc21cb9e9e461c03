//! Open-loop arrivals: queries begin at their own times, whether earlier ones are answered or not.
//!
//! An arrival takes the place of an idle worker, the one that became idle last, and asks as workers
//! do. There are as many places as the group has workers, so that many queries can be under way at
//! once. An arrival that finds no free place leaves a row without attempts, as a resolver drops a
//! query when its table of outstanding ones is full.

use narrows_units::settings::{any, positive};
use narrows_units::{Span, keys};

use super::Workers;
use crate::record::QueryRow;
use crate::udp::Spacing;
use crate::{Host, Random};

keys! {
    #[derive(Copy)]
    /// When queries begin.
    pub struct Arrivals {
        /// The mean time between two arrivals.
        interval: Span = Span::from_ms(10), positive();
        /// Time between arrivals: always the same, or exponentially distributed.
        spacing: Spacing = Spacing::Poisson, any();
    }
}

/// The timer of the next arrival. Connections' timers have smaller numbers, because there are fewer
/// than 2^31 connections.
pub(super) const TOKEN: u32 = u32::MAX;

/// The arrivals of a group.
#[derive(Debug)]
pub(super) struct Arriving {
    settings: Arrivals,
    random: Random,
    /// The arrivals so far.
    begun: u32,
    /// The places that no query holds; the last one is taken next.
    free: Vec<u32>,
}

impl Arriving {
    pub(super) fn new(settings: Arrivals, random: Random, places: u32) -> Self {
        Self { settings, random, begun: 0, free: (0..places).rev().collect() }
    }

    /// Returns the time from the group's start to its first arrival.
    pub(super) fn first(&mut self, spread: Span) -> Span {
        let shift = Span::from_secs_f64(spread.as_secs_f64() * self.random.uniform());
        match self.settings.spacing {
            Spacing::Even => shift,
            Spacing::Poisson => shift + self.random.exponential(self.settings.interval),
        }
    }

    /// Returns the time from an arrival to the next.
    fn gap(&mut self) -> Span {
        match self.settings.spacing {
            Spacing::Even => self.settings.interval,
            Spacing::Poisson => self.random.exponential(self.settings.interval),
        }
    }

    /// Takes back the place of a query that is over.
    pub(super) fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Returns whether no query is under way.
    pub(super) fn is_idle(&self, places: usize) -> bool {
        self.free.len() == places
    }

    pub(super) fn begun(&self) -> u32 {
        self.begun
    }
}

impl Workers {
    /// Begins the query that arrives now, and sets the time of the next one.
    pub(super) fn arrive(&mut self, host: &mut dyn Host) {
        let each = self.settings.each();
        let arriving = self.arriving.as_mut().expect("a timer for arrivals was set");
        let index = arriving.begun;
        if each.is_some_and(|each| index >= each) {
            return;
        }
        arriving.begun += 1;
        let free = arriving.free.pop();
        let next = (each != Some(arriving.begun)).then(|| host.now() + arriving.gap());
        if let Some(next) = next {
            host.wake(next, TOKEN);
        }
        match free {
            Some(number) => {
                self.workers[number as usize].begun = index;
                self.begin_query(host, number);
            }
            None => {
                self.turn_away(host, index);
            }
        }
    }

    /// Notes an arrival or a call for which there is no place. Returns its row.
    pub(super) fn turn_away(&mut self, host: &mut dyn Host, index: u32) -> u32 {
        let (now, client) = (host.now(), host.application());
        self.begun += 1;
        let queries = &mut host.records().queries;
        queries.push(QueryRow {
            client,
            worker: 0,
            index,
            measured: index >= self.settings.warm_up,
            start: now,
            end: Some(now),
            attempt: 0,
            attempts: 0,
            rtt: None,
            late_answers: 0,
        });
        queries.len() as u32 - 1
    }
}

//! What groups of TCP connections have delivered: samples at a fixed rate.
//!
//! A sample sums up counters that TCP keeps anyway, so packets cost nothing more. It is no event:
//! the run takes it before the first event that comes after its time. A sample therefore counts
//! everything that arrived up to its time, and it changes neither the order of events nor their
//! number.
//!
//! It counts the bytes that arrived in order at the receivers of connections in the table `flows`,
//! and at the clients of applications that exchange messages. It leaves out DNS: the table
//! `attempts` says what its connections carried.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use narrows_units::{MaybeTime, Span, Time};

use crate::Kind;
use crate::table::{Table, rows};

/// What a run's connections have delivered so far.
pub trait Delivered {
    /// Returns the bytes that arrived in order at the receivers of these rows of the table `flows`.
    fn received_by_rows(&self, rows: Range<usize>) -> u64;

    /// Reports the bytes that arrived in order at the first ends of connections with messages, the
    /// clients. Each part goes to `report`, with the client's application.
    fn received_by_clients(&self, report: impl FnMut(u32, u64));
}

/// The samples of a run.
#[derive(Debug)]
pub struct Goodput {
    interval: Span,
    /// When the next sample is due; none if nothing is sampled.
    due: MaybeTime,
    series: Vec<Series>,
    /// The series of each application's clients. DNS has none.
    of_clients: Vec<Option<usize>>,
    /// Rows of `flows`, and the series that they belong to.
    of_rows: Vec<(Range<usize>, usize)>,
    /// The times of the samples.
    times: Vec<Time>,
    /// What each series had delivered, sample by sample.
    bytes: Vec<u64>,
}

/// What a group delivers in one direction.
#[derive(Clone, Debug)]
struct Series {
    group: String,
    backward: bool,
    /// Whether some of its connections have rows in `flows`. If not, the series has rows of its own
    /// only if it delivered anything.
    listed: bool,
}

/// A row of the table.
struct Row<'a> {
    at: Time,
    series: &'a Series,
    bytes: u64,
}

rows! {
    /// A sample of what the TCP connections of a traffic group have delivered, at the rate of
    /// `monitor.goodput` and at the end of the run; DNS groups, QUIC, and runs on several machines
    /// have no samples.
    pub(crate) struct GoodputRow as "goodput" {
        /// When the sample was taken, from the start of the run.
        t_s: f64 ["s"];
        /// The traffic group.
        group: String [""];
        /// `forward`, or `backward` for connections that carry data from the receiver of an earlier
        /// connection of the group to its sender.
        direction: String [""];
        /// Payload that arrived in order at the receivers since the start. In `incast`, `page` and
        /// `transfer`, these are the clients. TLS counts as payload.
        bytes_received: u64 ["bytes"];
    }
}

impl Goodput {
    /// Prepares samples at this interval, of applications with these names; `None`: no samples.
    pub fn new<'a>(
        interval: Option<Span>,
        applications: impl Iterator<Item = (&'a str, &'a Kind)>,
    ) -> Self {
        let mut series: Vec<Series> = Vec::new();
        let mut known = BTreeMap::new();
        let of_group = |(name, kind): (&str, &Kind)| {
            if matches!(kind, Kind::DnsClient(_) | Kind::DnsServer(_)) {
                return None;
            }
            Some(*known.entry(name.to_owned()).or_insert_with(|| {
                series.push(Series { group: name.to_owned(), backward: false, listed: false });
                series.len() - 1
            }))
        };
        let of_clients = applications.map(of_group).collect();
        Self {
            interval: interval.unwrap_or(Span::ZERO),
            due: interval.map(|interval| Time::ZERO + interval).into(),
            series,
            of_clients,
            of_rows: Vec::new(),
            times: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Notes which series the rows of `flows` belong to. All of them exist from the start. Each has
    /// an application, and the nodes of its data's sender and receiver.
    pub fn note_rows(&mut self, rows: impl Iterator<Item = (u32, [u32; 2])>) {
        let mut pairs = BTreeSet::new();
        let mut backwards = BTreeMap::new();
        let mut last = None;
        for (number, (application, nodes)) in rows.enumerate() {
            let of_group = self.of_clients[application as usize];
            let group = of_group.expect("DNS has no rows in `flows`");
            if last == Some((group, nodes)) {
                self.of_rows.last_mut().expect("there is an earlier row").0.end = number + 1;
                continue;
            }
            last = Some((group, nodes));
            let [from, to] = nodes;
            let series = if pairs.contains(&(group, to, from)) {
                *backwards.entry(group).or_insert_with(|| {
                    self.series.push(Series { backward: true, ..self.series[group].clone() });
                    self.series.len() - 1
                })
            } else {
                pairs.insert((group, from, to));
                group
            };
            self.series[series].listed = true;
            self.of_rows.push((number..number + 1, series));
        }
    }

    /// Returns when the next sample is due.
    pub fn due(&self) -> MaybeTime {
        self.due
    }

    /// Takes the samples that are due before `at`.
    pub fn catch_up(&mut self, at: Time, flows: &impl Delivered) {
        while let Some(due) = self.due.get()
            && due < at
        {
            let delivered = self.delivered(flows);
            self.times.push(due);
            self.bytes.extend(delivered);
            self.due = (due + self.interval).into();
        }
    }

    /// Returns the table, whose last rows say what has been delivered by `now`.
    pub fn table(&self, now: Time, flows: &impl Delivered) -> Table {
        let last = self.delivered(flows);
        let ends_later = self.due.get().is_some() && self.times.last().is_none_or(|&at| at < now);
        let now = ends_later.then_some((now, &last[..]));
        let samples = self.times.iter().copied().zip(self.bytes.chunks(self.series.len().max(1)));
        let mut rows = Vec::new();
        for (at, bytes) in samples.chain(now) {
            let all = self.series.iter().zip(bytes).zip(&last);
            rows.extend(
                all.filter(|((series, _), last)| series.listed || **last > 0)
                    .map(|((series, bytes), _)| Row { at, series, bytes: *bytes }),
            );
        }
        let rows = rows.into_iter().map(|row| GoodputRow {
            t_s: row.at.as_secs_f64(),
            group: row.series.group.clone(),
            direction: { if row.series.backward { "backward" } else { "forward" }.to_owned() },
            bytes_received: row.bytes,
        });
        GoodputRow::table(rows)
    }

    /// Returns what each series has delivered.
    fn delivered(&self, flows: &impl Delivered) -> Vec<u64> {
        let mut sums = vec![0; self.series.len()];
        for (rows, series) in &self.of_rows {
            sums[*series] += flows.received_by_rows(rows.clone());
        }
        flows.received_by_clients(|application, bytes| {
            if let Some(series) = self.of_clients[application as usize] {
                sums[series] += bytes;
            }
        });
        sums
    }
}

//! Two ends with a line between them that loses the datagrams that a test names.

mod closing;
mod handshake;
mod loss;
mod reordering;
mod samples;

use alloc::vec::Vec;

use narrows_units::{Span, Time};

use super::config::{Config, Probes};
use super::endpoint::{End, Endpoint};
use super::frames::{Datagram, Level};
use crate::tls::{Client, Server, Tls};

/// A stream of random numbers: the linear congruential generator of Knuth's MMIX.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The one-way delay.
const DELAY: Span = Span::from_ms(50);

const CLIENT: Client = Client {
    hello: 225,
    pads_hello: false,
    key_share: 32,
    alpn: 3,
    apart: false,
    resume: true,
    early_data: true,
    close_notify: false,
};
const SERVER: Server = Server {
    certificate: 1800,
    signature: 71,
    hash: 32,
    groups: 0,
    alpn: true,
    ticket: 255,
    tickets: 2,
    tickets_resumed: 1,
    tickets_apart: false,
    early_data: true,
    write: None,
    close_notify: false,
    service: Span::ZERO,
};

/// A datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    at: Time,
    side: usize,
    bytes: u32,
}

struct Line {
    now: Time,
    /// The one-way delay.
    delay: Span,
    ends: [Endpoint; 2],
    in_flight: Vec<(Time, usize, Datagram, bool)>,
    left: Vec<Left>,
    /// The length of each end's first packet.
    first: [Option<u32>; 2],
    /// The longest datagram that the line takes.
    takes: u32,
    /// The datagrams of each end that are lost, counted from zero.
    loses: [Vec<usize>; 2],
    /// The datagrams of each end that take longer, and how much longer.
    late: [Vec<(usize, Span)>; 2],
    /// The datagrams of each end that are marked.
    marks: [Vec<usize>; 2],
    /// The streams that are complete: when, at which end, which stream.
    whole: Vec<(Time, usize, u64)>,
    opened: Option<Time>,
    /// The server's congestion window before and after each datagram that reached it.
    windows: Vec<[u64; 2]>,
}

impl Line {
    fn new(config: Config, resumed: bool) -> Self {
        Self::with(config, SERVER, resumed)
    }

    fn with(config: Config, server: Server, resumed: bool) -> Self {
        let tls = Tls::new(CLIENT, server, resumed);
        let messages = tls.messages([60, 60]);
        let end = |is_client| Endpoint::new(Time::ZERO, is_client, [config; 2], messages);
        Self::between([end(true), end(false)])
    }

    fn between(ends: [Endpoint; 2]) -> Self {
        Self {
            now: Time::ZERO,
            delay: DELAY,
            ends,
            in_flight: Vec::new(),
            left: Vec::new(),
            first: [None; 2],
            takes: u32::MAX,
            loses: Default::default(),
            late: Default::default(),
            marks: Default::default(),
            whole: Vec::new(),
            opened: None,
            windows: Vec::new(),
        }
    }

    /// Sends what an end has to send, and reads the streams that are complete.
    fn flush(&mut self, side: usize) {
        while let Some((stream, _)) = self.ends[side].next_whole() {
            self.whole.push((self.now, side, stream));
        }
        while let Some(datagram) = self.ends[side].poll_transmit(self.now) {
            let number = self.left.iter().filter(|left| left.side == side).count();
            self.left.push(Left { at: self.now, side, bytes: datagram.bytes() });
            self.first[side].get_or_insert(datagram.packets[0].bytes);
            if datagram.bytes() <= self.takes && !self.loses[side].contains(&number) {
                let marked = self.marks[side].contains(&number);
                let late = self.late[side].iter().find(|&&(which, _)| which == number);
                let delay = self.delay + late.map_or(Span::ZERO, |&(_, later)| later);
                self.in_flight.push((self.now + delay, 1 - side, datagram, marked));
            }
        }
    }

    /// Lets time pass. Calls `act` each time that something has happened.
    fn run(&mut self, until: Time, mut act: impl FnMut(&mut Self)) {
        self.flush(0);
        self.flush(1);
        loop {
            let landing = self.in_flight.iter().map(|&(at, ..)| at).min();
            let timers = self.ends.iter().filter_map(Endpoint::next_timeout).min();
            let next = [landing, timers].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= until) else { return };
            self.now = self.now.max(next);
            if landing.is_some_and(|at| at <= self.now) {
                let place = self.in_flight.iter().position(|&(at, ..)| landing == Some(at));
                let (_, side, datagram, marked) =
                    self.in_flight.remove(place.expect("something lands now"));
                let before = self.ends[1].window();
                self.ends[side].handle_datagram(self.now, &datagram, marked);
                self.windows.push([before, self.ends[1].window()]);
                self.flush(side);
            } else {
                for side in 0..2 {
                    if self.ends[side].next_timeout().is_some_and(|at| at <= self.now) {
                        self.ends[side].handle_timeout(self.now);
                        self.flush(side);
                    }
                }
            }
            if self.opened.is_none() && self.ends[0].is_open() {
                self.opened = Some(self.now);
            }
            act(self);
        }
    }

    /// Lets a client ask as soon as it may, and a server answer at once, until nothing more
    /// happens.
    fn ask(&mut self, query: u64, reply: u64) {
        self.talk(Some(query), |line| line.ends[1].write(0, reply), |_| ());
    }

    /// Lets a client ask as soon as it may, and a server do `answer` when it is asked. Calls `act`
    /// each time that something has happened.
    fn talk(
        &mut self,
        mut query: Option<u64>,
        answer: impl FnOnce(&mut Self),
        mut act: impl FnMut(&mut Self),
    ) {
        let mut answer = Some(answer);
        self.run(at(200_000), |line| {
            if line.ends[0].is_open()
                && let Some(bytes) = query.take()
            {
                line.ends[0].write(0, bytes);
                line.flush(0);
            }
            if line.is_asked()
                && let Some(answer) = answer.take()
            {
                answer(line);
                line.flush(1);
            }
            act(line);
        });
    }

    fn is_asked(&self) -> bool {
        self.whole.iter().any(|&(_, side, _)| side == 1)
    }

    fn answered_at(&self) -> Option<Time> {
        self.whole.iter().find(|&&(_, side, _)| side == 0).map(|&(at, ..)| at)
    }

    fn smoothed_round_trips(&self) -> [Span; 2] {
        self.ends.each_ref().map(Endpoint::smoothed_round_trip)
    }

    fn sent(&self, side: usize) -> Vec<(Time, u32)> {
        let of_side = self.left.iter().filter(|left| left.side == side);
        of_side.map(|left| (left.at, left.bytes)).collect()
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

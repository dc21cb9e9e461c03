//! A TCP connection over a bottleneck, for tests of congestion controls.

use std::collections::VecDeque;

use narrows_transport::tcp::{Config, Congestion, Endpoint, Segment, Seq};
use narrows_units::{Bytes, Span, Time};

/// A sender, a bottleneck of `rate` bit/s with room for `room` packets, and a receiver at half of
/// `rtt`.
pub(crate) struct Line {
    pub(crate) ends: [Endpoint; 2],
    pub(crate) now: Time,
    ns_per_byte: f64,
    room: usize,
    rtt: Span,
    /// When each packet in the queue has left it.
    queue: VecDeque<Time>,
    /// Segments on their way to each end, in order.
    flying: [VecDeque<(Time, Segment)>; 2],
    /// When the first end's data segments left it.
    pub(crate) departures: Vec<Time>,
    pub(crate) longest_queue: usize,
    pub(crate) dropped: u32,
    /// One in so many data segments is lost, apart from those that find no room.
    pub(crate) loses: Option<usize>,
    /// Acknowledgements arrive only at multiples of this.
    pub(crate) slot: Option<Span>,
    /// A token bucket that drops: bytes a second, its bytes, and the tokens at a time.
    pub(crate) policer: Option<(f64, f64, f64, Time)>,
}

impl Line {
    pub(crate) fn new(config: &Config, rate: f64, room: usize, rtt: Span) -> Self {
        Self::begun_at(Time::ZERO, config, rate, room, rtt)
    }

    /// Creates a line whose sender begins at a time.
    pub(crate) fn begun_at(at: Time, config: &Config, rate: f64, room: usize, rtt: Span) -> Self {
        let mut line = Self::idle_at(at, config, rate, room, rtt);
        line.ends[0].write_forever(at);
        line.flush(0);
        line
    }

    /// Creates a line whose sender has nothing to send yet.
    pub(crate) fn idle(config: &Config, rate: f64, room: usize, rtt: Span) -> Self {
        Self::idle_at(Time::ZERO, config, rate, room, rtt)
    }

    fn idle_at(now: Time, config: &Config, rate: f64, room: usize, rtt: Span) -> Self {
        let mut ends = [
            Endpoint::client(config.clone(), Seq(1000)),
            Endpoint::server(config.clone(), Seq(2000)),
        ];
        ends[0].connect(now);
        let mut line = Self {
            ends,
            now,
            ns_per_byte: 8e9 / rate,
            room,
            rtt,
            queue: VecDeque::new(),
            flying: Default::default(),
            departures: Vec::new(),
            longest_queue: 0,
            dropped: 0,
            loses: None,
            slot: None,
            policer: None,
        };
        line.flush(0);
        line
    }

    /// Changes the rate of the bottleneck, in bit/s.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        self.ns_per_byte = 8e9 / rate;
    }

    /// Returns whether the bottleneck takes a data segment of so many bytes.
    fn takes(&mut self, bytes: f64) -> bool {
        while self.queue.front().is_some_and(|&left| left <= self.now) {
            self.queue.pop_front();
        }
        if self.loses.is_some_and(|one_in| self.departures.len().is_multiple_of(one_in))
            || self.queue.len() > self.room
        {
            return false;
        }
        let Some((rate, most, tokens, since)) = &mut self.policer else { return true };
        *tokens = (*tokens + *rate * self.now.since(*since).as_secs_f64()).min(*most);
        *since = self.now;
        let conforms = *tokens >= bytes;
        *tokens -= if conforms { bytes } else { 0.0 };
        conforms
    }

    pub(crate) fn flush(&mut self, side: usize) {
        while let Some(segment) = self.ends[side].poll_transmit(self.now) {
            if side == 1 || segment.len == 0 {
                let mut arrives = self.now + self.rtt / 2;
                if let (Some(slot), 1) = (self.slot, side) {
                    arrives = Time::from_ps(arrives.as_ps().next_multiple_of(slot.as_ps()));
                }
                self.flying[side ^ 1].push_back((arrives, segment));
                continue;
            }
            self.departures.push(self.now);
            let bytes = f64::from(segment.len) + 52.0;
            if !self.takes(bytes) {
                self.dropped += 1;
                continue;
            }
            let time = Span::from_ps((bytes * self.ns_per_byte * 1000.0) as u64);
            let free = self.queue.back().copied().unwrap_or(self.now).max(self.now);
            self.queue.push_back(free + time);
            self.longest_queue = self.longest_queue.max(self.queue.len() - 1);
            self.flying[1].push_back((free + time + self.rtt / 2, segment));
        }
    }

    pub(crate) fn run(&mut self, until: Time, mut look: impl FnMut(&Endpoint, Time)) {
        loop {
            let landing = [0, 1].map(|side| self.flying[side].front().map(|&(at, _)| at));
            let next = landing.into_iter().flatten().min();
            let timer = self.ends.iter().filter_map(Endpoint::next_timeout).min();
            let Some(at) = next.into_iter().chain(timer).min().filter(|&at| at <= until) else {
                self.now = until;
                return;
            };
            self.now = at;
            if next == Some(at) {
                let side = usize::from(landing[0] != next);
                let (_, segment) = self.flying[side].pop_front().expect("it is due");
                self.ends[side].handle_segment(at, &segment);
                self.flush(side);
            } else {
                for side in 0..2 {
                    if self.ends[side].next_timeout().is_some_and(|due| due <= at) {
                        self.ends[side].handle_timeout(at);
                        self.flush(side);
                    }
                }
            }
            if self.departures.len().is_multiple_of(16) {
                self.ends[0].check_invariants();
            }
            look(&self.ends[0], at);
        }
    }
}

pub(crate) fn linux(congestion: Congestion) -> Config {
    let linux = Config::profile("linux-6").expect("a known profile");
    let receive_buffer = Bytes::new(1 << 26);
    Config { congestion, receive_autotuning: false, receive_buffer, ..linux }
}

pub(crate) fn at_secs(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

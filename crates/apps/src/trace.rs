//! Datagrams at listed times: an open-loop replay of a recorded trace.
//!
//! Times and lengths are those of the list, whatever happens to the packets. A trace of traffic
//! that reacts to losses, such as TCP's, does not react here (Floyd and Paxson, "Difficulties in
//! simulating the Internet", IEEE/ACM ToN 9(4), 2001, section IV, on trace-driven sources).

use narrows_units::settings::{any, entries, positive};
use narrows_units::{Span, Time, keys};

use crate::record::Records;
use crate::streams::{HEADERS, Stream, Streams, StreamsRow, check, check_period};
use crate::table::{Head, Table};
use crate::{Application, Datagram, Environment, Host, Lost, Settings, Use};

keys! {
    /// The settings of a group of streams that all send the same list.
    pub struct Trace {
        /// The streams.
        streams: Vec<Stream> = Vec::new(), any();
        /// For each packet: the time after the stream's start, never decreasing, and the IP packet
        /// length.
        packets: Vec<(Span, u16)> = Vec::new(), entries(1, u32::MAX as u64);
        /// The time after which the list starts again, not before its last packet; `None`: never.
        repeat_after: Option<Span> = None, positive();
        /// The time that a row of the table `streams` covers.
        period: Span = Span::from_secs(1), positive();
    }
}

impl Settings for Trace {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        let last = self.packets.last().map_or(Span::ZERO, |&(last, _)| last);
        if self.packets.iter().any(|&(_, bytes)| bytes < HEADERS) {
            return Err(format!("packets: an IP packet with UDP has at least {HEADERS} bytes"));
        }
        if !self.packets.is_sorted_by_key(|&(after, _)| after) {
            return Err("packets: times must not fall".into());
        }
        if self.repeat_after.is_some_and(|span| span < last) {
            return Err("repeat_after: must not be before the last packet".into());
        }
        check_period(&self.streams, self.period, environment)?;
        check(&self.streams, environment)
    }

    fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
        let lengths = || self.packets.iter().map(|&(_, bytes)| bytes);
        let shortest = lengths().min().unwrap_or(HEADERS);
        let longest = lengths().max().unwrap_or(HEADERS);
        let of_one =
            |stream: &Stream| environment.datagrams(stream.there, (shortest, longest), false);
        self.streams.iter().map(of_one).collect()
    }

    fn heads() -> &'static [Head] {
        &[StreamsRow::HEAD]
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        let streams = Streams::new(name.to_owned(), self.period);
        Box::new(Senders { settings: self, streams, senders: Vec::new() })
    }
}

#[derive(Debug)]
struct Senders {
    settings: Trace,
    streams: Streams,
    senders: Vec<Sender>,
}

/// The position of a stream in the list.
#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    /// Whether it has started and waits for its first packet's time.
    begun: bool,
    /// The index of the next packet on the list.
    next: usize,
    /// When the current pass through the list began, after the stream's start.
    pass: Span,
}

impl Application for Senders {
    fn start(&mut self, host: &mut dyn Host) {
        let streams = std::mem::take(&mut self.settings.streams);
        self.senders = vec![Sender::default(); streams.len()];
        self.streams.set_up(host, &streams, drop);
    }

    fn timer(&mut self, host: &mut dyn Host, number: u32) {
        let sender = &mut self.senders[number as usize];
        if std::mem::replace(&mut sender.begun, true) {
            let (_, bytes) = self.settings.packets[sender.next];
            self.streams.send(host, number, bytes);
            sender.next += 1;
        }
        if let Some(next) = self.settings.next(sender, self.streams.start(number))
            && self.streams.goes_on(number, next)
        {
            host.wake(next, number);
        }
    }

    fn datagram(&mut self, host: &mut dyn Host, datagram: Datagram) {
        self.streams.receive(host.now(), &datagram);
    }

    fn lost(&mut self, _records: &mut Records, datagram: Datagram, _loss: Option<Lost>) {
        self.streams.lose(&datagram);
    }

    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        vec![self.streams.table()]
    }
}

impl Trace {
    /// Returns when the next packet of a stream that began at `start` leaves; `None`: none is left.
    fn next(&self, sender: &mut Sender, start: Time) -> Option<Time> {
        if sender.next == self.packets.len() {
            sender.next = 0;
            sender.pass += self.repeat_after?;
        }
        let (after, _) = self.packets[sender.next];
        Some(start + (sender.pass + after))
    }
}

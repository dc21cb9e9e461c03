//! Datagrams at a given rate that no receiver answers: constant, Poisson, or on and off.
//!
//! While a stream is on, it sends at its rate. While it is off, the clock that spaces its packets
//! stands still, so the rest of a gap counts in the next on time. The mean rate is therefore the
//! rate times the share of on times, however short these are (just as ns-3's `OnOffApplication`
//! counts residual bits).

use narrows_units::settings::{any, positive, size, whole};
use narrows_units::{Bytes, Ecn, Rate, Span, Time, keys, words};

use crate::record::Records;
use crate::streams::{HEADERS, Stream, Streams, StreamsRow, check, check_period};
use crate::table::{Head, Table};
use crate::{Application, Datagram, Draw, Environment, Host, Lost, Random, Settings, Use};

keys! {
    /// The settings of a group of streams.
    pub struct Udp {
        /// The streams.
        streams: Vec<Stream> = Vec::new(), any();
        /// The IP packet length.
        packet_bytes: u16 = 0, size(HEADERS as u64, 65_535);
        /// The rate of IP packets while a stream is on. Their headers count, `framing` does not.
        rate: Rate = const { Rate::from_bps(1_000_000).expect("not zero") }, any().required();
        /// Time between packets: always the same, or exponentially distributed.
        spacing: Spacing = Spacing::Even, any();
        /// On and off times; `None`: always on.
        on_off: Option<OnOff> = None, any();
        /// The ECN field of its packets. A queue marks those with `ect0` or `ect1` rather than drop
        /// them, although their sender does not react; DualPI2 takes `ect1` into its L queue.
        ecn: Codepoint = Codepoint::NotEct, any();
        /// Number of packets after which a stream ends; without it, a stream lasts until `stop` or
        /// the end of the run.
        packets: Option<u32> = None, whole(1, u32::MAX as u64);
        /// The table `streams` has a row for each period of this length in which a stream sends.
        period: Span = Span::from_secs(1), positive();
    }
}

words! {
    /// The time between two packets of a stream.
    pub enum Spacing {
        /// Always the same.
        Even = "even",
        /// Exponentially distributed: packets are a Poisson process.
        Poisson = "poisson",
    }
}

words! {
    /// The ECN field of a datagram that leaves its host (RFC 3168, section 5).
    pub enum Codepoint {
        /// Not ECN-capable.
        NotEct = "not-ect",
        /// ECN-capable, as with classic ECN.
        Ect0 = "ect0",
        /// ECN-capable, as with L4S (RFC 9331).
        Ect1 = "ect1",
    }
}

keys! {
    /// Alternating on and off times.
    pub struct OnOff as "UdpOnOff" {
        /// How long a stream is on.
        on: Draw<Span> = Draw::Constant(Span::ZERO), any();
        /// How long it is off.
        off: Draw<Span> = Draw::Constant(Span::ZERO), any();
    }
}

impl Settings for Udp {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        if let Some(OnOff { on, .. }) = &self.on_off {
            // Otherwise a packet might need countless on times.
            let gap = self.gap();
            let long_enough = |span: &Span| *span * 1000 >= gap && *span > Span::ZERO;
            let fits = match on {
                Draw::Constant(mean) | Draw::Exponential { mean } | Draw::Pareto { mean, .. } => {
                    long_enough(mean)
                }
                Draw::List(list) => list.iter().all(long_enough),
            };
            if !fits {
                return Err("on: is below a thousandth of the time between packets".into());
            }
        }
        check_period(&self.streams, self.period, environment)?;
        check(&self.streams, environment)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        let of_one =
            |stream: &Stream| Use { path: stream.there, bytes: self.packet_bytes, dns: false };
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

impl Udp {
    /// Returns the mean time between the packets of a stream that is on.
    fn gap(&self) -> Span {
        self.rate.time_for(Bytes::from(self.packet_bytes))
    }
}

#[derive(Debug)]
struct Senders {
    settings: Udp,
    streams: Streams,
    senders: Vec<Sender>,
}

#[derive(Debug)]
struct Sender {
    random: Random,
    /// Whether the first on time has begun.
    begun: bool,
    /// The number of on times begun.
    turns: u32,
    on_ends_at: Time,
}

impl Application for Senders {
    fn start(&mut self, host: &mut dyn Host) {
        let streams = std::mem::take(&mut self.settings.streams);
        let senders = &mut self.senders;
        self.streams.set_up(host, &streams, |random| {
            senders.push(Sender { random, begun: false, turns: 0, on_ends_at: Time::MAX });
        });
        let ecn = match self.settings.ecn {
            Codepoint::NotEct => return,
            Codepoint::Ect0 => Ecn::Ect0,
            Codepoint::Ect1 => Ecn::Ect1,
        };
        for association in self.streams.associations() {
            host.set_ecn(association, ecn);
        }
    }

    fn timer(&mut self, host: &mut dyn Host, number: u32) {
        let sender = &mut self.senders[number as usize];
        if !sender.begun {
            sender.begin(host.now(), &self.settings);
            if self.settings.spacing == Spacing::Poisson {
                self.wait(host, number);
                return;
            }
        }
        self.streams.send(host, number, self.settings.packet_bytes);
        if self.settings.packets != Some(self.streams.sent(number)) {
            self.wait(host, number);
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

impl Senders {
    /// Waits for a stream's next packet.
    fn wait(&mut self, host: &mut dyn Host, number: u32) {
        let next = self.senders[number as usize].next(host.now(), &self.settings);
        if self.streams.goes_on(number, next) {
            host.wake(next, number);
        }
    }
}

impl Sender {
    fn begin(&mut self, now: Time, settings: &Udp) {
        self.begun = true;
        if let Some(on_off) = &settings.on_off {
            self.on_ends_at = now + on_off.on.next(&mut self.random, 0);
            self.turns = 1;
        }
    }

    /// Returns when the next packet after now is sent.
    fn next(&mut self, now: Time, settings: &Udp) -> Time {
        let mut gap = match settings.spacing {
            Spacing::Even => settings.gap(),
            Spacing::Poisson => self.random.exponential(settings.gap()),
        };
        let Some(OnOff { on, off }) = &settings.on_off else { return now + gap };
        let mut at = now;
        loop {
            let left = self.on_ends_at.since(at);
            if gap < left || !super::is_moment(self.on_ends_at) {
                return at + gap;
            }
            gap = gap.saturating_sub(left);
            at = self.on_ends_at + off.next(&mut self.random, self.turns - 1);
            self.on_ends_at = at + on.next(&mut self.random, self.turns);
            self.turns = self.turns.wrapping_add(1).max(1);
        }
    }
}

//! Datagrams at a given rate that no receiver answers: constant, Poisson, or on and off.
//!
//! While a stream is on, it sends at its rate. While it is off, the clock that spaces its packets
//! stands still, so the rest of a gap counts in the next on time. The mean rate is therefore the
//! rate times the share of on times, however short these are (just as ns-3's `OnOffApplication`
//! counts residual bits).

use narrows_units::{Bytes, Rate, Span, Time};

use crate::record::Records;
use crate::streams::{HEADERS, Stream, Streams, check, check_period};
use crate::table::Table;
use crate::{Application, Datagram, Draw, Environment, Host, Lost, Random, Settings, Use};

/// The settings of a group of streams.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Udp {
    /// The streams.
    pub streams: Vec<Stream>,
    /// The IP packet length.
    pub packet_bytes: u16,
    /// The rate of IP packets while a stream is on.
    pub rate: Rate,
    /// Time between packets.
    pub spacing: Spacing,
    /// On and off times; `None`: always on.
    pub on_off: Option<OnOff>,
    /// The number of packets after which a stream ends; `None`: no end.
    pub packets: Option<u32>,
    /// The time that a row of the table `streams` covers.
    pub period: Span,
}

/// The time between two packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Spacing {
    /// Always the same.
    Even,
    /// Exponentially distributed: packets are a Poisson process.
    Poisson,
}

/// Alternating on and off times.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnOff {
    /// How long a stream is on.
    pub on: Draw<Span>,
    /// How long it is off.
    pub off: Draw<Span>,
}

impl Settings for Udp {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        if self.packet_bytes < HEADERS {
            return Err(format!(
                "packet_bytes: an IP packet with UDP has at least {HEADERS} bytes"
            ));
        }
        if self.packets == Some(0) {
            return Err("packets: must be at least one".into());
        }
        if let Some(OnOff { on, off }) = &self.on_off {
            on.check().map_err(|why| format!("on: {why}"))?;
            off.check().map_err(|why| format!("off: {why}"))?;
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

    fn lost(&mut self, _records: &mut Records, datagram: Datagram, _loss: Lost) {
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

//! Probes along any path, each answered at once by a packet of the same size. Each probe is a row
//! of the table `pings`.
//!
//! Like ping(8) with ICMP, probes follow each other at a fixed interval, whether answers come or
//! not. Or they leave at random times (a Poisson process) and so see a queue as it is on average
//! over time (Wolff, "Poisson arrivals see time averages", Operations Research 30(2), 1982; RFC
//! 2330, 11.1). Probes and answers are datagrams as long as ICMP's would be; no queue discipline
//! here tells the two protocols apart.

use narrows_units::settings::{any, positive, size, whole};
use narrows_units::{Span, Time, keys};

use crate::record::Records;
use crate::streams::{HEADERS, MOST_ROWS, Stream, associate, check, join, periods, split};
use crate::table::{Head, Table, rows};
use crate::udp::Spacing;
use crate::{
    Application, Association, Datagram, Environment, Host, Lost, Message, Random, Settings, Use,
    is_moment,
};

keys! {
    /// The settings of a group of probers.
    pub struct Ping {
        /// Their paths, there and back.
        streams: Vec<Stream> = Vec::new(), any();
        /// The IP packet length of probes and answers.
        packet_bytes: u16 = 84, size(HEADERS as u64, 65_535);
        /// Time between probes, or its mean; by default `"1 s"`.
        interval: Span = Span::from_secs(1), positive();
        /// Time between probes: always the same, or exponentially distributed, so that probes see
        /// queues as they are on average over time.
        spacing: Spacing = Spacing::Even, any();
        /// Probes for each pair; without it, they go on until `stop` or the end of the run.
        probes: Option<u32> = None, whole(1, MOST_ROWS);
    }
}

impl Settings for Ping {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        let rows = match self.probes {
            Some(most) => u64::from(most).saturating_mul(self.streams.len() as u64),
            None => periods(&self.streams, self.interval, environment),
        };
        if rows > MOST_ROWS {
            return Err(format!("interval: {rows} probes are more than the limit of {MOST_ROWS}"));
        }
        check(&self.streams, environment)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        let of_one = |stream: &Stream| {
            [stream.there, stream.back].map(|path| Use {
                path,
                bytes: self.packet_bytes,
                dns: false,
            })
        };
        self.streams.iter().flat_map(of_one).collect()
    }

    fn heads() -> &'static [Head] {
        &[PingsRow::HEAD]
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Probers {
            name: name.to_owned(),
            settings: self,
            first_socket: 0,
            probers: Vec::new(),
            probes: Vec::new(),
        })
    }
}

rows! {
    /// A probe of `ping`.
    pub(crate) struct PingsRow as "pings" {
        /// The group that it belongs to.
        group: String [""];
        /// Number of the pair within its group, from 0.
        prober: u32 [""];
        /// Number of the probe, from 0.
        probe: u32 [""];
        /// When it was sent.
        sent_s: f64 ["s"];
        /// `answered`, `probe-lost`, `answer-lost`, or `pending` at the end of the run.
        fate: String [""];
        /// One-way delay of the probe; null: it did not arrive.
        there_ms: f64 ["ms", null];
        /// Time until its answer arrived; null: none did.
        rtt_ms: f64 ["ms", null];
        /// The directed link where it was lost; empty: nowhere.
        lost_at: String [""];
        /// Why it was lost, as in `attempts`; empty: it was not.
        reason: String [""];
    }
}

#[derive(Debug)]
struct Probers {
    name: String,
    settings: Ping,
    first_socket: u32,
    probers: Vec<Prober>,
    probes: Vec<Probe>,
}

#[derive(Debug)]
struct Prober {
    association: Association,
    random: Random,
    start: Time,
    stop: Option<Time>,
    /// Probes sent.
    sent: u32,
    /// Whether it has started and waits for a probe's time.
    begun: bool,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    prober: u32,
    number: u32,
    sent_at: Time,
    fate: ProbeFate,
}

#[derive(Clone, Copy, Debug)]
enum ProbeFate {
    /// The probe is on its way to the far end.
    Pending,
    /// The answer is on its way back. The probe took this long to get there.
    There(Span),
    /// The time to get there, and the time there and back.
    Answered(Span, Span),
    ProbeLost(Option<Lost>),
    AnswerLost(Span, Option<Lost>),
}

impl Application for Probers {
    fn start(&mut self, host: &mut dyn Host) {
        let streams = std::mem::take(&mut self.settings.streams);
        self.first_socket = host.take_sockets(streams.len() as u32);
        for (number, stream) in streams.iter().enumerate() {
            let association = associate(host, stream, number as u32, PORT);
            host.wake(stream.start, number as u32);
            self.probers.push(Prober {
                association,
                random: host.random(&stream.name),
                start: stream.start,
                stop: stream.stop,
                sent: 0,
                begun: self.settings.spacing == Spacing::Even,
            });
        }
    }

    fn timer(&mut self, host: &mut dyn Host, number: u32) {
        let prober = &mut self.probers[number as usize];
        if std::mem::replace(&mut prober.begun, true) {
            let message = Message {
                bytes: u32::from(self.settings.packet_bytes - HEADERS),
                tag: self.probes.len() as u32,
                notes: split(host.now()),
            };
            self.probes.push(Probe {
                prober: number,
                number: prober.sent,
                sent_at: host.now(),
                fate: ProbeFate::Pending,
            });
            prober.sent += 1;
            host.send_datagram(prober.association, self.first_socket + number, false, &message);
        }
        let next = match self.settings.spacing {
            // Counted from the start, so that rounding errors do not add up.
            Spacing::Even => prober.start + self.settings.interval * u64::from(prober.sent),
            Spacing::Poisson => host.now() + prober.random.exponential(self.settings.interval),
        };
        let goes_on = self.settings.probes.is_none_or(|most| prober.sent < most)
            && is_moment(next)
            && prober.stop.is_none_or(|stop| next < stop);
        if goes_on {
            host.wake(next, number);
        }
    }

    fn datagram(&mut self, host: &mut dyn Host, datagram: Datagram) {
        let took = host.now().since(join(datagram.message.notes));
        let probe = &mut self.probes[datagram.message.tag as usize];
        if datagram.goes_back {
            if let ProbeFate::There(there) = probe.fate {
                probe.fate = ProbeFate::Answered(there, took);
            }
        } else {
            probe.fate = ProbeFate::There(took);
            host.send_datagram(datagram.association, datagram.socket, true, &datagram.message);
        }
    }

    fn lost(&mut self, _records: &mut Records, datagram: Datagram, lost: Option<Lost>) {
        let probe = &mut self.probes[datagram.message.tag as usize];
        probe.fate = match probe.fate {
            ProbeFate::There(there) => ProbeFate::AnswerLost(there, lost),
            _ => ProbeFate::ProbeLost(lost),
        };
    }

    fn tables(&self, environment: &Environment<'_>) -> Vec<Table> {
        let ms = |span: Span| span.as_secs_f64() * 1e3;
        let rows = self.probes.iter().map(|row| PingsRow {
            group: self.name.clone(),
            prober: row.prober,
            probe: row.number,
            sent_s: row.sent_at.as_secs_f64(),
            fate: row.fate.name().to_owned(),
            there_ms: row.fate.there().map_or(f64::NAN, ms),
            rtt_ms: match row.fate {
                ProbeFate::Answered(_, rtt) => ms(rtt),
                _ => f64::NAN,
            },
            lost_at: row.fate.lost().map_or_else(String::new, |lost| {
                environment.links[lost.link as usize].0.to_owned()
            }),
            reason: {
                row.fate.lost().map_or_else(String::new, |lost| lost.reason.name().to_owned())
            },
        });
        vec![PingsRow::table(rows)]
    }
}

impl ProbeFate {
    /// Returns its name in the table `pings`.
    const fn name(self) -> &'static str {
        match self {
            Self::Pending | Self::There(_) => "pending",
            Self::Answered(..) => "answered",
            Self::ProbeLost(_) => "probe-lost",
            Self::AnswerLost(..) => "answer-lost",
        }
    }

    /// Returns how long the probe took to get there.
    const fn there(self) -> Option<Span> {
        match self {
            Self::There(there) | Self::Answered(there, _) | Self::AnswerLost(there, _) => {
                Some(there)
            }
            Self::Pending | Self::ProbeLost(_) => None,
        }
    }

    const fn lost(self) -> Option<Lost> {
        match self {
            Self::ProbeLost(lost) | Self::AnswerLost(_, lost) => lost,
            Self::Pending | Self::There(_) | Self::Answered(..) => None,
        }
    }
}

/// The port of the answering end: echo's (RFC 862).
const PORT: u16 = 7;

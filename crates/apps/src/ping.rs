//! Probes along any path, each answered at once by a packet of the same size. Each probe is a row
//! of the table `pings`.
//!
//! Like ping(8) with ICMP, probes follow each other at a fixed interval, whether answers come or
//! not. Or they leave at random times (a Poisson process) and so see a queue as it is on average
//! over time (Wolff, "Poisson arrivals see time averages", Operations Research 30(2), 1982; RFC
//! 2330, 11.1). Probes and answers are datagrams as long as ICMP's would be; no queue discipline
//! here tells the two protocols apart.

use narrows_units::{Span, Time};

use crate::record::Records;
use crate::streams::{HEADERS, MOST_ROWS, Stream, associate, check, join, periods, split};
use crate::table::{Table, columns};
use crate::udp::Spacing;
use crate::{
    Application, Association, Datagram, Environment, Host, Lost, Message, Random, Settings, Use,
    is_moment,
};

/// The settings of a group of probers.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ping {
    /// Their paths, there and back.
    pub streams: Vec<Stream>,
    /// The IP packet length of probes and answers.
    pub packet_bytes: u16,
    /// The time between probes, or its mean.
    pub interval: Span,
    /// Whether the time between probes is always the same.
    pub spacing: Spacing,
    /// The number of probes of each; `None`: no end.
    pub probes: Option<u32>,
}

impl Settings for Ping {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        if self.packet_bytes < HEADERS {
            return Err(format!(
                "packet_bytes: an IP packet with UDP has at least {HEADERS} bytes"
            ));
        }
        if self.interval == Span::ZERO {
            return Err("interval: must be above zero".into());
        }
        if self.probes == Some(0) {
            return Err("probes: must be at least one".into());
        }
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
    ProbeLost(Lost),
    AnswerLost(Span, Lost),
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

    fn lost(&mut self, _records: &mut Records, datagram: Datagram, lost: Lost) {
        let probe = &mut self.probes[datagram.message.tag as usize];
        probe.fate = match probe.fate {
            ProbeFate::There(there) => ProbeFate::AnswerLost(there, lost),
            _ => ProbeFate::ProbeLost(lost),
        };
    }

    fn tables(&self, environment: &Environment<'_>) -> Vec<Table> {
        let rows = &self.probes;
        let ms = |span: Span| span.as_secs_f64() * 1e3;
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "prober": U32 = |row| row.prober,
            "probe": U32 = |row| row.number,
            "sent_s": F64 = |row| row.sent_at.as_secs_f64(),
            "fate": Text = |row| row.fate.name().to_owned(),
            "there_ms": F64 = |row| row.fate.there().map_or(f64::NAN, ms),
            "rtt_ms": F64 = |row| match row.fate {
                ProbeFate::Answered(_, rtt) => ms(rtt),
                _ => f64::NAN,
            },
            "lost_at": Text = |row| row.fate.lost().map_or_else(String::new, |lost| {
                environment.links[lost.link as usize].0.to_owned()
            }),
            "reason": Text = |row| {
                row.fate.lost().map_or_else(String::new, |lost| lost.reason.name().to_owned())
            },
        );
        vec![Table { name: "pings", columns }]
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
            Self::ProbeLost(lost) | Self::AnswerLost(_, lost) => Some(lost),
            Self::Pending | Self::There(_) | Self::Answered(..) => None,
        }
    }
}

/// The port of the answering end: echo's (RFC 862).
const PORT: u16 = 7;

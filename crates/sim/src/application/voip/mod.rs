//! Telephone calls: speech in packets of constant size, both ways, and how it sounds.
//!
//! A packet is IPv4, UDP, RTP (RFC 3550) and the codec's frames of `packet_time`, and is sent when
//! its last sample has been spoken. Someone speaks all the time, or in talk spurts, in which case
//! nothing is sent in the pauses (voice activity detection; no comfort noise is sent either). The
//! two who talk do so independently: ITU-T P.59's mutual silence and double talk follow from nothing
//! but the lengths of their spurts and pauses.
//!
//! What is heard depends on the playout buffer (`playout.rs`), and how it sounds on the
//! E-model (`e_model.rs`): a row of the table `voip` for each direction of each call. One-way delay from
//! mouth to ear is that of the codec, (N + 1) frames and its look-ahead (ITU-T G.114, 05/2003, A.2),
//! and the time from sending to hearing.

mod e_model;
mod playout;
mod sequence;

use narrows_units::{Span, Time};

use self::e_model::{Equipment, Passage, mean_opinion_score, rating};
use self::playout::Buffer;
use self::sequence::Sequence;
use super::streams::{HEADERS, Jitter, Stream, associate, check, join, split};
use super::{
    Application, Association, Datagram, Draw, Host, Lost, Message, Settings, Use, is_moment,
};
use crate::plan::Plan;
use crate::random::Random;
use crate::table::{Table, columns};

/// Settings of a group of calls.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Voip {
    /// The calls.
    pub calls: Vec<Stream>,
    /// How speech is coded.
    pub codec: Codec,
    /// Speech in a packet: a multiple of 10 ms, up to 100 ms.
    pub packet_time: Span,
    /// When somebody speaks; `None`: all the time.
    pub talk: Option<Talk>,
    /// When speech that has come is heard.
    pub playout: Playout,
}

/// How speech is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Codec {
    /// ITU-T G.711, 64 kbit/s: a lost packet is silence.
    G711,
    /// G.711 with the concealment of lost packets of its Appendix I.
    G711Plc,
    /// ITU-T G.729 Annex A, 8 kbit/s.
    G729a,
}

/// Talk spurts and pauses.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Talk {
    /// Length of a spurt; whole packets are sent.
    pub spurt: Draw<Span>,
    /// Length of a pause.
    pub pause: Draw<Span>,
}

/// When speech is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Playout {
    /// The first packet of a talk spurt waits for so long.
    Fixed(Span),
    /// As delays have been: at the start of each talk spurt the buffer adapts.
    Adaptive,
}

/// RTP without contributing sources (RFC 3550, 5.1).
const RTP_HEADER: u16 = 12;

impl Codec {
    /// Bytes of speech of so many milliseconds.
    const fn payload(self, ms: u64) -> u16 {
        match self {
            Self::G711 | Self::G711Plc => 8 * ms as u16,
            Self::G729a => ms as u16,
        }
    }

    /// A frame, and what the codec has to hear or repair before it is done: G.711 (Appendix I
    /// delays by 3.75 ms), G.729 (3.1: 5 ms ahead).
    const fn delay(self) -> (Span, Span) {
        match self {
            Self::G711 => (Span::from_us(125), Span::ZERO),
            Self::G711Plc => (Span::from_us(125), Span::from_us(3_750)),
            Self::G729a => (Span::from_ms(10), Span::from_ms(5)),
        }
    }

    /// G.113, Appendix I: Tables I.1 and I.4. G.729A's values were found with its Annex B's voice
    /// activity detection.
    const fn equipment(self) -> Equipment {
        match self {
            Self::G711 => Equipment { impairment: 0.0, robustness: 4.3 },
            Self::G711Plc => Equipment { impairment: 0.0, robustness: 25.1 },
            Self::G729a => Equipment { impairment: 11.0, robustness: 19.0 },
        }
    }
}

impl Settings for Voip {
    fn check(&self, plan: &Plan) -> Result<usize, String> {
        let ms = self.packet_time.as_ms();
        if Span::from_ms(ms) != self.packet_time || !ms.is_multiple_of(10) || ms == 0 || ms > 100 {
            return Err("packet_time: must be a multiple of 10 ms, up to 100 ms".into());
        }
        match &self.talk {
            None if self.playout == Playout::Adaptive => {
                return Err("playout: adapts between talk spurts, and there are none".into());
            }
            None => {}
            Some(talk) => {
                talk.spurt.check().map_err(|why| format!("spurt: {why}"))?;
                talk.pause.check().map_err(|why| format!("pause: {why}"))?;
            }
        }
        check(&self.calls, plan)
    }

    fn uses(&self, _plan: &Plan) -> Vec<Use> {
        let of_one = |call: &Stream| {
            [call.there, call.back].map(|path| Use { path, bytes: self.ip_bytes(), dns: false })
        };
        self.calls.iter().flat_map(of_one).collect()
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Calls {
            name: name.to_owned(),
            settings: self,
            first_socket: 0,
            calls: Vec::new(),
        })
    }
}

impl Voip {
    fn ip_bytes(&self) -> u16 {
        HEADERS + RTP_HEADER + self.codec.payload(self.packet_time.as_ms())
    }

    /// From the mouth to the sending of a packet, without the speech in it, and at the ear.
    fn codec_delay(&self) -> Span {
        let (frame, ahead) = self.codec.delay();
        self.packet_time + frame + ahead
    }
}

#[derive(Debug)]
struct Calls {
    name: String,
    settings: Voip,
    first_socket: u32,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    association: Association,
    start: Time,
    stop: Option<Time>,
    /// There and back.
    directions: [Direction; 2],
}

/// One who speaks, and the other who hears it.
#[derive(Debug)]
struct Direction {
    random: Random,
    /// Spurts begun, and packets left in this one; `None`: it has no end.
    spurts: u32,
    left: Option<u64>,
    /// The number of the first packet of each spurt.
    first_of: Vec<u32>,
    sent: u32,
    received: u32,
    lost: u32,
    late: u32,
    sequence: Sequence,
    buffer: Buffer,
    jitter: Jitter,
    jitter_total: f64,
    delay_total: f64,
    delay_max: Span,
    /// From sending to hearing, of what was heard, in seconds.
    playout_total: f64,
}

impl Application for Calls {
    fn start(&mut self, host: &mut Host<'_>) {
        let calls = std::mem::take(&mut self.settings.calls);
        self.first_socket = host.take_sockets(calls.len() as u32);
        for (number, call) in calls.iter().enumerate() {
            let number = number as u32;
            let association = associate(host, call, number, PORT);
            let directions = ["there", "back"].map(|way| {
                Direction::new(host.random(&format!("{}/{way}", call.name)), &self.settings)
            });
            self.calls.push(Call { association, start: call.start, stop: call.stop, directions });
            for side in 0..2 {
                host.wake(call.start, 2 * number + side);
            }
        }
    }

    fn timer(&mut self, host: &mut Host<'_>, token: u32) {
        let (number, side) = (token / 2, token as usize % 2);
        let call = &mut self.calls[number as usize];
        let direction = &mut call.directions[side];
        if direction.spurts > 0 {
            let tag = direction.sequence.send();
            direction.sent += 1;
            if direction.first_of.len() < direction.spurts as usize {
                direction.first_of.push(tag);
            }
            let message = Message {
                bytes: u32::from(self.settings.ip_bytes() - HEADERS),
                tag,
                notes: split(host.now()),
            };
            host.send_datagram(call.association, self.first_socket + number, side == 1, &message);
        }
        let next = host.now() + direction.wait(&self.settings);
        if is_moment(next) && call.stop.is_none_or(|stop| next < stop) {
            host.wake(next, token);
        }
    }

    fn datagram(&mut self, host: &mut Host<'_>, datagram: Datagram) {
        let now = host.now();
        let delay = now.since(join(datagram.message.notes));
        self.direction(&datagram).hear(datagram.message.tag, delay);
    }

    fn lost(&mut self, _host: &mut Host<'_>, datagram: Datagram, _loss: Lost) {
        let direction = self.direction(&datagram);
        direction.lost += 1;
        direction.sequence.resolve(datagram.message.tag, false);
    }

    fn tables(&self, _plan: &Plan) -> Vec<Table> {
        let of_call = |(number, call): (usize, &'_ Call)| {
            let of_side = |side: usize| Row::new(number as u32, side, call, &self.settings);
            [of_side(0), of_side(1)]
        };
        let rows: Vec<Row> = self.calls.iter().enumerate().flat_map(of_call).collect();
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "call": U32 = |row| row.call,
            "direction": Text = |row| row.direction.to_owned(),
            "start_s": F64 = |row| row.start_s,
            "sent_packets": U32 = |row| row.counts[0],
            "received_packets": U32 = |row| row.counts[1],
            "lost_packets": U32 = |row| row.counts[2],
            "late_packets": U32 = |row| row.counts[3],
            "delay_mean_ms": F64 = |row| row.delay_mean_ms,
            "delay_max_ms": F64 = |row| row.delay_max_ms,
            "jitter_mean_ms": F64 = |row| row.jitter_mean_ms,
            "mouth_to_ear_ms": F64 = |row| row.passage.delay_ms,
            "missing_percent": F64 = |row| row.passage.loss_percent,
            "burst_ratio": F64 = |row| row.passage.burst_ratio,
            "r": F64 = |row| row.r,
            "mos": F64 = |row| row.mos,
        );
        vec![Table { name: "voip", columns }]
    }
}

impl Calls {
    fn direction(&mut self, datagram: &Datagram) -> &mut Direction {
        let call = &mut self.calls[(datagram.socket - self.first_socket) as usize];
        &mut call.directions[usize::from(datagram.goes_back)]
    }
}

impl Direction {
    fn new(random: Random, settings: &Voip) -> Self {
        Self {
            random,
            spurts: 0,
            left: Some(0),
            first_of: Vec::new(),
            sent: 0,
            received: 0,
            lost: 0,
            late: 0,
            sequence: Sequence::default(),
            buffer: Buffer::new(settings.playout, settings.packet_time),
            jitter: Jitter::default(),
            jitter_total: 0.0,
            delay_total: 0.0,
            delay_max: Span::ZERO,
            playout_total: 0.0,
        }
    }

    /// Time from now, when a packet was sent or the call began, to the next packet.
    fn wait(&mut self, settings: &Voip) -> Span {
        let mut pause = Span::ZERO;
        if self.left == Some(0) {
            self.left = None;
            if let Some(talk) = &settings.talk {
                let turn = self.spurts;
                if turn > 0 {
                    pause = talk.pause.next(&mut self.random, turn - 1);
                }
                let spurt = talk.spurt.next(&mut self.random, turn);
                self.left = Some(spurt.as_ps().div_ceil(settings.packet_time.as_ps()).max(1));
            }
            self.spurts += 1;
        }
        self.left = self.left.map(|left| left - 1);
        pause + settings.packet_time
    }

    /// A packet has come.
    fn hear(&mut self, tag: u32, delay: Span) {
        self.received += 1;
        self.delay_total += delay.as_secs_f64();
        self.delay_max = self.delay_max.max(delay);
        self.jitter.add(delay);
        self.jitter_total += self.jitter.seconds();
        let spurt = self.first_of.partition_point(|&first| first <= tag) as u32;
        let heard = self.buffer.take(spurt, delay);
        match heard {
            Some(offset) => self.playout_total += offset.as_secs_f64(),
            None => self.late += 1,
        }
        self.sequence.resolve(tag, heard.is_some());
    }
}

/// A row of the table `voip`. NaN where nothing came.
#[derive(Debug)]
struct Row {
    call: u32,
    direction: &'static str,
    start_s: f64,
    /// Sent, received, lost, late.
    counts: [u32; 4],
    delay_mean_ms: f64,
    delay_max_ms: f64,
    jitter_mean_ms: f64,
    passage: Passage,
    r: f64,
    mos: f64,
}

impl Row {
    fn new(call: u32, side: usize, of: &Call, settings: &Voip) -> Self {
        let it = &of.directions[side];
        let received = f64::from(it.received);
        let heard = f64::from(it.received - it.late);
        let passage = Passage {
            delay_ms: (it.playout_total / heard + settings.codec_delay().as_secs_f64()) * 1e3,
            loss_percent: it.sequence.missing_percent(),
            burst_ratio: it.sequence.burst_ratio(),
        };
        // Nothing heard, but something sent in vain: as bad as it gets.
        let r = if heard == 0.0 && passage.loss_percent == 100.0 {
            0.0
        } else {
            rating(settings.codec.equipment(), passage)
        };
        Self {
            call,
            direction: ["there", "back"][side],
            start_s: of.start.as_secs_f64(),
            counts: [it.sent, it.received, it.lost, it.late],
            delay_mean_ms: it.delay_total / received * 1e3,
            delay_max_ms: if received > 0.0 { it.delay_max.as_secs_f64() * 1e3 } else { f64::NAN },
            jitter_mean_ms: it.jitter_total / received * 1e3,
            passage,
            r,
            mos: if r.is_nan() { f64::NAN } else { mean_opinion_score(r) },
        }
    }
}

/// RTP's default port (RFC 3551, 8).
const PORT: u16 = 5004;

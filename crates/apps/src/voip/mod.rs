//! Telephone calls: speech in packets of constant size, both ways, and how it sounds.
//!
//! A packet consists of IPv4, UDP, RTP (RFC 3550) and the codec's frames for `packet_time`. It is
//! sent when its last sample has been spoken. A person speaks all the time or in talk spurts; in
//! the latter case nothing is sent in the pauses (voice activity detection, without comfort noise).
//! The two speakers are independent of each other: ITU-T P.59's mutual silence and double talk
//! follow only from the lengths of their spurts and pauses.
//!
//! The playout buffer (`playout.rs`) decides what is heard, and the E-model (`e_model.rs`) how it
//! sounds. Each direction of each call is a row of the table `voip`. The one-way delay from mouth
//! to ear is the codec's, (N + 1) frames and its look-ahead (ITU-T G.114, 05/2003, A.2), plus the
//! time from sending to hearing.

mod e_model;
mod playout;
mod sequence;

use narrows_units::settings::{Kind, Rule, Setting, Value, any, span};
use narrows_units::{ConfigError, Span, Time, keys, words};

use self::e_model::{Equipment, Passage, mean_opinion_score, rating};
use self::playout::Buffer;
use self::sequence::Sequence;
use super::streams::{HEADERS, Jitter, Stream, associate, check, join, split};
use super::{
    Application, Association, Datagram, Draw, Host, Lost, Message, Settings, Use, is_moment,
};
use crate::record::Records;
use crate::table::{Head, Table, rows};
use crate::{Environment, Random};

keys! {
    /// The settings of a group of calls.
    pub struct Voip {
        /// The calls.
        calls: Vec<Stream> = Vec::new(), any();
        /// G.711 (64 kbit/s) without or with concealment of lost packets, or G.729A (8 kbit/s).
        codec: Codec = Codec::G711Plc, any();
        /// Speech in a packet: a multiple of 10 ms, up to `"100 ms"`; `"20 ms"` by default.
        packet_time: Span = Span::from_ms(20), span(Span::from_ms(10), Span::from_ms(100));
        /// When people speak; `None`: all the time.
        talk: Option<Talk> = None, any();
        /// How long the first packet of a talk spurt waits in the receiver's buffer before it is
        /// heard (`"60 ms"` by default). With `"adaptive"`, the delays seen so far decide.
        playout: Playout = Playout::Fixed(Span::from_ms(60)), any();
    }
}

words! {
    /// How speech is coded.
    pub enum Codec {
        /// ITU-T G.711, 64 kbit/s: a lost packet is silence.
        G711 = "g711",
        /// G.711 with the concealment of lost packets of its Appendix I.
        G711Plc = "g711-plc",
        /// ITU-T G.729 Annex A, 8 kbit/s.
        G729a = "g729a",
    }
}

keys! {
    /// Talk spurts and pauses.
    pub struct Talk {
        /// The length of a spurt. Only whole packets are sent.
        spurt: Draw<Span> = Draw::Constant(Span::ZERO), any();
        /// The length of a pause.
        pause: Draw<Span> = Draw::Constant(Span::ZERO), any();
    }
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
    /// The first packet of each talk spurt waits for this long.
    Fixed(Span),
    /// The wait follows the delays so far. The buffer adapts at the start of each talk spurt.
    Adaptive,
}

impl Setting for Playout {
    const KIND: Kind = Kind::WordOrSpan("adaptive", "fixed");

    fn value(&self) -> Value {
        match self {
            Self::Fixed(wait) => wait.value(),
            Self::Adaptive => Value::Word("adaptive"),
        }
    }

    fn check(&self, _key: &str, _rule: &Rule) -> Result<(), ConfigError> {
        Ok(())
    }
}

rows! {
    /// A direction of a call of `voip`.
    pub(crate) struct VoipRow as "voip" {
        /// The group that it belongs to.
        group: String [""];
        /// Number of the call within its group, from 0.
        call: u32 [""];
        /// `there`, from sender to receiver, or `back`.
        direction: String [""];
        /// When the call begins.
        start_s: f64 ["s"];
        /// Packets sent.
        sent_packets: u32 ["packets"];
        /// Packets received, including late ones.
        received_packets: u32 ["packets"];
        /// Packets lost in the network.
        lost_packets: u32 ["packets"];
        /// Packets received too late to be heard.
        late_packets: u32 ["packets"];
        /// One-way delay in the network, mean; null: nothing was received.
        delay_mean_ms: f64 ["ms", null];
        /// The longest one-way delay.
        delay_max_ms: f64 ["ms", null];
        /// Interarrival jitter (RFC 3550, 6.4.1), mean over the arrivals.
        jitter_mean_ms: f64 ["ms", null];
        /// Delay of codec, network and playout buffer, mean over what was heard; null: nothing was.
        mouth_to_ear_ms: f64 ["ms", null];
        /// Share of lost and late packets among those whose end is known.
        missing_percent: f64 ["%", null];
        /// Mean length of runs of missing packets, divided by that of random losses (G.107).
        burst_ratio: f64 ["", null];
        /// Transmission rating factor R (G.107).
        r: f64 ["", null];
        /// Estimated mean opinion score, 1 to 4.5 (G.107, Annex B).
        mos: f64 ["", null];
    }
}

/// RTP without contributing sources (RFC 3550, 5.1).
const RTP_HEADER: u16 = 12;

impl Codec {
    /// Returns the bytes of `ms` milliseconds of speech.
    const fn payload(self, ms: u64) -> u16 {
        match self {
            Self::G711 | Self::G711Plc => 8 * ms as u16,
            Self::G729a => ms as u16,
        }
    }

    /// Returns the length of a frame, and the time that the codec needs to look ahead or repair:
    /// G.711 (Appendix I delays by 3.75 ms), G.729 (3.1: 5 ms ahead).
    const fn delay(self) -> (Span, Span) {
        match self {
            Self::G711 => (Span::from_us(125), Span::ZERO),
            Self::G711Plc => (Span::from_us(125), Span::from_us(3_750)),
            Self::G729a => (Span::from_ms(10), Span::from_ms(5)),
        }
    }

    /// Returns the parameters of G.113, Appendix I, Tables I.1 and I.4. G.729A's were measured with
    /// the voice activity detection of its Annex B.
    const fn equipment(self) -> Equipment {
        match self {
            Self::G711 => Equipment { impairment: 0.0, robustness: 4.3 },
            Self::G711Plc => Equipment { impairment: 0.0, robustness: 25.1 },
            Self::G729a => Equipment { impairment: 11.0, robustness: 19.0 },
        }
    }
}

impl Settings for Voip {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        let ms = self.packet_time.as_ms();
        if Span::from_ms(ms) != self.packet_time || !ms.is_multiple_of(10) {
            return Err("packet_time: must be a multiple of 10 ms".into());
        }
        if self.talk.is_none() && self.playout == Playout::Adaptive {
            return Err("playout: adapts between talk spurts, and there are none".into());
        }
        check(&self.calls, environment)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        let of_one = |call: &Stream| {
            [call.there, call.back].map(|path| Use { path, bytes: self.ip_bytes(), dns: false })
        };
        self.calls.iter().flat_map(of_one).collect()
    }

    fn heads() -> &'static [Head] {
        &[VoipRow::HEAD]
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
    /// Returns the length of a packet: IP, UDP, RTP and the speech.
    pub fn ip_bytes(&self) -> u16 {
        HEADERS + RTP_HEADER + self.codec.payload(self.packet_time.as_ms())
    }

    /// Returns the codec's delay from the mouth to sending, without the speech in the packet, plus
    /// that at the ear.
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
    /// The two directions, there and back.
    directions: [Direction; 2],
}

/// One direction: a speaker and a listener.
#[derive(Debug)]
struct Direction {
    random: Random,
    /// The spurts begun, and the packets left in the current one; `None`: it has no end.
    spurts: u32,
    left: Option<u64>,
    listener: Listener,
}

/// The far end of a direction: what it makes of the packets.
#[derive(Debug)]
struct Listener {
    /// The number of the first packet in each spurt.
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
    /// The time from sending to hearing, summed over everything heard, in seconds.
    playout_total: f64,
}

impl Application for Calls {
    fn start(&mut self, host: &mut dyn Host) {
        let calls = std::mem::take(&mut self.settings.calls);
        self.first_socket = host.take_sockets(calls.len() as u32);
        for (number, call) in calls.iter().enumerate() {
            let number = number as u32;
            let association = associate(host, call, number, PORT);
            let directions = ["there", "back"].map(|name| {
                Direction::new(host.random(&format!("{}/{name}", call.name)), &self.settings)
            });
            self.calls.push(Call { association, start: call.start, stop: call.stop, directions });
            for side in 0..2 {
                host.wake(call.start, 2 * number + side);
            }
        }
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let (number, side) = (token / 2, token as usize % 2);
        let call = &mut self.calls[number as usize];
        let direction = &mut call.directions[side];
        if direction.spurts > 0 {
            let tag = direction.listener.expect(direction.spurts);
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

    fn datagram(&mut self, host: &mut dyn Host, datagram: Datagram) {
        let now = host.now();
        let delay = now.since(join(datagram.message.notes));
        self.listener(&datagram).hear(datagram.message.tag, delay);
    }

    fn lost(&mut self, _records: &mut Records, datagram: Datagram, _loss: Option<Lost>) {
        self.listener(&datagram).miss(datagram.message.tag);
    }

    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        let of_call = |(number, call): (usize, &'_ Call)| {
            let of_side = |side: usize| Row::new(number as u32, side, call, &self.settings);
            [of_side(0), of_side(1)]
        };
        let rows = self.calls.iter().enumerate().flat_map(of_call).map(|row| VoipRow {
            group: self.name.clone(),
            call: row.call,
            direction: row.direction.to_owned(),
            start_s: row.start_s,
            sent_packets: row.heard.sent_packets,
            received_packets: row.heard.received_packets,
            lost_packets: row.heard.lost_packets,
            late_packets: row.heard.late_packets,
            delay_mean_ms: row.heard.delay_mean_ms,
            delay_max_ms: row.heard.delay_max_ms,
            jitter_mean_ms: row.heard.jitter_mean_ms,
            mouth_to_ear_ms: row.heard.mouth_to_ear_ms,
            missing_percent: row.heard.missing_percent,
            burst_ratio: row.heard.burst_ratio,
            r: row.heard.r,
            mos: row.heard.mos,
        });
        vec![VoipRow::table(rows)]
    }
}

impl Calls {
    fn listener(&mut self, datagram: &Datagram) -> &mut Listener {
        let call = &mut self.calls[(datagram.socket - self.first_socket) as usize];
        &mut call.directions[usize::from(datagram.goes_back)].listener
    }
}

impl Direction {
    fn new(random: Random, settings: &Voip) -> Self {
        Self { random, spurts: 0, left: Some(0), listener: Listener::new(settings) }
    }

    /// Returns the time from now, when a packet was sent or the call began, to the next packet.
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
}

impl Listener {
    /// Creates the listener of a direction in which nothing has been sent.
    const fn new(settings: &Voip) -> Self {
        Self {
            first_of: Vec::new(),
            sent: 0,
            received: 0,
            lost: 0,
            late: 0,
            sequence: Sequence::new(),
            buffer: Buffer::new(settings.playout, settings.packet_time),
            jitter: Jitter::new(),
            jitter_total: 0.0,
            delay_total: 0.0,
            delay_max: Span::ZERO,
            playout_total: 0.0,
        }
    }

    /// Adds a packet that is sent in talk spurt `spurt`, counted from 1. Returns its number.
    fn expect(&mut self, spurt: u32) -> u32 {
        let number = self.sequence.send();
        self.sent += 1;
        if self.first_of.len() < spurt as usize {
            self.first_of.push(number);
        }
        number
    }

    /// Takes a packet that has arrived `delay` after it was sent.
    fn hear(&mut self, number: u32, delay: Span) {
        self.received += 1;
        self.delay_total += delay.as_secs_f64();
        self.delay_max = self.delay_max.max(delay);
        self.jitter.add(delay);
        self.jitter_total += self.jitter.seconds();
        let spurt = self.first_of.partition_point(|&first| first <= number) as u32;
        let heard = self.buffer.take(spurt, delay);
        match heard {
            Some(offset) => self.playout_total += offset.as_secs_f64(),
            None => self.late += 1,
        }
        self.sequence.resolve(number, heard.is_some());
    }

    /// Notes that a packet is lost.
    fn miss(&mut self, number: u32) {
        self.lost += 1;
        self.sequence.resolve(number, false);
    }

    /// Returns what has been heard so far.
    fn heard(&self, settings: &Voip) -> Heard {
        let received = f64::from(self.received);
        let heard = f64::from(self.received - self.late);
        let passage = Passage {
            delay_ms: (self.playout_total / heard + settings.codec_delay().as_secs_f64()) * 1e3,
            loss_percent: self.sequence.missing_percent(),
            burst_ratio: self.sequence.burst_ratio(),
        };
        // Packets were sent but nothing was heard, which is the worst possible rating.
        let r = if heard == 0.0 && passage.loss_percent == 100.0 {
            0.0
        } else {
            rating(settings.codec.equipment(), passage)
        };
        Heard {
            sent_packets: self.sent,
            received_packets: self.received,
            lost_packets: self.lost,
            late_packets: self.late,
            delay_mean_ms: self.delay_total / received * 1e3,
            delay_max_ms: if received > 0.0 {
                self.delay_max.as_secs_f64() * 1e3
            } else {
                f64::NAN
            },
            jitter_mean_ms: self.jitter_total / received * 1e3,
            mouth_to_ear_ms: passage.delay_ms,
            missing_percent: passage.loss_percent,
            burst_ratio: passage.burst_ratio,
            r,
            mos: if r.is_nan() { f64::NAN } else { mean_opinion_score(r) },
        }
    }
}

/// What is heard of a direction, with the names of the table `voip`; NaN if nothing arrived.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Packets sent.
    sent_packets: u32,
    /// Packets received, late ones among them.
    received_packets: u32,
    /// Packets lost in the network.
    lost_packets: u32,
    /// Packets received too late to be heard.
    late_packets: u32,
    /// The mean one-way delay in the network.
    delay_mean_ms: f64,
    /// The longest one-way delay in the network.
    delay_max_ms: f64,
    /// The mean interarrival jitter (RFC 3550, 6.4.1).
    jitter_mean_ms: f64,
    /// The mean delay of what was heard, from mouth to ear.
    mouth_to_ear_ms: f64,
    /// The share of packets lost or late, in percent.
    missing_percent: f64,
    /// The mean length of bursts of missing packets, over that of random losses.
    burst_ratio: f64,
    /// The transmission rating factor R (G.107).
    r: f64,
    /// The estimated mean opinion score (G.107, Annex B).
    mos: f64,
}

/// A row of the table `voip`.
#[derive(Debug)]
struct Row {
    call: u32,
    direction: &'static str,
    start_s: f64,
    heard: Heard,
}

impl Row {
    fn new(call: u32, side: usize, of: &Call, settings: &Voip) -> Self {
        Self {
            call,
            direction: ["there", "back"][side],
            start_s: of.start.as_secs_f64(),
            heard: of.directions[side].listener.heard(settings),
        }
    }
}

/// RTP's default port (RFC 3551, 8).
const PORT: u16 = 5004;

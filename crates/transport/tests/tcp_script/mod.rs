//! A script for one endpoint, in the spirit of packetdrill: the time on the left, then a segment
//! that comes in or the segments that must go out.
//!
//! Segments are text: `[flags] start:end [ack N] [sack a:b,c:d] [ect0|ce]`, with `S`, `F`, `P`, `E`
//! (ECE), `W` (CWR), `A` (AE) and `.` (ACK) as flags. Both initial sequence numbers are 0, so the
//! first byte is 1. Windows and timestamps are left out of the text; the peer's timestamps option
//! echoes what the endpoint sent at the time that [`Script::echo`] says.

#![allow(unreachable_pub, reason = "a module of tests")]

use narrows_transport::tcp::{Config, Endpoint, Flags, SackBlocks, Segment, Seq, SynOptions};
use narrows_units::{Ecn, Span, Time};

/// The payload of a full segment with timestamps.
pub const MSS: u32 = 1448;

/// An endpoint, the clock, and the segments that it has sent and nobody has looked at.
pub struct Script {
    pub endpoint: Endpoint,
    pub now: Time,
    sent: Vec<(Time, Segment)>,
    /// TSecr of the next segments that come in; `None`: of the latest segment that went out.
    echo: Option<u32>,
    last_stamp: u32,
}

pub fn linux() -> Config {
    Config::profile("linux-6").expect("a known profile")
}

/// A time in milliseconds, rounded down to a hundredth: the timers of a jiffy take microseconds.
pub fn in_ms(at: Time) -> f64 {
    (at.as_ps() / 10_000_000) as f64 / 100.0
}

pub fn ms(ms: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(ms / 1000.0)
}

impl Script {
    pub fn client(config: &Config) -> Self {
        Self::new(Endpoint::client(config.clone(), Seq(0)))
    }

    pub fn server(config: &Config) -> Self {
        Self::new(Endpoint::server(config.clone(), Seq(0)))
    }

    fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, now: Time::ZERO, sent: Vec::new(), echo: None, last_stamp: 0 }
    }

    /// A client whose handshake took `rtt_ms`; the clock stands at its end.
    pub fn connected(config: &Config, rtt_ms: f64) -> Self {
        let mut script = Self::client(config);
        script.connect().sends(&["S 0:0"]);
        script.at(rtt_ms).gets_syn_ack();
        script.sends(&[". 1:1 ack 1"]);
        script
    }

    /// A server that a client has connected to over `rtt_ms`.
    pub fn accepted(config: &Config, rtt_ms: f64) -> Self {
        let mut script = Self::server(config);
        script.gets_syn();
        script.forget();
        script.at(rtt_ms).gets(". 1:1 ack 1");
        script.sends(&[]);
        script
    }

    pub fn connect(&mut self) -> &mut Self {
        self.endpoint.connect(self.now);
        self.drain()
    }

    pub fn write(&mut self, bytes: u64) -> &mut Self {
        self.endpoint.write(self.now, bytes);
        self.drain()
    }

    pub fn write_forever(&mut self) -> &mut Self {
        self.endpoint.write_forever(self.now);
        self.drain()
    }

    pub fn close(&mut self) -> &mut Self {
        self.endpoint.close();
        self.drain()
    }

    /// Moves the clock on to `at_ms`; timers fire on the way.
    pub fn at(&mut self, at_ms: f64) -> &mut Self {
        let until = ms(at_ms);
        assert!(until >= self.now, "scripts run forwards");
        while let Some(due) = self.endpoint.next_timeout().filter(|&due| due < until) {
            self.now = due.max(self.now);
            self.endpoint.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
        self
    }

    /// Lets later segments from the peer echo the timestamp of `at_ms`.
    pub fn echo(&mut self, at_ms: f64) -> &mut Self {
        self.echo = Some(stamp(ms(at_ms)));
        self
    }

    pub fn gets(&mut self, text: &str) -> &mut Self {
        let mut segment = parse(text);
        segment.timestamps = Some((stamp(self.now), self.echo.unwrap_or(self.last_stamp)));
        self.gets_segment(&segment)
    }

    pub fn gets_segment(&mut self, segment: &Segment) -> &mut Self {
        self.endpoint.handle_segment(self.now, segment);
        self.endpoint.check_invariants();
        self.drain()
    }

    pub fn gets_syn(&mut self) -> &mut Self {
        self.gets_segment(&syn(self.now, Flags::SYN, 0))
    }

    pub fn gets_syn_ack(&mut self) -> &mut Self {
        let flags = Flags::SYN.with(Flags::ACK);
        self.gets_segment(&syn(self.now, flags, self.last_stamp))
    }

    /// Checks that exactly these segments went out since the last look.
    #[track_caller]
    pub fn sends(&mut self, expected: &[&str]) -> &mut Self {
        let sent: Vec<String> = self.sent.drain(..).map(|(_, segment)| show(&segment)).collect();
        assert_eq!(sent, expected, "at {}", self.now);
        self
    }

    /// Does the same with the times, in milliseconds.
    #[track_caller]
    pub fn sends_at(&mut self, expected: &[(f64, &str)]) -> &mut Self {
        let sent: Vec<(f64, String)> =
            self.sent.drain(..).map(|(at, segment)| (in_ms(at), show(&segment))).collect();
        let expected: Vec<(f64, String)> =
            expected.iter().map(|&(at, text)| (at, text.to_owned())).collect();
        assert_eq!(sent, expected, "at {}", self.now);
        self
    }

    pub fn forget(&mut self) -> &mut Self {
        self.sent.clear();
        self
    }

    /// Returns what went out since the last look.
    pub fn take_sent(&mut self) -> Vec<(Time, Segment)> {
        core::mem::take(&mut self.sent)
    }

    fn drain(&mut self) -> &mut Self {
        while let Some(segment) = self.endpoint.poll_transmit(self.now) {
            self.last_stamp = segment.timestamps.map_or(0, |(stamp, _)| stamp);
            self.sent.push((self.now, segment));
        }
        self.endpoint.check_invariants();
        self
    }
}

/// The timestamps option's clock: milliseconds plus one.
pub fn stamp(at: Time) -> u32 {
    (at.as_ps() / 1_000_000_000) as u32 + 1
}

fn syn(now: Time, flags: Flags, echo: u32) -> Segment {
    Segment {
        ack: Seq(u32::from(flags.contains(Flags::ACK))),
        window: 65_535,
        flags,
        timestamps: Some((stamp(now), echo)),
        syn: Some(SynOptions {
            mss: 1460,
            window_scale: Some(7),
            sack_permitted: true,
            ..SynOptions::default()
        }),
        ..Segment::default()
    }
}

/// Text to segment; the peer's window is 4 MB.
pub fn parse(text: &str) -> Segment {
    let mut segment = Segment { window: 32_768, ..Segment::default() };
    let mut words = text.split_whitespace();
    for flag in words.next().expect("flags come first").chars() {
        segment.flags = segment.flags.with(match flag {
            'F' => Flags::FIN,
            'P' => Flags::PSH,
            'R' => Flags::RST,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            'A' => Flags::AE,
            '.' => Flags::ACK,
            other => panic!("no such flag: {other}"),
        });
    }
    let (start, end) = range(words.next().expect("sequence numbers come second"));
    segment.seq = start;
    segment.len = end.distance(start) as u16;
    while let Some(word) = words.next() {
        match word {
            "ack" => segment.ack = Seq(words.next().expect("a number").parse().expect("a number")),
            "sack" => {
                for block in words.next().expect("blocks").split(',') {
                    let (start, end) = range(block);
                    segment.sack.push(start, end);
                }
            }
            "ect0" => segment.ecn = Ecn::Ect0,
            "ce" => segment.ecn = Ecn::Ce,
            other => panic!("no such word: {other}"),
        }
    }
    segment
}

fn range(text: &str) -> (Seq, Seq) {
    let (start, end) = text.split_once(':').expect("start:end");
    (Seq(start.parse().expect("a number")), Seq(end.parse().expect("a number")))
}

/// Segment to text.
pub fn show(segment: &Segment) -> String {
    let names = [
        (Flags::SYN, "S"),
        (Flags::FIN, "F"),
        (Flags::RST, "R"),
        (Flags::PSH, "P"),
        (Flags::ECE, "E"),
        (Flags::CWR, "W"),
        (Flags::AE, "A"),
        (Flags::ACK, "."),
    ];
    let mut text: String = names
        .iter()
        .filter(|(flag, _)| segment.flags.contains(*flag))
        .map(|&(_, name)| name)
        .collect();
    let start = segment.seq.0;
    text += &format!(" {start}:{}", start + u32::from(segment.len));
    if segment.flags.contains(Flags::ACK) {
        text += &format!(" ack {}", segment.ack.0);
    }
    if segment.sack != SackBlocks::default() {
        let blocks: Vec<String> =
            segment.sack.as_slice().iter().map(|(a, b)| format!("{}:{}", a.0, b.0)).collect();
        text += &format!(" sack {}", blocks.join(","));
    }
    match segment.ecn {
        Ecn::NotEct => {}
        Ecn::Ect0 => text += " ect0",
        Ecn::Ect1 => text += " ect1",
        Ecn::Ce => text += " ce",
    }
    text
}

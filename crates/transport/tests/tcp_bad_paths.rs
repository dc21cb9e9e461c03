//! Connections that pace, sample rates or count marks, over random paths that change: MTUs shrink,
//! links go down, and the application writes a little at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use narrows_transport::tcp::{
    AckPolicy, Config, Congestion, Endpoint, Recovery, Segment, Seq, WindowGrowth,
};
use narrows_units::{Bytes, Ecn, Span, Time};

use crate::tcp_pipe::Random;

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment reaches an end.
    Arrives { segment: usize, end: usize },
    /// The sender hears that a segment was too long.
    TooBig { seq: u32, mtu: u16 },
    /// The application writes.
    Writes { bytes: u64, last: bool },
    /// The path takes packets up to this size from now on.
    Shrinks { mtu: u16 },
    /// The path loses everything, or works again.
    Goes { down: bool },
}

/// A sender, a receiver, and a path with a FIFO of `room` segments between them.
struct Path {
    ends: [Endpoint; 2],
    now: Time,
    random: Random,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    segments: Vec<Segment>,
    is_down: bool,
    mtu: u16,
    /// When the FIFO is empty again.
    free_at: Time,
    ns_per_byte: u64,
    room: Span,
    one_way: Span,
    jitter_us: u32,
    loss: f64,
    mark: f64,
}

impl Path {
    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    fn carry(&mut self, end: usize, mut segment: Segment) {
        let lost = self.is_down || self.random.chance(self.loss);
        let options = if segment.timestamps.is_some() { 12 } else { 0 }
            + if segment.accurate.is_some() { 12 } else { 0 };
        if end == 0 && segment.len > 0 && segment.len + 40 + options > self.mtu {
            if !lost {
                let event = Event::TooBig { seq: segment.seq.0, mtu: self.mtu };
                self.schedule(self.now + self.one_way, event);
            }
            return;
        }
        if lost {
            return;
        }
        if segment.ecn.is_capable() && self.random.chance(self.mark) {
            segment.ecn = Ecn::Ce;
        }
        let jitter = Span::from_us(self.random.below(self.jitter_us + 1).into());
        let mut at = self.now + self.one_way + jitter;
        if end == 0 {
            let free = self.free_at.max(self.now);
            if free.since(self.now) > self.room {
                return;
            }
            self.free_at = free + Span::from_ns((u64::from(segment.len) + 52) * self.ns_per_byte);
            at = self.free_at + self.one_way + jitter;
        }
        self.segments.push(segment);
        let event = Event::Arrives { segment: self.segments.len() - 1, end: 1 - end };
        self.schedule(at, event);
    }

    fn flush(&mut self, end: usize) {
        while let Some(segment) = self.ends[end].poll_transmit(self.now) {
            self.carry(end, segment);
        }
        self.ends[end].check_invariants();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { segment, end } => {
                let segment = self.segments[segment];
                self.ends[end].handle_segment(self.now, &segment);
                self.flush(end);
            }
            Event::TooBig { seq, mtu } => {
                self.ends[0].handle_too_big(self.now, Seq(seq), mtu);
                self.flush(0);
            }
            Event::Writes { bytes, last } => {
                self.ends[0].write(self.now, bytes);
                if last {
                    self.ends[0].close();
                }
                self.flush(0);
            }
            Event::Shrinks { mtu } => self.mtu = mtu,
            Event::Goes { down } => self.is_down = down,
        }
    }

    /// Runs until nothing is left to happen, and checks what holds at every moment. Returns false
    /// if this takes too many events.
    fn run(&mut self, mut steps: u32) -> bool {
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let timers = [0, 1].map(|end: usize| self.ends[end].next_timeout());
            let Some(next) = timers.into_iter().flatten().chain(event).min() else { return true };
            self.now = self.now.max(next);
            if event == Some(next) {
                let Some(Reverse((.., event))) = self.events.pop() else { return true };
                self.happen(event);
            } else {
                let end = usize::from(timers[0] != Some(next));
                self.ends[end].handle_timeout(self.now);
                self.flush(end);
            }
            assert!(self.ends[0].cwnd() >= 1);
            assert!(self.ends[0].pacing_rate().is_none_or(|rate| rate < 1 << 50), "a sane pace");
            let (acked, received) = (self.ends[0].bytes_acked(), self.ends[1].bytes_received());
            assert!(acked <= received, "{acked} B acknowledged, {received} B received");
            steps -= 1;
            if steps == 0 {
                return false;
            }
        }
    }
}

fn any<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u32) as usize]
}

fn any_config(random: &mut Random) -> Config {
    let controls = [
        Congestion::Bbr,
        Congestion::BbrV3,
        Congestion::Dctcp,
        Congestion::Prague,
        Congestion::Cubic,
        Congestion::Reno,
    ];
    let congestion = controls[random.below(6) as usize].clone();
    let always_paces =
        Congestion::PACED.contains(&narrows_units::settings::Words::word(&congestion));
    let pacing = !always_paces && random.below(2) == 0;
    let mss = any(random, &[88, 536, 1460, 8960]);
    let tick = any(random, &[Span::from_us(1), Span::from_ms(4), Span::from_secs(1)]);
    let rack = random.below(3) > 0;
    Config {
        congestion,
        pacing,
        segmentation_offload: (pacing || always_paces) && random.below(2) == 0,
        prague_rtt_transition: any(random, &[0, 20, 1_000_000]),
        prague_rtt_target: any(random, &[Span::from_us(1), Span::from_ms(25), Span::from_secs(1)]),
        mss,
        initial_window: any(random, &[1, 3, 10, 200, 65_535]),
        initial_ssthresh: any(random, &[None, Some(2), Some(20)]),
        recovery: [Recovery::Reno, Recovery::NewReno, Recovery::Sack][random.below(3) as usize],
        rack,
        tlp: rack,
        sack: true,
        timestamps: random.below(3) > 0,
        window_scaling: random.below(3) > 0,
        receive_buffer: Bytes::new(any(random, &[2 * u64::from(mss), 20_000, 1 << 20, 1 << 30])),
        receive_autotuning: random.below(2) == 0,
        acks: any(
            random,
            &[AckPolicy::Linux, AckPolicy::EverySegment, AckPolicy::Delayed(Span::from_ms(500))],
        ),
        nagle: random.below(2) == 0,
        accurate_ecn: random.below(2) == 0,
        ecn: random.below(2) == 0,
        timer_granularity: tick,
        initial_rto: Span::from_secs(1),
        min_rto: Span::from_ms(200).max(tick),
        max_retries: 255,
        skip_handshake: random.below(4) == 0,
        window_growth: any(random, &[WindowGrowth::Linux61, WindowGrowth::Linux73]),
        syn_ack_ecn_fallback: random.below(2) == 0,
        ..Config::profile("linux-6").expect("a known profile")
    }
}

fn any_path(random: &mut Random, config: &Config, seed: u64) -> Path {
    let mut path = Path {
        ends: [
            Endpoint::client(config.clone(), Seq(random.bits())),
            Endpoint::server(config.clone(), Seq(random.bits())),
        ],
        now: Time::ZERO,
        random: Random(seed),
        events: BinaryHeap::new(),
        count: 0,
        segments: Vec::new(),
        is_down: false,
        mtu: 9000,
        free_at: Time::ZERO,
        ns_per_byte: any(random, &[1, 800, 8000, 80_000]),
        room: Span::from_ms(any(random, &[3, 100, 3000])),
        one_way: any(
            random,
            &[Span::from_us(2), Span::from_ms(1), Span::from_ms(30), Span::from_secs(3)],
        ),
        jitter_us: any(random, &[0, 0, 500, 40_000]),
        loss: any(random, &[0.0, 0.0, 0.01, 0.2]),
        mark: any(random, &[0.0, 0.02, 0.5, 1.0]),
    };
    for mtu in [1400, 700, 300, 128] {
        if random.below(2) == 0 {
            let at = Time::ZERO + Span::from_ms(random.below(3000).into());
            path.schedule(at, Event::Shrinks { mtu });
        }
    }
    if random.below(3) == 0 {
        let from = Span::from_ms(random.below(2000).into());
        let lasts = Span::from_ms(random.below(100_000).into());
        path.schedule(Time::ZERO + from, Event::Goes { down: true });
        path.schedule(Time::ZERO + from + lasts, Event::Goes { down: false });
    }
    path
}

/// What the application writes: up to 300 segments, in one piece or in several with pauses. Returns
/// the sum.
fn write_pieces(random: &mut Random, path: &mut Path, mss: u16) -> u64 {
    let pieces = any(random, &[1, 1, 3, 40]);
    let (mut at, mut sum) = (Time::ZERO, 0);
    for piece in 1..=pieces {
        let bytes = u64::from(random.below(300 * u32::from(mss) / pieces)) + 1;
        path.schedule(at, Event::Writes { bytes, last: piece == pieces });
        sum += bytes;
        at += Span::from_ms(random.below(300).into());
    }
    sum
}

/// A connection of random settings over a random path delivers every byte, whatever the path does.
/// Then it closes, and nothing happens any more.
#[test]
fn every_byte_arrives_over_a_path_that_changes() {
    let mut given_up = 0;
    for seed in 0..RUNS {
        let mut random = Random(seed);
        let config = any_config(&mut random);
        assert_eq!(config.check(), Ok(()), "seed {seed}");
        let mut path = any_path(&mut random, &config, seed ^ 0x5eed);
        let bytes = write_pieces(&mut random, &mut path, config.mss);
        path.ends[0].connect(Time::ZERO);
        path.flush(0);
        let ends = path.run(MOST_EVENTS);
        let [client, server] = &path.ends;
        let what = format!("seed {seed} at {}: {config:?} {:?}", path.now, client.counters());
        assert!(ends, "it goes on for ever: {what}");
        if client.is_failed() || server.is_failed() {
            // Six lost SYNs or SYN-ACKs end a connection, but nothing later does.
            assert_eq!(server.bytes_received(), 0, "given up: {what}");
            given_up += 1;
            continue;
        }
        assert_eq!(server.bytes_received(), bytes, "received: {what}");
        assert_eq!(client.bytes_acked(), bytes, "acknowledged: {what}");
        assert!(client.is_closed(), "not closed: {what}");
    }
    assert!(given_up < RUNS / 20, "{given_up} connections were never open");
}

const RUNS: u64 = 400;
const MOST_EVENTS: u32 = 2_000_000;

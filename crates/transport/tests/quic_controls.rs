//! The controls that QUIC shares with TCP, over a link with a queue: how much of the link they use,
//! how long the queue is, and whether each mark is counted.

use std::collections::VecDeque;

use narrows_qdisc::dualpi2::{self, Dualpi2};
use narrows_qdisc::fifo::{Pfifo, PfifoConfig};
use narrows_qdisc::{Dropped, Ecn, Packet, Qdisc};
use narrows_transport::quic::{Config, Congestion, Datagram, Endpoint, SlowStart};
use narrows_transport::tls::{Client, Server, Tls};
use narrows_units::{Span, Time};

const CLIENT: Client = Client {
    hello: 225,
    pads_hello: false,
    key_share: 32,
    alpn: 3,
    apart: false,
    resume: false,
    early_data: false,
    close_notify: false,
};
const SERVER: Server = Server {
    certificate: 1800,
    signature: 71,
    hash: 32,
    groups: 0,
    alpn: true,
    ticket: 255,
    tickets: 2,
    tickets_resumed: 1,
    tickets_apart: false,
    early_data: false,
    write: None,
    close_notify: false,
    service: Span::ZERO,
};

/// A datagram of the server.
struct Waiting {
    datagram: Datagram,
    arrived_at: Time,
    ecn: Ecn,
}

impl Packet for Waiting {
    fn bytes(&self) -> u32 {
        self.datagram.bytes() + 28
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

/// From the server to the client: a queue, a link of 10 Mbit/s, and half of the round trip. The way
/// back takes the other half and has no queue.
struct Link {
    now: Time,
    ends: [Endpoint; 2],
    queue: Box<dyn Qdisc<Waiting>>,
    /// When the link has sent the current packet.
    free_at: Option<Time>,
    in_flight: [VecDeque<(Time, Datagram, bool)>; 2],
    /// Whether the way back is cut, and a datagram of the server that is lost in so many.
    is_cut: bool,
    loses: Option<usize>,
    /// Of each packet that the link has sent: when it began, its bytes, its wait.
    passed: Vec<(Time, u32, Span)>,
    marked: u64,
    /// When each of the server's datagrams left, and its bytes.
    left: Vec<(Time, u32)>,
    states: Vec<&'static str>,
}

const BYTES_PER_MS: u64 = 1250;
const HALF: Span = Span::from_ms(20);
const REPLY: u64 = 1 << 30;

impl Link {
    fn new(config: Config, queue: impl Qdisc<Waiting> + 'static) -> Self {
        let messages = Tls::new(CLIENT, SERVER, false).messages([60, 60]);
        let end = |is_client| Endpoint::new(Time::ZERO, is_client, [config; 2], messages);
        Self {
            now: Time::ZERO,
            ends: [end(true), end(false)],
            queue: Box::new(queue),
            free_at: None,
            in_flight: Default::default(),
            is_cut: false,
            loses: None,
            passed: Vec::new(),
            marked: 0,
            left: Vec::new(),
            states: Vec::new(),
        }
    }

    fn flush(&mut self, side: usize) {
        while let Some(datagram) = self.ends[side].poll_transmit(self.now) {
            if side == 0 {
                if !self.is_cut {
                    self.in_flight[1].push_back((self.now + HALF, datagram, false));
                }
                continue;
            }
            self.left.push((self.now, datagram.bytes()));
            if self.loses.is_some_and(|one_in| self.left.len().is_multiple_of(one_in)) {
                continue;
            }
            let waiting = Waiting { datagram, arrived_at: self.now, ecn: self.ends[1].ect() };
            self.queue.enqueue(self.now, waiting, &mut Dropped::new());
        }
        if self.free_at.is_none() {
            self.send_next();
        }
    }

    /// Lets the link send the next packet of the queue.
    fn send_next(&mut self) {
        self.free_at = None;
        let Some(packet) = self.queue.dequeue(self.now, &mut Dropped::new()) else { return };
        let bytes = packet.bytes();
        let free_at = self.now + Span::from_ps(u64::from(bytes) * 1_000_000_000 / BYTES_PER_MS);
        self.free_at = Some(free_at);
        self.passed.push((self.now, bytes, self.now.since(packet.arrived_at)));
        let marked = packet.ecn == Ecn::Ce;
        self.marked += u64::from(marked);
        self.in_flight[0].push_back((free_at + HALF, packet.datagram, marked));
    }

    /// Lets the client ask, the server answer with `bytes`, and time pass until `until`.
    fn run(&mut self, bytes: u64, until: Time) {
        if self.now == Time::ZERO {
            self.ends[0].write(0, 100);
            self.flush(0);
        }
        loop {
            let landing = |side: usize| self.in_flight[side].front().map(|&(at, ..)| at);
            let timers = self.ends.iter().filter_map(Endpoint::next_timeout);
            let times = [landing(0), landing(1), self.free_at].into_iter().flatten();
            let next = times.chain(timers).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.now = self.now.max(next);
            if self.free_at.is_some_and(|at| at <= self.now) {
                self.send_next();
            }
            for side in 0..2 {
                while self.in_flight[side].front().is_some_and(|&(at, ..)| at <= self.now)
                    && let Some((_, datagram, marked)) = self.in_flight[side].pop_front()
                {
                    self.ends[side].handle_datagram(self.now, &datagram, marked);
                    self.flush(side);
                }
                if self.ends[side].next_timeout().is_some_and(|at| at <= self.now) {
                    self.ends[side].handle_timeout(self.now);
                    self.flush(side);
                }
            }
            if let Some((stream, _)) = self.ends[1].next_whole() {
                self.ends[1].write(stream, bytes);
                self.flush(1);
            }
            let state = self.ends[1].sample().state;
            if self.states.last() != Some(&state) {
                self.states.push(state);
            }
        }
        self.now = until;
    }

    /// Returns the share of the link that was used since `from`.
    fn used(&self, from: Time) -> f64 {
        let passed = self.passed.iter().filter(|&&(at, ..)| at >= from);
        let bytes: u64 = passed.map(|&(_, bytes, _)| u64::from(bytes)).sum();
        bytes as f64 / (BYTES_PER_MS as f64 * 1000.0 * self.now.since(from).as_secs_f64())
    }

    /// Returns a quantile of the packets' waits since `from`, in milliseconds.
    fn wait_ms(&self, from: Time, quantile: f64) -> f64 {
        let since = self.passed.iter().filter(|&&(at, ..)| at >= from);
        let mut waits: Vec<_> = since.map(|&(.., wait)| wait).collect();
        waits.sort_unstable();
        waits[((waits.len() - 1) as f64 * quantile) as usize].as_secs_f64() * 1000.0
    }
}

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

fn config(congestion: Congestion) -> Config {
    Config { congestion, ..Config::default() }
}

fn fifo(limit: u32) -> Pfifo<Waiting> {
    Pfifo::new(PfifoConfig { limit })
}

fn dualpi2(any_ect: bool) -> Dualpi2<Waiting> {
    Dualpi2::new(&dualpi2::Config { any_ect, ..dualpi2::Config::default() }, 1)
}

/// BBR alone fills the link, and its queue never exceeds a BDP after STARTUP. It goes through its
/// phases, and has four packets in flight in PROBE_RTT (draft-cardwell-iccrg-bbr-congestion-control-00,
/// 4.3).
#[test]
fn bbr_alone_fills_the_link_with_a_bdp_of_queue_at_most() {
    let mut link = Link::new(config(Congestion::Bbr), fifo(1000));
    link.run(REPLY, at(30));
    let (used, longest) = (link.used(at(3)), link.wait_ms(at(3), 1.0));
    assert!(used > 0.95, "{used}");
    assert!(longest <= 40.0, "{longest} ms");
    assert_eq!(link.states[..5], ["startup", "drain", "probe-bw", "probe-rtt", "probe-bw"]);
    let sample = link.ends[1].sample();
    assert_eq!(sample.retransmissions, 0);
    let rate = sample.pacing_rate.map_or(0.0, |rate| rate.as_bps() as f64);
    assert!((0.7e7..1.3e7).contains(&rate), "{rate}");
    let late: Vec<_> = link.passed.iter().filter(|&&(left, ..)| left >= at(3)).collect();
    assert!(late.windows(2).any(|pair| pair[1].0.since(pair[0].0) > Span::from_ms(20)));
}

/// The same for version 3, whose phases are others (draft-ietf-ccwg-bbr-06, 5.3): PROBE_RTT comes after
/// 5 s, with half of a BDP in flight.
#[test]
fn bbr_v3_alone_fills_the_link() {
    let mut link = Link::new(config(Congestion::BbrV3), fifo(1000));
    link.run(REPLY, at(30));
    let (used, longest) = (link.used(at(3)), link.wait_ms(at(3), 1.0));
    assert!(used > 0.95, "{used}");
    assert!(longest <= 60.0, "{longest} ms");
    assert_eq!(link.states[..2], ["startup", "drain"]);
    let cycle = ["probe-bw-down", "probe-bw-cruise", "probe-bw-refill", "probe-bw-up"];
    assert!(link.states.windows(4).filter(|states| *states == cycle).count() > 3);
    let probes = link.states.iter().filter(|&&state| state == "probe-rtt").count();
    assert!((4..=6).contains(&probes), "{probes}");
    assert_eq!(link.ends[1].sample().retransmissions, 0);
}

/// Section 3.7 of the draft asks for a response to marks: they keep the queue short, as losses would.
#[test]
fn bbr_v3_takes_marks_for_losses() {
    let longest = |ecn| {
        let step = Config { ecn, ..config(Congestion::BbrV3) };
        let mut link = Link::new(step, dualpi2(true));
        link.run(REPLY, at(20));
        assert_eq!(link.marked > 0, ecn);
        assert!(link.used(at(5)) > 0.5, "{}", link.used(at(5)));
        link.wait_ms(at(5), 0.95)
    };
    let (marked, unmarked) = (longest(true), longest(false));
    assert!(2.0 * marked < unmarked, "{marked} {unmarked}");
}

/// Losses at random do not slow BBR down. NewReno uses a part of the link.
#[test]
fn bbr_does_not_take_random_losses_for_congestion() {
    let used = |congestion| {
        let mut link = Link::new(config(congestion), fifo(1000));
        link.loses = Some(101);
        link.run(REPLY, at(20));
        link.used(at(3))
    };
    let (bbr, new_reno) = (used(Congestion::Bbr), used(Congestion::NewReno));
    assert!(bbr > 0.9 && new_reno < 0.7, "{bbr} {new_reno}");
    let v3 = used(Congestion::BbrV3);
    assert!(v3 > 0.85, "{v3}");
}

/// RFC 9332 and RFC 9331: Prague keeps the L queue near its step threshold of a millisecond, and
/// each mark reaches its sender (RFC 9000, 13.4). DCTCP does the same where ECT(0) is in the L queue.
#[test]
fn marks_are_counted_exactly_and_keep_the_queue_at_the_step() {
    for (congestion, ect) in [(Congestion::Prague, Ecn::Ect1), (Congestion::Dctcp, Ecn::Ect0)] {
        let paced = Config { pacing: true, ..config(congestion) };
        let mut link = Link::new(paced, dualpi2(ect == Ecn::Ect0));
        assert_eq!(link.ends[1].ect(), ect);
        link.run(20_000_000, at(12));
        let (used, median, most) =
            (link.used(at(2)), link.wait_ms(at(2), 0.5), link.wait_ms(at(2), 0.99));
        assert!(used > 0.9, "{used}");
        let alpha = link.ends[1].sample().alpha.expect("it estimates the share of marks");
        assert!((0.01..0.5).contains(&alpha), "{alpha}");
        assert!(median < 1.0 && most < 3.0, "{median} {most}");
        link.run(0, at(40));
        assert!(link.marked > 200, "{}", link.marked);
        assert_eq!(link.ends[1].marks(), link.marked);
        assert_eq!(link.ends[1].sample().in_flight, 0);
        assert_eq!(link.ends[1].sample().retransmissions, 0);
    }
}

/// RFC 9406: slow start fills a buffer of 14 bandwidth-delay products and loses hundreds of packets.
/// With HyStart++ it slows down when round trips grow, and leaves without a loss.
#[test]
fn hystart_plus_plus_does_not_fill_a_deep_buffer() {
    for congestion in [Congestion::NewReno, Congestion::Cubic] {
        for pacing in [false, true] {
            let start = |slow_start| {
                let config = Config { pacing, slow_start, ..config(congestion) };
                let mut link = Link::new(config, fifo(600));
                link.run(REPLY, at(4));
                let lost = link.ends[1].sample().retransmissions;
                (lost, link.wait_ms(at(0), 1.0), link.states)
            };
            let (lost, longest_ms, states) = start(SlowStart::Standard);
            assert!(lost > 400 && longest_ms > 550.0, "{congestion:?} {lost} {longest_ms}");
            assert!(!states.contains(&"conservative-slow-start"));
            let (lost, longest_ms, states) = start(SlowStart::HystartPlusPlus);
            assert!(lost == 0 && longest_ms < 550.0, "{congestion:?} {lost} {longest_ms}");
            assert_eq!(states, ["slow-start", "conservative-slow-start", "avoidance"]);
        }
    }
}

/// RFC 9002, 7.7: after the first ten, packets leave one by one, at 1.25 times the window in a round
/// trip. Without pacing, some leave together.
#[test]
fn paced_packets_leave_one_by_one() {
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
        for pacing in [false, true] {
            let mut link = Link::new(Config { pacing, ..config(congestion) }, fifo(60));
            link.run(REPLY, at(5));
            let full = link.left.iter().filter(|&&(_, bytes)| bytes > 1100).skip(10);
            let times: Vec<_> = full.map(|&(at, _)| at).collect();
            let together = times.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert_eq!(together == 0, pacing, "{congestion:?} {together}");
            let sample = link.ends[1].sample();
            assert_eq!(sample.pacing_rate.is_some(), pacing);
            if let (Some(rate), Some(srtt)) = (sample.pacing_rate, sample.srtt) {
                let windows = rate.as_bps() as f64 / 8.0 * srtt.as_secs_f64() / sample.cwnd as f64;
                assert!((1.2..1.3).contains(&windows), "{windows}");
            }
        }
    }
}

/// RFC 9002, 7.6: after a long silence, the window restarts, and everything arrives in the end. What
/// BBR knew of the path it still knows.
#[test]
fn a_silence_is_survived() {
    for congestion in [Congestion::Bbr, Congestion::BbrV3, Congestion::Dctcp, Congestion::Prague] {
        let mut link = Link::new(config(congestion), fifo(100));
        link.run(12_000_000, at(2));
        link.is_cut = true;
        link.run(0, at(6));
        link.is_cut = false;
        link.run(0, at(60));
        assert!(link.ends[0].next_whole().is_some(), "{congestion:?}");
        assert_eq!(link.ends[1].sample().in_flight, 0, "{congestion:?}");
    }
}

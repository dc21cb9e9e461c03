//! The core and the eBPF programs side by side: the same packets in, the same verdicts, packets,
//! entries and counters out.
//!
//! Conversations of several clients are generated from a seed, with many segments that do not fit,
//! and frames are changed. `DIFFERENTIAL_SEEDS=50` uses that many seeds instead of three. Two
//! things may differ: `seen_ms` (the programs read the clock themselves), and places in the ring
//! (egress stores a reply before it knows that the kernel has to send it). Needs root; prints SKIP
//! otherwise.

mod clients;
mod frames;

use std::net::IpAddr;

use crate::common::conversation::{Conversation, settings};
use crate::common::packets::{
    ACK, Datagram, FIN, PSH, RST, SYN, Segment, fragments, query, reply, too_big,
};
use crate::common::twin::Twin;
use clients::client;
use frames::{is_plain, link};
use narrows_gateway::core::{
    Beside, Core, Counter, Counters, Flow, FlowKey, ReplyVerdict, Settings, Verdict,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Freed.
const TC_SHOT: u32 = 2;
/// The packet goes on as it is now.
const TC_UNSPEC: u32 = u32::MAX;
/// Redirected: to nowhere, or back into ingress.
const TC_REDIRECT: u32 = 7;

const STEPS: usize = 3000;

/// One seed's run.
struct Pair {
    core: Core,
    twin: Twin,
    random: Pcg32,
    clients: Vec<Client>,
    /// Second queries that were joined to the first.
    joined: u32,
    /// Queries that were acknowledged before their replies.
    acknowledged: u32,
    /// The last step, for messages.
    step: String,
}

/// A client's side of a conversation, as far as its packets depend on it.
struct Client {
    saying: Conversation,
    /// The length of the last reply.
    reply: u32,
    /// Where the programs stored something of it in the ring.
    stored: Option<u32>,
    /// The query before, as it was sent.
    before: Option<Segment>,
}

impl Pair {
    fn new(name: &str, seed: u64, settings: &Settings) -> Option<Self> {
        let twin = Twin::load(name, settings)?;
        let mut random = Pcg32::seed_from_u64(seed);
        let clients = (0..4).map(|i| client(&mut random, i)).collect();
        Some(Self {
            core: Core::new(settings.clone()),
            twin,
            random,
            clients,
            joined: 0,
            acknowledged: 0,
            step: String::new(),
        })
    }

    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(n)) >> 32) as u32
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Returns the counters, and how many queries were joined.
    fn run(mut self) -> (Counters, u32) {
        let mut before = self.twin.counts();
        for step in 0..STEPS {
            let at = self.below(self.clients.len() as u32) as usize;
            if self.chance(20) {
                self.answer(step, at);
            } else if self.chance(10) {
                self.complain(step, at);
            } else if self.chance(2) {
                self.nag(step, at);
            } else {
                self.say(step, at);
            }
            self.compare(at, &mut before);
        }
        assert_eq!(self.core.flows().count(), self.twin.flows(), "entries");
        assert_eq!(self.core.latencies().count(), self.twin.answers(), "answers");
        let at_once = self.core.settings().at_once;
        assert_eq!(self.acknowledged > 0, at_once, "acknowledged at once");
        (self.core.counters().clone(), self.joined)
    }

    /// A client sends a segment.
    fn say(&mut self, step: usize, at: usize) {
        let segment = self.segment(at);
        self.step = format!("step {step}, client {at}: {segment:?}");
        let later = self.core.counters().get(Counter::QueryLater);
        let (verdict, answer) = self.hear(&segment.packet());
        if self.core.counters().get(Counter::QueryLater) > later {
            self.go_on(at);
        }
        if matches!(verdict, Verdict::HandOff(_)) && self.chance(60) {
            self.adopt(&answer);
        }
        if verdict == Verdict::Transmit && segment.flags == SYN {
            let answer = Segment::read(&answer);
            let saying = &mut self.clients[at].saying;
            saying.cookie = answer.seq;
            saying.tsecr = answer.timestamps.map_or(0, |(tsval, _)| tsval);
        }
    }

    /// A client's next query is at the server. Its conversation continues from there.
    fn go_on(&mut self, at: usize) {
        let Client { saying, reply, before, .. } = &mut self.clients[at];
        let flow = self.core.flow(&key(saying)).expect("its entry");
        *before = Some(saying.data());
        *reply = 0;
        saying.isn = flow.query_seq.wrapping_sub(1);
        saying.cookie = flow.server_seq.wrapping_sub(1);
        saying.query = self.core.stored(&flow).expect("it was put there just now").to_vec();
    }

    /// A client asks for the same place of its reply repeatedly.
    fn nag(&mut self, step: usize, at: usize) {
        let saying = &self.clients[at].saying;
        let start = saying.ack(0, 0).ack;
        let place = self.core.flow(&key(saying)).map_or(0, |flow| flow.acked.wrapping_sub(start));
        let query = saying.data_at(0, place, &saying.query);
        for i in 0..6 {
            self.step = format!("step {step}, client {at} for {place}, time {i}");
            self.hear(&query.packet());
        }
    }

    /// A router reports that a segment for a client was too long, mostly by little, because paths
    /// are remembered.
    fn complain(&mut self, step: usize, at: usize) {
        let Client { saying, reply, .. } = &self.clients[at];
        let (from, to) = (saying.server, saying.client);
        let (start, reply) = (saying.ack(0, 0).ack, *reply);
        let acked = self.core.flow(&key(saying)).map_or(0, |flow| flow.acked);
        let seq = match self.below(8) {
            0 => self.random.next_u32(),
            1..=3 => start.wrapping_add(self.below(reply + 2)),
            _ => acked,
        };
        let length = if self.chance(30) { self.below(1500) } else { 1220 + self.below(300) };
        let payload = vec![0; length as usize];
        let segment = Segment { from, to, seq, payload, ..saying_nothing() };
        let packet = segment.packet();
        let mtu = match self.below(20) {
            0 => [0, 68, 552, 1006, 1280][self.below(5) as usize],
            1 => packet.len() as u32 + self.below(2),
            _ => (packet.len() as u32).saturating_sub(1 + self.below(12)),
        };
        let quoted = [packet.len(), 576, 48, 28, 47, 27][self.below(6) as usize];
        self.step = format!("step {step}, {mtu} bytes are too few for {seq} to client {at}");
        self.hear(&too_big(&packet, mtu, quoted));
    }

    /// A packet comes in, sometimes in a spoilt frame. Returns the core's verdict, and the
    /// resulting packet.
    fn hear(&mut self, packet: &[u8]) -> (Verdict, Vec<u8>) {
        let (mut frame, link) = self.frame(packet);
        if self.chance(15) {
            self.spoil(&mut frame);
        }
        let mut out = Vec::new();
        let now = self.twin.now();
        let ours = self.core.on_client_frame(now, &frame, |_| Beside::Server, &mut out);
        let (verdict, after) = self.twin.xdp(&frame);
        let expected = match ours {
            Verdict::Drop => (XDP_DROP, None),
            Verdict::Pass | Verdict::HandOff(_) => (XDP_PASS, Some(frame.clone())),
            Verdict::Query => (XDP_PASS, out.pop()),
            Verdict::Transmit => (XDP_TX, out.pop()),
        };
        assert_eq!(verdict, expected.0, "{ours:?}, {}, {frame:x?}", self.step);
        if let Some(expected) = expected.1 {
            assert_eq!(hex(&after), hex(&expected), "{ours:?}, {}, {frame:x?}", self.step);
        }
        let packet = after.get(link..).unwrap_or_default().to_vec();
        if ours == Verdict::Query {
            self.acknowledge(&packet);
        }
        (ours, packet)
    }

    /// A query's datagram goes on to tc ingress.
    fn acknowledge(&mut self, packet: &[u8]) {
        let frame = [&link(packet), packet].concat();
        let ours = self.core.acknowledge(packet);
        let (verdict, after) = self.twin.adopt(&frame);
        match ours {
            None => assert_eq!((verdict, after), (TC_UNSPEC, frame), "{}", self.step),
            Some(ack) => {
                self.acknowledged += 1;
                assert_eq!(verdict, TC_REDIRECT, "{}", self.step);
                assert_eq!(hex(&after[14..]), hex(&ack), "{}", self.step);
                assert_eq!((&after[..6], &after[6..12]), (&frame[6..12], &frame[..6]));
            }
        }
    }

    /// What was left to the kernel reaches it. There is no listener here to accept it.
    fn adopt(&mut self, packet: &[u8]) {
        let now = self.twin.now();
        let strange = self.core.counters().get(Counter::Strange);
        let adoption = self.core.adopt(now, packet);
        let strange = self.core.counters().get(Counter::Strange) > strange;
        let frame = [&link(packet), packet].concat();
        let (verdict, after) = self.twin.adopt(&frame);
        let expected = if strange { TC_SHOT } else { TC_UNSPEC };
        assert_eq!(verdict, expected, "{adoption:?}, {}", self.step);
        match adoption.and_then(|adoption| adoption.joined) {
            None => assert_eq!(hex(&after), hex(&frame), "{}", self.step),
            Some(joined) => {
                self.joined += 1;
                let ours = Segment::read(&joined);
                assert!(after.ends_with(&ours.payload), "{}", self.step);
                if is_plain(&frame[14..]) {
                    assert_eq!(Segment::read(&after[14..]), ours, "{}", self.step);
                }
            }
        }
    }

    /// The server sends a datagram to a client.
    fn answer(&mut self, step: usize, at: usize) {
        let most = [300, 300, 1400, 5000, 20_000][self.below(5) as usize];
        let size = 40 + self.below(most) as usize;
        let (odd, spoil) = (self.below(100), self.random.next_u32());
        let saying = &self.clients[at].saying;
        let mut message = reply(&saying.at_server(), size, odd as u8);
        match odd {
            0..=3 => message[2] |= 2,
            4..=6 => message[0] ^= 1,
            7 => message[2] &= 0x7f,
            15..=20 => {
                // As from a rate limit, a server that wants a cookie, or one that understands
                // nothing.
                message.truncate(saying.query.len() - if saying.query[13] > 0 { 13 } else { 2 });
                message[6..12].fill(0);
                match spoil % 3 {
                    0 => message[2] |= 2,
                    1 => message[3] |= 7,
                    _ => message[5] = 0,
                }
            }
            8..=9 => message.truncate(spoil as usize % message.len()),
            10..=12 => message.extend([0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            13..=14 => {
                let place = spoil as usize % message.len();
                message[place] ^= 1 << (spoil >> 28 & 7);
            }
            _ => {}
        }
        self.step = format!("step {step}, reply of {} bytes to client {at}", message.len());
        let datagram = Datagram { from: saying.server, to: saying.client, message };
        let packet = datagram.packet();
        let parts = if packet.len() > 1500 { fragments(&packet, 1500) } else { vec![packet] };
        for part in parts {
            self.answer_part(at, &part);
        }
    }

    fn answer_part(&mut self, at: usize, packet: &[u8]) {
        let link = link(packet);
        let frame = [&link, packet].concat();
        let mut out = Vec::new();
        let ours = self.core.on_reply(self.twin.now(), packet, &mut out);
        let (verdict, after, mut sent) = self.twin.egress(&frame);
        let expected = match ours {
            ReplyVerdict::Sent | ReplyVerdict::Truncated | ReplyVerdict::Pass => TC_UNSPEC,
            ReplyVerdict::Drop | ReplyVerdict::HandOff => TC_REDIRECT,
        };
        assert_eq!(verdict, expected, "{ours:?}, {}", self.step);
        let (to, from) = (&link[..6], &link[6..12]);
        match ours {
            ReplyVerdict::Sent | ReplyVerdict::Truncated => {
                sent.push(after);
                let expected: Vec<_> =
                    out.iter().map(|packet| hex(&[&link, &packet[..]].concat())).collect();
                let sent: Vec<_> = sent.iter().map(|frame| hex(frame)).collect();
                assert_eq!(sent, expected, "{}", self.step);
                if ours == ReplyVerdict::Sent {
                    let bytes = out.iter().map(|packet| Segment::read(packet).payload.len() as u32);
                    self.clients[at].reply = bytes.sum();
                }
            }
            ReplyVerdict::HandOff => {
                let expected = [from, to, &link[12..], &out[0]].concat();
                assert_eq!(hex(&after), hex(&expected), "{}", self.step);
            }
            ReplyVerdict::Pass => assert_eq!(hex(&after), hex(&frame), "{}", self.step),
            ReplyVerdict::Drop => assert!(sent.is_empty(), "{}", self.step),
        }
    }

    /// Compares the counters and the client's entry.
    fn compare(&mut self, at: usize, before: &mut Vec<u64>) {
        let mut counts = self.twin.counts();
        counts[Counter::Adopted as usize] +=
            std::mem::take(&mut counts[Counter::AdoptFailed as usize]);
        for (i, (counter, ours)) in self.core.counters().iter().enumerate() {
            let name = counter.name();
            assert_eq!(counts[i], ours, "{name} (was {}), {}", before[i], self.step);
        }
        *before = counts;
        let saying = &self.clients[at].saying;
        let key = key(saying);
        let (theirs, ours) = (self.twin.flow(&key), self.core.flow(&key));
        assert_eq!(theirs.map(timeless), ours.map(timeless), "{}", self.step);
        let client = &mut self.clients[at];
        let stored = theirs.map(|flow| flow.stored);
        if let (Some(theirs), Some(ours)) = (theirs, ours) {
            if client.stored != stored {
                let theirs = self.twin.stored(&theirs);
                assert_eq!(
                    Some(&theirs[..]),
                    self.core.stored(&ours),
                    "in the ring, {}",
                    self.step
                );
            }
        }
        client.stored = stored;
    }
}

/// The key of a client's entry.
fn key(saying: &Conversation) -> FlowKey {
    let server = u8::from(saying.server.is_ipv6());
    FlowKey { client: saying.client.ip(), port: saying.client.port(), server }
}

/// A server's segment, to be filled in.
fn saying_nothing() -> Segment {
    let saying = Conversation::new(settings());
    Segment { from: saying.server, to: saying.client, ..saying.ack(0, 0) }
}

/// An entry without what depends on the clock or on the ring's history.
fn timeless(flow: Flow) -> Flow {
    Flow { seen_ms: 0, asked_us: 0, stored: 0, ahead: 0, ..flow }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs several seeds with these settings, each in a separate thread, because each needs its own
/// network namespace. Every counter that can change here must have changed, except `never`.
fn side_by_side(name: &'static str, settings: &Settings, never: &[Counter]) {
    let (mut quiet, mut joined) = (Counter::ALL.to_vec(), 0);
    quiet.retain(|counter| !NOWHERE.contains(counter) && !never.contains(counter));
    let seeds = std::env::var("DIFFERENTIAL_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(3) {
        let settings = settings.clone();
        let run = move || Pair::new(name, seed, &settings).map(Pair::run);
        let ran = std::thread::spawn(run).join().expect("the same on both sides");
        let Some((counters, more)) = ran else { return };
        joined += more;
        quiet.retain(|&counter| counters.get(counter) == 0);
    }
    assert_eq!(quiet, [], "never happened");
    assert!(joined > 0, "nothing was joined");
}

/// What needs other surroundings: the sweeper, sockets, a kernel that refuses something, a full
/// ring. Also several queries at once, which the core does not serve.
const NOWHERE: [Counter; 11] = [
    Counter::QueryPipelined,
    Counter::SynPassed,
    Counter::SynAside,
    Counter::ToKernelDown,
    Counter::QueryNoRoom,
    Counter::Expired,
    Counter::AdoptFailed,
    Counter::AdoptLimited,
    Counter::ReplyFailed,
    Counter::ResendGone,
    Counter::XdpError,
];
/// If connections are closed with the reply.
const LATER: [Counter; 2] = [Counter::QueryLater, Counter::QueryEarlier];
const LIMITS: [Counter; 2] = [Counter::SynLimited, Counter::QueryLimited];

#[test]
fn kept_connections_are_treated_alike() {
    let never = [&LIMITS[..], &[Counter::SynCacheFull, Counter::Truncated]].concat();
    let never = [&never[..], &[Counter::ToKernelSilent]].concat();
    side_by_side("kept_connections_are_treated_alike", &base(), &never);
}

#[test]
fn closed_connections_are_treated_alike() {
    let settings =
        Settings { close_fin: true, axfr_detect: false, edns_size: 1232, patience_us: 0, ..base() };
    let closed =
        [Counter::ToKernelSecond, Counter::ToKernelTransfer, Counter::Kept, Counter::QueryWaits];
    let never =
        [&LIMITS[..], &closed, &LATER, &[Counter::SynCacheFull, Counter::Truncated]].concat();
    side_by_side("closed_connections_are_treated_alike", &settings, &never);
}

/// Both do as in the paper: they send FIN with the reply, and acknowledge the query before it.
#[test]
fn queries_are_acknowledged_at_once_alike() {
    let settings = Settings { close_fin: true, at_once: true, syncache: true, ..base() };
    let closed = [Counter::ToKernelSecond, Counter::Kept, Counter::ToKernelSilent];
    let never =
        [&LIMITS[..], &closed, &LATER, &[Counter::Truncated, Counter::SynCacheFull]].concat();
    side_by_side("queries_are_acknowledged_at_once_alike", &settings, &never);
    // Now later queries go to the kernel's TCP.
    let settings = Settings { at_once: true, later_queries: false, ..base() };
    let never = [&LIMITS[..], &LATER, &[Counter::SynCacheFull, Counter::Truncated]].concat();
    let never = [&never[..], &[Counter::ToKernelSilent]].concat();
    side_by_side("queries_are_acknowledged_at_once_alike", &settings, &never);
}

#[test]
fn the_syn_cache_is_filled_alike() {
    let settings =
        Settings { syncache: true, syncache_limit: 2, syncache_bucket_limit: 1, ..base() };
    let never = [&LIMITS[..], &[Counter::Truncated, Counter::ToKernelSilent]].concat();
    side_by_side("the_syn_cache_is_filled_alike", &settings, &never);
}

/// Rates with such long intervals that the clock's steps do not matter, and truncation of UDP
/// replies.
#[test]
fn rates_and_truncation_are_alike() {
    let settings = Settings {
        syn_interval_ns: 1_000_000_000_000_000,
        syn_burst_ns: 45_000_000_000_000_000,
        query_interval_ns: 1_000_000_000_000_000,
        query_burst_ns: 15_000_000_000_000_000,
        truncate_over: 200,
        large_ns: 0,
        // The part of the ring that a source may fill is that of the programs' ring.
        ring: crate::common::conversation::RING_SIZE as usize,
        ..base()
    };
    // First queries use up the half of the burst that later ones may use.
    let never = [Counter::SynCacheFull, Counter::ToKernelLarge, Counter::ToKernelSilent];
    let never = [&never[..], &LATER].concat();
    side_by_side("rates_and_truncation_are_alike", &settings, &never);
}

fn base() -> Settings {
    let patience_us = 1 << 30;
    Settings { ring: 1 << 22, flows: 65_536, patience_us, ..settings() }
}

/// The clients have addresses of both families, even if the fixtures change.
#[test]
fn clients_are_of_both_families() {
    let mut random = Pcg32::seed_from_u64(0);
    let families: Vec<_> = (0..8).map(|i| client(&mut random, i).saying.client.ip()).collect();
    assert!(families.iter().any(IpAddr::is_ipv4) && families.iter().any(IpAddr::is_ipv6));
}

//! The core and the eBPF programs side by side: the same packets in, the same verdicts, packets,
//! entries and counters out.
//!
//! Conversations of several clients are generated from a seed, with many segments that do not fit,
//! and frames are changed. `DIFFERENTIAL_SEEDS=50` uses that many seeds instead of three. Two
//! things may differ: `seen_ms` (the programs read the clock themselves), and places in the ring
//! (egress stores a reply before it knows that the kernel has to send it). Needs root; prints SKIP
//! otherwise.

#![cfg(feature = "ebpf")]

mod common;

use std::net::IpAddr;

use common::conversation::{Conversation, settings};
use common::packets::{
    ACK, Datagram, FIN, PSH, RST, SYN, Segment, fragments, query, reply, too_big,
};
use common::twin::Twin;
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

    /// A segment of a client, mostly one that fits.
    fn segment(&mut self, at: usize) -> Segment {
        let kind = self.below(100);
        let (part, heard) = (self.below(6), self.chance(50));
        let (odd, tsval) = (self.random.next_u32(), self.random.next_u32());
        let client = &mut self.clients[at];
        let saying = &mut client.saying;
        saying.tsval = saying.tsval.map(|before| before.wrapping_add(tsval & 3));
        let (length, end) = (saying.length(), client.reply);
        let acked = [0, end, end + 1, end / 2, end, end][part as usize];
        let mut segment = match kind {
            0..=7 => {
                // A new connection on the same port, or the same SYN again.
                if heard {
                    saying.isn = odd;
                    client.reply = 0;
                    client.before = None;
                }
                saying.syn()
            }
            8..=12 => saying.ack(0, 0),
            13..=18 if client.before.is_some() => {
                let before = client.before.clone().expect("there is one");
                let more = [&before.payload[..], &saying.query].concat();
                let payload = if odd & 3 == 0 { more } else { before.payload };
                // Mostly with the acknowledgement of the reply's end, as a client would send it.
                let ack = saying.ack(0, if odd & 12 == 0 { odd >> 8 } else { acked }).ack;
                Segment { payload, ack, ..before }
            }
            13..=35 => saying.data(),
            36..=40 => Segment { flags: ACK | PSH | FIN, ..saying.data() },
            41..=45 => saying.data_at(0, acked, &saying.query.clone()),
            46..=57 => saying.ack(length, acked),
            58..=62 => saying.ack(length + 10, acked),
            63..=67 => saying.ack(length + 1, acked),
            68..=72 => saying.fin(length, acked),
            73..=74 => saying.fin(length + 1, acked),
            75..=76 => saying.fin(0, 0),
            77..=80 if odd & 7 > 0 => saying.data_at(length, acked, &any_query(odd)),
            82..=83 => saying.data_at(length + 10, acked, b"and more"),
            77..=83 => saying.data_at(length, acked, b"\0\x20and more"),
            84 if odd & 1 == 0 => saying.data_at(0, 0, &saying.query.clone()[..7]),
            84 => {
                let more = if odd & 2 == 0 { b"\0\x20and more".to_vec() } else { any_query(odd) };
                let payload = [&saying.query[..], &more].concat();
                let fin = if odd & 4 == 0 { FIN } else { 0 };
                let segment = saying.data_at(0, if odd & 24 == 0 { 0 } else { acked }, &payload);
                Segment { flags: segment.flags | fin, ..segment }
            }
            85..=86 => {
                Segment { flags: RST | (ACK * (part as u8 & 1)), ..saying.ack(length - part, 0) }
            }
            87 => Segment { flags: odd as u8 & 31, ..saying.data() },
            88..=90 => Segment { seq: odd, ..saying.data_at(0, acked, b"data of nothing known") },
            91..=92 => saying.ack(odd & 0xff, odd >> 8 & 0xffff),
            _ => {
                // The next query is a different one.
                if saying.tsecr & 4096 == 0 {
                    saying.query = any_query(odd);
                    if saying.query[13] > 0 && tsval & 0x1f0 == 0 {
                        with_keepalive(&mut saying.query);
                    }
                }
                saying.data()
            }
        };
        if let (true, Some((_, tsecr))) = (heard && client.reply > 0, &mut segment.timestamps) {
            *tsecr |= 4096;
        }
        segment
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

    /// A frame around a client's packet, sometimes with VLAN tags, padding or a checksum left to
    /// offloads, and the length of its link header.
    fn frame(&mut self, packet: &[u8]) -> (Vec<u8>, usize) {
        let packet = &if self.chance(15) { unfinished(packet) } else { packet.to_vec() };
        let mut frame = link(packet).to_vec();
        let kind = self.below(20);
        if kind < 3 {
            let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0x20, 6, 0x81, 0, 0, 7];
            frame.splice(12..12, tags[8 - 4 * kind as usize..].to_vec());
        }
        let link = frame.len();
        if self.chance(10) {
            let more = 1 + self.below(7) as usize;
            frame.extend(with_more_headers(packet, more));
        } else {
            frame.extend(packet);
        }
        if self.chance(10) {
            let padding = self.below(40) as usize;
            frame.extend(vec![0x5a; padding]);
        }
        (frame, link)
    }

    /// Spoils a frame.
    fn spoil(&mut self, frame: &mut Vec<u8>) {
        match self.below(3) {
            0 => {
                let length = 14 + self.below(frame.len() as u32 - 14);
                frame.truncate(length as usize);
            }
            1 => {
                // Most likely in the headers.
                for _ in 0..=self.below(3) {
                    let at = 12 + self.below(60) as usize;
                    if let Some(byte) = frame.get_mut(at) {
                        *byte ^= 1 << (self.random.next_u32() & 7);
                    }
                }
            }
            _ => {
                let at = self.below(frame.len() as u32) as usize;
                frame[at] = self.random.next_u32() as u8;
            }
        }
    }
}

fn client(random: &mut Pcg32, i: u16) -> Client {
    let mut saying = Conversation::new(settings());
    if i % 2 == 1 {
        saying = saying.over_ipv6();
    }
    if i % 4 >= 2 {
        saying = saying.plain();
    }
    saying.client.set_port(40_000 + i);
    saying.isn = random.next_u32();
    saying.mss = [Some(1460), Some(1220), None, Some(8960), Some(40)][usize::from(i % 5)];
    saying.query = query(i, "www.example.com", 1, (i < 4).then_some(1232));
    Client { saying, reply: 0, stored: None, before: None }
}

/// A random query.
fn any_query(odd: u32) -> Vec<u8> {
    let names = ["www.example.com", "WWW.example.COM", "a.b.c.example.org", "."];
    let kinds = [1, 28, 16, 252];
    let edns = [None, Some(512), Some(1232), Some(65_535)];
    let pick = |shift: u32| (odd >> shift & 3) as usize;
    query(odd as u16, names[pick(16)], kinds[pick(18) & pick(20)], edns[pick(22)])
}

/// Adds the edns-tcp-keepalive option (RFC 7828) to a query's OPT record.
fn with_keepalive(query: &mut Vec<u8>) {
    let end = query.len();
    query[end - 1] = 4;
    query.extend([0, 11, 0, 0]);
    let length = (query.len() - 2) as u16;
    query[..2].copy_from_slice(&length.to_be_bytes());
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

/// The link header of a packet between two stations.
fn link(packet: &[u8]) -> [u8; 14] {
    let [high, low] = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, high, low]
}

/// The packet with only the sum of the pseudo-header as its checksum, as CHECKSUM_PARTIAL leaves
/// it.
fn unfinished(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let (addresses, tcp) = if packet[0] >> 4 == 4 { (12..20, 20) } else { (8..40, 40) };
    let words = packet[addresses].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum = words.sum::<u32>() + 6 + (packet.len() - tcp) as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[tcp + 16..tcp + 18]
        .copy_from_slice(&(((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet
}

/// The packet with `more` words of IPv4 options, or that many IPv6 extension headers of 8 or 16
/// bytes.
fn with_more_headers(packet: &[u8], more: usize) -> Vec<u8> {
    let (header, rest) = packet.split_at(if packet[0] >> 4 == 4 { 20 } else { 40 });
    let mut header = header.to_vec();
    let mut between = Vec::new();
    if header.len() == 20 {
        between.resize(4 * more, 1);
        header[0] += more as u8;
        let length = u16::from_be_bytes([header[2], header[3]]) + between.len() as u16;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[10..12].fill(0);
        let all = [&header[..], &between].concat();
        let sum: u32 = all.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    } else {
        let kinds = [0, 60, 43, 60, 60, 43, 60];
        for (i, words) in (0..more).map(|i| (i, i & 1)) {
            let next = if i + 1 < more { kinds[i + 1] } else { header[6] };
            between.extend([next, words as u8]);
            between.extend(vec![0; 6 + 8 * words]);
        }
        header[6] = kinds[0];
        let length = (between.len() + rest.len()) as u16;
        header[4..6].copy_from_slice(&length.to_be_bytes());
    }
    [&header, &between, rest].concat()
}

/// Whether the packet has a valid IP header directly before the TCP header.
fn is_plain(packet: &[u8]) -> bool {
    let sum: u32 = packet[..20].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    match packet[0] {
        0x45 => (sum & 0xffff) + (sum >> 16) == 0xffff,
        _ => packet[0] >> 4 == 6 && packet[6] == 6,
    }
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

/// As in the paper: FIN with the reply, and the query acknowledged before it.
#[test]
fn queries_are_acknowledged_at_once_alike() {
    let settings = Settings { close_fin: true, at_once: true, syncache: true, ..base() };
    let closed = [Counter::ToKernelSecond, Counter::Kept, Counter::ToKernelSilent];
    let never =
        [&LIMITS[..], &closed, &LATER, &[Counter::Truncated, Counter::SynCacheFull]].concat();
    side_by_side("queries_are_acknowledged_at_once_alike", &settings, &never);
    // And later queries go to the kernel's TCP.
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
        ..base()
    };
    // First queries use up the half of the burst that later ones may use.
    let never = [Counter::SynCacheFull, Counter::ToKernelLarge, Counter::ToKernelSilent];
    let never = [&never[..], &LATER].concat();
    side_by_side("rates_and_truncation_are_alike", &settings, &never);
}

fn base() -> Settings {
    let (mss4, mss6, patience_us) = (1460, 1440, 1 << 30);
    Settings { hashsize: 4, ring: 1 << 22, flows: 65_536, mss4, mss6, patience_us, ..settings() }
}

/// The clients have addresses of both families, even if the fixtures change.
#[test]
fn clients_are_of_both_families() {
    let mut random = Pcg32::seed_from_u64(0);
    let families: Vec<_> = (0..8).map(|i| client(&mut random, i).saying.client.ip()).collect();
    assert!(families.iter().any(IpAddr::is_ipv4) && families.iter().any(IpAddr::is_ipv6));
}

//! Several open queries of a connection against a model: PROTOCOL.md, "Several queries at once".
//!
//! The core in `src/core/` serves one query at a time, so `differential/` cannot compare it with
//! the programs here. Instead, this generates a client, a server and a network from a seed. The
//! client sends queries, alone or several in a segment, before it has the replies to others. The
//! server answers them in any order, sometimes twice. The network loses, repeats and delays
//! segments in both directions. At the end, nothing is lost any more, and the client sends again
//! what is not acknowledged, as TCP does. It must then have each reply once:
//!
//! - a byte of our stream never changes;
//! - only whole queries that the server has answered are acknowledged;
//! - the stream consists of the server's first replies, in the order in which they left;
//! - the server gets each query of an open connection once, unless the client lacks its only reply;
//! - everything is served here: no segment goes to the kernel's TCP.
//!
//! The client of a second test also sends what is not served: more than 1024 bytes in a segment, or
//! a query in two segments. Then either the client gets all replies here, or the kernel's TCP gets
//! the connection. In that case the kernel gets exactly those bytes of the client that have no
//! reply, and the client has everything that was given out.
//!
//! `SEVERAL_SEEDS=500` uses that many seeds instead of 25. Needs root; prints SKIP otherwise.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::frames::*;
use crate::common::packets::{Datagram, RST, SYN, Segment, prefixed, query, reply};
use crate::common::programs::{Programs, XDP_DROP, XDP_PASS, XDP_TX};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::settings;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// `SPLIT_MARK` of `bpf/payload.h`, and the length of the structure that begins with it.
const SPLIT_MARK: u32 = 0x6e61_7370;
const SPLIT_BYTES: usize = 20;
/// TCX_NEXT: the packet goes on to the next program, as if this one did not exist.
const NEXT: i32 = -1;
/// The datagram was swallowed.
const REDIRECT: i32 = 7;
/// The packet was dropped.
const DROP: i32 = 2;
/// The most queries open at once: fewer than the programs serve, so that the kernel gets none.
const OPEN_AT_ONCE: usize = 12;
const STEPS: usize = 400;

/// A query as the client sent it.
struct Asked {
    /// The position behind it in the client's stream.
    end: u32,
    /// With its two bytes of length.
    bytes: Vec<u8>,
    /// How often the server was asked.
    times: u32,
    /// The server's first answer, which has a place in the gateway's stream.
    reply: Option<Vec<u8>>,
}

struct Model<'a> {
    client: Client<'a>,
    random: Pcg32,
    asked: Vec<Asked>,
    /// Segments of the client: their positions and their bytes.
    sent: Vec<(u32, Vec<u8>)>,
    /// The next byte of the client's stream.
    next: u32,
    /// How far the gateway acknowledged it, as far as the client knows.
    acked: u32,
    /// Queries that are with the server.
    waiting: Vec<usize>,
    /// In the order in which their replies left.
    answered: Vec<usize>,
    /// The gateway's stream as the client received it, with holes.
    stream: BTreeMap<u32, u8>,
    /// How far it is complete.
    have: u32,
    /// Segments of the gateway that are still in flight.
    late: Vec<Segment>,
    /// The client sends whole segments again, even if their first bytes are acknowledged.
    whole: bool,
    /// The client also sends what is not served here.
    odd: bool,
    /// The client has received data and owes an acknowledgement.
    due: bool,
    /// The kernel's TCP has the connection.
    adopted: bool,
    what: String,
}

impl<'a> Model<'a> {
    fn new(client: Client<'a>, seed: u64, whole: bool, odd: bool, what: String) -> Self {
        Self {
            client: client.open(),
            random: Pcg32::seed_from_u64(seed),
            asked: Vec::new(),
            sent: Vec::new(),
            next: 0,
            acked: 0,
            waiting: Vec::new(),
            answered: Vec::new(),
            stream: BTreeMap::new(),
            have: 0,
            late: Vec::new(),
            whole,
            odd,
            due: false,
            adopted: false,
            what,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.random.next_u32()) * n as u64) >> 32) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            if self.adopted {
                return;
            }
            match self.below(10) {
                0..=2 => self.ask(),
                3..=5 => self.answer(25),
                6 => self.send_again(25),
                7 => self.acknowledge(),
                8 => self.deliver_late(),
                _ => self.repeat(),
            }
        }
        if self.odd { self.leave() } else { self.finish() }
    }

    /// New queries in one segment, which may be lost.
    fn ask(&mut self) {
        let (long, cut) =
            if self.odd { (self.chance(10), self.chance(10)) } else { (false, false) };
        // Six long queries have more than 1024 bytes.
        let count = if long { 6 } else { 1 + self.below(3) };
        let lacking = self.asked.iter().filter(|one| one.reply.is_none()).count();
        let unacked = self.sent.iter().filter(|(at, bytes)| at + bytes.len() as u32 > self.acked);
        if lacking + count > OPEN_AT_ONCE || unacked.count() >= OPEN_AT_ONCE {
            return;
        }
        let (at, mut bytes) = (self.next, Vec::new());
        for _ in 0..count {
            let number = self.asked.len() as u16;
            let label = "x".repeat(60);
            let tail = if long { [&label[..]; 3].join(".") } else { String::from("example.com") };
            let name = format!("n{number}.{tail}");
            let query = query(number, &name, 1, Some(1232));
            bytes.extend(&query);
            self.next += query.len() as u32;
            self.asked.push(Asked { end: self.next, bytes: query, times: 0, reply: None });
        }
        let first = self.sent.len();
        if cut {
            let rest = bytes.split_off(bytes.len() - 20);
            self.sent.push((at, bytes));
            self.sent.push((self.next - 20, rest));
        } else {
            self.sent.push((at, bytes));
        }
        for which in first..self.sent.len() {
            if !self.chance(20) && !self.adopted {
                self.say(which, self.have);
            }
        }
    }

    /// The client sends its first unacknowledged segment again: as it was, or from the first
    /// unacknowledged byte.
    fn send_again(&mut self, lost: usize) {
        let end = |(at, bytes): &(u32, Vec<u8>)| at + bytes.len() as u32;
        if let Some((at, bytes)) = self.sent.iter().find(|one| end(one) > self.acked) {
            let from = if self.whole { *at } else { self.acked.max(*at) };
            let rest = &bytes[(from - at) as usize..];
            let segment = self.client.saying.data_at(from, self.have, rest);
            self.hear(&segment, lost);
        }
    }

    /// The network repeats any segment, with an acknowledgement that it may have had.
    fn repeat(&mut self) {
        if !self.sent.is_empty() {
            let which = self.below(self.sent.len());
            let ends = self.ends();
            let ack = ends[self.below(ends.len())];
            let ack = if self.chance(50) { self.have } else { ack.min(self.have) };
            self.say(which, ack);
        }
    }

    /// The ends of replies in our stream, from its start.
    fn ends(&self) -> Vec<u32> {
        let mut ends = vec![0];
        for &which in &self.answered {
            let reply = self.asked[which].reply.as_ref().unwrap();
            ends.push(ends.last().unwrap() + reply.len() as u32);
        }
        ends
    }

    fn acknowledge(&mut self) {
        self.due = false;
        if self.odd && self.chance(30) {
            return; // it is lost
        }
        let segment = self.client.saying.ack(self.next, self.have);
        self.hear(&segment, 25);
    }

    fn deliver_late(&mut self) {
        if !self.late.is_empty() {
            let which = self.below(self.late.len());
            let segment = self.late.swap_remove(which);
            self.receive(&segment);
        }
    }

    /// Sends a segment of the client in its original form.
    fn say(&mut self, which: usize, ack: u32) {
        let (at, bytes) = &self.sent[which];
        let segment = self.client.saying.data_at(*at, ack, bytes);
        self.hear(&segment, 25);
    }

    /// What XDP does with a segment. This percentage of its answers is lost or late.
    fn hear(&mut self, segment: &Segment, lost: usize) {
        let frame = self.client.frame(&segment.packet());
        let tsval = &mut self.client.saying.tsval;
        *tsval = tsval.map(|tsval| tsval.wrapping_add(1));
        let (verdict, after) = self.client.programs.xdp(&frame);
        match verdict {
            XDP_PASS if self.odd && after == frame => self.ingress(&frame),
            XDP_DROP => {}
            XDP_TX => self.on_the_way(Segment::read(&after[14..]), lost),
            XDP_PASS => {
                assert_ne!(after, frame, "left to the kernel: {segment:?}, {}", self.what);
                let split = after[..4] == SPLIT_MARK.to_ne_bytes();
                let link = if split { SPLIT_BYTES } else { 0 };
                let word = |at: usize| u32::from_ne_bytes(after[at..at + 4].try_into().unwrap());
                let first = Datagram::read(&after[link + 14..]).message;
                let first = usize::from(u16::from_be_bytes([first[0], first[1]]));
                // tc ingress makes the datagrams of the further queries (tc_verdicts).
                let count = if split { word(16) as usize } else { 1 };
                for which in first..first + count {
                    self.asked[which].times += 1;
                    self.waiting.push(which);
                }
            }
            other => panic!("verdict {other}, {}", self.what),
        }
    }

    /// What tc ingress does with a segment that XDP let pass.
    fn ingress(&mut self, frame: &[u8]) {
        let before = self.client.programs.count(Counter::AdoptFailed);
        let (verdict, after) = self.client.programs.adopt(frame);
        let what = &self.what;
        if verdict == DROP {
            return;
        }
        // Under bpf_prog_run the kernel takes no connection, which is counted.
        let given = self.client.programs.count(Counter::AdoptFailed) - before;
        let segment = Segment::read(&after[14..]);
        assert_eq!((verdict, given), (NEXT, 1), "the kernel would send a RST: {segment:?}, {what}");
        let (client, ours) = self.client.starts();
        assert_eq!(segment.ack.wrapping_sub(ours), self.have, "{segment:?}, {what}");
        assert_eq!(*self.ends().last().unwrap(), self.have, "the client lacks a reply, {what}");
        let end = segment.next().wrapping_sub(client);
        let bytes = self.asked.iter().flat_map(|one| {
            let start = one.end - one.bytes.len() as u32;
            let taken = end.saturating_sub(start).min(one.bytes.len() as u32) as usize;
            assert!(one.reply.is_none() || taken == one.bytes.len(), "{segment:?}, {what}");
            let waits = one.reply.is_none();
            one.bytes[..if waits { taken } else { 0 }].iter().copied()
        });
        assert!(bytes.eq(segment.payload.iter().copied()), "{segment:?}, {what}");
        self.adopted = true;
    }

    /// The server answers any of the queries that it has.
    fn answer(&mut self, lost: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.below(self.waiting.len());
        let which = self.waiting.swap_remove(at);
        // A segment above 1024 bytes that is sent again and again counts as too long for the path.
        let most = if self.chance(50) { 100 } else { 900 };
        let size = 60 + self.below(most);
        let message = reply(&self.asked[which].bytes[2..], size, which as u8);
        self.reply(which, &message, lost);
        if self.chance(10) {
            self.reply(which, &message, lost);
        }
    }

    /// What egress does with the server's datagram.
    fn reply(&mut self, which: usize, message: &[u8], lost: usize) {
        let (from, to) = (self.client.saying.server, self.client.saying.client);
        let packet = Datagram { from, to, message: message.to_vec() }.packet();
        let frame = self.client.frame(&packet);
        let (verdict, after) = self.client.programs.egress(&frame);
        match verdict {
            // A second reply belongs to no query; to a query before the open ones, it is a datagram
            // as to any UDP client.
            REDIRECT => assert!(self.asked[which].reply.is_some(), "{which}, {}", self.what),
            NEXT if after == frame => {
                assert!(self.asked[which].reply.is_some(), "{which}, {}", self.what);
            }
            NEXT => {
                if self.asked[which].reply.is_none() {
                    self.asked[which].reply = Some(prefixed(message));
                    self.answered.push(which);
                }
                self.on_the_way(Segment::read(&after[14..]), lost);
            }
            other => panic!("verdict {other}, {}", self.what),
        }
    }

    fn on_the_way(&mut self, segment: Segment, lost: usize) {
        if self.chance(lost) {
            // Some are only late.
            if self.chance(50) {
                self.late.push(segment);
            }
        } else {
            self.receive(&segment);
        }
    }

    /// The client receives a segment, whose contents must be true.
    fn receive(&mut self, segment: &Segment) {
        let what = &self.what;
        assert_eq!(segment.flags & (RST | SYN), 0, "{segment:?}, {what}");
        let (client, ours) = self.client.starts();
        let (seq, ack) = (segment.seq.wrapping_sub(ours), segment.ack.wrapping_sub(client));
        assert!(
            ack <= self.next,
            "the gateway acknowledges data that was never sent: {segment:?}, {what}"
        );
        for (which, one) in self.asked.iter().enumerate().filter(|(_, one)| one.end <= ack) {
            assert!(
                one.reply.is_some(),
                "the gateway acknowledges query {which}, which has no reply: {segment:?}, {what}"
            );
        }
        assert!(
            ack == 0 || self.asked.iter().any(|one| one.end == ack),
            "the gateway acknowledges part of a query: {segment:?}, {what}"
        );
        self.acked = self.acked.max(ack);
        self.due |= !segment.payload.is_empty();
        for (at, &byte) in (seq..).zip(&segment.payload) {
            let before = self.stream.insert(at, byte);
            assert!(before.is_none_or(|before| before == byte), "byte {at} changed, {what}");
        }
        while self.stream.contains_key(&self.have) {
            self.have += 1;
        }
    }

    /// Nothing is lost any more. The client acknowledges data once, and sends again what is not
    /// acknowledged, as TCP does.
    fn leave(mut self) {
        for _ in 0..10 * STEPS {
            while !self.waiting.is_empty() && !self.adopted {
                self.answer(0);
            }
            if self.adopted {
                return;
            }
            if self.acked == self.next && self.asked.iter().all(|one| one.reply.is_some()) {
                return;
            }
            if self.due {
                self.due = false;
                let ack = self.client.saying.ack(self.next, self.have);
                self.hear(&ack, 0);
            }
            if !self.adopted {
                self.send_again(0);
            }
        }
        let lacking = self.asked.iter().filter(|one| one.reply.is_none()).count();
        let (acked, next, what) = (self.acked, self.next, &self.what);
        panic!(
            "no progress: {acked} of {next} bytes acknowledged, {lacking} queries without a reply, {what}"
        );
    }

    /// Nothing is lost any more, and the client asks for what it lacks, as TCP does.
    fn finish(mut self) {
        for _ in 0..10 * STEPS {
            while !self.waiting.is_empty() {
                self.answer(0);
            }
            if self.acked == self.next && self.asked.iter().all(|one| one.reply.is_some()) {
                break;
            }
            let ack = self.client.saying.ack(self.next, self.have);
            self.hear(&ack, 0);
            self.send_again(0);
        }
        let ack = self.client.saying.ack(self.next, self.have);
        self.hear(&ack, 0);
        let what = &self.what;
        assert_eq!(self.acked, self.next, "some of the client's data is not acknowledged, {what}");
        let which: BTreeSet<_> = self.answered.iter().collect();
        assert_eq!(which.len(), self.asked.len(), "each query must have one reply, {what}");
        let expected: Vec<u8> =
            self.answered.iter().flat_map(|&at| self.asked[at].reply.clone().unwrap()).collect();
        let stream: Vec<u8> = self.stream.values().copied().collect();
        assert_eq!(self.have as usize, stream.len(), "a hole, {what}");
        assert!(
            stream == expected,
            "the replies must arrive in the order in which they left, {what}"
        );
        // A single query may come again for the missing part of its reply, but not while others are
        // open.
        let again = self.asked.iter().filter(|one| one.times > 1).count();
        assert!(again * 4 <= self.asked.len(), "{again} of {}, {what}", self.asked.len());
        let entry = self.client.flow().expect("the connection stays");
        assert!([REPLIED, IDLE].contains(&entry.state), "state {}, {what}", entry.state);
        assert!(self.client.programs.opens(&self.client.key()).is_none(), "{what}");
    }
}

#[test]
fn the_client_gets_each_reply_once_whatever_the_network_does() {
    run_models("the_client_gets_each_reply_once_whatever_the_network_does", false);
}

#[test]
fn a_connection_leaves_with_all_that_has_no_reply() {
    run_models("a_connection_leaves_with_all_that_has_no_reply", true);
}

fn run_models(name: &str, odd: bool) {
    let Some(programs) = Programs::load_all(name) else { return };
    programs.set(settings {
        // The server always answers, so the kernel never gets a query because the server is slow.
        patience_us: u32::MAX,
        // All models ask from one address, faster than a limit would allow on a slow machine.
        query_interval_ns: 0,
        ..Programs::settings()
    });
    let seeds = std::env::var("SEVERAL_SEEDS").map_or(25, |text| text.parse().unwrap());
    for seed in 0..seeds {
        for (kind, client) in Client::kinds(&programs).enumerate() {
            for (port, whole) in [(50_000, false), (51_000, true)] {
                let mut client = client.clone();
                client.saying.client.set_port(port + kind as u16);
                client.saying.isn = (seed as u32).wrapping_mul(0x9e37_79b9);
                let what = format!("seed {seed}, kind {kind}, whole segments: {whole}");
                Model::new(client, seed * 4 + kind as u64, whole, odd, what).run();
            }
        }
    }
}

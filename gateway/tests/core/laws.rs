//! Laws that hold for every conversation, whatever the network does to it, and for every packet,
//! whoever sends it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::client::{Client, Closing, Setup};
use crate::common::conversation::{Conversation, settings};
use crate::common::packets::{Datagram, Segment, prefixed, query, reply};
use narrows_gateway::core::{Core, Counter, Now, ReplyVerdict, Settings, Verdict};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// A number below `n`.
fn below(random: &mut Pcg32, n: u32) -> u32 {
    ((u64::from(random.next_u32()) * u64::from(n)) >> 32) as u32
}

fn chance(random: &mut Pcg32, percent: u32) -> bool {
    below(random, 100) < percent
}

/// What a network does in each direction, in percent of the packets.
#[derive(Clone, Copy, Debug)]
struct Network {
    loss: u32,
    reordering: u32,
    duplication: u32,
}

#[derive(Debug)]
enum Event {
    ToClient(Segment),
    ToGateway(Vec<u8>),
    ToServer(Vec<u8>),
    FromServer(Vec<u8>),
    Timer,
    Poll,
}

/// A client, a network, the gateway, and a server that never gives the same reply twice.
struct World {
    core: Core,
    client: Client,
    setup: Setup,
    random: Pcg32,
    network: Network,
    now: u64,
    agenda: BTreeMap<(u64, u64), Event>,
    events: u64,
    /// The timer that is on the agenda.
    planned: Option<u64>,
    reply_bytes: usize,
    replies: u8,
    /// The ID of the first query; the following queries have the next IDs.
    first_id: u16,
    /// What was sent first, by ID.
    expected: BTreeMap<u16, Vec<u8>>,
    finished_at: Option<u64>,
}

impl World {
    /// A client that asks this many `queries` in turn.
    fn new(seed: u64, network: Network, queries: u16) -> Self {
        let mut random = Pcg32::seed_from_u64(seed);
        let v6 = chance(&mut random, 50);
        let mss = [536, 1220, 1380, 1440, 1460, 8960][below(&mut random, 6) as usize];
        let timestamps = chance(&mut random, 50);
        let closing =
            [Closing::AfterReply, Closing::WithQuery, Closing::BehindQuery, Closing::Never]
                [below(&mut random, 4) as usize];
        // Nothing follows a FIN.
        let closing =
            if queries == 1 || closing == Closing::Never { closing } else { Closing::AfterReply };
        let setup = Setup {
            client: if v6 { "[2001:db8:7::7]:40000" } else { "198.51.100.7:40000" }
                .parse()
                .expect("an address"),
            server: if v6 { "[2001:db8::53]:53" } else { "192.0.2.53:53" }
                .parse()
                .expect("an address"),
            isn: random.next_u32(),
            mss,
            timestamps,
            wscale: (timestamps && chance(&mut random, 50)).then_some(7),
            closing,
        };
        let settings = Settings {
            close_fin: chance(&mut random, 50) && queries == 1,
            syncache: chance(&mut random, 25),
            mss4: 8960,
            mss6: 8940,
            ..settings()
        };
        // The gateway itself sends at most this much: ten segments within a window of 65535.
        // Without timestamps 1380 becomes its class, 1360.
        let step = u32::from(if mss == 1380 { 1360 } else { mss.min(8940) }) - 12;
        let most = (10 * step - 2).min(65_400);
        // Losses may make later segments as short as every path must allow.
        let most = if queries == 1 { most } else { most.min(10 * (1024 - 12) - 2) };
        let reply_bytes = 60 + below(&mut random, most - 60 + 1) as usize;
        let edns = chance(&mut random, 50).then_some(1232);
        let first_id = random.next_u32() as u16;
        let asked = (0..queries)
            .map(|n| query(first_id.wrapping_add(n), NAMES[usize::from(n % 3)], 16, edns));
        Self {
            core: Core::new(settings),
            client: Client::new(setup, asked.collect()),
            setup,
            random,
            network,
            now: 1_000_000,
            agenda: BTreeMap::new(),
            events: 0,
            planned: None,
            reply_bytes,
            replies: 0,
            first_id,
            expected: BTreeMap::new(),
            finished_at: None,
        }
    }

    /// Runs until everything is done and no event is left. Returns how many milliseconds the client
    /// needed.
    fn run(mut self) -> Outcome {
        let start = self.now;
        self.client.timer = Some(start);
        self.plan(0, Event::Timer);
        self.plan(1000, Event::Poll);
        while let Some(((at, _), event)) = self.agenda.pop_first() {
            self.now = at;
            assert!(at < start + 1_800_000, "stuck: {:?}, {}", self.setup, self.client.state());
            self.on(event);
            if self.client.has_reply() {
                let expected: Vec<_> = self.expected.values().flatten().copied().collect();
                assert!(
                    self.client.received == expected,
                    "the client received replies that the server did not send"
                );
            }
            // No user waits longer.
            if at >= start + PATIENCE {
                self.client.give_up();
            }
            if self.client.is_done() && self.finished_at.is_none() {
                self.finished_at = Some(at);
            }
        }
        Outcome {
            milliseconds: self.finished_at.map(|at| at - start),
            whole: self.client.has_reply(),
            reset: self.client.reset,
            core: self.core,
        }
    }

    fn on(&mut self, event: Event) {
        let mut out = Vec::new();
        let mut segments = Vec::new();
        match event {
            Event::Timer => {
                // Timers that were set earlier no longer count.
                if self.client.timer == Some(self.now) {
                    self.client.on_timer(self.now, &mut segments);
                }
            }
            Event::ToClient(segment) => {
                self.client.on_segment(self.now, &segment, &mut segments);
            }
            Event::ToGateway(packet) => match self.core.on_client(self.time(), &packet, &mut out) {
                Verdict::Transmit => out.iter().for_each(|packet| self.send_to_client(packet)),
                Verdict::Query => {
                    let server_takes = 1 + u64::from(below(&mut self.random, 400));
                    let message = Datagram::read(&out[0]).message;
                    self.plan(server_takes, Event::ToServer(message));
                }
                Verdict::Drop => {}
                verdict => panic!("{verdict:?} for {:?}", Segment::read(&packet)),
            },
            Event::ToServer(message) => {
                self.replies += 1;
                let fill = self.replies.wrapping_mul(37);
                let size =
                    if self.number(&message).is_multiple_of(2) { self.reply_bytes } else { 90 };
                self.on(Event::FromServer(reply(&message, size, fill)));
            }
            Event::FromServer(message) => {
                let number = self.number(&message);
                let datagram = Datagram { from: self.setup.server, to: self.setup.client, message };
                let time = self.time();
                match self.core.on_reply(time, &datagram.packet(), &mut out) {
                    ReplyVerdict::Sent => {
                        let sent: Vec<u8> =
                            out.iter().flat_map(|packet| Segment::read(packet).payload).collect();
                        self.expected.entry(number).or_insert(sent);
                        out.iter().for_each(|packet| self.send_to_client(packet));
                    }
                    // The entry is gone, or has its reply.
                    ReplyVerdict::Drop | ReplyVerdict::Pass => {}
                    verdict => panic!("{verdict:?}"),
                }
            }
            Event::Poll => {
                let time = self.time();
                self.core.poll(time, &mut out);
                out.iter().for_each(|packet| self.send_to_client(packet));
                // If this is the only event, nothing else will happen.
                if !self.agenda.is_empty() || self.core.flows().count() > 0 {
                    self.plan(1000, Event::Poll);
                }
            }
        }
        for segment in segments {
            for delay in self.fate() {
                self.plan(delay, Event::ToGateway(segment.packet()));
            }
        }
        if self.client.is_done() {
            self.client.timer = None;
        }
        if self.client.timer != self.planned {
            self.planned = self.client.timer;
            if let Some(at) = self.planned {
                self.plan(at - self.now, Event::Timer);
            }
        }
    }

    /// Which query has a message's ID.
    fn number(&self, message: &[u8]) -> u16 {
        u16::from_be_bytes([message[0], message[1]]).wrapping_sub(self.first_id)
    }

    fn send_to_client(&mut self, packet: &[u8]) {
        let segment = Segment::read(packet);
        let room = usize::from(self.setup.mss) - if self.setup.timestamps { 12 } else { 0 };
        assert!(segment.payload.len() <= room, "a segment is longer than the client's MSS");
        for delay in self.fate() {
            self.plan(delay, Event::ToClient(segment.clone()));
        }
    }

    /// When a packet arrives: never, once, or twice.
    fn fate(&mut self) -> Vec<u64> {
        let Network { loss, reordering, duplication } = self.network;
        let random = &mut self.random;
        let copies = 1 + usize::from(chance(random, duplication));
        (0..copies)
            .filter_map(|_| {
                let late = if chance(random, reordering) { below(random, 40) } else { 0 };
                (!chance(random, loss)).then_some(u64::from(10 + late))
            })
            .collect()
    }

    fn plan(&mut self, delay: u64, event: Event) {
        self.events += 1;
        self.agenda.insert((self.now + delay, self.events), event);
    }

    fn time(&self) -> Now {
        let boot = Duration::from_millis(self.now);
        Now { boot, wall: boot + Duration::from_secs(1_700_000_000) }
    }
}

/// When a user gives up, in milliseconds.
const PATIENCE: u64 = 120_000;
/// What is asked.
const NAMES: [&str; 3] = ["www.example.com", "a.example.net", "a.somewhat.longer.example.org"];

struct Outcome {
    milliseconds: Option<u64>,
    whole: bool,
    reset: bool,
    core: Core,
}

/// Runs conversations over this network; returns how many ended with a RST before the reply was
/// whole.
fn conversations(seeds: std::ops::Range<u64>, network: Network) -> u64 {
    in_turn(1, seeds, network).0
}

/// Runs conversations with this many queries on each connection. Returns how many ended with a RST
/// before the reply was whole, and how many queries were later ones.
fn in_turn(queries: u16, seeds: std::ops::Range<u64>, network: Network) -> (u64, u64) {
    let (mut cut, mut later) = (0, 0);
    for seed in seeds {
        let outcome = World::new(seed, network, queries).run();
        assert!(outcome.milliseconds.is_some(), "seed {seed} never ended");
        assert!(
            outcome.whole || outcome.reset || outcome.milliseconds >= Some(PATIENCE),
            "seed {seed}: neither replies nor a RST"
        );
        assert_eq!(outcome.core.flows().count(), 0, "seed {seed}: entries are left");
        cut += u64::from(!outcome.whole);
        later += outcome.core.counters().get(Counter::QueryLater);
    }
    (cut, later)
}

#[test]
fn on_a_good_network_every_reply_comes_as_it_was_sent() {
    let network = Network { loss: 0, reordering: 0, duplication: 0 };
    assert_eq!(conversations(0..300, network), 0);
}

#[test]
fn on_a_network_that_reorders_and_duplicates_too() {
    let network = Network { loss: 0, reordering: 25, duplication: 25 };
    assert_eq!(conversations(1000..1400, network), 0);
}

#[test]
fn on_a_network_that_loses_some_packets_too() {
    for loss in [1, 5, 10] {
        let network = Network { loss, reordering: 5, duplication: 5 };
        assert_eq!(conversations(2000..2200, network), 0, "{loss} %");
    }
}

/// Everything that holds for one query also holds for each of several on a connection, and no reply
/// gets into another one.
#[test]
fn kept_connections_lose_and_mix_nothing_either() {
    let network = Network { loss: 0, reordering: 0, duplication: 0 };
    assert_eq!(in_turn(5, 0..50, network), (0, 200));
    let network = Network { loss: 0, reordering: 25, duplication: 25 };
    assert_eq!(in_turn(5, 1000..1100, network), (0, 400));
    for loss in [1, 5, 10] {
        let network = Network { loss, reordering: 5, duplication: 5 };
        assert_eq!(in_turn(5, 2000..2050, network), (0, 200), "{loss} %");
    }
}

/// A quarter of the packets is lost. So clients back off for longer than a connection may be idle,
/// and a RST then tells them that it is gone.
#[test]
fn kept_connections_on_a_bad_network_get_their_replies_or_a_rst() {
    let network = Network { loss: 25, reordering: 25, duplication: 25 };
    let (cut, later) = in_turn(5, 3000..3100, network);
    assert!(cut <= 20 && later >= 300, "{cut} of 100, {later} queries");
}

/// A client may back off for longer than its cookie is valid. Then a RST tells it, if it has
/// timestamps.
#[test]
fn on_a_network_that_loses_a_quarter_each_way_replies_come_or_a_rst_does() {
    let network = Network { loss: 25, reordering: 25, duplication: 25 };
    // The second range once had conversations that got stuck: FINs were acknowledged before the
    // reply was whole.
    let cut = conversations(3000..3600, network) + conversations(41_900..42_100, network);
    assert!(cut <= 4, "{cut} of 800; of 10,000 it was 15");
}

/// Apart from the SYN/ACK, sources whose address is not verified get no more bytes than they sent.
#[test]
fn nothing_is_amplified() {
    let mut random = Pcg32::seed_from_u64(5);
    let mut core = Core::new(settings());
    let mut answered = 0;
    for _ in 0..20_000 {
        let segment = stray(&mut random);
        let packet = segment.packet();
        let mut out = Vec::new();
        let verdict = core.on_client(Now::default(), &packet, &mut out);
        if segment.flags & crate::common::packets::SYN == 0 {
            let bytes: usize = out.iter().map(Vec::len).sum();
            assert!(bytes <= packet.len(), "{verdict:?} {bytes} for {}: {segment:?}", packet.len());
            answered += usize::from(verdict == Verdict::Transmit);
        }
    }
    assert!(answered > 500, "FINs and data are answered: {answered}");
    assert_eq!(core.flows().count(), 0, "no forged packet makes an entry");
    assert_eq!(core.counters().get(Counter::Query), 0);
}

/// A segment of any kind from an unknown client.
fn stray(random: &mut Pcg32) -> Segment {
    let v6 = chance(random, 50);
    let port = 1024 + below(random, 60_000) as u16;
    let from: std::net::IpAddr = if v6 {
        std::net::Ipv6Addr::from(u128::from(random.next_u64()) << 64 | 1).into()
    } else {
        std::net::Ipv4Addr::from(random.next_u32() | 1 << 24).into()
    };
    let to = if v6 { "[2001:db8::53]:53" } else { "192.0.2.53:53" };
    let payload = match below(random, 3) {
        0 => Vec::new(),
        1 => query(random.next_u32() as u16, "www.example.com", 1, None),
        _ => (0..below(random, 1460)).map(|_| random.next_u32() as u8).collect(),
    };
    Segment {
        from: (from, port).into(),
        to: to.parse().expect("an address"),
        seq: random.next_u32(),
        ack: random.next_u32(),
        flags: below(random, 32) as u8,
        window: random.next_u32() as u16,
        mss: chance(random, 30).then(|| random.next_u32() as u16),
        wscale: chance(random, 30).then(|| below(random, 16) as u8),
        sack: chance(random, 30),
        timestamps: chance(random, 50).then(|| (random.next_u32(), random.next_u32())),
        payload,
    }
}

/// Bytes that are no packets, and packets with some bytes changed: nothing panics, and malformed
/// packets or wrong checksums change nothing.
#[test]
fn broken_packets_change_nothing() {
    let mut random = Pcg32::seed_from_u64(6);
    let (mut client, _) = Conversation::replied(settings(), 3000);
    let whole = [
        client.syn().packet(),
        client.data().packet(),
        client.ack(client.length(), 1448).packet(),
        client.fin(client.length(), 3002).packet(),
        client.data_at(client.length(), 3002, b"more").packet(),
        Conversation::new(settings()).over_ipv6().syn().packet(),
    ];
    let (mut malformed, mut wrong) = (0, 0);
    for _ in 0..60_000 {
        let mut packet = if chance(&mut random, 20) {
            (0..below(&mut random, 120)).map(|_| random.next_u32() as u8).collect()
        } else {
            whole[below(&mut random, whole.len() as u32) as usize].clone()
        };
        for _ in 0..below(&mut random, 4) {
            if let Some(byte) = pick(&mut random, &mut packet) {
                *byte = random.next_u32() as u8;
            }
        }
        if chance(&mut random, 20) {
            packet.truncate(below(&mut random, 1 + packet.len() as u32) as usize);
        }
        let before: Vec<_> = client.core.flows().collect();
        let counters = client.core.counters().clone();
        let mut out = Vec::new();
        let verdict = client.core.on_client(client.now, &packet, &mut out);
        let counted = |counter| client.count(counter) - counters.get(counter);
        if counted(Counter::Malformed) + counted(Counter::BadChecksum) > 0 {
            malformed += counted(Counter::Malformed);
            wrong += counted(Counter::BadChecksum);
            assert_eq!(client.core.flows().collect::<Vec<_>>(), before, "{packet:x?}");
            assert!(out.is_empty());
            let passes = counted(Counter::Malformed) > 0;
            assert_eq!(verdict, if passes { Verdict::Pass } else { Verdict::Drop });
        }
        // The bytes are also harmless as a server's datagram.
        client.core.on_reply(client.now, &packet, &mut out);
        client.core.adopt(client.now, &packet);
        if client.core.flows().count() != 1 {
            let (again, _) = Conversation::replied(settings(), 3000);
            client = again;
        }
    }
    assert!(
        malformed > 5000 && wrong > 5000,
        "{malformed} malformed, {wrong} with a wrong checksum"
    );
}

fn pick<'a>(random: &mut Pcg32, bytes: &'a mut [u8]) -> Option<&'a mut u8> {
    let at = below(random, (bytes.len() as u32).max(1)) as usize;
    bytes.get_mut(at)
}

/// The same seed gives the same conversation.
#[test]
fn runs_repeat() {
    let network = Network { loss: 25, reordering: 25, duplication: 25 };
    for seed in 0..20 {
        let [a, b] = [(); 2].map(|()| World::new(seed, network, 1 + seed as u16 % 3).run());
        assert_eq!(a.milliseconds, b.milliseconds);
        assert_eq!(a.core.counters(), b.core.counters());
    }
}

/// Replies are what the server sent, after their length, for sizes around each boundary.
#[test]
fn replies_of_every_length_are_whole() {
    for size in (60..4500).step_by(7).chain(1440..1460).chain(2880..2900) {
        let mut client = Conversation::asked(settings());
        let message = reply(&client.at_server(), size, 3);
        let (verdict, out) = client.answer_with(&message);
        assert_eq!(verdict, ReplyVerdict::Sent);
        let payloads = out.iter().flat_map(|packet| Segment::read(packet).payload);
        assert!(payloads.eq(prefixed(&message)), "{size} bytes");
    }
}

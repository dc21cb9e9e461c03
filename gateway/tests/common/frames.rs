//! A client whose frames go to the XDP program.

use narrows_gateway::kernel::types::{flow, flow_key};

use super::conversation::{Conversation, settings};
use super::packets::{ACK, Datagram, Segment};
use super::programs::{Programs, XDP_DROP, XDP_PASS, XDP_TX, mapped};

/// The bit of our timestamp that is only 0 in the SYN/ACK.
pub const HEARD: u32 = 4096;
pub const QUERY: u8 = 2;
pub const REPLIED: u8 = 3;
pub const IDLE: u8 = 4;
pub const CLOSING: u8 = 5;
pub const SLOW: u8 = 6;
pub const KERNEL: u8 = 7;
pub const OPEN: u8 = 8;
pub const TIMESTAMPS: u8 = 1;
pub const SACK: u8 = 2;
pub const EDNS_ADDED: u8 = 4;
pub const CLIENT_FIN: u8 = 8;
pub const QUERY_UNACKED: u8 = 16;
pub const AGAIN: u8 = 32;

/// All fields of an entry except the time when it was seen.
pub fn fields(entry: Option<flow>) -> Option<String> {
    entry.map(|entry| format!("{:?}", flow { seen_ms: 0, ..entry }))
}

/// A reply of this length, in which each byte depends on its position.
pub fn reply_bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// The result for a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The frame passed unchanged.
    Pass,
    Drop,
    /// A segment for the client.
    Segment(Segment),
    /// A datagram for the server.
    Query(Datagram),
}

/// A client's connection; `saying` makes its segments.
#[derive(Clone)]
pub struct Client<'a> {
    pub programs: &'a Programs,
    pub saying: Conversation,
    /// VLAN tags of its frames.
    pub tags: Vec<[u8; 4]>,
}

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 53];

impl<'a> Client<'a> {
    /// On IPv4 or IPv6, with timestamps or without, before its SYN.
    pub fn new(programs: &'a Programs, ipv6: bool, plain: bool) -> Self {
        let mut saying = Conversation::new(settings());
        if ipv6 {
            saying = saying.over_ipv6();
        }
        if plain {
            saying = saying.plain();
        }
        Self { programs, saying, tags: Vec::new() }
    }

    /// One of each kind, on separate connections.
    pub fn kinds(programs: &'a Programs) -> impl Iterator<Item = Self> {
        programs.remove_flows();
        [(false, false), (false, true), (true, false), (true, true)].into_iter().map(
            |(ipv6, plain)| {
                let mut client = Self::new(programs, ipv6, plain);
                client.saying.client.set_port(40_000 + u16::from(plain));
                client
            },
        )
    }

    /// After the handshake.
    pub fn open(mut self) -> Self {
        let syn = self.saying.syn();
        let Came::Segment(answer) = self.say(&syn) else { panic!("no SYN/ACK") };
        self.saying.cookie = answer.seq;
        self.saying.tsecr = answer.timestamps.map_or(0, |(tsval, _)| tsval);
        self
    }

    /// With its query at the server.
    pub fn asked(self) -> Self {
        let mut client = self.open();
        let query = client.saying.data();
        assert!(matches!(client.say(&query), Came::Query(_)));
        client
    }

    /// With a reply sent. The entry is as egress leaves it, in REPLIED or CLOSING.
    pub fn replied(self, reply: &[u8], state: u8, more_flags: u8) -> Self {
        let client = self.asked();
        let entry = client.flow().expect("an entry");
        let stored = client.programs.ring_store(reply);
        let entry = flow {
            stored,
            reply_length: reply.len() as u16,
            acked: entry.server_seq,
            repeats: 0,
            state,
            flags: entry.flags | more_flags,
            ..entry
        };
        client.programs.set_flow(&client.key(), &entry);
        client
    }

    pub fn key(&self) -> flow_key {
        flow_key {
            client: mapped(self.saying.client.ip()),
            port: self.saying.client.port().to_be(),
            server: self.saying.server.is_ipv6().into(),
            zero: 0,
        }
    }

    pub fn flow(&self) -> Option<flow> {
        self.programs.flow(&self.key())
    }

    /// The first byte of the query and of the reply, as sequence numbers.
    pub fn starts(&self) -> (u32, u32) {
        (self.saying.isn.wrapping_add(1), self.saying.cookie.wrapping_add(1))
    }

    pub fn frame(&self, packet: &[u8]) -> Vec<u8> {
        let mut frame = [SERVER_MAC, CLIENT_MAC].concat();
        for tag in &self.tags {
            frame.extend(tag);
        }
        frame.extend(if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        frame.extend(packet);
        frame
    }

    /// Sends a segment and advances the time.
    pub fn say(&mut self, segment: &Segment) -> Came {
        let came = self.say_packet(&segment.packet());
        self.saying.tsval = self.saying.tsval.map(|tsval| tsval.wrapping_add(1));
        came
    }

    pub fn say_packet(&self, packet: &[u8]) -> Came {
        self.say_frame(&self.frame(packet))
    }

    /// Sends a frame and reads the result; checksums, lengths and addresses must be valid.
    pub fn say_frame(&self, frame: &[u8]) -> Came {
        let link = 14 + 4 * self.tags.len();
        match self.programs.xdp(frame) {
            (XDP_DROP, _) => Came::Drop,
            (XDP_PASS, after) if after == frame => Came::Pass,
            (XDP_PASS, after) => {
                assert_eq!(after[..link], frame[..link], "the link header stays");
                let datagram = Datagram::read(&after[link..]);
                assert_eq!(datagram.from, self.saying.client);
                assert_eq!(datagram.to, self.saying.server);
                Came::Query(datagram)
            }
            (XDP_TX, after) => {
                assert_eq!(after[..6], frame[6..12], "the answer goes back to the sender");
                assert_eq!(after[6..12], frame[..6]);
                assert_eq!(after[12..link], frame[12..link], "the same tags");
                let segment = Segment::read(&after[link..]);
                assert_eq!((segment.from, segment.to), (self.saying.server, self.saying.client));
                fixed_fields(&after[link..]);
                Came::Segment(segment)
            }
            (verdict, _) => panic!("verdict {verdict}"),
        }
    }

    /// A segment of the gateway, with the fields that all of this connection's segments share.
    pub fn segment(&self, seq: u32, ack: u32) -> Segment {
        let scaled = self.saying.tsval.is_some();
        let (query, reply) = self.starts();
        Segment {
            from: self.saying.server,
            to: self.saying.client,
            seq: reply.wrapping_add(seq),
            ack: query.wrapping_add(ack),
            flags: ACK,
            window: if scaled { 511 } else { 65_535 },
            mss: None,
            wscale: None,
            sack: false,
            // The client's latest value; `say` has advanced it by one.
            timestamps: self
                .saying
                .tsval
                .map(|tsval| (self.saying.tsecr | HEARD, tsval.wrapping_sub(1))),
            payload: Vec::new(),
        }
    }
}

/// PROTOCOL.md, "The reply": IPv4 DF, ID 0, TTL 64, TOS 0; IPv6 class and flow label 0, hop limit
/// 64.
fn fixed_fields(packet: &[u8]) {
    if packet[0] >> 4 == 4 {
        assert_eq!((packet[0], packet[1]), (0x45, 0));
        assert_eq!(packet[4..10], [0, 0, 0x40, 0, 64, 6]);
    } else {
        assert_eq!(packet[..4], [0x60, 0, 0, 0]);
        assert_eq!(packet[6..8], [6, 64]);
    }
}

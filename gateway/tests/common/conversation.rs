//! A client that sends one segment after another, and the core that answers.

use std::net::SocketAddr;
use std::time::Duration;

use narrows_gateway::core::{
    Beside, Connection, CookieKey, Core, Counter, Flow, FlowKey, Now, ReplyVerdict, Settings,
    Verdict,
};

use super::packets::{ACK, Datagram, PSH, SYN, Segment, query};

/// What the core did with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Passed, dropped or handed off, with nothing put out.
    Nothing(Verdict),
    /// A segment for the client.
    Segment(Segment),
    /// A datagram for the server.
    Query(Datagram),
}

/// One connection, from the client's side.
#[derive(Clone)]
pub struct Conversation {
    pub core: Core,
    pub now: Now,
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// What the machine's own sockets say.
    pub beside: Beside,
    pub isn: u32,
    /// With timestamps: the client's value, which rises with each segment.
    pub tsval: Option<u32>,
    /// What the SYN/ACK said.
    pub cookie: u32,
    pub tsecr: u32,
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub window: u16,
    /// What the client sends: a query with its two bytes of length.
    pub query: Vec<u8>,
}

pub const KEYS: [CookieKey; 2] = [CookieKey { k0: 11, k1: 12 }, CookieKey { k0: 13, k1: 14 }];

/// The bytes of the tests' ring: few, so that tests can go around it.
pub const RING_SIZE: u32 = 1 << 18;

/// What an operator has without any setting, with two server addresses and small tables.
pub fn settings() -> Settings {
    let servers = vec![[192, 0, 2, 53].into(), "2001:db8::53".parse().expect("an address")];
    let ring = RING_SIZE as usize;
    Settings { keys: KEYS, servers, flows: 64, hashsize: 4, ring, ..Settings::default() }
}

/// The hash of this query's question that an entry stores. The query has its two bytes of length.
pub fn question_of(query: &[u8]) -> u32 {
    let mut conversation = Conversation::open(settings());
    conversation.query = query.to_vec();
    conversation.say(&conversation.data());
    conversation.flow().expect("an entry").question
}

impl Conversation {
    /// A client on IPv4 with timestamps, before its SYN.
    pub fn new(settings: Settings) -> Self {
        Self {
            core: Core::new(settings),
            now: Now { boot: Duration::from_secs(100), wall: Duration::from_secs(1_700_000_000) },
            client: "198.51.100.7:40000".parse().expect("an address"),
            server: "192.0.2.53:53".parse().expect("an address"),
            beside: Beside::Server,
            isn: 0xffff_fff0,
            tsval: Some(7000),
            cookie: 0,
            tsecr: 0,
            mss: Some(1460),
            wscale: Some(9),
            window: 512,
            query: query(0x1234, "www.example.com", 1, Some(1232)),
        }
    }

    /// A client that has completed the handshake.
    pub fn open(settings: Settings) -> Self {
        let mut conversation = Self::new(settings);
        conversation.shake_hands();
        conversation
    }

    /// A client whose query is with the server.
    pub fn asked(settings: Settings) -> Self {
        let mut conversation = Self::open(settings);
        let query = conversation.data();
        assert!(matches!(conversation.say(&query), Said::Query(_)));
        conversation
    }

    /// A client to which a reply of `size` bytes was sent, and the reply's segments.
    pub fn replied(settings: Settings, size: usize) -> (Self, Vec<Segment>) {
        let mut conversation = Self::asked(settings);
        let (verdict, segments) = conversation.answer(size);
        assert_eq!(verdict, ReplyVerdict::Sent);
        (conversation, segments)
    }

    /// A client on IPv6.
    pub fn over_ipv6(mut self) -> Self {
        self.client = "[2001:db8:7::7]:40000".parse().expect("an address");
        self.server = "[2001:db8::53]:53".parse().expect("an address");
        self
    }

    /// A client without timestamps.
    pub fn plain(mut self) -> Self {
        (self.tsval, self.wscale, self.window) = (None, None, 65_535);
        self
    }

    /// SYN and its answer.
    pub fn shake_hands(&mut self) -> Segment {
        let syn = self.syn();
        let Said::Segment(answer) = self.say(&syn) else { panic!("no SYN/ACK") };
        self.cookie = answer.seq;
        self.tsecr = answer.timestamps.map_or(0, |(tsval, _)| tsval);
        answer
    }

    /// The client's SYN.
    pub fn syn(&self) -> Segment {
        Segment {
            seq: self.isn,
            ack: 0,
            flags: SYN,
            mss: self.mss,
            wscale: self.wscale,
            sack: self.tsval.is_some(),
            timestamps: self.tsval.map(|tsval| (tsval, 0)),
            ..self.ack(0, 0)
        }
    }

    /// A pure ACK of `seq` bytes behind the SYN, for `ack` bytes of the reply.
    pub fn ack(&self, seq: u32, ack: u32) -> Segment {
        Segment {
            from: self.client,
            to: self.server,
            seq: self.isn.wrapping_add(1).wrapping_add(seq),
            ack: self.cookie.wrapping_add(1).wrapping_add(ack),
            flags: ACK,
            window: self.window,
            mss: None,
            wscale: None,
            sack: false,
            timestamps: self.tsval.map(|tsval| (tsval, self.tsecr)),
            payload: Vec::new(),
        }
    }

    /// The segment with the query.
    pub fn data(&self) -> Segment {
        self.data_at(0, 0, &self.query)
    }

    /// A segment with data.
    pub fn data_at(&self, seq: u32, ack: u32, payload: &[u8]) -> Segment {
        Segment { flags: ACK | PSH, payload: payload.to_vec(), ..self.ack(seq, ack) }
    }

    /// A bare FIN.
    pub fn fin(&self, seq: u32, ack: u32) -> Segment {
        Segment { flags: ACK | super::packets::FIN, ..self.ack(seq, ack) }
    }

    /// The length of the query with its length prefix, as sequence numbers count.
    pub fn length(&self) -> u32 {
        self.query.len() as u32
    }

    /// Passes a segment to the core.
    pub fn say(&mut self, segment: &Segment) -> Said {
        self.say_bytes(&segment.packet())
    }

    /// Passes a packet to the core.
    pub fn say_bytes(&mut self, packet: &[u8]) -> Said {
        let mut out = Vec::new();
        let beside = self.beside;
        let asked = Connection { client: self.client, server: self.server };
        let verdict = self.core.on_client_beside(
            self.now,
            packet,
            |connection| {
                assert_eq!(connection, asked);
                beside
            },
            &mut out,
        );
        self.tsval = self.tsval.map(|tsval| tsval + 1);
        match (verdict, &out[..]) {
            (Verdict::Transmit, [packet]) => {
                let segment = Segment::read(packet);
                assert_eq!((segment.from, segment.to), (self.server, self.client));
                Said::Segment(segment)
            }
            (Verdict::Query, [packet]) => {
                let datagram = Datagram::read(packet);
                assert_eq!((datagram.from, datagram.to), (self.client, self.server));
                Said::Query(datagram)
            }
            (Verdict::Pass | Verdict::Drop | Verdict::HandOff(_), []) => Said::Nothing(verdict),
            (verdict, out) => panic!("{verdict:?} with {out:x?}"),
        }
    }

    /// The query's message as the server has it.
    pub fn at_server(&self) -> Vec<u8> {
        let mut message = self.query[2..].to_vec();
        if message[11] == 0 {
            message[11] = 1;
            let [high, low] = self.core.settings().edns_size.to_be_bytes();
            message.extend([0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]);
        }
        message
    }

    /// The server answers with a reply of `size` bytes.
    pub fn answer(&mut self, size: usize) -> (ReplyVerdict, Vec<Segment>) {
        let message = super::packets::reply(&self.at_server(), size, 0);
        let (verdict, out) = self.answer_with(&message);
        (verdict, out.iter().map(|packet| Segment::read(packet)).collect())
    }

    /// The server sends this message.
    pub fn answer_with(&mut self, message: &[u8]) -> (ReplyVerdict, Vec<Vec<u8>>) {
        let datagram = Datagram { from: self.server, to: self.client, message: message.to_vec() };
        let mut out = Vec::new();
        let verdict = self.core.on_reply(self.now, &datagram.packet(), &mut out);
        (verdict, out)
    }

    /// The connection's entry.
    pub fn flow(&self) -> Option<Flow> {
        let server = u8::from(self.server.is_ipv6());
        self.core.flow(&FlowKey { client: self.client.ip(), port: self.client.port(), server })
    }

    /// How often something was counted.
    pub fn count(&self, counter: Counter) -> u64 {
        self.core.counters().get(counter)
    }
}

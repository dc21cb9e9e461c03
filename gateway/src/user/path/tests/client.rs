//! Clients with a TCP of their own.

use super::*;

/// The port of client 0; the others' follow.
pub(super) const FIRST_PORT: u16 = 20_000;

/// What a client sends: pieces, each after it has received this many bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) pieces: VecDeque<(usize, Vec<u8>)>,
    pub(super) expected: Vec<u8>,
    /// The FIN follows the last piece at once, instead of the last received byte.
    pub(super) half_close: bool,
}

impl Script {
    /// One query after another.
    pub(super) fn in_turn(queries: &[Vec<u8>]) -> Self {
        let mut script = Self::default();
        for query in queries {
            script.pieces.push_back((script.expected.len(), framed(query)));
            script.expected.extend(tcp_answers(query));
        }
        script
    }

    /// All queries in one segment.
    pub(super) fn pipelined(queries: &[Vec<u8>]) -> Self {
        let mut script = Self::in_turn(queries);
        let all = script.pieces.drain(..).flat_map(|(_, piece)| piece).collect();
        script.pieces.push_back((0, all));
        script
    }

    /// One query in pieces of `size` bytes.
    pub(super) fn split(query: &[u8], size: usize) -> Self {
        let mut script = Self::in_turn(&[query.to_vec()]);
        script.pieces = framed(query).chunks(size).map(|piece| (0, piece.to_vec())).collect();
        script
    }
}

pub(super) fn framed(query: &[u8]) -> Vec<u8> {
    [&(query.len() as u16).to_be_bytes(), query].concat()
}

/// A client's TCP: the handshake, followed by a [`Stream`].
#[derive(Debug)]
pub(super) struct Client {
    pub(super) ends: Connection,
    pub(super) options: Options,
    pub(super) isn: u32,
    pub(super) stream: Option<Stream>,
    pub(super) script: Script,
    pub(super) got: Vec<u8>,
    pub(super) resend_at: Duration,
    pub(super) reset: bool,
    /// How often a client begins anew if it is reset before it has received anything.
    pub(super) attempts: u32,
    pub(super) first: Script,
}

impl Client {
    pub(super) fn new(n: u16, server: IpAddr, timestamps: bool, mss: u16, script: Script) -> Self {
        let client = match server {
            IpAddr::V4(_) => IpAddr::from([10, 0, (n >> 8) as u8, n as u8]),
            IpAddr::V6(_) => IpAddr::from([0x2001, 0xdb8, 1, n, 0, 0, 0, 9]),
        };
        let options = Options {
            mss: Some(mss),
            window_scale: timestamps.then_some(7),
            sack_permitted: timestamps,
            timestamps: timestamps.then_some((5000, 0)),
            ..Options::default()
        };
        let ends = Connection {
            client: SocketAddr::new(client, FIRST_PORT + n),
            server: SocketAddr::new(server, 53),
        };
        Self {
            ends,
            options,
            isn: (u32::MAX - 10).wrapping_add(u32::from(n) * 7919),
            stream: None,
            first: script.clone(),
            script,
            got: Vec::new(),
            resend_at: Duration::ZERO,
            reset: false,
            attempts: 0,
        }
    }

    pub(super) fn done(&self) -> bool {
        self.reset || self.stream.as_ref().is_some_and(Stream::is_closed)
    }

    pub(super) fn handle(&mut self, segment: &Segment<'_>, now: Duration) {
        match &mut self.stream {
            Some(stream) => {
                stream.handle_segment(&plain(segment), now);
                if segment.has(Flags::RST) && stream.is_closed() {
                    self.on_reset();
                }
            }
            None if segment.has(Flags::SYN | Flags::ACK) => {
                if segment.ack != self.isn.wrapping_add(1) {
                    return; // left from an earlier attempt
                }
                let theirs = segment.options.timestamps.map(|(tsval, _)| tsval);
                let start = Start {
                    client_next: segment.seq.wrapping_add(1),
                    server_next: segment.ack,
                    window: segment.window.into(),
                    mss: segment.options.mss.expect("every SYN/ACK has one"),
                    scale: segment.options.window_scale,
                    timestamps: theirs.map(|tsval| (5000, tsval)),
                };
                self.stream = Some(Stream::adopt(&start, now));
            }
            None => {}
        }
    }

    pub(super) fn on_reset(&mut self) {
        if self.attempts == 0 || !self.got.is_empty() {
            self.reset = true;
            return;
        }
        self.attempts -= 1;
        self.isn = self.isn.wrapping_add(1_000_000);
        self.stream = None;
        self.script = self.first.clone();
        self.resend_at = Duration::ZERO;
    }

    /// Returns the segments that the client sends now.
    pub(super) fn packets(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let ends = Connection { client: self.ends.server, server: self.ends.client };
        let Some(stream) = &mut self.stream else {
            if now < self.resend_at {
                return Vec::new();
            }
            self.resend_at = now + Duration::from_secs(1);
            let syn = Outgoing {
                from: self.ends.client,
                to: self.ends.server,
                seq: self.isn,
                ack: 0,
                flags: Flags::SYN,
                window: 64_000,
                options: self.options,
            };
            return vec![syn.packet(&[])];
        };
        let piece = stream.received().to_vec();
        stream.consume(piece.len());
        self.got.extend(piece);
        let mut packets = Vec::new();
        let mut out = |stream: &mut Stream| {
            stream.transmit(now, |segment| packets.push(outgoing(ends, segment)));
        };
        stream.handle_timeout(now);
        while self.script.pieces.front().is_some_and(|(after, _)| *after <= self.got.len()) {
            let (_, piece) = self.script.pieces.pop_front().expect("it was there");
            stream.write(&piece);
            let last = self.script.pieces.is_empty();
            if last && self.script.half_close {
                stream.finish();
            }
            out(stream); // each piece is a separate segment
        }
        if self.got.len() >= self.script.expected.len() {
            stream.finish();
        }
        out(stream);
        packets
    }
}

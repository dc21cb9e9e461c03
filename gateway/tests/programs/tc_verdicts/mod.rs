//! Each verdict of the tc programs, one frame at a time.

mod adoption;
mod fragments;
mod passed;
mod refused;
mod replies;
mod several;

use std::net::SocketAddr;

use crate::common::conversation::question_of;
use crate::common::frames::{
    AGAIN, CLIENT_FIN, CLOSING, EDNS_ADDED, IDLE, KERNEL, QUERY, QUERY_UNACKED, REPLIED, SACK,
    SLOW, TIMESTAMPS, fields,
};
use crate::common::packets::{
    ACK, Datagram, FIN, PSH, Segment, fragments, prefixed, query, reply as reply_to,
};
use crate::common::programs::{Programs, mapped};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::{flow, flow_key, settings};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

/// The packet goes on to the next program, as if this one did not exist.
const NEXT: i32 = -1;
/// Redirected: into ingress, or to nowhere if it is unchanged.
const REDIRECT: i32 = 7;
/// Freed.
const DROP: i32 = 2;

/// bpf_prog_run puts a frame into one page, with room before and behind it for the stack.
const PROG_RUN_MAX: usize = 3200;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 53];

const ID: u16 = 0x1234;
const QUERY_SEQ: u32 = 0xffff_ffe0;
const REPLY_SEQ: u32 = 0xffff_f000;
const TSVAL: u32 = 0x1122_3344;
const CLIENT_TSVAL: u32 = 0x5566_7788;

/// A connection whose query is with the server.
struct Asked<'a> {
    programs: &'a Programs,
    client: SocketAddr,
    server: SocketAddr,
    key: flow_key,
    /// With its two bytes of length.
    query: Vec<u8>,
    plain: bool,
}

impl<'a> Asked<'a> {
    fn new(programs: &'a Programs, v6: bool, plain: bool) -> Self {
        Self::changed(programs, v6, plain, |_| {})
    }

    /// A client whose query is with the server, after `change` to its entry.
    fn changed(
        programs: &'a Programs,
        v6: bool,
        plain: bool,
        change: impl FnOnce(&mut flow),
    ) -> Self {
        let (client, server, number) = match v6 {
            false => ("198.51.100.7:40000", "192.0.2.53:53", 0),
            true => ("[2001:db8:7::7]:40000", "[2001:db8::53]:53", 1),
        };
        let (client, server): (SocketAddr, SocketAddr) =
            (client.parse().expect("an address"), server.parse().expect("an address"));
        let key = flow_key {
            client: mapped(client.ip()),
            port: client.port().to_be(),
            server: number,
            zero: 0,
        };
        let query = query(ID, "www.example.com", 16, Some(1232));
        let length = query.len() as u16;
        let mut entry = flow {
            query_seq: QUERY_SEQ,
            client_next: QUERY_SEQ.wrapping_add(length.into()),
            server_seq: REPLY_SEQ,
            window: 65_535,
            tsval: if plain { 0 } else { TSVAL },
            client_tsval: if plain { 0 } else { CLIENT_TSVAL },
            stored: programs.ring_store(&query),
            query_length: length,
            mss: 1400,
            dns_id: ID.to_be(),
            question: question_of(&query),
            state: QUERY,
            flags: if plain { 0 } else { TIMESTAMPS | SACK },
            client_wscale: if plain { 15 } else { 7 },
            ..flow::default()
        };
        change(&mut entry);
        programs.set_flow(&key, &entry);
        Self { programs, client, server, key, query, plain }
    }

    /// IPv4 and IPv6, with and without timestamps.
    fn kinds(programs: &'a Programs) -> impl Iterator<Item = Self> {
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .map(|(v6, plain)| Self::new(programs, v6, plain))
    }

    fn flow(&self) -> flow {
        self.programs.flow(&self.key).expect("an entry")
    }

    /// The server's reply of about `size` bytes.
    fn reply(&self, size: usize) -> Vec<u8> {
        reply_to(&self.query[2..], size, 0)
    }

    /// A reply with nothing but the question.
    fn bare_reply(&self) -> Vec<u8> {
        let mut reply = self.query[2..self.query.len() - 11].to_vec();
        reply[2] |= 0x80;
        reply[11] = 0;
        reply
    }

    fn datagram(&self, message: &[u8]) -> Vec<u8> {
        Datagram { from: self.server, to: self.client, message: message.to_vec() }.packet()
    }

    /// The result for the server's datagram, or for its last fragment if it is longer than
    /// bpf_prog_run allows.
    fn answer(&self, message: &[u8]) -> (i32, Vec<u8>) {
        let parts = fragments(&self.datagram(message), PROG_RUN_MAX);
        let [parts @ .., last] = &parts[..] else { panic!("a datagram has a fragment") };
        for part in parts {
            assert_eq!(self.programs.egress(&frame(part)).0, REDIRECT);
        }
        if parts.is_empty() {
            return self.programs.egress(&frame(&self.datagram(message)));
        }
        self.programs.egress(&frame(last))
    }

    /// The expected segment of the reply at `offset`.
    fn segment(&self, offset: usize, payload: &[u8], flags: u8, ack: u32) -> Segment {
        Segment {
            from: self.server,
            to: self.client,
            seq: REPLY_SEQ.wrapping_add(offset as u32),
            ack,
            flags,
            window: if self.plain { 65_535 } else { 511 },
            mss: None,
            wscale: None,
            sack: false,
            timestamps: (!self.plain).then_some((TSVAL, CLIENT_TSVAL)),
            payload: payload.to_vec(),
        }
    }

    /// The datagram was swallowed and counted as `counter`, and the entry is unchanged.
    #[track_caller]
    fn swallowed(&self, message: &[u8], counter: Counter) {
        let (before, entry) = (self.programs.count(counter), self.flow());
        let (verdict, after) = self.answer(message);
        assert_eq!((verdict, after), (REDIRECT, frame(&self.datagram(message))));
        assert_eq!(self.programs.count(counter), before + 1);
        assert_eq!(fields(Some(self.flow())), fields(Some(entry)));
    }

    /// The datagram went on unchanged, and no entry changed.
    #[track_caller]
    fn passed(&self, packet: &[u8]) {
        let entry = self.flow();
        assert_eq!(self.programs.egress(&frame(packet)), (NEXT, frame(packet)));
        assert_eq!(fields(Some(self.flow())), fields(Some(entry)));
    }

    /// The query came back as the client's segment.
    #[track_caller]
    fn left_to_kernel(&self, (verdict, frame): (i32, Vec<u8>)) {
        assert_eq!(verdict, REDIRECT);
        assert_eq!(
            (&frame[..6], &frame[6..12]),
            (&SERVER_MAC[..], &CLIENT_MAC[..]),
            "addressed to us"
        );
        let again = Segment::read(&frame[14..]);
        let wanted = Segment {
            from: self.client,
            to: self.server,
            seq: QUERY_SEQ,
            ack: REPLY_SEQ,
            flags: again.flags,
            window: if self.plain { 65_535 } else { 511 },
            timestamps: (!self.plain).then_some((CLIENT_TSVAL, TSVAL)),
            payload: self.query.clone(),
            ..self.segment(0, &[], 0, 0)
        };
        assert_eq!(again, wanted);
        assert_eq!(again.flags & !FIN, ACK | PSH);
        assert_eq!(self.flow().state, SLOW);
    }
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&CLIENT_MAC[..], &SERVER_MAC, &kind, packet].concat()
}

/// The frames on the namespace's loopback interface during `run`: each once, in order.
fn sent<R>(run: impl FnOnce() -> R) -> (R, Vec<Vec<u8>>) {
    use std::os::fd::AsRawFd;
    let tap =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll);
    let tap = tap.expect("root may");
    let result = run();
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut bytes = vec![0; 1 << 17];
    while let Ok(length) = recv(tap.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
        let frame = bytes[..length].to_vec();
        // The interface receives what it sends.
        if !frames.contains(&frame) {
            frames.push(frame);
        }
    }
    (result, frames)
}

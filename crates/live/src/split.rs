//! A process whose applications have their other ends elsewhere: on another machine, or in another
//! process.
//!
//! Nobody tells such a process what the other ends mean. The plan says which of them there are, at
//! which addresses, and how long what they send is. An end that opens a connection of endless data
//! has a port of its own, so the accepting end knows which connection it is. A query's name says how
//! long its reply should be (`dns.rs`). A client matches replies by their IDs, as those of a real
//! server. Whoever else asks gets nothing, so that a server amplifies no stranger's packets.

use std::net::{Ipv4Addr, SocketAddrV4};

use narrows_apps::{Closed, Message};
use narrows_sim::plan::Plan;
use narrows_transport::tls;

use crate::dns::{self, Asked};
use crate::part::{Role, Split};

/// The ends of connections that a process plays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// The role, and the node; `None`: all ends are here.
    split: Option<(Role, usize)>,
}

/// Connections that may come from clients elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitors {
    pub(crate) from: Ipv4Addr,
    pub(crate) at: SocketAddrV4,
    /// The applications, and the nodes, of both ends.
    pub(crate) owners: [u32; 2],
    pub(crate) nodes: [usize; 2],
    /// The path back, and the client's TCP settings: indices into the plan's.
    pub(crate) back: usize,
    pub(crate) tcp: usize,
    /// The client's TLS; `None`: it uses none.
    pub(crate) tls: Option<tls::Client>,
}

/// Queries that arrive on a connection, each after a length field (RFC 1035, 4.2.2).
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// The bytes of queries that are complete.
    taken: u64,
    /// What has arrived of the next one.
    part: Vec<u8>,
}

impl Ends {
    pub(crate) fn of(plan: &Plan, split: Option<&Split>) -> Self {
        let node = |name: &String| plan.nodes.iter().position(|node| node == name);
        Self { split: split.and_then(|split| Some((split.role, node(&split.node)?))) }
    }

    /// Returns whether other ends are elsewhere.
    pub(crate) fn are_split(self) -> bool {
        self.split.is_some()
    }

    /// Returns whether connections from this node open here.
    pub(crate) fn open_at(self, node: usize) -> bool {
        self.split.is_none_or(|(role, here)| role != Role::Serve && node == here)
    }

    /// Returns whether connections to this node are accepted here.
    pub(crate) fn accept_at(self, node: usize) -> bool {
        self.split.is_none_or(|(role, here)| role == Role::Serve && node == here)
    }
}

impl Arriving {
    /// Takes bytes that were read. Returns the queries that are complete with them, each with the
    /// number of the byte after its last.
    ///
    /// # Errors
    ///
    /// Returns how the connection ends if this is no query.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<(u64, Message, Asked)>, Closed> {
        self.part.extend(bytes);
        let mut found = Vec::new();
        while let Some((length, rest)) = self.part.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(query) = rest.get(..length) else { break };
            let (mut message, asked) = dns::read(query).ok_or(Closed::Reset)?;
            let whole = size_of::<u16>() + length;
            message.bytes = whole as u32;
            self.part.drain(..whole);
            self.taken += whole as u64;
            found.push((self.taken, message, asked));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_found_however_the_stream_is_cut() {
        let asked = |tag, reply, length| {
            let meant = Message { bytes: 0, tag, notes: [reply, 0] };
            let query = dns::bytes(&dns::query(&meant, length), length);
            [&(length as u16).to_be_bytes()[..], &query].concat()
        };
        let stream = [asked(7, 72, 42), asked(65_536 + 8, 65_535, 300)].concat();
        for step in [1, 2, 3, 43, 44, 45, stream.len()] {
            let mut arriving = Arriving::default();
            let found = stream.chunks(step).flat_map(|part| arriving.take(part).expect("queries"));
            let found: Vec<_> =
                found.map(|(at, message, asked)| (at, message.notes[0], asked.id)).collect();
            assert_eq!(found, [(44, 72, 7), (44 + 302, 65_535, 8)], "{step}");
        }
    }

    #[test]
    fn what_is_no_query_ends_the_connection() {
        for garbage in [&[0, 0][..], &[0, 4, 1, 2, 3, 4], b"\0\x10GET / HTTP/1.1\r\n"] {
            assert_eq!(Arriving::default().take(garbage).map(|_| ()), Err(Closed::Reset));
        }
    }
}

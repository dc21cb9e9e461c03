//! Datagrams between the sockets of clients and those of servers.
//!
//! A DNS datagram is a real message; what it means is remembered here, under its number. Others
//! begin with their meaning: the tag and the two notes of the [`Message`], twelve bytes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use narrows_apps::{Message, Sent};
use narrows_units::Time;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockaddrIn, recvfrom, sendto};

use crate::dns::{self, Asked};
use crate::flood::Network;
use crate::part::Use;
use crate::real;
use crate::sockets::{Places, address, local, set_peer};

/// The least payload of a datagram that is no DNS.
pub(crate) const LEAST_PAYLOAD: u16 = 12;

/// The datagrams between a client and a server: a flow.
#[derive(Debug)]
pub(crate) struct Link {
    /// The nodes of the first and of the second end.
    pub(crate) nodes: [usize; 2],
    /// The server's port.
    pub(crate) port: u16,
    /// The applications at its ends.
    pub(crate) owners: [u32; 2],
    pub(crate) of: Use,
    /// The longest packets that leave the first and the second end whole.
    pub(crate) mtus: [u16; 2],
    /// DNS queries; `None`: it carries no DNS.
    pub(crate) queries: Option<Queries>,
    /// Whether a program of its own answers.
    pub(crate) is_real: bool,
    /// Whether its client is elsewhere.
    pub(crate) is_elsewhere: bool,
    /// Datagrams without DNS that were sent and have not arrived: by socket, direction (`true`:
    /// back) and tag.
    pub(crate) under_way: BTreeMap<(u32, bool, u32), (Time, Message)>,
}

/// DNS queries over UDP that may still get a reply.
#[derive(Debug, Default)]
pub(crate) struct Queries {
    /// By socket and number.
    asked: BTreeMap<(u32, u16), Query>,
    /// In the order in which they were asked.
    order: VecDeque<(u32, u16)>,
}

#[derive(Debug)]
struct Query {
    meant: Message,
    asked: Asked,
    reply: Option<Message>,
}

/// All sockets for datagrams.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// By the number that epoll has for them.
    open: Vec<Option<Socket>>,
    free: Vec<usize>,
    /// The sockets of clients, by flow and the application's number.
    near: HashMap<(u32, u32), usize>,
    /// The same by address.
    peers: HashMap<SocketAddrV4, (u32, u32)>,
    /// The sockets of servers, by node and address.
    far: HashMap<(usize, SocketAddrV4), usize>,
    /// The clients of floods, which have no sockets.
    forged: Vec<Forged>,
    /// The flows of clients elsewhere, by their address and the number of the server's socket. The
    /// port of such a client is the number of its socket.
    elsewhere: HashMap<(Ipv4Addr, usize), u32>,
    /// The number of sockets that applications have taken, and how many of them when they started.
    taken: u32,
    taken_at_start: u32,
    /// Sockets that were taken later, in the order in which they were opened. Each serves for one
    /// query.
    later: VecDeque<(u32, u32)>,
}

/// The flow of a flood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forged {
    /// The addresses in place of sockets.
    pub(crate) network: Network,
    pub(crate) flow: u32,
    /// The application's number for the first of them.
    pub(crate) first: u32,
}

/// A socket for datagrams.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: OwnedFd,
    /// The flow of a client's socket, and the application's number for the socket. `None`: a
    /// server's.
    of: Option<(u32, u32)>,
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) flow: u32,
    pub(crate) socket: u32,
    pub(crate) goes_back: bool,
    pub(crate) bytes: usize,
}

impl Sockets {
    pub(crate) fn take(&mut self, count: u32) -> u32 {
        let first = self.taken;
        self.taken += count;
        first
    }

    /// Notes that applications have started.
    pub(crate) fn end_start(&mut self) {
        self.taken_at_start = self.taken;
    }

    /// Opens the socket of a server, unless it is open. Returns its number if it is new.
    pub(crate) fn serve(&mut self, places: &Places, link: &Link) -> Result<Option<usize>, Errno> {
        let key = (link.nodes[1], link.server(places));
        if self.far.contains_key(&key) {
            return Ok(None);
        }
        let socket = places.datagrams(key.0, key.1, link.owners[1])?;
        let number = self.put(Socket { socket, of: None });
        self.far.insert(key, number);
        Ok(Some(number))
    }

    /// Opens a client's socket, unless it is open. Returns its number, and whether it is new.
    pub(crate) fn open(
        &mut self,
        places: &Places,
        link: &Link,
        of: (u32, u32),
    ) -> Result<(usize, bool), Errno> {
        if let Some(&number) = self.near.get(&of) {
            return Ok((number, false));
        }
        let from = SocketAddrV4::new(places.address(link.nodes[0], link.of), 0);
        let socket = places.datagrams(link.nodes[0], from, link.owners[0])?;
        set_peer(&socket, link.server(places))?;
        let own = local(&socket)?;
        let number = self.put(Socket { socket, of: Some(of) });
        self.near.insert(of, number);
        self.peers.insert(own, of);
        if of.1 >= self.taken_at_start {
            self.later.push_back(of);
            if self.later.len() > MOST_LATER
                && let Some(oldest) = self.later.pop_front()
            {
                self.close(oldest);
            }
        }
        Ok((number, true))
    }

    /// Adds the flow of a flood.
    pub(crate) fn forge(&mut self, forged: Forged) {
        self.forged.push(forged);
    }

    /// Returns the address in place of a flood's socket; `None`: it is no flood's.
    pub(crate) fn forged_address(&self, (flow, socket): (u32, u32)) -> Option<SocketAddrV4> {
        let forged = self.forged.iter().find(|forged| forged.flow == flow)?;
        Some(forged.network.address(socket - forged.first))
    }

    /// Waits for datagrams from a client elsewhere to a server whose socket is open.
    pub(crate) fn expect(&mut self, places: &Places, link: &Link, flow: u32) {
        let key = (link.nodes[1], link.server(places));
        if let Some(&far) = self.far.get(&key) {
            self.elsewhere.entry((places.address(link.nodes[0], link.of), far)).or_insert(flow);
        }
    }

    /// Returns the flow and the socket of a client's address.
    fn client(&self, from: SocketAddrV4, far: usize) -> Option<(u32, u32)> {
        let of_flood =
            |forged: &Forged| Some((forged.flow, forged.first + forged.network.turn(*from.ip())?));
        let peer = self.peers.get(&from).copied();
        let elsewhere = || Some((*self.elsewhere.get(&(*from.ip(), far))?, u32::from(from.port())));
        peer.or_else(|| self.forged.iter().find_map(of_flood)).or_else(elsewhere)
    }

    /// Returns an open socket.
    pub(crate) fn get(&self, number: usize) -> Option<&Socket> {
        self.open.get(number)?.as_ref()
    }

    /// Sends from a client's socket, or to it (`back`).
    pub(crate) fn send(
        &self,
        places: &Places,
        link: &Link,
        (of, back): ((u32, u32), bool),
        bytes: &[u8],
    ) {
        let near = self.near.get(&of).and_then(|&number| self.get(number));
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        // A failure is a loss: the host's own queue is full, or it cannot reach the other.
        if back {
            let far = self.far.get(&(link.nodes[1], link.server(places)));
            let far = far.and_then(|&number| self.get(number));
            let to = near.and_then(|near| local(&near.socket).ok());
            let to = to.or_else(|| self.forged_address(of)).or_else(|| {
                let from = places.address(link.nodes[0], link.of);
                link.is_elsewhere.then(|| SocketAddrV4::new(from, of.1 as u16))
            });
            if let (Some(far), Some(to)) = (far, to) {
                let _ = sendto(far.socket.as_raw_fd(), bytes, &address(to), flags);
            }
        } else if let Some(near) = near {
            let _ = nix::sys::socket::send(near.socket.as_raw_fd(), bytes, flags);
        }
    }

    /// Reads a datagram from a socket, or returns `None` if there is none; `Some(None)`: nobody
    /// here has sent it.
    pub(crate) fn receive(&self, number: usize, buffer: &mut [u8]) -> Option<Option<Arrived>> {
        let found = self.get(number)?;
        let (bytes, from) = loop {
            match recvfrom::<SockaddrIn>(found.socket.as_raw_fd(), buffer) {
                Ok((bytes, from)) => break (bytes, from),
                // An earlier datagram of this socket was refused.
                Err(Errno::EINTR | Errno::ECONNREFUSED) => {}
                Err(_) => return None,
            }
        };
        let of = found.of.or_else(|| self.client(SocketAddrV4::from(from?), number));
        let arrived =
            |(flow, socket)| Arrived { flow, socket, goes_back: found.of.is_some(), bytes };
        Some(of.map(arrived))
    }

    fn put(&mut self, socket: Socket) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.open[number] = Some(socket);
                number
            }
            None => {
                self.open.push(Some(socket));
                self.open.len() - 1
            }
        }
    }

    fn close(&mut self, of: (u32, u32)) {
        let Some(number) = self.near.remove(&of) else { return };
        if let Some(socket) = self.open[number].take()
            && let Ok(own) = local(&socket.socket)
        {
            self.peers.remove(&own);
        }
        self.free.push(number);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Queries {
    fn add(&mut self, key: (u32, u16), query: Query) {
        if self.asked.insert(key, query).is_none() {
            // A flood asks the same again.
            self.order.push_back(key);
        }
        if self.order.len() > MOST_QUERIES
            && let Some(oldest) = self.order.pop_front()
        {
            self.asked.remove(&oldest);
        }
    }
}

impl Link {
    /// Returns the server's address.
    pub(crate) fn server(&self, places: &Places) -> SocketAddrV4 {
        SocketAddrV4::new(places.address(self.nodes[1], self.of), self.port)
    }

    /// Returns the bytes of a message that is sent `now`; `back`: those of a server's answer.
    /// `None`: its query is forgotten.
    pub(crate) fn write(
        &mut self,
        now: Time,
        (socket, back): (u32, bool),
        message: &Message,
    ) -> Option<Vec<u8>> {
        let length = message.bytes as usize;
        let Some(queries) = &mut self.queries else {
            let mut bytes = Vec::with_capacity(length);
            for number in [message.tag, message.notes[0], message.notes[1]] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.resize(length, 0);
            self.under_way.insert((socket, back, message.tag), (now, *message));
            return Some(bytes);
        };
        if back {
            let query = queries.asked.get_mut(&(socket, message.tag as u16))?;
            query.reply = Some(*message);
            return Some(dns::reply(&query.asked, message, length));
        }
        let asked = dns::query(message, length);
        let bytes = dns::bytes(&asked, length);
        queries.add((socket, asked.id), Query { meant: *message, asked, reply: None });
        Some(bytes)
    }

    /// Notes a query to a real server, which has these bytes, and returns them.
    pub(crate) fn ask(
        &mut self,
        socket: u32,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let query = Query { meant: *message, asked: Asked::default(), reply: None };
        self.queries.as_mut()?.add((socket, dns::id(&bytes)?), query);
        Some(bytes)
    }

    /// Returns what a datagram means, or `None` if that is unknown.
    pub(crate) fn read(&mut self, arrived: Arrived, bytes: &[u8]) -> Option<Message> {
        let Some(queries) = &mut self.queries else {
            let at = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
            let (tag, notes) = (at(0)?, [at(4)?, at(8)?]);
            self.under_way.remove(&(arrived.socket, arrived.goes_back, tag));
            return Some(Message { bytes: bytes.len() as u32, tag, notes });
        };
        if self.is_elsewhere {
            let (meant, asked) = dns::read(bytes)?;
            queries.add((arrived.socket, asked.id), Query { meant, asked, reply: None });
            return Some(meant);
        }
        let key = (arrived.socket, dns::id(bytes)?);
        let query = queries.asked.get_mut(&key)?;
        if !arrived.goes_back {
            return Some(query.meant);
        }
        if self.is_real {
            let tag = query.meant.tag;
            queries.asked.remove(&key);
            return Some(real::reply(tag, bytes.len(), bytes));
        }
        let reply = query.reply.take()?;
        queries.asked.remove(&key);
        Some(reply)
    }

    /// Returns the IP packets that a datagram takes, and their bytes.
    pub(crate) fn packets(&self, back: bool, payload: usize) -> Sent {
        const IP: u32 = 20;
        const UDP: u32 = 8;
        let (mtu, payload) = (u32::from(self.mtus[usize::from(back)]), payload as u32);
        if payload + UDP + IP <= mtu {
            return Sent { packets: 1, bytes: payload + UDP + IP };
        }
        // The payload of a fragment is a multiple of 8 bytes (RFC 791, 3.2).
        let packets = (payload + UDP).div_ceil((mtu - IP) / 8 * 8);
        Sent { packets, bytes: payload + UDP + packets * IP }
    }
}

/// The most sockets for one query each that stay open for a late reply.
const MOST_LATER: usize = 512;

/// The most queries of a flow that may still get a reply.
const MOST_QUERIES: usize = 1 << 16;

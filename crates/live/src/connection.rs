//! TCP connections: both ends, and the messages between them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddrV4;

use narrows_apps::{Closed, Message};
use narrows_client::TcpInfo;
use narrows_units::{Span, Time};
use nix::errno::Errno;

use crate::dns::Exchanges;
use crate::end::End;
use crate::part::Use;
use crate::real::Replies;
use crate::secure::{Secure, Taken};
use crate::split::Arriving;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The end that sends the SYN.
    pub(crate) opener: usize,
    /// The TCP settings of the opening end: an index into the plan's.
    pub(crate) tcp: usize,
    /// The port of the end that opens, if the plan decides it; otherwise zero.
    pub(crate) from_port: u16,
    /// The port of the end that accepts.
    pub(crate) port: u16,
    /// The addresses of the opening and of the accepting end, once they are known.
    pub(crate) addresses: Option<[SocketAddrV4; 2]>,
    pub(crate) sides: [Side; 2],
    /// Whether the ends exchange messages. Otherwise one application owns both, and needs no
    /// events.
    pub(crate) has_messages: bool,
    /// Whether it was opened by the call that goes on. For the application, its SYN leaves when the
    /// call is over.
    pub(crate) is_new: bool,
    /// DNS queries; `None`: its messages are zeros.
    pub(crate) exchanges: Option<Exchanges>,
    /// Replies of a server that is a program of its own, and queries of a client elsewhere; `None`:
    /// the end that writes them is here.
    pub(crate) real: Option<Replies>,
    pub(crate) arriving: Option<Arriving>,
    pub(crate) established_at: Option<Time>,
    /// When the receiver read the sender's FIN.
    pub(crate) ended_at: Option<Time>,
    /// Whether it has a row in the table `flows`, so that it is kept.
    pub(crate) listed: bool,
}

/// An end, and what its application knows and does not know yet.
#[derive(Debug)]
pub(crate) struct Side {
    /// `None`: its socket was closed.
    pub(crate) end: Option<End>,
    /// Whether its application hears no more.
    pub(crate) over: bool,
    /// Whether its application has reset the connection, and hears nothing of what came before.
    pub(crate) aborted: bool,
    /// What this end has written of messages, in bytes.
    written: u64,
    /// What it has read of messages that were delivered.
    read: u64,
    /// When the first byte of the message being read arrived.
    begun: Option<Time>,
    /// Messages on the way to this end, each with the number of the byte after its last.
    unread: VecDeque<(u64, Message)>,
    /// The kernel's counts when the socket was closed.
    last: TcpInfo,
    /// Its share of its host's timeouts (timeouts.rs).
    pub(crate) timeouts: Cell<u32>,
    /// The bytes read from the socket, and those of messages among them.
    pub(crate) received: u64,
    pub(crate) heard: u64,
    /// Its TLS; `None`: it has none.
    pub(crate) secure: Option<Box<Secure>>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            end: Some(End::default()),
            over: false,
            aborted: false,
            written: 0,
            read: 0,
            begun: None,
            unread: VecDeque::new(),
            last: TcpInfo::default(),
            timeouts: Cell::new(0),
            received: 0,
            heard: 0,
            secure: None,
        }
    }
}

/// What an end's application does not know yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Progress {
    FirstByte,
    Received(Message, Time),
}

impl Connection {
    /// Creates a connection that one application has with itself.
    pub(crate) fn new(opener: usize, tcp: usize, port: u16) -> Self {
        Self {
            opener,
            tcp,
            from_port: 0,
            port,
            addresses: None,
            sides: Default::default(),
            has_messages: false,
            is_new: false,
            exchanges: None,
            real: None,
            arriving: None,
            established_at: None,
            ended_at: None,
            listed: false,
        }
    }

    /// Writes a message from an end. The first `apart` bytes go to the kernel before the rest.
    /// `asked`: the bytes of a query to a real server.
    pub(crate) fn send(
        &mut self,
        side: usize,
        apart: usize,
        message: Message,
        asked: Option<Vec<u8>>,
    ) -> Result<(), Errno> {
        let bytes = match asked {
            Some(asked) => Some([&(asked.len() as u16).to_be_bytes()[..], &asked].concat()),
            None => self.exchanges.as_mut().map(|dns| dns.write(side, &message)),
        };
        let count = message.bytes;
        let this = &mut self.sides[side];
        this.written += u64::from(count);
        let ends_at = this.written;
        match bytes {
            Some(mut bytes) => {
                let rest = bytes.split_off(apart.min(bytes.len()));
                if !bytes.is_empty() {
                    this.write(&bytes);
                    this.flush()?;
                }
                this.write(&rest);
            }
            None => {
                if apart > 0 {
                    this.write_zeros(apart as u64);
                    this.flush()?;
                }
                this.write_zeros(u64::from(count).saturating_sub(apart as u64));
            }
        }
        match (&mut self.real, &self.arriving, &mut self.exchanges) {
            (Some(replies), ..) => replies.ask(message.tag),
            (_, Some(_), Some(exchanges)) => exchanges.forget(message.tag),
            _ => self.sides[1 - side].unread.push_back((ends_at, message)),
        }
        Ok(())
    }

    /// Takes bytes that an end has read, and writes what TLS answers unless that takes time. Returns
    /// what TLS says of them.
    pub(crate) fn take(&mut self, side: usize, bytes: &[u8]) -> Result<Taken, Closed> {
        let this = &mut self.sides[side];
        let taken = this.take(bytes)?;
        let plain = if this.secure.is_some() { &taken.plain } else { bytes };
        if let Some(replies) = &mut self.real {
            this.unread.extend(replies.take(plain));
        }
        if let (Some(arriving), Some(exchanges)) = (&mut self.arriving, &mut self.exchanges) {
            for (ends_at, message, asked) in arriving.take(plain)? {
                exchanges.ask(message.tag, asked);
                this.unread.push_back((ends_at, message));
            }
        }
        Ok(taken)
    }

    /// Writes bytes of the next message.
    pub(crate) fn send_part(&mut self, side: usize, apart: u32) -> Result<(), Errno> {
        let this = &mut self.sides[side];
        this.written += u64::from(apart);
        this.write_zeros(apart.into());
        this.flush()
    }

    /// Returns the next thing that an end's application does not know of its messages.
    pub(crate) fn progress(&mut self, side: usize, now: Time) -> Option<Progress> {
        let this = &mut self.sides[side];
        let next = this.unread.front().copied();
        // Of a query from elsewhere, only the bytes are known until it is complete.
        let partial = self.arriving.as_ref().map(|_| (u64::MAX, Message::default()));
        let (ends_at, message) = next.or(partial)?;
        let received = this.heard;
        let was_begun = this.begun.is_some();
        if received > this.read && !was_begun {
            this.begun = Some(now);
        }
        if received >= ends_at {
            this.unread.pop_front();
            this.read = ends_at;
            let begun = this.begun.take().unwrap_or(now);
            let has_more = this.unread.iter().any(|(_, other)| other.tag == message.tag);
            if let Some(exchanges) = self.exchanges.as_mut().filter(|_| side == 0 && !has_more) {
                exchanges.forget(message.tag);
            }
            return Some(Progress::Received(message, begun));
        }
        // Only servers are told.
        (side == 1 && received > this.read && !was_begun).then_some(Progress::FirstByte)
    }

    /// Returns whether both ends are gone. An end that waits to be accepted goes with the other.
    pub(crate) fn is_over(&self) -> bool {
        let [opening, accepting] = [self.opener, 1 - self.opener].map(|side| &self.sides[side].end);
        let waits = |end: &End| end.socket().is_none();
        opening.is_none() && accepting.as_ref().is_none_or(waits)
    }

    /// Returns what it is used for, by the applications at its ends.
    pub(crate) fn used(&self, owners: [u32; 2]) -> Use {
        Use { tcp: Some(self.tcp), server: self.has_messages.then_some(owners[1]) }
    }

    /// Returns the kernel's counts of an end.
    pub(crate) fn info(&self, side: usize) -> TcpInfo {
        self.sides[side].info()
    }

    /// Returns the IP packets, and their bytes, that an end has sent.
    ///
    /// The kernel counts packets and payload. Headers are those that TCP's options make; SYNs have
    /// more options than other segments.
    pub(crate) fn sent(&self, side: usize) -> (u32, u64) {
        let is_far = self.real.is_some() && side == 1;
        let info = self.info(if is_far { 0 } else { side });
        let packets = if is_far { info.segments_in } else { info.segments_out };
        let Some(packets) = packets.filter(|_| !self.is_new) else { return (0, 0) };
        // The kernel does not count the SYN-ACK, which it sent before this end had a socket.
        let packets = packets + u32::from(side != self.opener && !is_far);
        let payload = if is_far { self.sides[0].received } else { info.bytes_sent.unwrap_or(0) };
        let on = |option: Option<bool>| option == Some(true);
        let mut header = 40;
        // A SYN's other options: MSS; SACK, which costs nothing beside timestamps; window scale.
        let mut syn = 4;
        if on(info.timestamps) {
            header += 12;
        } else if on(info.sack) {
            syn += 4;
        }
        if on(info.window_scaling) {
            syn += 4;
        }
        if self.established_at.is_none() {
            // Only SYNs, with all options.
            header = 60;
            syn = 0;
        }
        (packets, u64::from(packets) * header + syn + payload)
    }
}

impl Side {
    /// Creates an end with or without TLS.
    pub(crate) fn with(secure: Option<Box<Secure>>) -> Self {
        Self { secure, ..Self::default() }
    }

    /// Creates an end that is elsewhere.
    pub(crate) fn elsewhere() -> Self {
        Self { end: None, over: true, ..Self::default() }
    }

    /// Lets the SYN carry data: what TLS says first, or what is written before the SYN leaves.
    pub(crate) fn defer(&mut self) {
        let Some(end) = &mut self.end else { return };
        end.deferred = true;
        if let Some(secure) = &mut self.secure {
            end.write(secure.hello());
        }
    }

    /// Returns whether what it writes now leaves before the connection is open.
    pub(crate) fn takes_early_data(&self) -> bool {
        match &self.secure {
            Some(secure) => secure.takes_early_data(),
            None => self.end.as_ref().is_some_and(|end| end.deferred),
        }
    }

    /// Writes bytes of a message.
    fn write(&mut self, bytes: &[u8]) {
        let Some(end) = &mut self.end else { return };
        match &mut self.secure {
            None => end.write(bytes.to_vec()),
            Some(secure) => end.write(secure.give(bytes)),
        }
    }

    /// Writes bytes without meaning.
    fn write_zeros(&mut self, bytes: u64) {
        match &mut self.end {
            Some(end) if self.secure.is_none() => end.write_zeros(bytes),
            // Records are made at once, so they take as much memory as the message.
            _ => self.write(&vec![0; bytes as usize]),
        }
    }

    fn flush(&mut self) -> Result<(), Errno> {
        self.end.as_mut().map_or(Ok(()), End::flush)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Taken, Closed> {
        self.received += bytes.len() as u64;
        let (Some(secure), Some(_)) = (&mut self.secure, &self.end) else {
            self.heard += bytes.len() as u64;
            return Ok(Taken::default());
        };
        // If both ends are ours, only a fault of ours makes records invalid.
        let mut taken = secure.take(bytes).map_err(|_| Closed::Reset)?;
        self.heard += taken.plain.len() as u64;
        if taken.service == Span::ZERO {
            let writes = std::mem::take(&mut taken.writes);
            self.write_flight(writes)?;
        }
        Ok(taken)
    }

    /// Writes a flight of TLS's handshake.
    pub(crate) fn write_flight(&mut self, writes: Vec<Vec<u8>>) -> Result<(), Closed> {
        let Some(end) = &mut self.end else { return Ok(()) };
        for write in writes {
            end.write(write);
            end.flush().map_err(closed_by)?;
        }
        Ok(())
    }

    /// Writes no more: what TLS says in the end, then a FIN.
    pub(crate) fn finish(&mut self) {
        let Some(end) = &mut self.end else { return };
        if let Some(secure) = self.secure.as_mut().filter(|_| !end.closing) {
            end.write(secure.goodbye());
        }
        end.closing = true;
    }

    /// Closes its socket.
    pub(crate) fn close(&mut self) {
        if let Some(end) = self.end.take() {
            self.last = end.info();
        }
    }

    pub(crate) fn info(&self) -> TcpInfo {
        self.end.as_ref().map_or(self.last, End::info)
    }
}

/// Returns what an application hears of an error of its connection.
pub(crate) fn closed_by(error: Errno) -> Closed {
    match error {
        Errno::ECONNREFUSED => Closed::Refused,
        Errno::ECONNRESET | Errno::EPIPE => Closed::Reset,
        _ => Closed::TimedOut,
    }
}

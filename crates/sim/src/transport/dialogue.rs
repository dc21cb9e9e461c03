//! The messages that two applications exchange over a connection, cut out of the byte stream.
//!
//! TCP carries bytes. So each end remembers where in its stream each message ends. The other end's
//! application receives a message when all bytes up to its end have arrived in order.

use std::collections::VecDeque;

use narrows_apps::Message;
use narrows_transport::Closed;
use narrows_transport::tcp::Endpoint;
use narrows_transport::tls::{Flight, Tls, Write, sealed};
use narrows_units::{MaybeTime, Time};

use super::stateless::Stateless;

/// The messages of a connection, and what its applications know of it.
#[derive(Debug)]
pub(crate) struct Dialogue {
    pub(crate) sides: [Side; 2],
    /// Whether both ends have finished with it.
    pub(crate) ending: bool,
    /// The server's end, as long as it is stateless.
    pub(crate) stateless: Option<Box<Stateless>>,
    /// TLS, if messages are encrypted.
    pub(crate) tls: Option<Tls>,
}

/// The state of one end.
#[derive(Debug)]
pub(crate) struct Side {
    /// The bytes that its application has written.
    written: u64,
    /// Messages to this end, each with the position in the other end's stream at which it ends.
    unread: VecDeque<(u64, Content)>,
    /// The position in the other end's stream of the end of the last message that the application
    /// knows.
    read: u64,
    /// When the first byte of the next message arrived.
    begun: MaybeTime,
    /// Whether its application may be told of the connection: it opened or accepted it.
    pub(crate) attached: bool,
    /// Whether it waits to be accepted.
    pub(crate) queued: bool,
    /// Whether it has an entry among its listener's half-open connections.
    pub(crate) half_open: bool,
    /// Whether it was answered with a cookie: its host does not know it until it is established.
    pub(crate) by_cookie: bool,
    reported_open: bool,
    reported_peer_closed: bool,
    /// Whether it has sent its last message: TLS sends nothing more.
    pub(crate) closing: bool,
    /// Whether it has a TLS flight that it has not yet answered.
    pub(crate) in_handshake: bool,
    pub(crate) over: bool,
    /// The IP packets that it has sent, and their bytes.
    pub(crate) packets: u32,
    pub(crate) ip_bytes: u64,
}

/// What ends at a position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Message(Message),
    Flight(Flight),
}

/// Something that an application, or TLS, has to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Opened,
    Flight(Flight),
    /// A part of a message has arrived. Only servers learn this.
    FirstByte,
    /// A whole message has arrived; the time is that of its first byte.
    Received(Message, Time),
    Closed(Closed),
}

impl Side {
    const fn new(attached: bool) -> Self {
        Self {
            written: 0,
            unread: VecDeque::new(),
            read: 0,
            begun: MaybeTime::NONE,
            attached,
            queued: false,
            half_open: false,
            by_cookie: false,
            reported_open: false,
            reported_peer_closed: false,
            closing: false,
            in_handshake: false,
            over: false,
            packets: 0,
            ip_bytes: 0,
        }
    }

    /// Notes that its application accepts the connection.
    pub(crate) fn accept(&mut self) {
        (self.attached, self.queued) = (true, false);
    }
}

impl Dialogue {
    pub(crate) fn new() -> Self {
        let sides = [Side::new(true), Side::new(false)];
        Self { sides, ending: false, stateless: None, tls: None }
    }

    /// Returns the next message to the server, and where it ends in the client's stream.
    pub(crate) fn next_query(&self) -> Option<(u64, Message)> {
        match self.sides[1].unread.front() {
            Some(&(end, Content::Message(message))) => Some((end, message)),
            _ => None,
        }
    }

    /// Notes that the server has answered the next message without a connection.
    pub(crate) fn answer_query(&mut self, reply: Message) {
        if let Some((end, _)) = self.sides[1].unread.pop_front() {
            self.sides[1].read = end;
        }
        self.write(1, reply);
    }

    /// Notes that an end's application writes a message. Returns its length in the stream.
    pub(crate) fn write(&mut self, side: usize, message: Message) -> u32 {
        let bytes = self.write_part(side, message.bytes);
        self.end_here(side, Content::Message(message));
        bytes
    }

    /// Notes that an end's application writes bytes that belong to its next message. Returns their
    /// length in the stream.
    pub(crate) fn write_part(&mut self, side: usize, bytes: u32) -> u32 {
        let bytes = if self.tls.is_some() { sealed(bytes) } else { bytes };
        self.sides[side].written += u64::from(bytes);
        bytes
    }

    /// Returns whether an end has received a whole message or flight.
    pub(crate) fn has_heard(&self, side: usize) -> bool {
        self.sides[side].read > 0
    }

    /// Notes that TLS writes at an end.
    pub(crate) fn write_flight(&mut self, side: usize, write: Write) {
        self.sides[side].written += u64::from(write.bytes);
        if let Some(flight) = write.ends {
            self.end_here(side, Content::Flight(flight));
        }
    }

    fn end_here(&mut self, side: usize, content: Content) {
        let ends_at = self.sides[side].written;
        self.sides[1 - side].unread.push_back((ends_at, content));
    }

    /// Returns the next thing that an end's application does not know yet.
    pub(crate) fn next_event(
        &mut self,
        now: Time,
        side: usize,
        endpoint: &Endpoint,
    ) -> Option<ConnectionEvent> {
        let is_secure = side == 1 || self.tls.is_none_or(|tls| tls.is_ready);
        let this = &mut self.sides[side];
        if !this.attached || this.over || this.in_handshake {
            return None;
        }
        if !this.reported_open && endpoint.is_open() && is_secure {
            this.reported_open = true;
            return Some(ConnectionEvent::Opened);
        }
        if let Some(&(ends_at, content)) = this.unread.front() {
            let received = endpoint.bytes_received();
            if received > this.read && this.begun == MaybeTime::NONE {
                this.begun = now.into();
                let is_message = matches!(content, Content::Message(_));
                if side == 1 && is_message && received < ends_at {
                    return Some(ConnectionEvent::FirstByte);
                }
            }
            if received >= ends_at {
                this.unread.pop_front();
                this.read = ends_at;
                let begun = std::mem::replace(&mut this.begun, MaybeTime::NONE);
                return Some(match content {
                    Content::Message(message) => {
                        ConnectionEvent::Received(message, begun.get().unwrap_or(now))
                    }
                    Content::Flight(flight) => {
                        this.in_handshake = true;
                        ConnectionEvent::Flight(flight)
                    }
                });
            }
        }
        if let Some(why) = endpoint.failure() {
            this.over = true;
            return Some(ConnectionEvent::Closed(why));
        }
        if !this.reported_peer_closed && endpoint.is_peer_closed() {
            this.reported_peer_closed = true;
            return Some(ConnectionEvent::Closed(Closed::ByPeer));
        }
        if endpoint.is_closed() {
            this.over = true;
            return Some(ConnectionEvent::Closed(Closed::Done));
        }
        None
    }
}

//! What two applications say to each other over a connection: messages, cut out of the byte stream.
//!
//! TCP carries bytes. So each end remembers where in its stream a message ends, and the other end's
//! application has the message when all bytes up to there have come in order.

use std::collections::VecDeque;

use narrows_units::Time;

use super::stateless::Stateless;
use super::tcp::Endpoint;
use super::tls::{Flight, Tls, Write, sealed};
use crate::application::{Closed, Message};
use crate::maybe_time::MaybeTime;

/// The messages of a connection, and what its applications know of it.
#[derive(Debug)]
pub(crate) struct Dialogue {
    pub(crate) sides: [Side; 2],
    /// Both ends have done with it.
    pub(crate) ending: bool,
    /// The server's end, as long as it is without state.
    pub(crate) stateless: Option<Box<Stateless>>,
    /// Messages are encrypted.
    pub(crate) tls: Option<Tls>,
}

/// One end's part.
#[derive(Debug)]
pub(crate) struct Side {
    /// Bytes that its application has written.
    written: u64,
    /// Messages to this end, each with the place in the other's stream at which it ends.
    unread: VecDeque<(u64, Content)>,
    /// Where in the other's stream the last message ended that its application knows.
    read: u64,
    /// When the first byte of the next message came.
    begun: MaybeTime,
    /// Its application may be told of the connection: it opened it, or accepted it.
    pub(crate) attached: bool,
    /// It waits to be accepted.
    pub(crate) queued: bool,
    /// It has an entry among the half-open connections of its listener.
    pub(crate) half_open: bool,
    /// It was answered with a cookie: its host knows nothing of it before it is established.
    pub(crate) by_cookie: bool,
    told_open: bool,
    told_peer_closed: bool,
    /// It has said its last: TLS says nothing more.
    pub(crate) closing: bool,
    /// It has a flight of TLS that it has not yet answered.
    pub(crate) in_handshake: bool,
    pub(crate) over: bool,
    /// IP packets that it has sent, and their bytes.
    pub(crate) packets: u32,
    pub(crate) ip_bytes: u64,
}

/// What ends at a place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Message(Message),
    Flight(Flight),
}

/// Something that an application is to be told, or TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Opened,
    Flight(Flight),
    /// A part of a message, whose rest is on its way. Servers alone are told.
    Begun,
    /// A whole message, and when its first byte had come.
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
            told_open: false,
            told_peer_closed: false,
            closing: false,
            in_handshake: false,
            over: false,
            packets: 0,
            ip_bytes: 0,
        }
    }

    /// Its application accepts the connection.
    pub(crate) fn accept(&mut self) {
        (self.attached, self.queued) = (true, false);
    }
}

impl Dialogue {
    pub(crate) fn new() -> Self {
        let sides = [Side::new(true), Side::new(false)];
        Self { sides, ending: false, stateless: None, tls: None }
    }

    /// The next message to the server, and where it ends in the client's stream.
    pub(crate) fn next_query(&self) -> Option<(u64, Message)> {
        match self.sides[1].unread.front() {
            Some(&(end, Content::Message(message))) => Some((end, message)),
            _ => None,
        }
    }

    /// The server has answered the next message without a connection.
    pub(crate) fn answer_query(&mut self, reply: Message) {
        if let Some((end, _)) = self.sides[1].unread.pop_front() {
            self.sides[1].read = end;
        }
        self.write(1, reply);
    }

    /// An end's application writes a message; gives its length in the stream.
    pub(crate) fn write(&mut self, side: usize, message: Message) -> u32 {
        let bytes = self.write_part(side, message.bytes);
        self.end_here(side, Content::Message(message));
        bytes
    }

    /// An end's application writes bytes that belong to its next message; gives their length in the stream.
    pub(crate) fn write_part(&mut self, side: usize, bytes: u32) -> u32 {
        let bytes = if self.tls.is_some() { sealed(bytes) } else { bytes };
        self.sides[side].written += u64::from(bytes);
        bytes
    }

    /// Whether an end has had a whole message or flight from the other.
    pub(crate) fn has_heard(&self, side: usize) -> bool {
        self.sides[side].read > 0
    }

    /// TLS writes at an end.
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

    /// The next thing that an end's application does not know yet.
    pub(crate) fn next_news(
        &mut self,
        now: Time,
        side: usize,
        endpoint: &Endpoint,
    ) -> Option<News> {
        let is_secure = side == 1 || self.tls.is_none_or(|tls| tls.is_ready);
        let this = &mut self.sides[side];
        if !this.attached || this.over || this.in_handshake {
            return None;
        }
        if !this.told_open && endpoint.is_open() && is_secure {
            this.told_open = true;
            return Some(News::Opened);
        }
        if let Some(&(ends_at, content)) = this.unread.front() {
            let received = endpoint.bytes_received();
            if received > this.read && this.begun == MaybeTime::NONE {
                this.begun = now.into();
                let is_message = matches!(content, Content::Message(_));
                if side == 1 && is_message && received < ends_at {
                    return Some(News::Begun);
                }
            }
            if received >= ends_at {
                this.unread.pop_front();
                this.read = ends_at;
                let begun = std::mem::replace(&mut this.begun, MaybeTime::NONE);
                return Some(match content {
                    Content::Message(message) => {
                        News::Received(message, begun.get().unwrap_or(now))
                    }
                    Content::Flight(flight) => {
                        this.in_handshake = true;
                        News::Flight(flight)
                    }
                });
            }
        }
        if let Some(why) = endpoint.failure() {
            this.over = true;
            return Some(News::Closed(why));
        }
        if !this.told_peer_closed && endpoint.is_peer_closed() {
            this.told_peer_closed = true;
            return Some(News::Closed(Closed::ByPeer));
        }
        if endpoint.is_closed() {
            this.over = true;
            return Some(News::Closed(Closed::Done));
        }
        None
    }
}

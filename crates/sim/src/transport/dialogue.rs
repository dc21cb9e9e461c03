//! What two applications say to each other over a connection: messages, cut out of the byte stream.
//!
//! TCP carries bytes. So each end remembers where in its stream a message ends, and the other end's
//! application has the message when all bytes up to there have come in order.

use std::collections::VecDeque;

use narrows_units::Time;

use super::stateless::Stateless;
use super::tcp::Endpoint;
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
}

/// One end's part.
#[derive(Debug)]
pub(crate) struct Side {
    /// Bytes that its application has written.
    written: u64,
    /// Messages to this end, each with the place in the other's stream at which it ends.
    unread: VecDeque<(u64, Message)>,
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
    pub(crate) over: bool,
    /// IP packets that it has sent, and their bytes.
    pub(crate) packets: u32,
    pub(crate) ip_bytes: u64,
}

/// Something that an application is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Opened,
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
        Self { sides: [Side::new(true), Side::new(false)], ending: false, stateless: None }
    }

    /// The next message to the server, and where it ends in the client's stream.
    pub(crate) fn next_query(&self) -> Option<(u64, Message)> {
        self.sides[1].unread.front().copied()
    }

    /// The server has answered the next message without a connection.
    pub(crate) fn answer_query(&mut self, reply: Message) {
        if let Some((end, _)) = self.sides[1].unread.pop_front() {
            self.sides[1].read = end;
        }
        self.write(1, reply);
    }

    /// An end's application writes a message.
    pub(crate) fn write(&mut self, side: usize, message: Message) {
        let written = &mut self.sides[side].written;
        *written += u64::from(message.bytes);
        let ends_at = *written;
        self.sides[1 - side].unread.push_back((ends_at, message));
    }

    /// An end's application writes bytes that belong to its next message.
    pub(crate) fn write_part(&mut self, side: usize, bytes: u32) {
        self.sides[side].written += u64::from(bytes);
    }

    /// The next thing that an end's application does not know yet.
    pub(crate) fn next_news(
        &mut self,
        now: Time,
        side: usize,
        endpoint: &Endpoint,
    ) -> Option<News> {
        let this = &mut self.sides[side];
        if !this.attached || this.over {
            return None;
        }
        if !this.told_open && endpoint.is_open() {
            this.told_open = true;
            return Some(News::Opened);
        }
        if let Some(&(ends_at, message)) = this.unread.front() {
            let received = endpoint.bytes_received();
            if received > this.read && this.begun == MaybeTime::NONE {
                this.begun = now.into();
            }
            if received >= ends_at {
                this.unread.pop_front();
                this.read = ends_at;
                let begun = std::mem::replace(&mut this.begun, MaybeTime::NONE);
                return Some(News::Received(message, begun.get().unwrap_or(now)));
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

//! A QUIC connection in the network: both ends, the messages on their streams, and datagrams on their way.
//!
//! A query has a stream of its own, and its reply comes on the same (RFC 9250, 4.2), so that none waits for
//! another one's bytes.

use std::collections::{BTreeMap, VecDeque};

use narrows_units::Time;

use super::config::Config;
use super::endpoint::{End, Endpoint};
use super::frames::Datagram;
use crate::agenda::Event;
use crate::application::{Closed, Message};
use crate::maybe_time::MaybeTime;
use crate::network::Network;
use crate::packet::{Label, Packet};
use crate::transport::tls::Tls;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    label: Label,
    tls: Tls,
    ends: [Endpoint; 2],
    pub(crate) sides: [Side; 2],
    /// When the pending timer event of each end is due.
    armed: [MaybeTime; 2],
    /// Datagrams that an end has sent and that have neither come nor been lost, by number.
    on_way: [VecDeque<(u32, Datagram)>; 2],
    numbers: u32,
    /// What an end will have when a stream has come whole.
    unread: [BTreeMap<u64, Message>; 2],
    /// Queries that the server has not yet answered: tag and stream.
    asked: Vec<(u32, u64)>,
    /// Streams that each end has opened.
    opened: [u64; 2],
    told_tickets: bool,
    /// Both ends have done with it.
    pub(crate) ending: bool,
}

/// What an end's application knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    /// It may be told of the connection: it opened it, or accepted it.
    pub(crate) attached: bool,
    /// It waits to be accepted.
    pub(crate) queued: bool,
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
    /// The client has tickets, so many.
    Tickets(u32),
    /// A whole message, and when its first byte had come.
    Received(Message, Time),
    Closed(Closed),
}

impl Connection {
    /// `configs`: of the client and of the server.
    pub(crate) fn new(now: Time, label: Label, configs: [Config; 2], tls: Tls) -> Self {
        let [client, server] = configs;
        let parameters = configs.map(|config| u64::from(config.parameters));
        let messages = tls.messages(parameters);
        Self {
            label,
            tls,
            ends: [
                Endpoint::new(now, true, [client, server], messages),
                Endpoint::new(now, false, [server, client], messages),
            ],
            sides: [Side { attached: true, ..Side::default() }, Side::default()],
            armed: [MaybeTime::NONE; 2],
            on_way: Default::default(),
            numbers: 0,
            unread: Default::default(),
            asked: Vec::new(),
            opened: [0; 2],
            told_tickets: false,
            ending: false,
        }
    }

    pub(crate) fn generation(&self) -> u8 {
        self.label.generation
    }

    /// The client's first message leaves with its hello.
    pub(crate) fn takes_early_data(&self) -> bool {
        self.tls.takes_early_data()
    }

    /// The server's end has heard of the connection.
    pub(crate) fn has_arrived(&self) -> bool {
        self.ends[1].is_open()
    }

    /// An end's application writes a message.
    pub(crate) fn write(&mut self, side: usize, message: Message) {
        let place = self.asked.iter().position(|&(tag, _)| side == 1 && tag == message.tag);
        let stream = match place {
            Some(place) => self.asked.swap_remove(place).1,
            None => {
                // RFC 9000, 2.1: the lowest bit says who opened it.
                let stream = 4 * self.opened[side] + side as u64;
                self.opened[side] += 1;
                stream
            }
        };
        self.ends[side].write(stream, message.bytes.into());
        self.unread[1 - side].insert(stream, message);
    }

    /// An end's application writes nothing more.
    pub(crate) fn close(&mut self, side: usize) {
        self.ends[side].close();
    }

    /// An end's application is done with it.
    pub(crate) fn abort(&mut self, side: usize) {
        self.ends[side].abort();
    }

    /// A packet has come to its host.
    pub(crate) fn handle_packet(&mut self, now: Time, packet: &Packet) {
        let from = usize::from(packet.goes_back());
        if let Some(datagram) = self.take_off(packet) {
            let marked = packet.ecn() == narrows_qdisc::Ecn::Ce;
            self.ends[1 - from].handle_datagram(now, &datagram, marked);
        }
    }

    /// A packet goes no further: gives what was in it.
    pub(crate) fn take_off(&mut self, packet: &Packet) -> Option<Datagram> {
        let on_way = &mut self.on_way[usize::from(packet.goes_back())];
        let number = packet.message().tag;
        let place = on_way.iter().position(|&(other, _)| other == number)?;
        on_way.remove(place).map(|(_, datagram)| datagram)
    }

    /// The timer of an end (`way`: the one on which it sends).
    pub(crate) fn handle_timer(&mut self, now: Time, way: u32) {
        let side = way as usize % 2;
        if !self.armed[side].is(now) {
            return;
        }
        self.armed[side] = MaybeTime::NONE;
        if self.ends[side].next_timeout().is_some_and(|due| due <= now) {
            self.ends[side].handle_timeout(now);
        }
    }

    /// Sends what an end has to send (`way`: the one on which it sends).
    pub(crate) fn flush(&mut self, now: Time, way: u32, network: &mut Network) {
        let side = way as usize % 2;
        let stamp = self.label.on_way(way);
        while let Some(datagram) = self.ends[side].poll_transmit(now) {
            self.numbers = self.numbers.wrapping_add(1);
            let message =
                Message { bytes: datagram.bytes(), tag: self.numbers, ..Message::default() };
            let packet = Packet::quic(stamp, &message, self.ends[side].sends_ect());
            self.on_way[side].push_back((self.numbers, datagram));
            self.sides[side].packets += 1;
            self.sides[side].ip_bytes += u64::from(packet.bytes);
            network.send_seldom(now, packet);
        }
        if let Some(due) = self.ends[side].next_timeout() {
            let due = due.max(now);
            if self.armed[side].is_after(due) {
                self.armed[side] = due.into();
                network.agenda.schedule(due, Event::TcpTimer(way));
            }
        }
    }

    /// The next thing that an end's application does not know yet.
    pub(crate) fn next_news(&mut self, side: usize) -> Option<News> {
        let (this, end) = (&mut self.sides[side], &mut self.ends[side]);
        if side == 0 && !self.told_tickets && end.has_tickets() {
            self.told_tickets = true;
            return Some(News::Tickets(self.tls.tickets()));
        }
        if !this.attached || this.over {
            return None;
        }
        if !this.told_open && end.is_open() {
            this.told_open = true;
            return Some(News::Opened);
        }
        if this.told_open
            && let Some((stream, begun)) = end.next_whole()
            && let Some(message) = self.unread[side].remove(&stream)
        {
            if side == 1 {
                self.asked.push((message.tag, stream));
            }
            return Some(News::Received(message, begun));
        }
        match end.end()? {
            End::There if !this.told_peer_closed => {
                this.told_peer_closed = true;
                Some(News::Closed(Closed::ByPeer))
            }
            End::There | End::Here => {
                this.over = true;
                Some(News::Closed(Closed::Done))
            }
            End::Silence => {
                this.over = true;
                Some(News::Closed(Closed::TimedOut))
            }
        }
    }

    /// Whether both ends have done with it.
    pub(crate) fn is_over(&self) -> bool {
        self.sides.iter().all(|side| side.over || !(side.attached || side.queued))
    }
}

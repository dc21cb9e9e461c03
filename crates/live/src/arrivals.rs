//! Datagrams and floods in the world: which sockets are watched, and what arrives at them.

use narrows_apps::{Association, Datagram};
use narrows_units::Time;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use crate::flood::Floods;
use crate::world::{SocketEvent, Watched, World};

/// Datagrams.
impl World {
    /// Opens the socket of a flow's server, if it is not open.
    pub(crate) fn serve_datagrams(&mut self, flow: u32) {
        let Self { flows, datagrams, places, .. } = self;
        let Some(link) = flows.link_mut(flow) else { return };
        let at = link.server(places);
        match datagrams.serve(places, link) {
            Ok(number) => self.watch_datagrams(number),
            Err(why) => self.fail(format!("{at}: {}", why.desc())),
        }
    }

    /// Opens a client's socket, if it is not open.
    pub(crate) fn open_datagrams(&mut self, flow: u32, socket: u32) {
        let Self { flows, datagrams, places, .. } = self;
        let Some(link) = flows.link_mut(flow) else { return };
        match datagrams.open(places, link, (flow, socket)) {
            Ok((number, is_new)) => self.watch_datagrams(is_new.then_some(number)),
            Err(why) => self.fail(format!("a socket for datagrams: {}", why.desc())),
        }
    }

    fn watch_datagrams(&mut self, number: Option<usize>) {
        let Some(number) = number else { return };
        let Some(socket) = self.datagrams.get(number) else { return };
        let event = EpollEvent::new(EpollFlags::EPOLLIN, Watched::Datagrams.data(number as u32));
        if let Err(why) = self.epoll.add(socket, event) {
            self.fail(format!("epoll: {why}"));
        }
    }

    /// Reads what has arrived at a socket.
    pub(crate) fn receive_datagrams(&mut self, number: usize) {
        for _ in 0..MOST_AT_ONCE {
            let Some(arrived) = self.datagrams.receive(number, &mut self.buffer) else { return };
            let Some(arrived) = arrived else { continue };
            let Some(link) = self.flows.link_mut(arrived.flow) else { continue };
            let message = link.read(arrived, &self.buffer[..arrived.bytes]);
            let Some(message) = message else { continue };
            if link.is_real && arrived.goes_back {
                // Its sender does not count it.
                let sent = link.packets(true, arrived.bytes);
                if let Some(attempt) = self.records.attempts.get_mut(message.tag as usize) {
                    attempt.packets_received =
                        attempt.packets_received.saturating_add(sent.packets);
                    attempt.bytes_received = attempt.bytes_received.saturating_add(sent.bytes);
                }
            }
            let association = Association::from(self.flows.socket(arrived.flow, 0));
            self.events.push_back(SocketEvent::Datagram(Datagram {
                association,
                socket: arrived.socket,
                goes_back: arrived.goes_back,
                message,
            }));
        }
    }

    /// Returns the longest packet that leaves along a path whole.
    pub(crate) fn mtu(&self, path: usize) -> u16 {
        self.paths[path].links.first().map_or(u16::MAX, |&link| self.mtus[link])
    }
}

/// Floods.
impl World {
    /// Adds the floods of this part.
    pub(crate) fn add_floods(&mut self, floods: Floods) {
        for (&application, flood) in &floods {
            if let Some(replies) = &flood.replies {
                self.watch(replies, Watched::Replies, application, false);
            }
        }
        self.floods = floods;
    }

    /// Opens the servers of floods, which nobody else may ask, and their counters.
    pub(crate) fn listen_to_floods(&mut self) {
        let mut floods = std::mem::take(&mut self.floods);
        for flood in floods.values_mut() {
            let Some(&serving) = self.serving.get(&flood.server()) else { continue };
            if !self.real.is_real(flood.server()) {
                let server = flood.server();
                self.listen((flood.nodes[1], flood.target), serving, Some(server), server);
            }
            if let Err(why) = flood.watch_server(&self.places) {
                self.fail(format!("{}: counters: {why}", flood.target));
            }
        }
        self.floods = floods;
    }

    /// Returns the queries of a flood that are known to be lost since the last call.
    pub(crate) fn newly_lost(&mut self, now: Time, application: u32) -> Vec<Datagram> {
        let Some(flood) = self.floods.get_mut(&application) else { return Vec::new() };
        let lost = flood.newly_lost(now) as usize;
        flood.datagram(false, 0).map_or_else(Vec::new, |datagram| vec![datagram; lost])
    }

    /// Reads replies to forged addresses.
    pub(crate) fn receive_replies(&mut self, application: u32) {
        let Some(flood) = self.floods.get(&application) else { return };
        for _ in 0..MOST_AT_ONCE {
            let Some(bytes) = flood.next_reply(&mut self.buffer) else { return };
            self.events.extend(flood.datagram(true, bytes).map(SocketEvent::Datagram));
        }
    }
}

/// The most datagrams that a socket delivers before others have their turn.
const MOST_AT_ONCE: usize = 64;

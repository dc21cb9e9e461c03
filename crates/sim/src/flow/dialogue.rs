//! Segments of connections whose applications exchange messages, and the events that follow.

use narrows_apps::Socket;
use narrows_transport::half_open::Admission;
use narrows_units::Time;

use super::{Flow, Flows, SocketEvent};
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::{Connection, ConnectionEvent};

impl Flows {
    /// Handles a segment that has reached an end of such a connection.
    #[inline(never)]
    pub(super) fn handle_dialogue(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let flow = packet.flow();
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else { return };
        let side = usize::from(!packet.goes_back());
        if connection.generation() != packet.generation {
            // Its connection is gone, and another one has the number.
            packet.discard(&mut network.pool);
            return;
        }
        if side == 1 && connection.dialogue.as_ref().is_some_and(|d| d.stateless.is_some()) {
            self.handle_stateless(now, packet, network);
            return;
        }
        let endpoint = &mut connection.ends[side].endpoint;
        if endpoint.is_failed() {
            connection.refuse(now, packet, network);
            return;
        }
        let mut admission = None;
        if endpoint.is_listening() {
            let application = self.owners[flow as usize].applications[side];
            let Some(listener) = self.listeners.iter_mut().find(|l| l.application == application)
            else {
                connection.refuse(now, packet, network);
                return;
            };
            if packet.is_syn() {
                admission = Some(listener.admit());
            }
            if admission == Some(Admission::Dropped) {
                // The segment is dropped; the client will send it again.
                packet.discard(&mut network.pool);
                return;
            }
            if admission == Some(Admission::Entry) {
                listener.half_open.enter();
            }
            if admission == Some(Admission::Cookie) {
                // Linux does not call `tcp_try_fastopen` here.
                endpoint.ignore_fast_open();
            }
        }
        let was_open = endpoint.is_open();
        if connection.handle_counted(now, packet, network) {
            let generation = connection.generation();
            self.events.push(SocketEvent::Delivered(Socket { end: 2 * flow, generation }));
        }
        if let Some(dialogue) = &mut connection.dialogue {
            let this = &mut dialogue.sides[side];
            this.half_open |= admission == Some(Admission::Entry);
            if admission == Some(Admission::Cookie) {
                this.by_cookie = true;
                connection.ends[side].endpoint.forget_handshake();
            }
        }
        let end = 2 * flow + side as u32;
        let attached = connection.dialogue.as_ref().is_none_or(|d| d.sides[side].attached);
        if connection.ends[side].endpoint.take_cookie() {
            let owners = &self.owners[flow as usize];
            let host = network.paths.nodes(owners.there)[0];
            self.sessions.keep_cookie(host, owners.applications[1]);
        }
        if !was_open && connection.ends[side].endpoint.is_open() && !attached {
            let socket = Socket { end, generation: connection.generation() };
            let application = self.owners[flow as usize].applications[side];
            if let Some(dialogue) = &mut connection.dialogue {
                dialogue.sides[side].queued = true;
            }
            if let Some(listener) = self.listener(application) {
                listener.queue.push_back(socket);
                self.events.push(SocketEvent::Arrived(application));
            }
        }
        self.collect_news(now, end);
    }

    /// Collects what an end's application does not know yet. Notes whether both ends have finished
    /// with the flow.
    pub(super) fn collect_news(&mut self, now: Time, end: u32) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else {
            self.collect_quic_news(end);
            return;
        };
        let socket = Socket { end, generation: connection.generation() };
        let Connection { dialogue: Some(dialogue), ends, .. } = connection else { return };
        let endpoint = &ends[socket.side()].endpoint;
        let this = &mut dialogue.sides[socket.side()];
        // A connection opened by a Fast Open cookie never had a half-open entry
        // (`tcp_conn_request`).
        if this.half_open && (endpoint.is_open() || endpoint.is_failed()) {
            this.half_open = false;
            let application = self.owners[end as usize / 2].applications[socket.side()];
            if let Some(listener) = self.listeners.iter_mut().find(|l| l.application == application)
            {
                listener.half_open.leave();
            }
        }
        while let Some(event) = dialogue.next_event(now, socket.side(), endpoint) {
            self.events.push(match event {
                ConnectionEvent::Opened => SocketEvent::Opened(socket),
                ConnectionEvent::FirstByte => SocketEvent::FirstByte(socket),
                ConnectionEvent::Flight(flight) => SocketEvent::Flight(socket, flight),
                ConnectionEvent::Received(message, begun) => {
                    SocketEvent::Received(socket, message, begun)
                }
                ConnectionEvent::Closed(how) => SocketEvent::Closed(socket, how),
            });
        }
        let is_over = |side: usize| {
            let endpoint = &ends[side].endpoint;
            dialogue.sides[side].over
                || (!dialogue.sides[side].attached
                    && !dialogue.sides[side].queued
                    && (endpoint.is_listening()
                        || endpoint.is_failed()
                        || (dialogue.sides[side].by_cookie && !endpoint.is_established())))
        };
        if is_over(0) && is_over(1) && !dialogue.ending {
            dialogue.ending = true;
            self.ending.push(end / 2);
        }
    }
}

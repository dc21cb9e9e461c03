//! Datagrams between applications' sockets.

use narrows_apps::{Datagram, Socket};
use narrows_units::{Ecn, Time};

use super::{Flow, Flows, SocketEvent};
use crate::network::Network;
use crate::packet::{Packet, PacketKind, Stamp};

impl Flows {
    /// Reserves `count` sockets for datagrams and returns the first.
    pub(crate) fn take_sockets(&mut self, count: u32) -> u32 {
        let first = self.sockets;
        self.sockets = self.sockets.wrapping_add(count);
        first
    }

    /// Sets the ECN field of a flow's datagrams.
    pub(crate) fn set_ecn(&mut self, socket: Socket, ecn: Ecn) {
        if let Some(Flow::Udp(label)) = self.table.get_mut(socket.flow() as usize) {
            *label = label.with_ecn(ecn);
        }
    }

    /// Handles a datagram, a fragment or an ICMP message that has reached its host.
    #[inline(never)]
    pub(crate) fn handle_no_segment(&mut self, now: Time, packet: &Packet, network: &mut Network) {
        match packet.kind() {
            PacketKind::TooBig => self.handle_too_big(now, packet, network),
            PacketKind::Fragment => {
                if let Some(whole) = network.assemble(now, packet) {
                    self.handle_datagram(&whole);
                }
            }
            _ if packet.is_quic() => self.handle_quic(now, packet, network),
            _ => self.handle_datagram(packet),
        }
    }

    /// Handles a datagram that has reached its host.
    pub(crate) fn handle_datagram(&mut self, packet: &Packet) {
        if let Some(datagram) = self.datagram(packet) {
            self.events.push(SocketEvent::Datagram(datagram));
        }
    }

    /// Notes that a datagram was lost. Returns what its application is told, and which this is: the
    /// client, which keeps the records of both directions.
    pub(crate) fn note_loss(&mut self, packet: &Packet) -> Option<(u32, Datagram)> {
        if packet.is_quic() {
            self.note_quic_loss(packet);
            return None;
        }
        let datagram = self.datagram(packet)?;
        Some((self.owner(datagram.association.first_end()), datagram))
    }

    /// Returns the fields that a datagram needs, or `None` if the flow is gone.
    pub(crate) fn stamp(&self, socket: Socket) -> Option<Stamp> {
        match self.table.get(socket.flow() as usize) {
            Some(Flow::Udp(label)) => Some(label.in_direction(socket.end)),
            _ => None,
        }
    }

    fn datagram(&self, packet: &Packet) -> Option<Datagram> {
        let Flow::Udp(label) = &self.table[packet.flow() as usize] else { return None };
        (label.generation == packet.generation).then(|| Datagram {
            association: Socket { end: 2 * packet.flow(), generation: packet.generation }.into(),
            socket: packet.socket(),
            goes_back: packet.goes_back(),
            message: packet.message(),
        })
    }
}

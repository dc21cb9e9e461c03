//! The segments of an entry: what its state requires of each, and the parts of its reply.

use std::net::SocketAddr;

use narrows_wire::tcp::{Flags, Options};

use super::flow::{Flow, FlowKey, State};
use super::packet::{Datagram, Ip, UDP};
use super::segment::{Outgoing, WINDOW, WSCALE};
use super::{Connection, Core};

impl Core {
    /// Returns the part of a connection's reply from `offset` on that fits one segment; `None` if
    /// the ring no longer has it.
    pub(super) fn reply_segment(
        &self,
        ends: Connection,
        flow: &Flow,
        offset: usize,
    ) -> Option<Vec<u8>> {
        let length = usize::from(flow.reply_length);
        let reply = self.ring.at(flow.stored, length)?;
        let end = (offset + self.payload_max(ends, flow)).min(length);
        let mut flags = Flags::ACK;
        if end == length {
            flags |= if offset < length { Flags::PSH } else { 0 };
            flags |= if flow.state == State::Closing { Flags::FIN } else { 0 };
        }
        // The client's FIN is only acknowledged together with ours, so that the client does not
        // wait for that in vain.
        let fin = u32::from(flow.client_fin && flags & Flags::FIN == 0);
        let next = flow.client_next.wrapping_sub(fin);
        let header = Outgoing {
            seq: flow.server_seq.wrapping_add(offset as u32),
            ack: if flow.query_unacked { flow.query_seq } else { next },
            flags,
            ..answer(ends, flow)
        };
        Some(header.packet(&reply[offset..end]))
    }

    /// Takes a query's datagram, which [`Core::on_client`] put out, on its way to the server.
    /// Returns the ACK that the client must get before the reply, if one is due.
    pub fn acknowledge(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let ip = Ip::read(packet).ok()??;
        let server = self.server(ip.destination)?;
        if ip.protocol != UDP || ip.fragment.is_some() {
            return None;
        }
        let datagram = Datagram::read(ip.payload).ok()?;
        let port = datagram.source_port;
        let key = FlowKey { client: ip.source, port, server };
        let mut flow = self.flows.get(&key).filter(|flow| {
            datagram.destination_port == self.settings.port
                && flow.state == State::Query
                && flow.ack_due
        })?;
        flow.ack_due = false;
        self.flows.put(key, flow);
        let ends = Connection {
            client: SocketAddr::new(ip.source, port),
            server: SocketAddr::new(ip.destination, datagram.destination_port),
        };
        let header =
            Outgoing { seq: flow.server_seq, ack: flow.acknowledged(), ..answer(ends, &flow) };
        Some(header.packet(&[]))
    }

    /// Returns the largest payload of a segment to the client.
    pub(super) fn payload_max(&self, ends: Connection, flow: &Flow) -> usize {
        let ours = if ends.client.is_ipv4() { self.settings.mss4 } else { self.settings.mss6 };
        let options = answer(ends, flow).options.bytes();
        usize::from(flow.mss.min(ours)).saturating_sub(options).max(1)
    }
}

/// Returns the headers that all our segments on an entry share.
pub(super) fn answer(ends: Connection, flow: &Flow) -> Outgoing {
    let timestamps = flow.timestamps.then_some((flow.tsval, flow.client_tsval));
    Outgoing {
        from: ends.server,
        to: ends.client,
        seq: 0,
        ack: 0,
        flags: Flags::ACK,
        window: if flow.scaled() { WINDOW >> WSCALE } else { WINDOW },
        options: Options { timestamps, ..Options::default() },
    }
}

/// Returns our FIN alone, behind the reply. It lets a client that may lack part of the reply go on
/// asking.
pub(super) fn fin(ends: Connection, flow: &Flow) -> Vec<u8> {
    let header = Outgoing {
        seq: flow.end(),
        ack: match flow.state {
            State::Query | State::Replied => flow.acknowledged(),
            _ if flow.query_unacked => flow.query_seq,
            _ => flow.client_next,
        },
        flags: Flags::FIN | Flags::ACK,
        ..answer(ends, flow)
    };
    header.packet(&[])
}

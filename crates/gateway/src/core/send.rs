//! The segments of an entry: what its state says of each, and the parts of its reply.

use narrows_wire::tcp::{Flags, Options};

use super::flow::{Flow, State};
use super::segment::{Outgoing, WINDOW, WSCALE};
use super::{Connection, Core};

impl Core {
    /// The part of a connection's reply from `offset` on that fits one segment; `None` where it is no longer there.
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
        // The client's FIN is acknowledged with ours: it must not be left waiting for that.
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

    /// The largest payload of a segment to the client.
    pub(super) fn payload_max(&self, ends: Connection, flow: &Flow) -> usize {
        let ours = if ends.client.is_ipv4() { self.settings.mss4 } else { self.settings.mss6 };
        let options = answer(ends, flow).options.bytes();
        usize::from(flow.mss.min(ours)).saturating_sub(options).max(1)
    }
}

/// The headers that all our segments on an entry share.
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

/// Our FIN alone, behind the reply; a client that may lack some of that is to ask again.
pub(super) fn fin(ends: Connection, flow: &Flow) -> Vec<u8> {
    let header = Outgoing {
        seq: flow.end(),
        ack: if flow.state == State::Replied || flow.query_unacked {
            flow.query_seq
        } else {
            flow.client_next
        },
        flags: Flags::FIN | Flags::ACK,
        ..answer(ends, flow)
    };
    header.packet(&[])
}

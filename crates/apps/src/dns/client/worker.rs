//! One worker: what it waits for, and its attempts at the current query.

use narrows_units::{MaybeTime, Time};

use super::settings::over_udp;
use crate::dns::exchange::Exchange;
use crate::record::{AttemptRow, Fate, Transport};
use crate::{Host, Random};

#[derive(Debug)]
pub(super) struct Worker {
    /// The number of its next query. It counts the queries that the worker has begun, or, with
    /// arrivals, those of the whole group.
    pub(super) begun: u32,
    pub(super) state: State,
    /// The current query: its row, its lengths, and when it is given up.
    pub(super) query: u32,
    pub(super) exchange: Exchange,
    pub(super) gives_up_at: MaybeTime,
    /// The attempts made at it: in all, over UDP, and over TCP.
    pub(super) attempts: u8,
    pub(super) over_udp: u8,
    pub(super) over_tcp: u8,
    /// The attempts over TCP since the last one over UDP.
    pub(super) together: u8,
    /// When something is due: the next query, or the end of an attempt.
    pub(super) due: MaybeTime,
    /// When the pending timer expires.
    pub(super) armed: MaybeTime,
    pub(super) random: Random,
}

/// What a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The time of its next query.
    Pause,
    /// A datagram for this attempt.
    Datagram { row: u32 },
    /// A reply over a connection for this attempt.
    Connection { row: u32 },
}

impl Worker {
    /// Adds the row of another attempt at the current query.
    pub(super) fn begin_attempt(&mut self, host: &mut dyn Host, transport: Transport) -> u32 {
        let sent = host.now();
        let records = host.records();
        let row = records.attempts.len() as u32;
        self.attempts = self.attempts.saturating_add(1);
        records.queries[self.query as usize].attempts = self.attempts;
        records.attempts.push(AttemptRow {
            query: self.query,
            attempt: self.attempts,
            sent,
            fate: Fate::Pending,
            first_byte: None,
            received: None,
            transport,
            reused: false,
            handshakes: 0,
            handshake: None,
            packets_sent: 0,
            bytes_sent: 0,
            packets_received: 0,
            bytes_received: 0,
            query_bytes: over_udp(self.exchange.query),
        });
        row
    }

    pub(super) fn is_given_up(&self, now: Time) -> bool {
        !self.gives_up_at.is_after(now)
    }

    /// Sets a timer for whatever is due next.
    pub(super) fn arm(&mut self, host: &mut dyn Host, number: u32) {
        if let Some(due) = self.due.get()
            && self.armed.is_after(due)
        {
            self.armed = due.into();
            host.wake(due, number);
        }
    }
}

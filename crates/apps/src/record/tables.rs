//! The tables that applications share: `bursts`, `queries` and `attempts`.

use narrows_units::Time;

use super::{Fate, Records};
use crate::Environment;
use crate::flow_samples::FlowSamplesRow;
use crate::flow_states::FlowStatesRow;
use crate::goodput::GoodputRow;
use crate::table::{Head, Table, rows};

rows! {
    /// A burst of an `on-off` source, a file of `ftp`, or what `once` sends.
    pub(crate) struct BurstsRow as "bursts" {
        /// Number of the connection, from 0 in the scenario's order.
        flow: u32 [""];
        /// Number of the burst within its connection, from 0.
        burst: u32 [""];
        /// When it began. A connection's first burst begins when the connection begins to open,
        /// before the handshake; each later burst begins when the application hands it to TCP.
        start_s: f64 ["s"];
        /// When the acknowledgement of its last byte reached the sender; null: not by the end of
        /// the run.
        end_s: f64 ["s", null];
        /// Its size.
        bytes: u64 ["bytes"];
        /// Data segments that were sent again.
        segments_retransmitted: u32 ["segments"];
    }
}

rows! {
    /// A DNS query, from its first attempt to the answer or the last timeout.
    pub(crate) struct QueriesRow as "queries" {
        /// Number of the query, from 0.
        query: u32 [""];
        /// The group of resolver workers that asked.
        group: String [""];
        /// The worker that asked; with `arrivals`, the worker that took the query.
        worker: u32 [""];
        /// Number of the query within its worker, or among the arrivals, from 0.
        index: u32 [""];
        /// False for warm-up queries and for those that began outside the declared window; no
        /// summary counts them.
        measured: bool [""];
        /// When it began: its first attempt was sent.
        start_s: f64 ["s"];
        /// When it was answered or given up; null: not by the end of the run.
        end_s: f64 ["s", null];
        /// The attempt that was answered in time, from 1; 0: none was.
        attempt: u8 [""];
        /// Attempts made; 0: the query was turned away.
        attempts: u8 [""];
        /// From the first attempt to the answer that ended the query; null: unanswered.
        response_ms: f64 ["ms", null];
        /// From the successful attempt to its answer; null: unanswered.
        rtt_ms: f64 ["ms", null];
        /// Answers that arrived after their attempt had timed out.
        late_answers: u8 [""];
    }
}

rows! {
    /// An attempt of a DNS query.
    pub(crate) struct AttemptsRow as "attempts" {
        /// Number of the query, from 0.
        query: u32 [""];
        /// Number of the attempt, from 1.
        attempt: u8 [""];
        /// When it was sent.
        sent_s: f64 ["s"];
        /// `answered`, `late`, `query-lost`, `reply-lost`, `truncated`, `refused`, `closed`,
        /// `reset`, `timed-out` (nothing arrived, no loss is known) or `pending` (open at the end
        /// of the run).
        fate: &'static str [""];
        /// The link at which a packet was lost; empty: none was.
        lost_at: String [""];
        /// Why it was lost: `overflow`, `early` or `forced` in the queue, `wire`, `mtu`,
        /// `reassembly` (its fragments arrived late), `no-neighbour` (ARP gave no address), or what
        /// a middlebox dropped: `middlebox-dns-length`, `middlebox-fragment`, `middlebox-too-big`,
        /// `middlebox-tcp-53`, `middlebox-syn-data`; empty: it was not.
        reason: &'static str [""];
        /// When the first byte of its answer arrived.
        first_byte_s: f64 ["s", null];
        /// When its answer arrived; null: none did.
        received_s: f64 ["s", null];
        /// What carried it: `udp`, `tcp`, `tls`, `https`, `quic` or `http3`.
        transport: &'static str [""];
        /// Whether it used a connection that had carried a query before.
        reused: bool [""];
        /// Round trips before the query could be sent.
        handshake_round_trips: u8 [""];
        /// Time of the handshake; null: there was none, or it did not end.
        handshake_ms: f64 ["ms", null];
        /// IP packets that the client sent for it. With a connection for one query, these are all
        /// packets of the connection. On a persistent connection, they are those that crossed while the
        /// attempt waited, answered or not, unless another attempt counts them. Over UDP, each
        /// fragment counts.
        packets_sent: u32 ["packets"];
        /// Their lengths, without framing.
        bytes_sent: u32 ["bytes"];
        /// IP packets that the server sent for it; on a kernel, those that arrived.
        packets_received: u32 ["packets"];
        /// Their lengths, without framing.
        bytes_received: u32 ["bytes"];
    }
}

impl Records {
    /// The declarations of the tables that applications share, and of the samples.
    pub const HEADS: [Head; 6] = [
        BurstsRow::HEAD,
        QueriesRow::HEAD,
        AttemptsRow::HEAD,
        GoodputRow::HEAD,
        FlowSamplesRow::HEAD,
        FlowStatesRow::HEAD,
    ];

    /// Returns the tables `bursts`, `queries` and `attempts`. `names` are those of the plan's
    /// applications.
    pub fn tables(&self, names: &[String], environment: &Environment<'_>) -> [Table; 3] {
        [bursts(self), queries(self, names), attempts(self, environment)]
    }
}

/// Returns the table of bursts; those still going on come last.
fn bursts(records: &Records) -> Table {
    let rows = records.bursts.iter().map(|row| BurstsRow {
        flow: row.flow,
        burst: row.burst,
        start_s: row.start.as_secs_f64(),
        end_s: seconds(row.end),
        bytes: row.bytes,
        segments_retransmitted: row.retransmitted,
    });
    BurstsRow::table(rows)
}

/// Returns the table of DNS queries.
fn queries(records: &Records, names: &[String]) -> Table {
    let rows = records.queries.iter().enumerate().map(|(number, row)| QueriesRow {
        query: number as u32,
        group: names[row.client as usize].clone(),
        worker: row.worker,
        index: row.index,
        measured: row.measured,
        start_s: row.start.as_secs_f64(),
        end_s: seconds(row.end),
        attempt: row.attempt,
        attempts: row.attempts,
        response_ms: match row.end {
            Some(end) if row.attempt > 0 => end.since(row.start).as_secs_f64() * 1e3,
            _ => f64::NAN,
        },
        rtt_ms: row.rtt.map_or(f64::NAN, |rtt| rtt.as_secs_f64() * 1e3),
        late_answers: row.late_answers,
    });
    QueriesRow::table(rows)
}

/// Returns the table of attempts at DNS queries.
fn attempts(records: &Records, environment: &Environment<'_>) -> Table {
    let rows = records.attempts.iter().map(|row| AttemptsRow {
        query: row.query,
        attempt: row.attempt,
        sent_s: row.sent.as_secs_f64(),
        fate: row.fate.name(),
        lost_at: match row.fate {
            Fate::QueryLost(link, _) | Fate::ReplyLost(link, _) => {
                environment.links[link as usize].0.to_owned()
            }
            _ => String::new(),
        },
        reason: match row.fate {
            Fate::QueryLost(_, reason) | Fate::ReplyLost(_, reason) => reason.name(),
            _ => "",
        },
        first_byte_s: seconds(row.first_byte),
        received_s: seconds(row.received),
        transport: row.transport.name(),
        reused: row.reused,
        handshake_round_trips: row.handshakes,
        handshake_ms: row.handshake.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3),
        packets_sent: row.packets_sent,
        bytes_sent: row.bytes_sent,
        packets_received: row.packets_received,
        bytes_received: row.bytes_received,
    });
    AttemptsRow::table(rows)
}

impl Fate {
    /// Returns its name in the table `attempts`.
    const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered => "answered",
            Self::Late => "late",
            Self::QueryLost(..) => "query-lost",
            Self::ReplyLost(..) => "reply-lost",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::TimedOut => "timed-out",
        }
    }
}

/// Converts to seconds; NaN means "never".
fn seconds(at: Option<Time>) -> f64 {
    at.map_or(f64::NAN, Time::as_secs_f64)
}

//! The tables of a run, built from its records.

use narrows_apps::record::{Fate, Records};
use narrows_apps::table::{Column, Table, columns};
use narrows_qdisc::AverageQueue;
use narrows_units::{Span, Time};

use crate::flow::{Flows, Row};
use crate::monitor::Monitors;
use crate::network::Neighbours;
use crate::paths::Paths;
use crate::plan::Plan;

/// Returns the table of connections that exist from the start of the run.
pub(crate) fn flows(
    flows: &Flows,
    paths: &Paths,
    plan: &Plan,
    names: &[String],
    now: Time,
) -> Table {
    let node = |row: &Row<'_>, end: usize| plan.nodes[paths.nodes(row.there)[end] as usize].clone();
    let ms = |span: Option<Span>| span.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
    let rows: Vec<_> = flows.listed().collect();
    let mut columns = vec![("flow", Column::U32((0..rows.len() as u32).collect()))];
    columns.extend(columns!(rows,
        "name": Text = |row| row.name.to_owned(),
        "group": Text = |row| names[row.application as usize].clone(),
        "sender": Text = |row| node(row, 0),
        "receiver": Text = |row| node(row, 1),
        "ecn": Bool = |row| row.connection.first().ecn_negotiated(),
        "start_s": F64 = |row| seconds(row.connection.established_at().map(|_| row.start)),
        "established_s": F64 = |row| seconds(row.connection.established_at()),
        "end_s": F64 = |row| seconds(row.connection.ended_at()),
        "bytes_acked": U64 = |row| row.connection.first().bytes_acked(),
        "bytes_received": U64 = |row| row.connection.second().bytes_received(),
    ));
    let counters: Vec<_> = rows.iter().map(|row| row.connection.first().counters()).collect();
    columns.extend(columns!(counters,
        "segments_sent": U64 = |counters| counters.segments_sent,
        "segments_retransmitted": U64 = |counters| counters.segments_retransmitted,
        "timeouts": U32 = |counters| counters.timeouts,
        "fast_recoveries": U32 = |counters| counters.fast_recoveries,
        "ecn_reductions": U32 = |counters| counters.ecn_reductions,
        "tail_probes": U32 = |counters| counters.tail_probes,
        "undos": U32 = |counters| counters.undos,
    ));
    columns.extend(columns!(rows,
        "marks_received": U64 = |row| row.connection.second().counters().marks_received,
        "srtt_ms": F64 = |row| ms(row.connection.first().srtt()),
        "min_rtt_ms": F64 = |row| ms(row.connection.first().min_rtt()),
        "cwnd_segments": F64 = |row| f64::from(row.connection.first().cwnd()),
        "cwnd_mean_segments": F64 = |row| row.connection.mean_window(now),
        "busy_s": F64 = |row| row.connection.first().busy(now).as_secs_f64(),
        "rwnd_limited_s": F64 = |row| row.connection.first().rwnd_limited(now).as_secs_f64(),
    ));
    Table { name: "flows", columns }
}

/// Returns the table of bursts; those still going on come last.
pub(crate) fn bursts(records: &Records) -> Table {
    let rows = &records.bursts;
    let columns = columns!(rows,
        "flow": U32 = |row| row.flow,
        "burst": U32 = |row| row.burst,
        "start_s": F64 = |row| row.start.as_secs_f64(),
        "end_s": F64 = |row| seconds(row.end),
        "bytes": U64 = |row| row.bytes,
        "segments_retransmitted": U64 = |row| u64::from(row.retransmitted),
    );
    Table { name: "bursts", columns }
}

/// Returns the table of DNS queries.
pub(crate) fn queries(records: &Records, names: &[String]) -> Table {
    let rows = &records.queries;
    let ids: Vec<u32> = (0..rows.len() as u32).collect();
    let mut columns = vec![("query", Column::U32(ids))];
    columns.extend(columns!(rows,
        "group": Text = |row| names[row.client as usize].clone(),
        "worker": U32 = |row| row.worker,
        "index": U32 = |row| row.index,
        "measured": Bool = |row| row.measured,
        "start_s": F64 = |row| row.start.as_secs_f64(),
        "end_s": F64 = |row| seconds(row.end),
        "attempt": U8 = |row| row.attempt,
        "attempts": U8 = |row| row.attempts,
        "response_ms": F64 = |row| match row.end {
            Some(end) if row.attempt > 0 => end.since(row.start).as_secs_f64() * 1e3,
            _ => f64::NAN,
        },
        "rtt_ms": F64 = |row| row.rtt.map_or(f64::NAN, |rtt| rtt.as_secs_f64() * 1e3),
        "late_answers": U8 = |row| row.late_answers,
    ));
    Table { name: "queries", columns }
}

/// Returns the table of attempts at DNS queries.
pub(crate) fn attempts(records: &Records, plan: &Plan) -> Table {
    let rows = &records.attempts;
    let columns = columns!(rows,
        "query": U32 = |row| row.query,
        "attempt": U8 = |row| row.attempt,
        "sent_s": F64 = |row| row.sent.as_secs_f64(),
        "fate": Text = |row| fate_name(row.fate).to_owned(),
        "lost_at": Text = |row| match row.fate {
            Fate::QueryLost(link, _) | Fate::ReplyLost(link, _) => plan.links[link as usize].name.clone(),
            _ => String::new(),
        },
        "reason": Text = |row| match row.fate {
            Fate::QueryLost(_, reason) | Fate::ReplyLost(_, reason) => reason.name().to_owned(),
            _ => String::new(),
        },
        "first_byte_s": F64 = |row| seconds(row.first_byte),
        "received_s": F64 = |row| seconds(row.received),
        "transport": Text = |row| row.transport.name().to_owned(),
        "reused": Bool = |row| row.reused,
        "handshake_round_trips": U8 = |row| row.handshakes,
        "handshake_ms": F64 = |row| row.handshake.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3),
        "packets_sent": U32 = |row| row.packets_sent,
        "bytes_sent": U32 = |row| row.bytes_sent,
        "packets_received": U32 = |row| row.packets_received,
        "bytes_received": U32 = |row| row.bytes_received,
    );
    Table { name: "attempts", columns }
}

/// Returns the samples of queues.
pub(crate) fn queues(monitors: &Monitors, plan: &Plan) -> Table {
    let rows = &monitors.queue_rows;
    let columns = columns!(rows,
        "t_s": F64 = |row| row.at.as_secs_f64(),
        "link": Text = |row| plan.links[row.link as usize].name.clone(),
        "backlog_packets": U32 = |row| row.backlog_packets,
        "backlog_bytes": U64 = |row| row.backlog_bytes,
        "ring_packets": U32 = |row| row.ring_packets,
        "ring_bytes": U64 = |row| row.ring_bytes,
        "average_packets": F64 = |row| match row.average {
            Some(AverageQueue::Packets(packets)) => packets,
            _ => f64::NAN,
        },
        "average_bytes": F64 = |row| match row.average {
            Some(AverageQueue::Bytes(bytes)) => bytes,
            _ => f64::NAN,
        },
        "sojourn_mean_ms": F64 = |row| row.sojourn_mean_ms,
        "sojourn_max_ms": F64 = |row| row.sojourn_max_ms,
        "arrived_packets": U64 = |row| row.arrived_packets,
        "arrived_bytes": U64 = |row| row.arrived_bytes,
        "sent_packets": U64 = |row| row.sent_packets,
        "dropped_overflow": U64 = |row| row.dropped[0],
        "dropped_early": U64 = |row| row.dropped[1],
        "dropped_forced": U64 = |row| row.dropped[2],
        "marked_early": U64 = |row| row.marked_early,
        "marked_forced": U64 = |row| row.marked_forced,
        "dropped_dns": U64 = |row| row.dropped_dns,
    );
    Table { name: "queues", columns }
}

/// Returns the samples of links.
pub(crate) fn links(monitors: &Monitors, plan: &Plan) -> Table {
    let rows = &monitors.link_rows;
    let columns = columns!(rows,
        "t_s": F64 = |row| row.at.as_secs_f64(),
        "link": Text = |row| plan.links[row.link as usize].name.clone(),
        "packets": U64 = |row| row.packets,
        "bytes": U64 = |row| row.bytes,
        "busy_s": F64 = |row| row.busy_s,
        "lost": U64 = |row| row.lost,
    );
    Table { name: "links", columns }
}

/// Returns how routers' neighbour entries changed, one row for each change.
pub(crate) fn neighbours(neighbours: &Neighbours, plan: &Plan) -> Table {
    let rows = &neighbours.changes;
    let columns = columns!(rows,
        "t_s": F64 = |row| row.at.as_secs_f64(),
        "node": Text = |row| plan.nodes[plan.links[row.link as usize].from].clone(),
        "neighbour": Text = |row| plan.nodes[plan.links[row.link as usize].to].clone(),
        "state": Text = |row| row.state.name().to_owned(),
    );
    Table { name: "neighbours", columns }
}

/// Converts to seconds; NaN means "never".
fn seconds(at: Option<Time>) -> f64 {
    at.map_or(f64::NAN, Time::as_secs_f64)
}

fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Pending => "pending",
        Fate::Answered => "answered",
        Fate::Late => "late",
        Fate::QueryLost(..) => "query-lost",
        Fate::ReplyLost(..) => "reply-lost",
        Fate::Truncated => "truncated",
        Fate::Refused => "refused",
        Fate::Closed => "closed",
        Fate::Reset => "reset",
        Fate::TimedOut => "timed-out",
    }
}

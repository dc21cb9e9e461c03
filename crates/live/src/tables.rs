//! The table `flows`, with what the kernel tells of connections.

use std::time::Duration;

use narrows_apps::table::{Column, Table};
use narrows_client::TcpInfo;
use narrows_sim::FlowsRow;
use narrows_units::Time;

use crate::flows::{Flows, What};

/// Returns the table of connections that exist from the start of the run.
///
/// The kernel does not tell a connection's mean window, nor the counts in `UNTOLD`: these columns
/// have no values.
pub(crate) fn flows(flows: &Flows, nodes: &[String], names: &[String]) -> Table {
    let seconds = |at: Option<Time>| at.map_or(f64::NAN, Time::as_secs_f64);
    let span = |span: Option<Duration>| span.map_or(f64::NAN, |span| span.as_secs_f64());
    let count = |count: Option<u32>| u64::from(count.unwrap_or(0));
    let connections = flows.listed.iter().filter_map(|listed| {
        let flow = flows.get(listed.flow);
        let What::Tcp(connection) = &flow.what else { return None };
        Some((listed, flow, connection))
    });
    let rows = connections.enumerate().map(|(number, (listed, flow, connection))| {
        let info = connection.info(0);
        let [sender, receiver] = flow.nodes.map(|node| nodes[node].clone());
        FlowsRow {
            flow: number as u32,
            name: listed.name.clone(),
            group: names[flow.owners[0] as usize].clone(),
            sender,
            receiver,
            ecn: info.ecn == Some(true),
            start_s: seconds(connection.established_at.map(|_| listed.start)),
            established_s: seconds(connection.established_at),
            end_s: seconds(connection.ended_at),
            bytes_acked: acknowledged(&info),
            bytes_received: connection.sides[1].received,
            segments_sent: count(info.segments_out),
            segments_retransmitted: count(info.again),
            timeouts: 0,
            fast_recoveries: 0,
            ecn_reductions: 0,
            tail_probes: 0,
            undos: 0,
            marks_received: 0,
            srtt_ms: span(info.rtt) * 1e3,
            min_rtt_ms: span(info.min_rtt) * 1e3,
            cwnd_segments: info.cwnd.map_or(f64::NAN, f64::from),
            cwnd_mean_segments: f64::NAN,
            busy_s: span(info.busy),
            rwnd_limited_s: span(info.window_limited),
        }
    });
    let mut table = FlowsRow::table(rows);
    for (name, column) in &mut table.columns {
        if UNTOLD.contains(name) {
            *column = Column::F64(vec![f64::NAN; column.len()]);
        }
    }
    table
}

/// The counts that the kernel does not tell for each connection.
const UNTOLD: [&str; 6] =
    ["timeouts", "fast_recoveries", "ecn_reductions", "tail_probes", "undos", "marks_received"];

/// Returns the payload that the other end has acknowledged. The kernel counts SYN and FIN too.
fn acknowledged(sender: &TcpInfo) -> u64 {
    sender.bytes_acked.unwrap_or(0).min(sender.bytes_out.unwrap_or(0))
}

//! What each connection of the table `flows` has done by times that the plan gives.
//!
//! The difference between two samples says what a connection did in between. Like samples of
//! goodput, these are no events: the engine takes each before the first event that comes after its
//! time.

use narrows_apps::table::{Table, columns};
use narrows_transport::tcp::Counters;
use narrows_units::{MaybeTime, Time};

use crate::flow::Flows;
use crate::plan::Plan;

/// The samples of a run.
#[derive(Debug)]
pub(crate) struct FlowSamples {
    /// The times of samples that are still to be taken, the next one last.
    due: Vec<Time>,
    rows: Vec<Row>,
}

/// A row of the table.
#[derive(Clone, Debug)]
struct Row {
    at: Time,
    flow: u32,
    received: u64,
    counters: Counters,
    srtt_ms: f64,
}

impl FlowSamples {
    /// Prepares the samples that a plan asks for.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut due = plan.flow_samples.clone();
        due.sort_unstable_by(|one, other| other.cmp(one));
        due.dedup();
        Self { due, rows: Vec::new() }
    }

    /// Returns when the next sample is due.
    pub(crate) fn due(&self) -> MaybeTime {
        self.due.last().copied().into()
    }

    /// Takes the samples that are due before `at`.
    pub(crate) fn catch_up(&mut self, at: Time, flows: &Flows) {
        while let Some(due) = self.due.pop_if(|due| *due < at) {
            self.rows.extend(sample(due, flows));
        }
    }

    /// Returns the table. If samples are still due, the last is what stands `now`.
    pub(crate) fn table(&self, now: Time, flows: &Flows) -> Table {
        let mut rows = self.rows.clone();
        if !self.due.is_empty() {
            rows.extend(sample(now, flows));
        }
        let columns = columns!(rows,
            "t_s": F64 = |row| row.at.as_secs_f64(),
            "flow": U32 = |row| row.flow,
            "bytes_received": U64 = |row| row.received,
            "segments_sent": U64 = |row| row.counters.segments_sent,
            "segments_retransmitted": U64 = |row| row.counters.segments_retransmitted,
            "timeouts": U32 = |row| row.counters.timeouts,
            "ecn_reductions": U32 = |row| row.counters.ecn_reductions,
            "srtt_ms": F64 = |row| row.srtt_ms,
        );
        Table { name: "flow_samples", columns }
    }
}

/// Returns a row for each connection.
fn sample(at: Time, flows: &Flows) -> impl Iterator<Item = Row> {
    flows.listed().enumerate().map(move |(number, row)| Row {
        at,
        flow: number as u32,
        received: row.connection.second().bytes_received(),
        counters: row.connection.first().counters(),
        srtt_ms: row.connection.first().srtt().map_or(f64::NAN, |srtt| srtt.as_secs_f64() * 1e3),
    })
}

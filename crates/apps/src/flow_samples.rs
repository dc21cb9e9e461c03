//! What each connection of the table `flows` has done by times that the plan gives.
//!
//! The difference between two samples says what a connection did in between. Like samples of
//! goodput, these are no events: the run takes each before the first event that comes after its
//! time.

use narrows_transport::tcp::Counters;
use narrows_units::{MaybeTime, Span, Time};

use crate::table::{Table, rows};

/// The connections of the table `flows`.
pub trait Sampled {
    /// Returns what each has done so far, in the order of the table.
    fn sample(&self) -> impl Iterator<Item = Sample>;
}

/// What a connection has done.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The bytes that arrived in order at its receiver.
    pub received: u64,
    /// What its sender has counted.
    pub counters: Counters,
    /// Its sender's smoothed round-trip time; `None`: it has no measurement.
    pub srtt: Option<Span>,
}

/// The samples of a run.
#[derive(Debug)]
pub struct FlowSamples {
    /// The times of samples that are still to be taken, the next one last.
    due: Vec<Time>,
    rows: Vec<Row>,
}

/// A row of the table.
#[derive(Clone, Debug)]
struct Row {
    at: Time,
    flow: u32,
    sample: Sample,
}

rows! {
    /// A connection of the table `flows` at the start or the end of the window that `[measure]`
    /// declares; the end of the run stands for a window's end after it.
    pub(crate) struct FlowSamplesRow as "flow_samples" {
        /// When the sample was taken, from the start of the run.
        t_s: f64 ["s"];
        /// Number of the connection in `flows`.
        flow: u32 [""];
        /// As in `flows`, so far.
        bytes_received: u64 ["bytes"];
        /// As in `flows`, so far.
        segments_sent: u64 ["segments"];
        /// As in `flows`, so far.
        segments_retransmitted: u64 ["segments"];
        /// As in `flows`, so far.
        timeouts: u32 ["", null];
        /// As in `flows`, so far.
        ecn_reductions: u32 ["", null];
        /// Smoothed round-trip time; null: unknown.
        srtt_ms: f64 ["ms", null];
    }
}

impl FlowSamples {
    /// Prepares samples at these times.
    pub fn new(mut due: Vec<Time>) -> Self {
        due.sort_unstable_by(|one, other| other.cmp(one));
        due.dedup();
        Self { due, rows: Vec::new() }
    }

    /// Returns when the next sample is due.
    pub fn due(&self) -> MaybeTime {
        self.due.last().copied().into()
    }

    /// Takes the samples that are due before `at`.
    pub fn catch_up(&mut self, at: Time, flows: &impl Sampled) {
        while let Some(due) = self.due.pop_if(|due| *due < at) {
            self.rows.extend(sample(due, flows));
        }
    }

    /// Returns the table. If samples are still due, the last is what stands `now`.
    pub fn table(&self, now: Time, flows: &impl Sampled) -> Table {
        let mut rows = self.rows.clone();
        if !self.due.is_empty() {
            rows.extend(sample(now, flows));
        }
        let rows = rows.into_iter().map(|row| FlowSamplesRow {
            t_s: row.at.as_secs_f64(),
            flow: row.flow,
            bytes_received: row.sample.received,
            segments_sent: row.sample.counters.segments_sent,
            segments_retransmitted: row.sample.counters.segments_retransmitted,
            timeouts: row.sample.counters.timeouts,
            ecn_reductions: row.sample.counters.ecn_reductions,
            srtt_ms: row.sample.srtt.map_or(f64::NAN, |srtt| srtt.as_secs_f64() * 1e3),
        });
        FlowSamplesRow::table(rows)
    }
}

/// Returns a row for each connection.
fn sample(at: Time, flows: &impl Sampled) -> impl Iterator<Item = Row> {
    let rows = flows.sample().enumerate();
    rows.map(move |(number, sample)| Row { at, flow: number as u32, sample })
}

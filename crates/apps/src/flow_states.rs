//! Windows, round trips, rates and states of connections over time: samples at a fixed rate.
//!
//! A sample reads what the ends of connections know anyway, so packets cost nothing more. Like
//! samples of goodput, it is no event: the run takes it before the first event that comes after its
//! time, and everything that happened up to its time counts.

use std::collections::BTreeMap;

use narrows_transport::FlowSample;
use narrows_units::{MaybeTime, Rate, Span, Time};

use crate::table::{Table, rows};

/// What to sample, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowMonitor {
    /// The names of the applications whose connections are sampled: of those at a connection's
    /// first end, which is the client, or the sender if data go one way.
    pub groups: Vec<String>,
    /// The time between samples. The first sample is taken at this time.
    pub interval: Span,
}

/// The connections of a run.
pub trait Observed {
    /// Reports each open connection whose first end belongs to a `wanted` application, always in
    /// the same order.
    fn observe(&self, wanted: &[bool], report: impl FnMut(Seen<'_>));
}

/// An open connection at the time of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The application at its first end.
    pub application: u32,
    /// Tells it apart from others that are open now or were at the sample before.
    pub identity: (u32, u8),
    /// Its name in the table `flows`; empty: it has no row there.
    pub name: &'a str,
    /// What the end knows that sends most of the data.
    pub sender: FlowSample,
    /// The bytes that have arrived in order at the other end.
    pub received: u64,
}

/// The samples of a run.
#[derive(Debug)]
pub struct FlowStates {
    interval: Span,
    /// When the next sample is due; none if nothing is sampled.
    due: MaybeTime,
    /// By application, whether its connections are sampled, and its group.
    wanted: Vec<bool>,
    of_application: Vec<usize>,
    /// The groups, each with the number of its connections so far.
    groups: Vec<(String, u32)>,
    connections: Vec<Connection>,
    /// The connections of the last sample: places in `connections`, and the bytes received.
    last: BTreeMap<(u32, u8), (usize, u64)>,
    rows: Vec<Row>,
}

/// A connection that was sampled.
#[derive(Clone, Debug)]
struct Connection {
    group: usize,
    number: u32,
    name: String,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: Time,
    connection: usize,
    sender: FlowSample,
    received: u64,
}

rows! {
    /// A sample of a connection of a group that `monitor.flows` names, as the sender of its data sees
    /// it, or the server if both ends send. A connection has samples from its handshake to its
    /// close, and none if it opens and closes between two of them.
    pub(crate) struct FlowStatesRow as "flow_states" {
        /// When the sample was taken, from the start of the run.
        t_s: f64 ["s"];
        /// The traffic group, or the group of resolver workers.
        group: String [""];
        /// Number of the connection in its group, from 0, in the order of their first samples.
        connection: u32 [""];
        /// Its name in `flows`; empty: it has no row there.
        name: String [""];
        /// What the congestion control does: `slow-start`, `avoidance` (the window grows as the
        /// control says), `recovery` (after a loss), `loss` (after a timeout), `cwr` (after an ECN
        /// mark), or a word of the control's own.
        state: String [""];
        /// Congestion window. Of TCP, the payload of as many full segments as it counts; of QUIC,
        /// bytes of packets.
        cwnd_bytes: u64 ["bytes"];
        /// Slow-start threshold, counted likewise; null: unbounded.
        ssthresh_bytes: f64 ["bytes", null];
        /// Payload of a full segment, or of a full datagram of QUIC. The window divided by it is the
        /// window in segments.
        segment_bytes: u32 ["bytes"];
        /// Smoothed round-trip time; null: not measured yet.
        srtt_ms: f64 ["ms", null];
        /// Smallest round-trip time so far, with TCP of the last 300 s; null: not measured yet.
        min_rtt_ms: f64 ["ms", null];
        /// Rate at which the sender may send at most. If it does not pace, it is the rate that Linux
        /// computes all the same: twice the window in a round trip below half of the threshold, 1.2
        /// times from there on. Null: unknown, as for QUIC.
        pacing_bit_per_s: f64 ["bit/s", null];
        /// Bytes in flight, counted like the window, without those known to be lost or to have
        /// arrived.
        in_flight_bytes: u64 ["bytes"];
        /// Payload that arrived in order at the other end since the sample before, divided by the
        /// time since then. TLS counts as payload.
        goodput_bit_per_s: f64 ["bit/s"];
        /// The share of marked packets, 0 to 1, that DCTCP or Prague estimates (alpha); null: another
        /// control, or a kernel that does not tell it.
        alpha: f64 ["", null];
        /// Segments sent again since the start, including SYNs and tail loss probes; of QUIC, lost
        /// packets.
        retransmissions: u64 [""];
    }
}

impl FlowStates {
    /// Prepares samples of applications with these names; `None`: no samples.
    pub fn new<'a>(
        monitor: Option<&FlowMonitor>,
        applications: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut groups: Vec<(String, u32)> = Vec::new();
        let (mut wanted, mut of_application) = (Vec::new(), Vec::new());
        for name in applications {
            let is_wanted =
                monitor.is_some_and(|monitor| monitor.groups.iter().any(|group| group == name));
            let place = groups.iter().position(|(group, _)| is_wanted && group == name);
            wanted.push(is_wanted);
            of_application.push(place.unwrap_or(groups.len()));
            if is_wanted && place.is_none() {
                groups.push((name.to_owned(), 0));
            }
        }
        Self {
            interval: monitor.map_or(Span::ZERO, |monitor| monitor.interval),
            due: monitor.map(|monitor| Time::ZERO + monitor.interval).into(),
            wanted,
            of_application,
            groups,
            connections: Vec::new(),
            last: BTreeMap::new(),
            rows: Vec::new(),
        }
    }

    /// Returns when the next sample is due.
    pub fn due(&self) -> MaybeTime {
        self.due
    }

    /// Takes the samples that are due before `at`.
    pub fn catch_up(&mut self, at: Time, flows: &impl Observed) {
        while let Some(due) = self.due.get()
            && due < at
        {
            self.sample(due, flows);
            self.due = (due + self.interval).into();
        }
    }

    /// Returns the table.
    pub fn table(&self) -> Table {
        let bits = |rate: Option<Rate>| rate.map_or(f64::NAN, |rate| rate.as_bps() as f64);
        let ms = |span: Option<Span>| span.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
        let rows = self.rows.iter().map(|row| {
            let connection = &self.connections[row.connection];
            FlowStatesRow {
                t_s: row.at.as_secs_f64(),
                group: self.groups[connection.group].0.clone(),
                connection: connection.number,
                name: connection.name.clone(),
                state: row.sender.state.to_owned(),
                cwnd_bytes: row.sender.cwnd,
                ssthresh_bytes: row.sender.ssthresh.map_or(f64::NAN, |bytes| bytes as f64),
                segment_bytes: row.sender.segment,
                srtt_ms: ms(row.sender.srtt),
                min_rtt_ms: ms(row.sender.min_rtt),
                pacing_bit_per_s: bits(row.sender.pacing_rate),
                in_flight_bytes: row.sender.in_flight,
                goodput_bit_per_s: 8.0 * row.received as f64 / self.interval.as_secs_f64(),
                alpha: row.sender.alpha.unwrap_or(f64::NAN),
                retransmissions: row.sender.retransmissions,
            }
        });
        FlowStatesRow::table(rows)
    }

    fn sample(&mut self, at: Time, flows: &impl Observed) {
        let last = std::mem::take(&mut self.last);
        flows.observe(&self.wanted, |seen| {
            let (connection, before) = last.get(&seen.identity).copied().unwrap_or_else(|| {
                let group = self.of_application[seen.application as usize];
                let number = self.groups[group].1;
                self.groups[group].1 += 1;
                self.connections.push(Connection { group, number, name: seen.name.to_owned() });
                (self.connections.len() - 1, 0)
            });
            self.last.insert(seen.identity, (connection, seen.received));
            let received = seen.received.saturating_sub(before);
            self.rows.push(Row { at, connection, sender: seen.sender, received });
        });
    }
}

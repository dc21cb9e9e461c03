//! The engine: takes the next event and hands it to whom it concerns.

use narrows_units::Time;

use crate::captured::{Captured, Frame};
use crate::connection::Connections;
use crate::dns::{Dns, Fate};
use crate::labels::Labels;
use crate::monitor::Monitors;
use crate::network::{LossReason, Network, kind};
use crate::plan::{Plan, PlanError};
use crate::table::{Table, columns};

/// A run in progress.
///
/// ```text
/// Simulation::new(plan)  ->  advance() until it says so  ->  tables()
/// ```
#[derive(Debug)]
pub struct Simulation {
    plan: Plan,
    now: Time,
    events: u64,
    stopped: Stopped,
    network: Network,
    connections: Connections,
    labels: Labels,
    dns: Dns,
    monitors: Monitors,
}

/// Why a run stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It does not: there is more to do.
    Running,
    /// The plan's end came, or nothing more can happen.
    End,
    /// Every resolver worker is done, and the plan ends with them.
    DnsDone,
    /// The plan's limit of events was reached: the run is partial.
    EventLimit,
    /// [`Simulation::interrupt`] was called: the run is partial.
    Interrupted,
}

impl Stopped {
    /// The reason in run.json: `running`, `end`, `dns-done`, `event-limit`, `interrupted`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::End => "end",
            Self::DnsDone => "dns-done",
            Self::EventLimit => "event-limit",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Simulation {
    /// A run of `plan`, at time zero.
    ///
    /// # Errors
    ///
    /// Where the plan contradicts itself; see [`Plan::check`].
    pub fn new(mut plan: Plan) -> Result<Self, PlanError> {
        plan.check()?;
        let mut network = Network::new(&plan);
        let connections = Connections::new(&plan, &mut network);
        let dns = Dns::new(&plan, &mut network);
        let monitors = Monitors::new(&plan, &mut network);
        let labels = Labels::new(&plan);
        if plan.captures.is_empty() {
            // Everybody has taken what they need; only captured packets are named after these.
            plan.connections = Vec::new();
        }
        Ok(Self {
            plan,
            now: Time::ZERO,
            events: 0,
            stopped: Stopped::Running,
            network,
            connections,
            labels,
            dns,
            monitors,
        })
    }

    /// Whether what the next events need is read from memory ahead of time: otherwise from some
    /// thousand flows on, where it saves time. Results are the same.
    pub fn set_foresight(&mut self, on: bool) {
        self.network.set_foresight(on);
    }

    /// Handles up to `most` events. True when the run has stopped.
    pub fn advance(&mut self, most: u64) -> bool {
        let most = most.min(self.plan.event_limit - self.events);
        let mut handled = 0;
        while self.stopped == Stopped::Running {
            if handled == most {
                if self.events + handled == self.plan.event_limit {
                    self.stopped = Stopped::EventLimit;
                }
                break;
            }
            handled += 1;
            if self.network.is_unforeseen() {
                self.connections.foresee(self.network.foresee());
            }
            self.step();
        }
        self.events += handled;
        self.stopped != Stopped::Running
    }

    /// Stops the run where it stands.
    pub fn interrupt(&mut self) {
        if self.stopped == Stopped::Running {
            self.stopped = Stopped::Interrupted;
        }
    }

    /// Simulated time so far.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Why the run stands still.
    pub fn stopped(&self) -> Stopped {
        self.stopped
    }

    /// How far the run is, 0 to 1: by time, or by DNS queries if that is further.
    pub fn progress(&self) -> f64 {
        let by_time = self.now.as_secs_f64() / self.plan.end.as_secs_f64();
        if self.plan.end_with_dns { by_time.max(self.dns.progress()) } else { by_time }
    }

    /// The plan; without the connections where nothing is captured.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    fn step(&mut self) {
        let Some((at, event)) = self.network.agenda.pop() else {
            self.stopped = Stopped::End;
            return;
        };
        if at > self.plan.end {
            self.now = self.plan.end;
            self.stopped = Stopped::End;
            return;
        }
        self.now = at;
        let (index, network) = (event.index(), &mut self.network);
        match event.kind() {
            kind::FLIGHT => {
                if let Some(packet) = network.land(at, index) {
                    if packet.is_dns() {
                        self.dns.handle_packet(at, packet, network);
                    } else {
                        self.connections.handle_packet(at, packet, network);
                    }
                }
            }
            kind::TIMER => self.connections.handle_timer(at, index, network),
            kind::SOURCE => self.connections.handle_source(at, index, network),
            kind::STOP => self.connections.handle_stop(at, index, network),
            kind::WORKER => self.dns.handle_worker(at, index, network),
            kind::REPLY => self.dns.handle_reply_ready(at, index, network),
            kind::DEQUEUE => network.release(at, index),
            kind::QUEUE_SAMPLE => self.monitors.sample_queue(at, index, network),
            kind::LINK_SAMPLE => self.monitors.sample_link(at, index, network),
            other => unreachable!("no event has the kind {other}"),
        }
        if !self.network.dns_losses.is_empty() {
            self.dns.note_losses(&mut self.network.dns_losses);
        }
        if self.plan.end_with_dns && self.dns.is_done() {
            self.stopped = Stopped::DnsDone;
        }
    }
}

/// Results.
impl Simulation {
    /// The tables, as they are now: `flows`, `bursts`, `queries`, `attempts`, `queues`, `links`.
    pub fn tables(&self) -> Vec<Table> {
        vec![
            self.flows(),
            self.bursts(),
            self.queries(),
            self.attempts(),
            self.queues(),
            self.links(),
        ]
    }

    /// The packets that captured links have transmitted, by link and then by time.
    pub fn captured(&self, link: usize) -> Vec<Captured> {
        let of_link = |packet: &&Captured| packet.link as usize == link && packet.at <= self.now;
        self.network
            .captured
            .iter()
            .filter(of_link)
            .map(|&packet| match packet.frame {
                Frame::Dns { resolvers, query: row, reply, ip_bytes, ce, .. } => {
                    let attempt = &self.dns.attempts[row as usize];
                    let query = &self.dns.queries[attempt.query as usize];
                    let frame = Frame::Dns {
                        resolvers,
                        worker: query.worker,
                        query: attempt.query,
                        attempt: attempt.attempt,
                        reply,
                        ip_bytes,
                        ce,
                    };
                    Captured { frame, ..packet }
                }
                Frame::Tcp { .. } => packet,
            })
            .collect()
    }

    fn flows(&self) -> Table {
        let node = |index: usize| self.plan.nodes[index].clone();
        let rows: Vec<_> = self.labels.iter().zip(self.connections.facts(self.now)).collect();
        let ids: Vec<u32> = (0..rows.len() as u32).collect();
        let mut columns = vec![("flow", crate::table::Column::U32(ids))];
        columns.extend(columns!(rows,
            "name": Text = |(label, _)| label.name.to_owned(),
            "group": Text = |(label, _)| label.group.to_owned(),
            "sender": Text = |(label, _)| node(label.sender),
            "receiver": Text = |(label, _)| node(label.receiver),
            "ecn": Bool = |(_, facts)| facts.sender.ecn_negotiated(),
            "start_s": F64 = |(label, _)| label.start.as_secs_f64(),
            "established_s": F64 = |(_, facts)| seconds(facts.established_at),
            "end_s": F64 = |(_, facts)| seconds(facts.ended_at),
            "bytes_acked": U64 = |(_, facts)| facts.sender.bytes_acked(),
            "bytes_received": U64 = |(_, facts)| facts.receiver.bytes_received(),
            "segments_sent": U64 = |(_, facts)| facts.sender.counters().segments_sent,
            "segments_retransmitted": U64 = |(_, facts)| facts.sender.counters().segments_retransmitted,
            "timeouts": U32 = |(_, facts)| facts.sender.counters().timeouts,
            "fast_recoveries": U32 = |(_, facts)| facts.sender.counters().fast_recoveries,
            "ecn_reductions": U32 = |(_, facts)| facts.sender.counters().ecn_reductions,
            "tail_probes": U32 = |(_, facts)| facts.sender.counters().tail_probes,
            "undos": U32 = |(_, facts)| facts.sender.counters().undos,
            "marks_received": U64 = |(_, facts)| facts.receiver.counters().marks_received,
            "srtt_ms": F64 = |(_, facts)| facts.sender.srtt().map_or(f64::NAN, |s| s.as_secs_f64() * 1e3),
            "min_rtt_ms": F64 = |(_, facts)| facts.sender.min_rtt().map_or(f64::NAN, |s| s.as_secs_f64() * 1e3),
            "cwnd_segments": F64 = |(_, facts)| f64::from(facts.sender.cwnd()),
            "cwnd_mean_segments": F64 = |(_, facts)| facts.mean_window,
        ));
        Table { name: "flows", columns }
    }

    fn bursts(&self) -> Table {
        let mut rows = self.connections.bursts.clone();
        rows.extend(self.connections.unfinished_bursts());
        let columns = columns!(rows,
            "flow": U32 = |row| row.connection,
            "burst": U32 = |row| row.burst,
            "start_s": F64 = |row| row.start.as_secs_f64(),
            "end_s": F64 = |row| seconds(row.end),
            "bytes": U64 = |row| row.bytes,
            "segments_retransmitted": U64 = |row| u64::from(row.retransmitted),
        );
        Table { name: "bursts", columns }
    }

    fn queries(&self) -> Table {
        let rows = &self.dns.queries;
        let ids: Vec<u32> = (0..rows.len() as u32).collect();
        let mut columns = vec![("query", crate::table::Column::U32(ids))];
        columns.extend(columns!(rows,
            "group": Text = |row| self.dns.group_name(row.group).to_owned(),
            "worker": U32 = |row| row.worker,
            "index": U32 = |row| row.index,
            "measured": Bool = |row| row.measured,
            "start_s": F64 = |row| row.start.as_secs_f64(),
            "end_s": F64 = |row| row.end.map_or(f64::NAN, Time::as_secs_f64),
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

    fn attempts(&self) -> Table {
        let rows = &self.dns.attempts;
        let columns = columns!(rows,
            "query": U32 = |row| row.query,
            "attempt": U8 = |row| row.attempt,
            "sent_s": F64 = |row| row.sent.as_secs_f64(),
            "fate": Text = |row| fate_name(row.fate).to_owned(),
            "lost_at": Text = |row| match row.fate {
                Fate::QueryLost(link, _) | Fate::ReplyLost(link, _) => self.link_name(link),
                _ => String::new(),
            },
            "reason": Text = |row| match row.fate {
                Fate::QueryLost(_, reason) | Fate::ReplyLost(_, reason) => match reason {
                    LossReason::Queue(reason) => reason.name().to_owned(),
                    LossReason::Wire => "wire".to_owned(),
                },
                _ => String::new(),
            },
            "received_s": F64 = |row| row.received.map_or(f64::NAN, Time::as_secs_f64),
        );
        Table { name: "attempts", columns }
    }

    fn queues(&self) -> Table {
        let rows = &self.monitors.queue_rows;
        let columns = columns!(rows,
            "t_s": F64 = |row| row.at.as_secs_f64(),
            "link": Text = |row| self.link_name(row.link),
            "backlog_packets": U32 = |row| row.backlog_packets,
            "backlog_bytes": U64 = |row| row.backlog_bytes,
            "ring_packets": U32 = |row| row.ring_packets,
            "ring_bytes": U64 = |row| row.ring_bytes,
            "average_bytes": F64 = |row| row.average,
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

    fn links(&self) -> Table {
        let rows = &self.monitors.link_rows;
        let columns = columns!(rows,
            "t_s": F64 = |row| row.at.as_secs_f64(),
            "link": Text = |row| self.link_name(row.link),
            "packets": U64 = |row| row.packets,
            "bytes": U64 = |row| row.bytes,
            "busy_s": F64 = |row| row.busy_s,
            "lost": U64 = |row| row.lost,
        );
        Table { name: "links", columns }
    }

    fn link_name(&self, link: u32) -> String {
        self.plan.links[link as usize].name.clone()
    }
}

/// Seconds, NaN for "never".
fn seconds(at: Time) -> f64 {
    if at == Time::MAX { f64::NAN } else { at.as_secs_f64() }
}

fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Pending => "pending",
        Fate::Answered => "answered",
        Fate::Late => "late",
        Fate::QueryLost(..) => "query-lost",
        Fate::ReplyLost(..) => "reply-lost",
    }
}

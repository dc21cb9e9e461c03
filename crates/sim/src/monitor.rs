//! Monitors: samples of queues and links at a fixed rate.

use narrows_qdisc::AverageQueue;
use narrows_units::Time;

use crate::agenda::Event;
use crate::network::Network;
use crate::plan::{Monitor, Plan};

/// The samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    queues: Vec<Monitor>,
    links: Vec<Monitor>,
    pub(crate) queue_rows: Vec<QueueRow>,
    pub(crate) link_rows: Vec<LinkRow>,
}

/// A sample of a queue: a row of the table `queues`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueRow {
    pub(crate) at: Time,
    pub(crate) link: u32,
    pub(crate) backlog_packets: u32,
    pub(crate) backlog_bytes: u64,
    pub(crate) ring_packets: u32,
    pub(crate) ring_bytes: u64,
    pub(crate) average: Option<AverageQueue>,
    pub(crate) sojourn_mean_ms: f64,
    pub(crate) sojourn_max_ms: f64,
    pub(crate) arrived_packets: u64,
    pub(crate) arrived_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) dropped: [u64; 3],
    pub(crate) marked_early: u64,
    pub(crate) marked_forced: u64,
    pub(crate) dropped_foreground: u64,
}

/// A sample of a link: a row of the table `links`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkRow {
    pub(crate) at: Time,
    pub(crate) link: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) busy_s: f64,
    pub(crate) lost: u64,
}

impl Monitors {
    pub(crate) fn new(plan: &Plan, network: &mut Network) -> Self {
        for (index, monitor) in plan.queue_monitors.iter().enumerate() {
            let first = Time::ZERO + monitor.interval;
            network.agenda.schedule(first, Event::QueueSample(index as u32));
        }
        for (index, monitor) in plan.link_monitors.iter().enumerate() {
            let first = Time::ZERO + monitor.interval;
            network.agenda.schedule(first, Event::LinkSample(index as u32));
        }
        Self {
            queues: plan.queue_monitors.clone(),
            links: plan.link_monitors.clone(),
            ..Self::default()
        }
    }

    /// Samples a queue.
    pub(crate) fn sample_queue(&mut self, now: Time, index: u32, network: &mut Network) {
        let monitor = self.queues[index as usize];
        network.settle(now, monitor.link as u32);
        let link = &mut network.links[monitor.link].transmitter;
        let state = link.queue_state(now).expect("a monitored link is observed");
        let observed = link.observed_mut().expect("a monitored link is observed");
        let (ring_packets, ring_bytes) = observed.ring();
        let sojourn = std::mem::take(&mut observed.sojourn);
        self.queue_rows.push(QueueRow {
            at: now,
            link: monitor.link as u32,
            backlog_packets: state.packets,
            backlog_bytes: state.bytes,
            ring_packets,
            ring_bytes,
            average: state.average,
            sojourn_mean_ms: sojourn.mean_ms(),
            sojourn_max_ms: sojourn.max_ms(),
            arrived_packets: observed.arrived_packets,
            arrived_bytes: observed.arrived_bytes,
            sent_packets: observed.sent_packets,
            dropped: observed.dropped,
            marked_early: state.marked_early,
            marked_forced: state.marked_forced,
            dropped_foreground: observed.dropped_foreground,
        });
        network.agenda.schedule(now + monitor.interval, Event::QueueSample(index));
    }

    /// Samples a link.
    pub(crate) fn sample_link(&mut self, now: Time, index: u32, network: &mut Network) {
        let monitor = self.links[index as usize];
        network.settle(now, monitor.link as u32);
        let link = &network.links[monitor.link].transmitter;
        let busy_s = link.busy_until(now).as_secs_f64();
        let observed = link.observed().expect("a monitored link is observed");
        self.link_rows.push(LinkRow {
            at: now,
            link: monitor.link as u32,
            packets: observed.sent_packets,
            bytes: observed.sent_bytes,
            busy_s,
            lost: observed.lost,
        });
        network.agenda.schedule(now + monitor.interval, Event::LinkSample(index));
    }
}

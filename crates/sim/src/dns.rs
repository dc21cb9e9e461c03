//! DNS over UDP: resolver workers in a closed loop, and a server.
//!
//! A worker asks, waits for the attempt's time-out, asks again as its schedule says, and goes on to
//! the next query when an answer comes or the last attempt times out. An answer to an attempt that
//! has timed out is counted as late and changes nothing: each attempt has its own socket and
//! transaction number, as in dnspython (the first paper's client) and glibc.

use narrows_units::{Span, Time};

use crate::agenda::Event;
use crate::network::{DnsLoss, LossReason, Network, kind};
use crate::packet::Packet;
use crate::plan::{Plan, Resolvers};
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct Dns {
    groups: Vec<Group>,
    workers: Vec<Worker>,
    unfinished: usize,
    pub(crate) queries: Vec<QueryRow>,
    pub(crate) attempts: Vec<AttemptRow>,
    /// Replies that the servers prepare, by slot.
    replies: Vec<Packet>,
    free_replies: Vec<u32>,
    /// Routes from this one on carry DNS.
    first_route: u32,
}

#[derive(Debug)]
struct Group {
    plan: Resolvers,
    service: Random,
}

#[derive(Debug)]
struct Worker {
    group: u32,
    /// Number of the worker in its group.
    number: u32,
    /// Queries begun.
    begun: u32,
    /// Attempts made of the present query; zero between queries.
    attempts: u8,
    /// Row of the last attempt.
    attempt_row: u32,
    /// When something is due: the next query, or the attempt's time-out.
    due: Time,
    /// When the pending event is due; `Time::MAX` where there is none.
    armed: Time,
    random: Random,
}

/// A query: a row of the table `queries`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryRow {
    pub(crate) group: u32,
    pub(crate) worker: u32,
    pub(crate) index: u32,
    pub(crate) measured: bool,
    pub(crate) start: Time,
    pub(crate) end: Option<Time>,
    /// The attempt that succeeded, from one; zero: none.
    pub(crate) attempt: u8,
    pub(crate) attempts: u8,
    /// Round-trip time of the attempt that succeeded.
    pub(crate) rtt: Option<Span>,
    pub(crate) late_answers: u8,
}

/// An attempt: a row of the table `attempts`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptRow {
    pub(crate) query: u32,
    pub(crate) attempt: u8,
    pub(crate) sent: Time,
    pub(crate) fate: Fate,
    pub(crate) received: Option<Time>,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pending,
    Answered,
    Late,
    QueryLost(u32, LossReason),
    ReplyLost(u32, LossReason),
}

impl Dns {
    pub(crate) fn new(plan: &Plan, network: &mut Network) -> Self {
        let mut workers = Vec::new();
        let mut groups = Vec::new();
        for (group, resolvers) in plan.resolvers.iter().enumerate() {
            for number in 0..resolvers.workers {
                let name = format!("{}/worker {number}", resolvers.name);
                let mut random = Random::new(plan.seed, &name);
                let spread = resolvers.spread.as_secs_f64() * random.uniform();
                let start = resolvers.start + Span::from_secs_f64(spread);
                network.agenda.schedule(start, Event::new(kind::WORKER, workers.len() as u32));
                workers.push(Worker {
                    group: group as u32,
                    number,
                    begun: 0,
                    attempts: 0,
                    attempt_row: 0,
                    due: start,
                    armed: start,
                    random,
                });
            }
            groups.push(Group {
                plan: resolvers.clone(),
                service: Random::new(plan.seed, &format!("{}/service", resolvers.name)),
            });
        }
        Self {
            groups,
            unfinished: workers.len(),
            workers,
            queries: Vec::new(),
            attempts: Vec::new(),
            replies: Vec::new(),
            free_replies: Vec::new(),
            first_route: 2 * plan.connections.len() as u32,
        }
    }

    /// Whether every worker has had its last answer; true also without workers.
    pub(crate) fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// The share of the queries that are finished.
    pub(crate) fn progress(&self) -> f64 {
        let total: u64 = self
            .groups
            .iter()
            .map(|group| {
                u64::from(group.plan.workers)
                    * (u64::from(group.plan.warm_up) + u64::from(group.plan.queries))
            })
            .sum();
        if total == 0 { 1.0 } else { self.queries.len() as f64 / total as f64 }
    }

    /// A worker's event.
    pub(crate) fn handle_worker(&mut self, now: Time, index: u32, network: &mut Network) {
        let worker = &mut self.workers[index as usize];
        if worker.armed != now {
            return;
        }
        worker.armed = Time::MAX;
        if worker.due > now {
            self.arm(index, network);
            return;
        }
        let attempts_allowed = self.groups[worker.group as usize].plan.timeouts.len();
        if worker.attempts == 0 {
            self.begin_query(now, index, network);
        } else if usize::from(worker.attempts) < attempts_allowed {
            self.send_attempt(now, index, network);
        } else {
            self.end_query(now, index, 0, None, network);
        }
    }

    /// A DNS packet has come to its host.
    pub(crate) fn handle_packet(&mut self, now: Time, packet: Packet, network: &mut Network) {
        if (packet.route - self.first_route).is_multiple_of(2) {
            self.serve(now, packet, network);
        } else {
            self.handle_reply(now, packet, network);
        }
    }

    /// A reply is ready to leave the server.
    pub(crate) fn handle_reply_ready(&mut self, now: Time, slot: u32, network: &mut Network) {
        let reply = self.replies[slot as usize];
        self.free_replies.push(slot);
        network.send(now, reply);
    }

    /// Notes which attempts came to nothing, and where.
    pub(crate) fn note_losses(&mut self, losses: &mut Vec<DnsLoss>) {
        for loss in losses.drain(..) {
            let fate = if loss.reply { Fate::ReplyLost } else { Fate::QueryLost };
            self.attempts[loss.attempt_row as usize].fate = fate(loss.link, loss.reason);
        }
    }

    /// The worker's number in its group.
    pub(crate) fn group_name(&self, group: u32) -> &str {
        &self.groups[group as usize].plan.name
    }

    fn begin_query(&mut self, now: Time, index: u32, network: &mut Network) {
        let worker = &mut self.workers[index as usize];
        let plan = &self.groups[worker.group as usize].plan;
        if worker.begun == plan.warm_up + plan.queries {
            // A plan without queries: nothing to do.
            worker.due = Time::MAX;
            self.unfinished -= 1;
            return;
        }
        self.queries.push(QueryRow {
            group: worker.group,
            worker: worker.number,
            index: worker.begun,
            measured: worker.begun >= plan.warm_up,
            start: now,
            end: None,
            attempt: 0,
            attempts: 0,
            rtt: None,
            late_answers: 0,
        });
        worker.begun += 1;
        self.send_attempt(now, index, network);
    }

    fn send_attempt(&mut self, now: Time, index: u32, network: &mut Network) {
        let worker = &mut self.workers[index as usize];
        let query = if worker.attempts == 0 {
            self.queries.len() as u32 - 1
        } else {
            self.attempts[worker.attempt_row as usize].query
        };
        let plan = &self.groups[worker.group as usize].plan;
        worker.due = now + plan.timeouts[usize::from(worker.attempts)];
        worker.attempts += 1;
        worker.attempt_row = self.attempts.len() as u32;
        self.queries[query as usize].attempts = worker.attempts;
        self.attempts.push(AttemptRow {
            query,
            attempt: worker.attempts,
            sent: now,
            fate: Fate::Pending,
            received: None,
        });
        let route = self.first_route + 2 * worker.group;
        let packet = Packet::dns(route, index, worker.attempt_row, plan.query_bytes);
        network.send(now, packet);
        self.arm(index, network);
    }

    fn serve(&mut self, now: Time, query: Packet, network: &mut Network) {
        let group = &mut self.groups[((query.route - self.first_route) / 2) as usize];
        let mut service = group.plan.service;
        if group.plan.service_jitter_mean > Span::ZERO {
            service += group.service.exponential(group.plan.service_jitter_mean);
        }
        let reply = Packet::dns(
            query.route + 1,
            query.worker(),
            query.attempt_row(),
            group.plan.reply_bytes,
        );
        let slot = match self.free_replies.pop() {
            Some(slot) => {
                self.replies[slot as usize] = reply;
                slot
            }
            None => {
                self.replies.push(reply);
                (self.replies.len() - 1) as u32
            }
        };
        network.agenda.schedule(now + service, Event::new(kind::REPLY, slot));
    }

    fn handle_reply(&mut self, now: Time, reply: Packet, network: &mut Network) {
        let row = reply.attempt_row();
        let attempt = &mut self.attempts[row as usize];
        attempt.received = Some(now);
        let worker = &self.workers[reply.worker() as usize];
        if worker.attempts > 0 && worker.attempt_row == row {
            attempt.fate = Fate::Answered;
            let (number, rtt) = (attempt.attempt, now.since(attempt.sent));
            self.end_query(now, reply.worker(), number, Some(rtt), network);
        } else {
            attempt.fate = Fate::Late;
            let query = &mut self.queries[attempt.query as usize];
            query.late_answers = query.late_answers.saturating_add(1);
        }
    }

    fn end_query(
        &mut self,
        now: Time,
        index: u32,
        attempt: u8,
        rtt: Option<Span>,
        network: &mut Network,
    ) {
        let worker = &mut self.workers[index as usize];
        let query = &mut self.queries[self.attempts[worker.attempt_row as usize].query as usize];
        query.end = Some(now);
        query.attempt = attempt;
        query.rtt = rtt;
        worker.attempts = 0;
        let plan = &self.groups[worker.group as usize].plan;
        if worker.begun == plan.warm_up + plan.queries {
            worker.due = Time::MAX;
            self.unfinished -= 1;
        } else if plan.think_mean > Span::ZERO {
            worker.due = now + worker.random.exponential(plan.think_mean);
            self.arm(index, network);
        } else {
            self.begin_query(now, index, network);
        }
    }

    /// Makes sure that an event comes when something is due.
    fn arm(&mut self, index: u32, network: &mut Network) {
        let worker = &mut self.workers[index as usize];
        if worker.due < worker.armed {
            worker.armed = worker.due;
            network.agenda.schedule(worker.due, Event::new(kind::WORKER, index));
        }
    }
}

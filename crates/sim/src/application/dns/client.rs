//! Resolver workers in a closed loop.
//!
//! A worker asks, waits for the attempt's time-out, asks again as its schedule says, and goes on to
//! the next query when an answer comes or the last attempt times out. An answer to an attempt that
//! has timed out is counted as late and changes nothing: each attempt has its own socket and
//! transaction number, as in dnspython (the first paper's client) and glibc.

use narrows_units::{Span, Time};

use super::PORT;
use crate::application::{
    Application, Association, Datagram, Dial, Host, Lost, Message, Settings, Use,
};
use crate::maybe_time::MaybeTime;
use crate::packet::{IP_HEADER, UDP_HEADER};
use crate::plan::Plan;
use crate::random::Random;
use crate::record::{AttemptRow, Fate, QueryRow};

/// Settings of a group of workers.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Client {
    /// Whom they ask: an index into the plan's applications.
    pub server: usize,
    /// The way to the server: an index into the plan's paths.
    pub there: usize,
    /// The way back: an index into the plan's paths.
    pub back: usize,
    /// Number of workers.
    pub workers: u32,
    /// When the first worker starts.
    pub start: Time,
    /// Workers start at random times within this span after `start`.
    pub spread: Span,
    /// Queries before measurement starts, for each worker.
    pub warm_up: u32,
    /// Measured queries, for each worker.
    pub queries: u32,
    /// Pause between the end of a query and the next: mean of an exponential distribution.
    pub think_mean: Span,
    /// Time-outs of successive attempts; its length is the number of attempts.
    pub timeouts: Vec<Span>,
    /// IP packet length of queries over UDP.
    pub query_bytes: u16,
    /// IP packet length of replies over UDP.
    pub reply_bytes: u16,
}

impl Client {
    /// Queries that each worker asks.
    fn each(&self) -> u32 {
        self.warm_up + self.queries
    }
}

/// IPv4 and UDP.
const BELOW_DNS: u16 = IP_HEADER + UDP_HEADER;
/// With the header of a DNS message (RFC 1035, 4.1.1).
const SMALLEST: u16 = BELOW_DNS + 12;

impl Settings for Client {
    fn check(&self, plan: &Plan) -> Result<usize, String> {
        plan.check_round_trip(self.there, self.back)?;
        plan.check_server(self.server)?;
        if self.timeouts.is_empty() || self.timeouts.len() > 255 {
            return Err("timeouts: needs 1 to 255 attempts".into());
        }
        if self.timeouts.contains(&Span::ZERO) {
            return Err("timeouts: each must be above zero".into());
        }
        if self.query_bytes.min(self.reply_bytes) < SMALLEST {
            return Err(format!(
                "query_bytes, reply_bytes: an IP packet with DNS has at least {SMALLEST} bytes"
            ));
        }
        if self.warm_up.checked_add(self.queries).is_none() {
            return Err("warm_up, queries: too many together".into());
        }
        let total = Settings::queries(self).saturating_mul(self.timeouts.len() as u64);
        if total >= u64::from(u32::MAX) {
            return Err(format!("{total} attempts are more than the table can hold"));
        }
        Ok(self.workers as usize)
    }

    fn uses(&self, _plan: &Plan) -> Vec<Use> {
        vec![
            Use { path: self.there, bytes: self.query_bytes, dns: true },
            Use { path: self.back, bytes: self.reply_bytes, dns: true },
        ]
    }

    fn queries(&self) -> u64 {
        u64::from(self.workers).saturating_mul(u64::from(self.warm_up) + u64::from(self.queries))
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Workers {
            name: name.to_owned(),
            unfinished: self.workers,
            ended: 0,
            settings: self,
            workers: Vec::new(),
            first_socket: 0,
            association: None,
        })
    }
}

#[derive(Debug)]
struct Workers {
    name: String,
    settings: Client,
    workers: Vec<Worker>,
    /// Workers that have not had their last answer.
    unfinished: u32,
    /// Queries begun so far.
    ended: u64,
    /// The first worker's socket; the others follow.
    first_socket: u32,
    association: Option<Association>,
}

#[derive(Debug)]
struct Worker {
    /// Queries begun.
    begun: u32,
    /// Attempts made of the present query; zero between queries.
    attempts: u8,
    /// Row of the last attempt.
    attempt_row: u32,
    /// When something is due: the next query, or the attempt's time-out.
    due: MaybeTime,
    /// When the pending timer comes.
    armed: MaybeTime,
    random: Random,
}

impl Application for Workers {
    fn start(&mut self, host: &mut Host<'_>) {
        let settings = &self.settings;
        self.first_socket = host.take_sockets(settings.workers);
        self.association = Some(host.associate(&Dial {
            there: settings.there,
            back: settings.back,
            server: settings.server,
            port: PORT,
            tcp: 0,
            number: 0,
            dns: true,
        }));
        for number in 0..settings.workers {
            let mut random = host.random(&format!("{}/worker {number}", self.name));
            let spread = settings.spread.as_secs_f64() * random.uniform();
            let start = settings.start + Span::from_secs_f64(spread);
            host.wake(start, number);
            self.workers.push(Worker {
                begun: 0,
                attempts: 0,
                attempt_row: 0,
                due: start.into(),
                armed: start.into(),
                random,
            });
        }
    }

    fn timer(&mut self, host: &mut Host<'_>, number: u32) {
        let worker = &mut self.workers[number as usize];
        if !worker.armed.is(host.now()) {
            return;
        }
        worker.armed = MaybeTime::NONE;
        if worker.due.is_after(host.now()) {
            worker.arm(host, number);
        } else if worker.attempts == 0 {
            self.begin_query(host, number);
        } else if usize::from(worker.attempts) < self.settings.timeouts.len() {
            self.send_attempt(host, number);
        } else {
            self.end_query(host, number, 0, None);
        }
    }

    fn datagram(&mut self, host: &mut Host<'_>, reply: Datagram) {
        let (number, row) = (reply.socket - self.first_socket, reply.message.tag);
        let now = host.now();
        let records = host.records();
        let attempt = &mut records.attempts[row as usize];
        attempt.received = Some(now);
        let worker = &self.workers[number as usize];
        if worker.attempts > 0 && worker.attempt_row == row {
            attempt.fate = Fate::Answered;
            let (attempt, rtt) = (attempt.attempt, now.since(attempt.sent));
            self.end_query(host, number, attempt, Some(rtt));
        } else {
            attempt.fate = Fate::Late;
            let query = &mut records.queries[attempt.query as usize];
            query.late_answers = query.late_answers.saturating_add(1);
        }
    }

    fn lost(&mut self, host: &mut Host<'_>, datagram: Datagram, lost: Lost) {
        let fate = if datagram.goes_back { Fate::ReplyLost } else { Fate::QueryLost };
        let attempt = &mut host.records().attempts[datagram.message.tag as usize];
        attempt.fate = fate(lost.link, lost.reason);
    }

    fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    fn progress(&self) -> Option<f64> {
        let total = u64::from(self.settings.workers) * u64::from(self.settings.each());
        Some(if total == 0 { 1.0 } else { self.ended as f64 / total as f64 })
    }
}

impl Workers {
    fn begin_query(&mut self, host: &mut Host<'_>, number: u32) {
        let (now, client) = (host.now(), host.application());
        let worker = &mut self.workers[number as usize];
        if worker.begun == self.settings.each() {
            // A plan without queries: nothing to do.
            worker.due = MaybeTime::NONE;
            self.unfinished -= 1;
            return;
        }
        host.records().queries.push(QueryRow {
            client,
            worker: number,
            index: worker.begun,
            measured: worker.begun >= self.settings.warm_up,
            start: now,
            end: None,
            attempt: 0,
            attempts: 0,
            rtt: None,
            late_answers: 0,
        });
        worker.begun += 1;
        self.ended += 1;
        self.send_attempt(host, number);
    }

    fn send_attempt(&mut self, host: &mut Host<'_>, number: u32) {
        let now = host.now();
        let settings = &self.settings;
        let worker = &mut self.workers[number as usize];
        let records = host.records();
        let query = if worker.attempts == 0 {
            records.queries.len() as u32 - 1
        } else {
            records.attempts[worker.attempt_row as usize].query
        };
        worker.due = (now + settings.timeouts[usize::from(worker.attempts)]).into();
        worker.attempts += 1;
        worker.attempt_row = records.attempts.len() as u32;
        records.queries[query as usize].attempts = worker.attempts;
        records.attempts.push(AttemptRow {
            query,
            attempt: worker.attempts,
            sent: now,
            fate: Fate::Pending,
            received: None,
            query_bytes: settings.query_bytes,
        });
        let message = Message {
            bytes: u32::from(settings.query_bytes - BELOW_DNS),
            tag: worker.attempt_row,
            notes: [u32::from(settings.reply_bytes - BELOW_DNS), 0],
        };
        let association = self.association.expect("the run has started");
        host.send_datagram(association, self.first_socket + number, false, &message);
        worker.arm(host, number);
    }

    fn end_query(&mut self, host: &mut Host<'_>, number: u32, attempt: u8, rtt: Option<Span>) {
        let now = host.now();
        let worker = &mut self.workers[number as usize];
        let records = host.records();
        let row = records.attempts[worker.attempt_row as usize].query;
        let query = &mut records.queries[row as usize];
        query.end = Some(now);
        query.attempt = attempt;
        query.rtt = rtt;
        worker.attempts = 0;
        let settings = &self.settings;
        if worker.begun == settings.each() {
            worker.due = MaybeTime::NONE;
            self.unfinished -= 1;
        } else if settings.think_mean > Span::ZERO {
            worker.due = (now + worker.random.exponential(settings.think_mean)).into();
            worker.arm(host, number);
        } else {
            self.begin_query(host, number);
        }
    }
}

impl Worker {
    /// Makes sure that a timer comes when something is due.
    fn arm(&mut self, host: &mut Host<'_>, number: u32) {
        if let Some(due) = self.due.get()
            && self.armed.is_after(due)
        {
            self.armed = due.into();
            host.wake(due, number);
        }
    }
}

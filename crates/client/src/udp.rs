//! An exchange over UDP: one datagram each way, from a port of its own (RFC 5452, section 9.2).

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Instant, SystemTime};

use nix::sys::socket::{MsgFlags, SockType, send};

use crate::client::{Server, unanswered};
use crate::exchange::{Exchange, Outcome, Reply, Segments, Stage, Times};
use crate::failed::Failed;
use crate::query::Query;
use crate::socket::{self, Woken};
use crate::stamps;

/// Asks once. Ignores datagrams that do not answer the query, as a resolver does, until the time is
/// up.
pub(crate) fn ask(server: &Server, query: &Query, id: u16) -> Exchange {
    let until = Instant::now() + server.timeout;
    let message = query.message(id);
    let failed =
        |failed: &Failed, started| unanswered(failed, Stage::Query, started, message.len());
    let connected = socket::towards(server.address, server.source, SockType::Datagram, None)
        .and_then(|made| socket::start_connect(&made, server.address).map(|_| made));
    let made = match connected {
        Ok(made) => made,
        Err(error) => return failed(&Failed::of_system(&error), SystemTime::now()),
    };
    let (clock, started) = (Instant::now(), SystemTime::now());
    if let Err(error) = send(made.as_raw_fd(), &message, MsgFlags::empty()) {
        return failed(&Failed::of_system(&error.into()), started);
    }
    let mut buffer = vec![0; usize::from(u16::MAX)];
    // A datagram that was no answer: the reason to report if no answer comes.
    let mut other = None;
    let mut left = None;
    loop {
        match socket::readable(&made, until) {
            Ok(Woken::Ready) => {}
            // The query's timestamp, or an ICMP error.
            Ok(Woken::Report) => {
                left = stamps::departure(&made).or(left);
                match socket::pending_error(&made) {
                    Some(error) => return failed(&Failed::of_system(&error), started),
                    None => continue,
                }
            }
            Ok(Woken::Late) => {
                return failed(&other.unwrap_or_else(Failed::timeout), started);
            }
            Err(error) => return failed(&Failed::of_system(&error), started),
        }
        let arrival = match stamps::receive(&made, &mut buffer) {
            Ok(arrival) => arrival,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return failed(&Failed::of_system(&error), started),
        };
        match query.judge(id, &buffer[..arrival.bytes]) {
            Ok(reply) => {
                let left = stamps::departure(&made).or(left);
                return answered(reply, left, arrival, clock, started, message.len());
            }
            Err(no_answer) => other = Some(no_answer.failed()),
        }
    }
}

fn answered(
    reply: Reply,
    left: Option<SystemTime>,
    arrival: stamps::Arrival,
    clock: Instant,
    started: SystemTime,
    query_bytes: usize,
) -> Exchange {
    let own = clock.elapsed();
    let by_stamps =
        left.filter(|_| arrival.stamped).and_then(|left| stamps::between(left, arrival.at, own));
    let total = stamps::between(started, arrival.at, own).unwrap_or(own);
    let query = by_stamps.unwrap_or(total);
    Exchange {
        outcome: Outcome::Answered,
        stage: None,
        detail: String::new(),
        started,
        times: Times {
            first_byte: Some(query),
            query: Some(query),
            total: Some(total),
            by_kernel: by_stamps.is_some(),
            ..Times::default()
        },
        query_bytes,
        reply: Some(reply),
        segments: Segments::default(),
        reused: None,
        connection: None,
    }
}

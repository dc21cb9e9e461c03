//! A light DNS client for measurements: queries at a paced rate, usually one per connection.
//!
//! ```text
//! dnsload --server 198.18.0.1:53 --transport tcp --rate 500 --seconds 10 --source 198.18.0.10
//! dnsload --server 198.18.0.1:53 --transport hold --count 1000 --source 198.18.0.10
//! ```
//!
//! It models resolvers and stub resolvers that open a TCP connection for each query (RFC 7766,
//! 6.2.1 allows it, and `dig` does it), or send a datagram. Arrivals are open-loop: the next query
//! does not wait for the last one. It has one thread with one epoll, so it runs on one core beside
//! the server's.
//!
//! Three ways to ask take the cost of TCP apart: `connect` opens and closes connections without a
//! query, `kept` sends queries on connections that stay, and `tcp --fast-open` sends the query with
//! the SYN.
//!
//! `hold` opens connections; with `--asked` it sends one query on each and reads the answer. It
//! prints how many are open and keeps them until its standard input ends. This shows what an open
//! connection costs its server.
//!
//! The last line of standard output is one JSON object; `Report` says what it holds.

mod histogram;
mod options;
mod report;
mod tcp;
mod udp;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use options::{Options, Transport};
use report::Report;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("dnsload: {message}");
            return ExitCode::from(2);
        }
    };
    let outcome = match options.transport {
        Transport::Udp => udp::run(&options),
        Transport::Tcp | Transport::Connect | Transport::Kept => tcp::run(&options),
        Transport::Hold => tcp::hold(&options),
    };
    match outcome {
        Ok(report) => {
            println!("{}", report.json(&options));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("dnsload: {error}");
            ExitCode::FAILURE
        }
    }
}

/// When the next query starts: constant gaps, or exponential ones (Poisson arrivals).
struct Arrivals {
    gap: Duration,
    random: Option<Pcg64Mcg>,
    next_at: Instant,
    end_at: Instant,
}

impl Arrivals {
    fn new(options: &Options, now: Instant) -> Self {
        let random = options.poisson.then(|| Pcg64Mcg::seed_from_u64(options.seed));
        let gap = Duration::from_secs_f64(1.0 / options.rate);
        Self { gap, random, next_at: now + gap, end_at: now + options.length }
    }

    /// Returns how many queries are due at `now`. Queries that are more than [`BEHIND`] late are
    /// not sent but counted in `report`: then the generator is the limit.
    fn due(&mut self, now: Instant, report: &mut Report) -> u32 {
        let mut count = 0;
        while self.next_at <= now && self.next_at < self.end_at && count < BATCH {
            let late = now - self.next_at;
            if late > BEHIND {
                report.unsent += 1;
            } else {
                report.late += u64::from(late > LATE);
                count += 1;
            }
            report.offered += 1;
            let gap = self.next_gap();
            self.next_at += gap;
        }
        count
    }

    fn is_over(&self) -> bool {
        self.next_at >= self.end_at
    }

    fn next_gap(&mut self) -> Duration {
        match &mut self.random {
            None => self.gap,
            Some(random) => {
                // In (0, 1], so that its logarithm is finite.
                let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                self.gap.mul_f64(-uniform.ln())
            }
        }
    }
}

/// How many queries are started before answers are checked again.
const BATCH: u32 = 32;
/// A query that starts later than this after its time is counted as late.
const LATE: Duration = Duration::from_millis(1);
/// A query that is later than this is not sent.
const BEHIND: Duration = Duration::from_millis(100);

/// The names of the queries: `h` and seven digits below the zone. With the zone `example.net` a
/// name has 20 characters, as in Hayes, Rossi, Armitage 2010.
struct Questions {
    /// With the two bytes of length that precede a message in TCP.
    message: Vec<u8>,
    names: u32,
    next: u32,
}

impl Questions {
    fn new(options: &Options) -> Self {
        // RFC 1035, 4.1.1: ID, RD, one question; one additional record if EDNS is used.
        let mut message = vec![0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(options.edns > 0)];
        message.push(8);
        message.extend_from_slice(b"h0000000");
        for label in options.zone.split('.') {
            message.push(label.len() as u8);
            message.extend_from_slice(label.as_bytes());
        }
        message.push(0);
        message.extend_from_slice(&options.kind.to_be_bytes());
        message.extend_from_slice(&1u16.to_be_bytes());
        if options.edns > 0 {
            // RFC 6891, 6.1.2: root, OPT, payload size, no flags, no options.
            message.extend_from_slice(&[0, 0, 41]);
            message.extend_from_slice(&options.edns.to_be_bytes());
            message.extend_from_slice(&[0; 6]);
        }
        let length = (message.len() - 2) as u16;
        message[..2].copy_from_slice(&length.to_be_bytes());
        Self { message, names: options.names, next: 0 }
    }

    /// Returns the next query with this message ID, and before it the two bytes of its length.
    fn next(&mut self, id: u16) -> &[u8] {
        self.message[2..4].copy_from_slice(&id.to_be_bytes());
        let mut rest = self.next;
        for digit in self.message[16..23].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.next = (self.next + 1) % self.names;
        &self.message
    }
}

/// Whether a message, without its bytes of length, answers query `id` without an error.
fn is_answer(head: &[u8], id: u16) -> bool {
    head.len() >= 12 && head[..2] == id.to_be_bytes() && head[2] & 0x80 != 0 && head[3] & 15 == 0
}

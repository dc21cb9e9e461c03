//! Two TCP endpoints and a path that loses packets: how long a download takes, and what is sent
//! again.
//!
//! Each end is a state machine without I/O. The loop below is all that a driver needs: it finds the
//! next event (an arrival, or a timer of one of the ends), hands it to the end, and sends what the
//! end then has to send.

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_transport::tcp::{Config, Congestion, Endpoint, Segment, Seq};
use narrows_units::{Bytes, Rate, Span, Time};

/// The path of each direction: its rate, its delay, and the probability that it loses a segment.
const RATE_BPS: u64 = 20_000_000;
const DELAY: Span = Span::from_ms(20);
const LOSS: f64 = 0.01;
/// What the client downloads.
const BYTES: u64 = 5_000_000;
/// The headers of IPv4 and TCP, with timestamps.
const HEADERS: u64 = 20 + 32;

fn main() {
    println!("5 MB at 20 Mbit/s, a round trip of 40 ms, and 1 % loss");
    for (name, congestion) in [("CUBIC", Congestion::Cubic), ("Reno", Congestion::Reno)] {
        let mut config = Config::profile("linux-6").expect("it is a profile");
        config.congestion = congestion;
        let (took, server) = download(config, 1);
        let counters = server.counters();
        println!(
            "{name}: {:.2} s, {} segments sent again, {} timeouts",
            took.as_secs_f64(),
            counters.segments_retransmitted,
            counters.timeouts
        );
    }
}

/// Returns how long the download took, and the server's end.
fn download(config: Config, seed: u64) -> (Span, Endpoint) {
    let config = Arc::new(config);
    let rate = Rate::from_bps(RATE_BPS).expect("it is above zero");
    let mut ends =
        [Endpoint::client(Arc::clone(&config), Seq(1)), Endpoint::server(config, Seq(1))];
    let mut random = seed;
    // Segments under way, by the time of arrival and the end that they reach.
    let mut under_way: BTreeMap<(Time, u64), (usize, Segment)> = BTreeMap::new();
    let mut number = 0;
    let mut free_at = [Time::ZERO; 2];
    let mut now = Time::ZERO;
    let mut asked = false;
    ends[0].connect(now);
    while ends[0].bytes_received() < BYTES {
        for end in 0..2 {
            if end == 1 && ends[1].is_established() && !asked {
                asked = true;
                ends[1].write(now, BYTES);
            }
            while let Some(segment) = ends[end].poll_transmit(now) {
                let length = Bytes::new(HEADERS + u64::from(segment.len));
                free_at[end] = free_at[end].max(now) + rate.time_for(length);
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let lost = ((random >> 11) as f64 / (1_u64 << 53) as f64) < LOSS;
                if !lost {
                    number += 1;
                    under_way.insert((free_at[end] + DELAY, number), (1 - end, segment));
                }
            }
        }
        let arrival = under_way.first_key_value().map(|(&(at, _), _)| at);
        let timers = [0, 1].map(|end: usize| ends[end].next_timeout().map(|at| (end, at)));
        let timer = timers.into_iter().flatten().min_by_key(|&(_, at)| at);
        match (arrival, timer) {
            (Some(at), timer) if timer.is_none_or(|(_, due)| at <= due) => {
                let (_, (end, segment)) = under_way.pop_first().expect("one is under way");
                now = at;
                ends[end].handle_segment(now, &segment);
            }
            (_, Some((end, due))) => {
                now = due;
                ends[end].handle_timeout(now);
            }
            _ => unreachable!("a connection that is not over waits for something"),
        }
    }
    let [_, server] = ends;
    (now.since(Time::ZERO), server)
}

//! HyStart++ (RFC 9406) over a bottleneck: how far slow start overshoots a deep buffer.

use narrows_transport::tcp::{Config, Congestion, SlowStart};
use narrows_units::Span;

use crate::tcp_line::{Line, at_secs, linux};

/// What the first slow start of a connection did.
struct First {
    longest_queue: usize,
    dropped: u32,
    /// Its phases, with the window at the start of each.
    states: Vec<(&'static str, u32)>,
}

/// Lets a connection start over 10 Mbit/s and 40 ms, which are 33 packets, with room for 400, until
/// its slow start is over.
fn start(config: &Config) -> First {
    let mut line = Line::new(config, 10e6, 400, Span::from_ms(40));
    let mut states = Vec::new();
    for step in 1..=500 {
        line.run(at_secs(0.01 * f64::from(step)), |end, _| {
            let state = end.sample().state;
            if states.last().is_none_or(|&(last, _)| last != state) {
                states.push((state, end.cwnd()));
            }
        });
        if line.ends[0].ssthresh().is_some()
            && states.last().is_some_and(|last| last.0 == "avoidance")
        {
            break;
        }
    }
    First { longest_queue: line.longest_queue, dropped: line.dropped, states }
}

/// Slow start fills a buffer of twelve bandwidth-delay products and loses hundreds of packets. With
/// HyStart++ it slows down in the round after the one that has begun a queue, grows by a quarter in
/// each of at most five rounds, and leaves without a loss.
#[test]
fn slow_start_does_not_fill_a_deep_buffer() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for pacing in [false, true] {
            let standard = Config { pacing, hystart: false, ..linux(congestion.clone()) };
            let gentle = Config { slow_start: SlowStart::HystartPlusPlus, ..standard.clone() };
            let (usual, gentle) = (start(&standard), start(&gentle));
            let case = format!("{congestion:?}, pacing {pacing}");
            assert!(usual.dropped > 300 && usual.longest_queue >= 400, "{case}: {}", usual.dropped);
            assert!(
                !usual.states.iter().any(|state| state.0 == "conservative-slow-start"),
                "{case}"
            );
            assert_eq!(gentle.dropped, 0, "{case}");
            assert!(gentle.longest_queue < 400, "{case}: {} packets", gentle.longest_queue);
            let [("slow-start", 10), ("conservative-slow-start", slow), ("avoidance", end)] =
                gentle.states[..]
            else {
                panic!("{case}: {:?}", gentle.states);
            };
            // 33 packets, and as many again or twice that in the queue.
            assert!((66..133).contains(&slow), "{case}: {slow}");
            let grown = f64::from(end) / f64::from(slow);
            assert!((2.4..3.06).contains(&grown), "{case}: it grows by {grown}, up to 1.25^5");
        }
    }
}

//! The example with quinn-proto measures what the page about it says, and what must hold.

use narrows_units::{Bytes, Rate};

use crate::example::{Row, matrix, measure};

#[path = "../examples/quinn_over_link.rs"]
mod example;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-loops.md");

/// The first number of a cell.
fn number(cell: &str) -> f64 {
    cell.split_whitespace().next().expect("a cell has text").parse().expect("it is a number")
}

/// quinn-proto draws random numbers of its own, and its keys differ from run to run. So the numbers
/// need not be equal.
#[test]
fn the_page_has_what_the_example_prints() {
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    // The first table of numbers; the example in C has the next one.
    let table = page.lines().skip_while(|line| !line.starts_with("| rate |"));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    let rows: Vec<Vec<&str>> =
        rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let cases = matrix();
    assert_eq!(rows.len(), cases.len());
    for (row, case) in rows.iter().zip(&cases) {
        let heads = (number(row[0]) as u64, number(row[1]) as u64, row[2]);
        assert_eq!(heads, (case.mbps, case.rtt_ms, case.queue.name()));
        let Row { goodput, delay_p50_ms, delay_p95_ms, counters } = measure(case);
        let near = |cell: &str, value: f64, most: f64| {
            assert!((number(cell) - value).abs() <= most, "{row:?}: {value}");
        };
        near(row[3], goodput * 100.0, 3.0);
        near(row[4], delay_p50_ms, 2.0 + 0.1 * delay_p50_ms);
        near(row[5], delay_p95_ms, 2.0 + 0.15 * delay_p95_ms);
        near(row[6], counters.marked as f64, 10.0 + 0.3 * counters.marked as f64);
        let dropped = counters.dropped.iter().sum::<u64>() as f64;
        near(row[7], dropped, 20.0 + 0.3 * dropped);
        // Headers are at least 28 + 25 of 1228 bytes, and a FIFO of 200 packets that never runs
        // empty holds them for 200 transmissions.
        assert!(goodput < 1.0 - 53.0 / 1228.0, "{row:?}");
        let rate = Rate::from_bps(case.mbps * 1_000_000).expect("not zero");
        let full = rate.time_for(Bytes::new(1228)) * 201;
        if case.queue.name() == "pfifo" {
            assert!(delay_p95_ms <= full.as_secs_f64() * 1e3, "{row:?}");
            assert!(delay_p50_ms > 0.6 * full.as_secs_f64() * 1e3, "{row:?}");
        }
        if case.queue.name().contains("codel") {
            assert!(counters.marked > 0 && dropped == 0.0, "quinn answers marks: {counters:?}");
            assert!(delay_p50_ms < 25.0, "{row:?}");
        }
    }
}

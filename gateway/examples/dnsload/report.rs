//! The results, and their JSON form.

use std::time::Duration;

use crate::histogram::Histogram;
use crate::options::Options;

/// Counts of queries. `offered = answered + lost + failed + unsent`.
pub(crate) struct Report {
    /// Queries whose time came.
    pub(crate) offered: u64,
    pub(crate) answered: u64,
    /// Answered before the last query's time, without those that were waited for at the end.
    pub(crate) answered_in_time: u64,
    /// Without an answer in time.
    pub(crate) lost: u64,
    /// Refused or reset connections, and wrong answers (another ID, an error code).
    pub(crate) failed: u64,
    /// Not sent because the generator could not follow; then it is the limit.
    pub(crate) unsent: u64,
    /// Sent more than a millisecond after their time.
    pub(crate) late: u64,
    /// From the first packet (SYN or datagram) to the whole answer.
    pub(crate) latency: Histogram,
    /// From the first arrival to the last one.
    pub(crate) took: Duration,
    /// `hold`: connections that stayed open.
    pub(crate) open: u64,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            offered: 0,
            answered: 0,
            answered_in_time: 0,
            lost: 0,
            failed: 0,
            unsent: 0,
            late: 0,
            latency: Histogram::new(),
            took: Duration::ZERO,
            open: 0,
        }
    }

    pub(crate) fn json(&self, options: &Options) -> serde_json::Value {
        let quantile = |share| self.latency.quantile(share).map(micros);
        let histogram: Vec<_> = self.latency.filled().map(|(at, n)| (micros(at), n)).collect();
        let took = self.took.as_secs_f64();
        serde_json::json!({
            "rate_per_s": options.rate,
            "took_s": took,
            "offered": self.offered,
            "answered": self.answered,
            "answered_in_time": self.answered_in_time,
            "lost": self.lost,
            "failed": self.failed,
            "unsent": self.unsent,
            "late": self.late,
            "open": self.open,
            "cpu_s": own_cpu_s(),
            "latency_us": {
                "p50": quantile(0.5),
                "p90": quantile(0.9),
                "p99": quantile(0.99),
                "max": quantile(1.0),
            },
            "histogram_us": histogram,
        })
    }
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

/// The processor time of this process's only thread: the first field of schedstat, in nanoseconds
/// (Linux, Documentation/scheduler/sched-stats.rst).
fn own_cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

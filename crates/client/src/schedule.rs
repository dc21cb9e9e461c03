//! Retry schedules of stub resolvers by name: how long they wait for each attempt over UDP.
//!
//! They hold for one configured server. The sources of the numbers are given with the same
//! schedules of the scenario language (python/narrows/scenario/retry.py); a test keeps both equal.

use std::time::Duration;

/// The timeouts of successive attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Vec<Duration>);

impl Schedule {
    /// The names of all schedules.
    pub const NAMES: [&'static str; 12] = [
        "windows",
        "windows-7",
        "windows-10",
        "bind",
        "dig",
        "glibc",
        "kdig",
        "knot-resolver",
        "musl",
        "pdns-recursor",
        "systemd-resolved",
        "unbound",
    ];

    /// Returns a schedule by its name, or `None` if there is no such schedule.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let seconds: &[f64] = match name {
            "windows" => &[1.0, 2.0, 2.0, 4.0, 8.0],
            "windows-7" => &[1.0, 1.0, 2.0, 4.0, 4.0],
            "windows-10" => &[1.0, 1.0, 2.0, 4.0, 2.0],
            "bind" => &[0.8, 0.8, 0.8, 1.6, 3.2, 2.8],
            "dig" | "kdig" => &[5.0, 5.0, 5.0],
            "glibc" => &[5.0, 5.0],
            "knot-resolver" => &[0.4, 0.8],
            "musl" => &[2.5, 2.5],
            "pdns-recursor" => &[1.5],
            "systemd-resolved" => &[5.0, 5.25, 5.25, 5.25, 5.25, 5.25],
            "unbound" => &[0.376, 0.376, 0.752, 0.752, 1.504, 1.504, 3.008, 3.008, 6.016],
            _ => return None,
        };
        Some(Self(seconds.iter().map(|seconds| Duration::from_secs_f64(*seconds)).collect()))
    }

    /// Creates a schedule, or returns `None` if it has no attempts.
    #[must_use]
    pub fn new(timeouts: Vec<Duration>) -> Option<Self> {
        (!timeouts.is_empty()).then_some(Self(timeouts))
    }

    /// Returns the timeouts in the order of attempts.
    #[must_use]
    pub fn timeouts(&self) -> &[Duration] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_schedule() {
        for name in Schedule::NAMES {
            assert!(Schedule::named(name).is_some_and(|found| !found.timeouts().is_empty()));
        }
        assert_eq!(Schedule::named("mine"), None);
        assert_eq!(Schedule::new(Vec::new()), None);
    }
}

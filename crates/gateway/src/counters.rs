//! The names and meanings of the counters, from `bpf/types.h`: one list for the programs and for people.

use std::sync::LazyLock;

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in lower case: `syn`.
    pub name: String,
    /// What it counts.
    pub help: String,
}

/// All counters, in the order of `enum counter`.
pub static COUNTERS: LazyLock<Vec<Counter>> =
    LazyLock::new(|| parse(include_str!("../bpf/types.h")));

/// The place of a counter in [`COUNTERS`].
pub fn index(name: &str) -> Option<usize> {
    COUNTERS.iter().position(|counter| counter.name == name)
}

fn parse(header: &str) -> Vec<Counter> {
    header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("X("))
        .filter_map(|rest| {
            let (name, rest) = rest.split_once(',')?;
            let help = rest.split('"').nth(1)?;
            Some(Counter { name: name.trim().to_lowercase(), help: help.to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_the_programs() {
        let text = include_str!("../bpf/types.h");
        let start = text.find("#define COUNTERS(X)").expect("the list");
        let end = start + text[start..].find("enum counter").expect("its use");
        assert_eq!(
            COUNTERS.len(),
            text[start..end].matches("X(").count(),
            "each entry stands on one line"
        );
        assert_eq!(COUNTERS[0].name, "malformed");
        assert!(COUNTERS.iter().all(|counter| !counter.help.is_empty()));
        assert!(index("expired").is_some());
    }
}

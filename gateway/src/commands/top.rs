//! `narrows-gateway top`: `status` repeatedly, with the busiest sources.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::time::Duration;

use clap::ArgMatches;
use narrows_gateway::config::Config;
use narrows_gateway::signals::Signals;

use super::picture::{Gateway, took};
use super::status::{humane, rows, table};
use super::{Failure, options};

/// How many sources are shown.
const SOURCES: usize = 10;

pub(crate) fn top(config: &Config, matches: &ArgMatches) -> Result<(), Failure> {
    let interval = options::interval(matches)?.max(Duration::from_millis(100));
    let gateway = Gateway::find(config)?;
    let times = matches.get_one::<u64>("times").copied().unwrap_or(u64::MAX);
    // SIGINT ends it between two pictures and leaves the terminal as it was.
    let signals = Signals::new().map_err(Failure::fault)?;
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let mut before = gateway.look()?;
    for _ in 0..times {
        if signals.wait(interval).map_err(Failure::fault)?.is_some() {
            return Ok(());
        }
        let now = gateway.look()?;
        let fresh = now.marks.since(&before.marks);
        let answers = now.latencies.since(&before.latencies);
        let text = format!(
            "{clear}{}{}{}{}",
            now.head(),
            took(&answers),
            busiest(&now.sources, &fresh, now.at.saturating_sub(before.at)),
            table(&rows(&now, Some(&before)), false, "measured since the last picture")
        );
        // The reader may have gone, as head(1) does.
        if std::io::stdout()
            .write_all(text.as_bytes())
            .and_then(|()| std::io::stdout().flush())
            .is_err()
        {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

fn busiest(
    sources: &BTreeMap<IpAddr, u64>,
    fresh: &BTreeMap<IpAddr, u64>,
    interval: Duration,
) -> String {
    // A connection may have come and gone between two pictures.
    let all: BTreeSet<IpAddr> = fresh
        .iter()
        .filter(|(_, new)| **new > 0)
        .map(|(source, _)| source)
        .chain(sources.keys())
        .copied()
        .collect();
    let of = |counts: &BTreeMap<IpAddr, u64>, source| counts.get(source).copied().unwrap_or(0);
    let mut rows: Vec<(u64, u64, IpAddr)> =
        all.iter().map(|source| (of(fresh, source), of(sources, source), *source)).collect();
    rows.sort_by(|a, b| (b.0, b.1, a.2).cmp(&(a.0, a.1, b.2)));
    let mut text =
        format!("\n{:<40} {:>12} {:>12}\n", "busiest sources", "new a second", "connections");
    for (new, n, source) in rows.iter().take(SOURCES) {
        let rate = humane(*new as f64 / interval.as_secs_f64().max(0.001));
        text.push_str(&format!("{:<40} {rate:>12} {n:>12}\n", source.to_string()));
    }
    if rows.len() > SOURCES {
        text.push_str(&format!("and {} more\n", rows.len() - SOURCES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_with_new_connections_come_first() {
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let sources = (1..=12).map(|last| (address(last), u64::from(last))).collect();
        let text = busiest(&sources, &BTreeMap::from([(address(3), 4)]), Duration::from_secs(2));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("192.0.2.3 ") && lines[0].contains(" 2.0 "), "{text}");
        assert!(lines[1].starts_with("192.0.2.12 "), "{text}");
        assert_eq!(lines.last(), Some(&"and 2 more"));
    }
}

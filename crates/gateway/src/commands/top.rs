//! `narrows-gateway top`: `status` again and again, with the busiest sources.

use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::ArgMatches;
use narrows_gateway::config::Config;
use narrows_gateway::interface::Interface;
use narrows_gateway::kernel::view::Entries;
use narrows_gateway::kernel::{KernelError, View};
use narrows_gateway::signals::Signals;

use super::status::{Sample, head, humane, table};
use super::{Failure, options};

/// Sources that are shown.
const SOURCES: usize = 10;

/// Connections that have been seen, each by its client and its query's sequence number.
type Seen = HashSet<(SocketAddr, u32)>;

pub(crate) fn top(config: &Config, matches: &ArgMatches) -> Result<(), Failure> {
    let interval = options::interval(matches)?.max(Duration::from_millis(100));
    let interface = Interface::find(&config.interface).map_err(Failure::refused)?;
    let view = View::open(config).map_err(Failure::refused)?;
    let times = matches.get_one::<u64>("times").copied().unwrap_or(u64::MAX);
    // SIGINT ends it between two pictures, with the terminal as it was.
    let signals = Signals::new().map_err(Failure::fault)?;
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let mut before = Sample::take(&view).map_err(Failure::fault)?;
    let (_, mut seen) = look(&view, &Seen::new()).map_err(Failure::fault)?;
    for _ in 0..times {
        if signals.wait(interval).map_err(Failure::fault)?.is_some() {
            return Ok(());
        }
        let now = Sample::take(&view).map_err(Failure::fault)?;
        let entries = view.entries().map_err(Failure::fault)?;
        let (fresh, all) = look(&view, &seen).map_err(Failure::fault)?;
        let text = format!(
            "{clear}{}{}{}",
            head(&view, &interface, &entries)?,
            busiest(&entries, &fresh, interval),
            table(&now.since(Some(&before)), false)
        );
        // Whoever reads it may have gone: head(1).
        if std::io::stdout()
            .write_all(text.as_bytes())
            .and_then(|()| std::io::stdout().flush())
            .is_err()
        {
            return Ok(());
        }
        (before, seen) = (now, all);
    }
    Ok(())
}

/// Connections that were not there before, by source, and all that are.
fn look(view: &View, before: &Seen) -> Result<(BTreeMap<IpAddr, u64>, Seen), KernelError> {
    let mut fresh: BTreeMap<IpAddr, u64> = BTreeMap::new();
    let mut all = Seen::new();
    view.each(|client, flow| {
        let connection = (client, flow.query_seq);
        if !before.contains(&connection) {
            *fresh.entry(client.ip()).or_default() += 1;
        }
        all.insert(connection);
    })?;
    Ok((fresh, all))
}

fn busiest(entries: &Entries, fresh: &BTreeMap<IpAddr, u64>, interval: Duration) -> String {
    let mut rows: Vec<(u64, u64, IpAddr)> = entries
        .sources
        .iter()
        .map(|(&source, &n)| (fresh.get(&source).copied().unwrap_or(0), n, source))
        .collect();
    rows.sort_by(|a, b| (b.0, b.1, a.2).cmp(&(a.0, a.1, b.2)));
    let mut text =
        format!("\n{:<40} {:>12} {:>12}\n", "busiest sources", "new a second", "connections");
    for (new, n, source) in rows.iter().take(SOURCES) {
        let rate = humane(*new as f64 / interval.as_secs_f64());
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
        let entries = Entries { sources, ..Entries::default() };
        let text = busiest(&entries, &BTreeMap::from([(address(3), 4)]), Duration::from_secs(2));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("192.0.2.3 ") && lines[0].contains(" 2.0 "), "{text}");
        assert!(lines[1].starts_with("192.0.2.12 "), "{text}");
        assert_eq!(lines.last(), Some(&"and 2 more"));
    }
}

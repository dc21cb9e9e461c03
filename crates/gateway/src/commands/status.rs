//! `narrows-gateway status`: what an attached gateway does now.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use narrows_gateway::config::Config;
use narrows_gateway::core::Counter;
use narrows_gateway::interface::Interface;
use narrows_gateway::kernel::sweep::STATES;
use narrows_gateway::kernel::view::Entries;
use narrows_gateway::kernel::{KernelError, View};
use narrows_gateway::keys::unix_s;
use serde_json::{Value, json};

use super::{Failure, options, put};

/// All counters at a moment.
pub(crate) struct Sample {
    at: Instant,
    counters: Vec<(Counter, u64)>,
}

/// A counter, its sum, and how often it was counted a second between two samples.
pub(crate) type Row = (Counter, u64, Option<f64>);

impl Sample {
    pub(crate) fn take(view: &View) -> Result<Self, KernelError> {
        Ok(Self { at: Instant::now(), counters: view.counters()? })
    }

    /// This sample's counters, with rates since an earlier one.
    pub(crate) fn since(&self, earlier: Option<&Self>) -> Vec<Row> {
        let rate = |counter: Counter, now: u64| {
            let earlier = earlier?;
            let seconds = self.at.duration_since(earlier.at).as_secs_f64();
            let before = earlier.counters.iter().find(|(other, _)| *other == counter)?.1;
            (seconds > 0.0).then(|| now.saturating_sub(before) as f64 / seconds)
        };
        self.counters.iter().map(|&(counter, now)| (counter, now, rate(counter, now))).collect()
    }
}

pub(crate) fn status(config: &Config, matches: &ArgMatches) -> Result<(), Failure> {
    let interval = options::interval(matches)?;
    let interface = Interface::find(&config.interface).map_err(Failure::refused)?;
    let view = View::open(config).map_err(Failure::refused)?;
    let first =
        if interval.is_zero() { None } else { Some(Sample::take(&view).map_err(Failure::fault)?) };
    std::thread::sleep(interval);
    let rows = Sample::take(&view).map_err(Failure::fault)?.since(first.as_ref());
    let entries = view.entries().map_err(Failure::fault)?;
    if matches.get_flag("json") {
        put(&object(&view, &interface, &rows, &entries)?.to_string());
    } else {
        put(&format!(
            "{}{}",
            head(&view, &interface, &entries)?,
            table(&rows, matches.get_flag("all"))
        ));
    }
    Ok(())
}

/// Everything as one JSON object.
fn object(
    view: &View,
    interface: &Interface,
    rows: &[Row],
    entries: &Entries,
) -> Result<Value, Failure> {
    let settings = view.settings().map_err(Failure::fault)?;
    let about = view.about();
    let servers: Vec<IpAddr> =
        view.servers().map_err(Failure::fault)?.into_iter().flatten().collect();
    let states: serde_json::Map<String, Value> = STATES
        .iter()
        .zip(entries.states)
        .skip(1)
        .map(|(name, n)| ((*name).to_owned(), n.into()))
        .collect();
    let counters: serde_json::Map<String, Value> =
        rows.iter().map(|row| (row.0.name().to_owned(), row.1.into())).collect();
    let rates: serde_json::Map<String, Value> =
        rows.iter().filter_map(|row| Some((row.0.name().to_owned(), row.2?.into()))).collect();
    Ok(json!({
        "interface": interface.name,
        "attached": view.is_attached(interface),
        "mode": about.as_ref().map(|about| &about.mode),
        "version": about.as_ref().map(|about| &about.version),
        "daemon": about.as_ref().filter(|_| view.has_daemon()).map(|about| about.pid),
        "started_at": about.as_ref().map(|about| about.started_at),
        "servers": servers,
        "port": settings.port,
        "active": settings.active != 0,
        "mss": { "ipv4": settings.mss4, "ipv6": settings.mss6 },
        "entries": states,
        "entries_room": view.room(),
        "counters": counters,
        "per_second": rates,
        "settings": about.map(|about| about.settings),
    }))
}

/// The lines that say what runs, and the connections by state.
pub(crate) fn head(
    view: &View,
    interface: &Interface,
    entries: &Entries,
) -> Result<String, Failure> {
    let settings = view.settings().map_err(Failure::fault)?;
    let servers: Vec<String> = view
        .servers()
        .map_err(Failure::fault)?
        .into_iter()
        .flatten()
        .map(|address| address.to_string())
        .collect();
    let about = view.about();
    let mut text = String::new();
    let how = match &about {
        Some(about) => format!(
            "{} XDP, version {}, started {} ago",
            about.mode,
            about.version,
            ago(unix_s().saturating_sub(about.started_at))
        ),
        None => "of another version".into(),
    };
    let daemon = match &about {
        _ if !view.is_attached(interface) => {
            "NOT ATTACHED ANY MORE: narrows-gateway run attaches it again".into()
        }
        Some(about) if view.has_daemon() => format!("daemon {}", about.pid),
        _ => "NO DAEMON: keys do not rotate and old entries stay; narrows-gateway run takes over"
            .into(),
    };
    let _ = writeln!(text, "{}: {how}; {daemon}", interface.name);
    let close =
        if settings.close_fin == 1 { "closes after the reply" } else { "keeps connections" };
    let syn = if settings.syncache == 1 { "SYN cache" } else { "cookies" };
    let transfers = if settings.axfr_detect == 1 {
        "transfers to the kernel"
    } else {
        "transfers as other queries"
    };
    let active = if settings.active == 1 { "active" } else { "NOT ACTIVE: everything passes" };
    let _ = writeln!(text, "servers      {} port {}", servers.join(", "), settings.port);
    let _ = writeln!(text, "settings     {active}; {syn}, {close}, {transfers}");
    let all: u64 = entries.states.iter().sum();
    let states: Vec<String> =
        STATES.iter().zip(entries.states).skip(1).map(|(name, n)| format!("{n} {name}")).collect();
    let _ = writeln!(text, "connections  {all} of {}: {}", view.room(), states.join(", "));
    Ok(text)
}

/// The counters that are not zero (or all), with rates and words.
pub(crate) fn table(rows: &[Row], all: bool) -> String {
    let mut text = String::new();
    let shown: Vec<&Row> = rows.iter().filter(|row| all || row.1 > 0).collect();
    if shown.is_empty() {
        return "no packet for a server came yet\n".into();
    }
    let _ = writeln!(text, "\n{:<20} {:>14} {:>12}", "", "since start", "a second");
    for (counter, sum, rate) in shown {
        let rate = rate.map_or(String::new(), humane);
        let _ = writeln!(text, "{:<20} {sum:>14} {rate:>12}  {}", counter.name(), counter.text());
    }
    text
}

/// A rate with as many digits as say something.
pub(crate) fn humane(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// A span of seconds in its largest unit.
fn ago(seconds: u64) -> String {
    match Duration::from_secs(seconds).as_secs() {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s if s < 172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_by_time() {
        let at = Instant::now();
        let before = Sample { at, counters: vec![(Counter::Syn, 10), (Counter::Query, 5)] };
        let after = Sample {
            at: at + Duration::from_secs(2),
            counters: vec![(Counter::Syn, 30), (Counter::Query, 5)],
        };
        assert_eq!(
            after.since(Some(&before)),
            [(Counter::Syn, 30, Some(10.0)), (Counter::Query, 5, Some(0.0))]
        );
        assert_eq!(after.since(None)[0], (Counter::Syn, 30, None));
    }

    #[test]
    fn counters_that_are_zero_are_left_out() {
        let rows = [(Counter::Syn, 30, Some(10.0)), (Counter::Query, 0, Some(0.0))];
        let text = table(&rows, false);
        assert!(text.contains("syn ") && text.contains("10.0") && !text.contains("query"));
        assert!(table(&rows, true).contains("query"));
        assert_eq!(table(&rows[1..], false), "no packet for a server came yet\n");
    }

    #[test]
    fn spans_are_in_their_unit() {
        assert_eq!(
            ["5 s", "5 min", "5 h", "5 days"],
            [5, 300, 18_000, 432_000].map(ago).each_ref().map(String::as_str)
        );
    }
}

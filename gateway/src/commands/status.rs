//! `narrows-gateway status`: what a gateway is doing.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use clap::ArgMatches;
use narrows_gateway::config::Config;
use narrows_gateway::core::Counter;
use serde_json::{Map, Value};

use super::picture::{Gateway, Picture, took};
use super::{Failure, options, put};

/// A counter, its total, and its rate per second between two pictures.
pub(crate) type Row = (Counter, u64, Option<f64>);

/// Returns a picture's counters, with rates since an earlier one.
pub(crate) fn rows(now: &Picture, earlier: Option<&Picture>) -> Vec<Row> {
    let rate = |counter: Counter, n: u64| {
        let earlier = earlier?;
        let seconds = now.at.saturating_sub(earlier.at).as_secs_f64();
        let before = earlier.counters.iter().find(|(other, _)| *other == counter)?.1;
        (seconds > 0.0).then(|| n.saturating_sub(before) as f64 / seconds)
    };
    now.counters.iter().map(|&(counter, n)| (counter, n, rate(counter, n))).collect()
}

pub(crate) fn status(config: &Config, matches: &ArgMatches) -> Result<(), Failure> {
    let interval = options::interval(matches)?;
    let gateway = Gateway::find(config)?;
    let first = if interval.is_zero() { None } else { Some(gateway.look()?) };
    std::thread::sleep(interval);
    let picture = gateway.look()?;
    let rows = rows(&picture, first.as_ref());
    let asked = matches.get_many::<IpAddr>("address").into_iter().flatten();
    let asked: Vec<(IpAddr, bool)> =
        asked.map(|&client| (client, picture.serves(client))).collect();
    if matches.get_flag("json") {
        let mut object = picture.object();
        let rates: Map<String, Value> =
            rows.iter().filter_map(|row| Some((row.0.name().to_owned(), row.2?.into()))).collect();
        object.insert("per_second".into(), rates.into());
        let asked: Map<String, Value> =
            asked.iter().map(|(client, served)| (client.to_string(), (*served).into())).collect();
        object.insert("addresses".into(), asked.into());
        put(&Value::from(object).to_string());
    } else {
        let answers = took(&picture.latencies);
        let counts = table(&rows, matches.get_flag("all"), &during(interval));
        put(&format!("{}{}{answers}{counts}", picture.head(), clients(&asked)));
    }
    Ok(())
}

/// A line for each client that was asked about.
fn clients(asked: &[(IpAddr, bool)]) -> String {
    let words = |served: bool| match served {
        true => "in the share: the gateway serves its new connections",
        false => "not in the share: the kernel's TCP serves its new connections",
    };
    let line = |&(client, served)| format!("client       {client} is {}\n", words(served));
    asked.iter().map(line).collect()
}

/// Returns when the rates of `status` were measured.
fn during(interval: Duration) -> String {
    if interval.is_zero() {
        return "no rates with --interval \"0 s\"".into();
    }
    let seconds = interval.as_secs_f64();
    format!("measured over the {seconds} s that this command took; --interval takes longer")
}

/// Returns the counters that are not zero (or all of them), with rates and descriptions. `during`
/// says when the rates were measured.
pub(crate) fn table(rows: &[Row], all: bool, during: &str) -> String {
    let mut text = String::new();
    let shown: Vec<&Row> = rows.iter().filter(|row| all || row.1 > 0).collect();
    if shown.is_empty() {
        return "no packet for a server came yet\n".into();
    }
    let _ = writeln!(text, "\n{:<20} {:>14} {:>12}  ({during})", "", "since start", "a second");
    for (counter, sum, rate) in shown {
        let rate = rate.map_or(String::new(), humane);
        let _ = writeln!(text, "{:<20} {sum:>14} {rate:>12}  {}", counter.name(), counter.text());
    }
    text
}

/// Returns a rate with as many digits as are meaningful.
pub(crate) fn humane(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_by_time() {
        let picture = |seconds, syn| Picture {
            at: Duration::from_secs(seconds),
            counters: vec![(Counter::Syn, syn), (Counter::Query, 5)],
            ..Picture::default()
        };
        let (before, after) = (picture(1, 10), picture(3, 30));
        assert_eq!(
            rows(&after, Some(&before)),
            [(Counter::Syn, 30, Some(10.0)), (Counter::Query, 5, Some(0.0))]
        );
        assert_eq!(rows(&after, None)[0], (Counter::Syn, 30, None));
        assert_eq!(rows(&after, Some(&after))[0], (Counter::Syn, 30, None), "no time has gone by");
    }

    #[test]
    fn counters_that_are_zero_are_left_out() {
        let rows = [(Counter::Syn, 30, Some(10.0)), (Counter::Query, 0, Some(0.0))];
        let text = table(&rows, false, "measured");
        assert!(text.contains("a second  (measured)\n"), "{text}");
        assert!(text.contains("syn ") && text.contains("10.0") && !text.contains("query"));
        assert!(table(&rows, true, "").contains("query"));
        assert_eq!(table(&rows[1..], false, ""), "no packet for a server came yet\n");
    }
}

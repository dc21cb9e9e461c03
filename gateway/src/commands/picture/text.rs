//! A picture in words.

use std::fmt::Write as _;

use narrows_gateway::checked::Checked;
use narrows_gateway::config::Active;
use narrows_gateway::core::Latencies;
use narrows_gateway::keys::unix_s;
use serde_json::Value;

use super::Picture;

impl Picture {
    /// Returns the lines about what runs, and the connections by state.
    pub(crate) fn head(&self) -> String {
        let mut text = String::new();
        let how = match &self.about {
            Some(about) => {
                let path = match &self.user {
                    Some(user) => {
                        let link = match user["link"].as_str() {
                            Some("tun") => "a TUN device",
                            _ => "packet sockets",
                        };
                        format!("in user space with {link}")
                    }
                    None => format!("{} XDP", about.mode),
                };
                let since = ago(unix_s().saturating_sub(about.started_at));
                format!("{path}, version {}, started {since} ago", about.version)
            }
            None => "of another version".into(),
        };
        let daemon = match &self.about {
            _ if !self.attached => {
                "NOT ATTACHED ANY MORE: narrows-gateway run attaches it again".into()
            }
            Some(about) if self.has_daemon => format!("daemon {}", about.pid),
            _ => {
                "NO DAEMON: keys do not rotate and old entries stay; narrows-gateway run takes over"
                    .into()
            }
        };
        let _ = writeln!(text, "{}: {how}; {daemon}", self.interfaces.join(", "));
        let close = if self.close_fin { "closes after the reply" } else { "keeps connections" };
        let syn = if self.syncache { "SYN cache" } else { "cookies" };
        let transfers = match (self.axfr_detect, &self.user) {
            (false, _) => "transfers as other queries",
            (true, None) => "transfers to the kernel",
            (true, Some(_)) => "transfers over TCP",
        };
        let passes = if self.user.is_some() { "dropped" } else { "passes" };
        let active = match (self.active, Active::of_share(self.share)) {
            (false, _) if self.draining => {
                "DRAINING: open connections go on, the kernel's TCP has the new ones".into()
            }
            (false, _) => format!("NOT ACTIVE: everything {passes}"),
            (true, Active::ALL) => "active for all clients".into(),
            // The configuration's share is not 0, so the programs were told so for this reason.
            (true, Active::NONE) => {
                "NO NEW CONNECTIONS: net.ipv4.tcp_syncookies is 0, so the kernel's TCP has them all"
                    .into()
            }
            (true, share) => format!(
                "active for {} % of the clients, the kernel's TCP has the others",
                share.percent()
            ),
        };
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "servers      {} port {}", servers.join(", "), self.port);
        let _ = writeln!(text, "settings     {active}; {syn}, {close}, {transfers}");
        let all: u64 = self.entries.iter().map(|(_, n)| n).sum();
        let states: Vec<String> =
            self.entries.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let _ = writeln!(text, "connections  {all} of {}: {}", self.room, states.join(", "));
        text += &checked(&self.checks);
        if let Some(user) = &self.user {
            text += &upstream(user);
        }
        text
    }
}

/// Returns the lines about the server behind a gateway in user space.
fn upstream(user: &Value) -> String {
    let mut text = String::new();
    let upstream = user["upstream"].as_array().into_iter().flatten();
    let upstream: Vec<&str> = upstream.filter_map(Value::as_str).collect();
    let of = |key: &str| user[key].as_u64().unwrap_or(0);
    let _ = writeln!(
        text,
        "upstream     {}: {} of {} queries, {} of {} connections with TCP",
        upstream.join(", "),
        of("queries"),
        of("queries_room"),
        of("relays"),
        of("relays_room")
    );
    let faults: Vec<String> = FAULTS
        .iter()
        .filter(|(key, _)| of(key) > 0)
        .map(|(key, words)| format!("{} {words}", of(key)))
        .collect();
    if !faults.is_empty() {
        let _ = writeln!(text, "faults       {}", faults.join("; "));
    }
    text
}

/// Returns a line about the last checks, and one for each that failed; empty if there were none.
fn checked(checks: &[Checked]) -> String {
    let Some(oldest) = checks.iter().map(|checked| checked.at).min() else { return String::new() };
    let good = checks.iter().filter(|checked| checked.failed.is_none()).count();
    let since = ago(unix_s().saturating_sub(oldest));
    let mut text = format!(
        "checked      {good} of {} server addresses serve a client, {since} ago\n",
        checks.len()
    );
    for checked in checks {
        if let Some(why) = &checked.failed {
            let _ = writeln!(text, "CHECK FAILED {}: {why}", checked.server);
        }
    }
    text
}

/// What the user-space path counts and the table shows if it is not 0.
const FAULTS: [(&str, &str); 4] = [
    ("queries_full", "queries found no room and were dropped"),
    ("relays_refused", "connections could not go on with TCP and were reset"),
    ("strange_answers", "datagrams answered no query"),
    ("unsent", "packets found no room on the link"),
];

/// Returns a line about how long the server took; empty if it answered nothing.
pub(crate) fn took(latencies: &Latencies) -> String {
    let of = |share| latencies.quantile_us(share).map(microseconds);
    let (Some(half), Some(most), Some(nearly)) = (of(0.5), of(0.95), of(0.99)) else {
        return String::new();
    };
    format!(
        "answers      {} over UDP: half within {half}, 95 % within {most}, 99 % within {nearly}\n",
        latencies.count()
    )
}

fn microseconds(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Returns a span of seconds in its largest unit.
fn ago(seconds: u64) -> String {
    match seconds {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s if s < 172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use narrows_gateway::core::BUCKETS;

    use super::*;

    #[test]
    fn spans_are_in_their_unit() {
        assert_eq!(
            ["5 s", "5 min", "5 h", "5 days"],
            [5, 300, 18_000, 432_000].map(ago).each_ref().map(String::as_str)
        );
    }

    #[test]
    fn how_long_the_server_took_is_a_line() {
        let mut words = [0; BUCKETS + 1];
        // 90 of 4 us, 9 of 1024 to 1280 us, one of 1.05 to 1.3 s.
        (words[4], words[36], words[76]) = (90, 9, 1);
        let latencies = Latencies::of(&words).expect("a word for each bucket and the sum");
        assert_eq!(
            took(&latencies),
            "answers      100 over UDP: half within 5 us, 95 % within 1.3 ms, 99 % within 1.3 ms\n"
        );
        assert_eq!(took(&Latencies::default()), "");
    }

    #[test]
    fn checks_that_failed_are_named() {
        assert_eq!(checked(&[]), "");
        let [one, two] = [53, 54].map(|last| SocketAddr::from(([192, 0, 2, last], 53)));
        let all = [
            Checked::new(one, unix_s() - 90, None),
            Checked::new(two, unix_s() - 60, Some("a first query: no answer in 3 s".into())),
        ];
        let lines = checked(&all);
        assert!(
            lines.starts_with("checked      1 of 2 server addresses serve a client, 9"),
            "{lines}"
        );
        assert!(
            lines.ends_with("\nCHECK FAILED 192.0.2.54:53: a first query: no answer in 3 s\n"),
            "{lines}"
        );
    }
}

//! A picture as JSON: for `--json`, and as a gateway in user space tells it.

use std::net::IpAddr;
use std::time::Duration;

use narrows_gateway::checked::Checked;
use narrows_gateway::config::Active;
use narrows_gateway::core::{Counter, Latencies};
use narrows_gateway::user::Source;
use serde_json::{Map, Value, json};

use super::super::user::STATES;
use super::{About, Marks, Picture};

impl Picture {
    /// Reads the output of a gateway in user space ([`Picture::tell`]). Values that are missing,
    /// because another version wrote it, are left out.
    pub(crate) fn from_json(value: &Value) -> Self {
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| value[key].as_u64().unwrap_or(0);
        let settings = &value["settings"];
        let counters = Counter::ALL
            .iter()
            .filter_map(|&counter| Some((counter, value["counters"][counter.name()].as_u64()?)))
            .collect();
        let empty = Map::new();
        let sources = value["sources"].as_object().unwrap_or(&empty).iter();
        let sources: Vec<(IpAddr, &Value)> =
            sources.filter_map(|(source, both)| Some((source.parse().ok()?, both))).collect();
        let mut entries: Vec<(String, u64)> = value["entries"]
            .as_object()
            .unwrap_or(&empty)
            .iter()
            .map(|(state, n)| (state.clone(), n.as_u64().unwrap_or(0)))
            .collect();
        // In the order of a connection's life, because an object has no order.
        entries.sort_by_key(|(name, _)| STATES.iter().position(|(_, state)| state == name));
        let column = |at: usize| {
            sources.iter().map(move |(source, both)| (*source, both[at].as_u64().unwrap_or(0)))
        };
        Self {
            at: Duration::from_nanos(number("at_ns")),
            interface: word("interface"),
            interfaces: vec![word("interface")],
            attached: true,
            about: Some(About {
                mode: word("mode"),
                version: word("version"),
                pid: number("daemon"),
                started_at: number("started_at"),
                settings: settings.clone(),
            }),
            has_daemon: true,
            servers: value["servers"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|server| server.as_str()?.parse().ok())
                .collect(),
            port: number("port") as u16,
            active: value["active"] == true,
            draining: false,
            // The user-space path serves all or none.
            share: if value["active"] == true { u32::MAX } else { 0 },
            close_fin: settings["close"] == "fin",
            syncache: settings["syncache.active"] == true,
            axfr_detect: settings["axfr_detect"] == true,
            mss: ["ipv4", "ipv6"].map(|family| value["mss"][family].as_u64().unwrap_or(0) as u16),
            entries,
            room: number("entries_room"),
            counters,
            latencies: Latencies::of(&words(&value["latencies"])).unwrap_or_default(),
            sources: column(0).filter(|(_, connections)| *connections > 0).collect(),
            marks: Marks::Asked(column(1).collect()),
            checks: Checked::list(&value["checks"]),
            user: Some(value["user"].clone()),
        }
    }

    /// Everything except the sources, as one JSON object.
    pub(crate) fn object(&self) -> Map<String, Value> {
        let about = self.about.as_ref();
        let entries: Map<String, Value> =
            self.entries.iter().map(|(state, n)| (state.clone(), (*n).into())).collect();
        let counters: Map<String, Value> = self
            .counters
            .iter()
            .map(|(counter, n)| (counter.name().to_owned(), (*n).into()))
            .collect();
        let object = json!({
            "interface": self.interface,
            "interfaces": self.interfaces,
            "attached": self.attached,
            "mode": about.map(|about| &about.mode),
            "version": about.map(|about| &about.version),
            "daemon": about.filter(|_| self.has_daemon).map(|about| about.pid),
            "started_at": about.map(|about| about.started_at),
            "servers": self.servers,
            "port": self.port,
            "active": self.active,
            "draining": self.draining,
            "active_percent": Active::of_share(self.share).percent(),
            "mss": { "ipv4": self.mss[0], "ipv6": self.mss[1] },
            "entries": entries,
            "entries_room": self.room,
            "checks": self.checks.iter().map(Checked::object).collect::<Vec<_>>(),
            "answers": answers(&self.latencies),
            "counters": counters,
            "settings": about.map(|about| &about.settings),
        });
        let Value::Object(mut object) = object else { return Map::new() };
        if let Some(user) = &self.user {
            object.insert("user".into(), user.clone());
        }
        object
    }

    /// Returns the output of a gateway in user space, for [`Picture::from_json`].
    pub(crate) fn tell(&self, sources: impl IntoIterator<Item = (IpAddr, Source)>) -> Value {
        let mut object = self.object();
        let sources: Map<String, Value> = sources
            .into_iter()
            .map(|(source, of)| (source.to_string(), json!([of.connections, of.asked])))
            .collect();
        object.insert("sources".into(), sources.into());
        object.insert("latencies".into(), self.latencies.words().into());
        object.insert("at_ns".into(), (self.at.as_nanos() as u64).into());
        object.into()
    }
}

/// Returns the numbers of an array.
fn words(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// Returns how long the server took, for programs: microseconds, rounded up to a quarter octave.
fn answers(latencies: &Latencies) -> Value {
    let of = |share| latencies.quantile_us(share);
    json!({
        "count": latencies.count(), "p50_us": of(0.5), "p95_us": of(0.95), "p99_us": of(0.99),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn picture() -> Picture {
        Picture {
            at: Duration::from_millis(1500),
            interface: "dns0".into(),
            interfaces: vec!["dns0".into()],
            attached: true,
            about: Some(About {
                mode: "user".into(),
                version: "1".into(),
                pid: 7,
                started_at: 1,
                settings: json!({ "close": "fin", "syncache.active": true, "axfr_detect": false }),
            }),
            has_daemon: true,
            servers: vec![IpAddr::from([192, 0, 2, 53])],
            port: 53,
            active: true,
            share: u32::MAX,
            close_fin: true,
            syncache: true,
            mss: [1460, 1440],
            entries: vec![("query".into(), 2)],
            room: 100,
            counters: vec![(Counter::Syn, 9)],
            user: Some(json!({ "link": "tun", "upstream": ["127.0.0.1:5353"], "unsent": 3 })),
            ..Picture::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let client = IpAddr::from([192, 0, 2, 9]);
        let json = picture().tell([(client, Source { connections: 2, asked: 5 })]);
        let back = Picture::from_json(&serde_json::from_str(&json.to_string()).expect("JSON"));
        assert_eq!(back.object(), picture().object());
        assert_eq!((back.head(), back.at), (picture().head(), picture().at));
        assert_eq!(back.sources, BTreeMap::from([(client, 2)]));
        let later = Marks::Asked(BTreeMap::from([(client, 8)]));
        assert_eq!(later.since(&back.marks), BTreeMap::from([(client, 3)]));
        assert!(back.head().contains("3 packets found no room"), "{}", back.head());
    }

    #[test]
    fn what_is_missing_is_left_out() {
        let back = Picture::from_json(&json!({ "counters": { "syn": 1, "of_tomorrow": 2 } }));
        assert_eq!(back.counters, [(Counter::Syn, 1)]);
        assert!(back.head().contains("in user space"));
    }
}

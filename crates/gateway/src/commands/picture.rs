//! What `status` and `top` show of a gateway at a point in time, in the kernel or in user space.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use narrows_gateway::checked::Checked;
use narrows_gateway::config::Config;
use narrows_gateway::core::{Counter, Latencies};
use narrows_gateway::keys::unix_s;
use narrows_gateway::user::Source;
use narrows_gateway::user::publish::{self, PublishError};
use serde_json::{Map, Value, json};

use super::Failure;

/// A gateway that is running or attached.
pub(crate) enum Gateway {
    /// In user space, identified by its interface.
    User(String),
    /// In the kernel.
    #[cfg(feature = "ebpf")]
    Kernel(narrows_gateway::interface::Interface, narrows_gateway::kernel::View),
}

/// The state of a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// When it was read, by the boot clock.
    pub(crate) at: Duration,
    pub(crate) interface: String,
    /// All interfaces, including that one.
    pub(crate) interfaces: Vec<String>,
    pub(crate) attached: bool,
    /// Who attached or runs it, if known: mode, version, process, start.
    pub(crate) about: Option<About>,
    /// Whether that process exists.
    pub(crate) has_daemon: bool,
    pub(crate) servers: Vec<IpAddr>,
    pub(crate) port: u16,
    pub(crate) active: bool,
    pub(crate) close_fin: bool,
    pub(crate) syncache: bool,
    pub(crate) axfr_detect: bool,
    pub(crate) mss: [u16; 2],
    /// Connections by state.
    pub(crate) entries: Vec<(String, u64)>,
    pub(crate) room: u64,
    pub(crate) counters: Vec<(Counter, u64)>,
    /// How long the server took for first replies.
    pub(crate) latencies: Latencies,
    /// Connections by client address.
    pub(crate) sources: BTreeMap<IpAddr, u64>,
    /// Shows which of them are new.
    pub(crate) marks: Marks,
    /// The last real connection to each server address, if there was one.
    pub(crate) checks: Vec<Checked>,
    /// Details of the user-space path.
    pub(crate) user: Option<Value>,
}

/// Who attached or runs a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) mode: String,
    pub(crate) version: String,
    pub(crate) pid: u64,
    pub(crate) started_at: u64,
    pub(crate) settings: Value,
}

/// How a picture is compared with an earlier one.
#[derive(Clone, Debug)]
pub(crate) enum Marks {
    /// Connections, each by its client and its query's sequence number.
    Connections(HashSet<(SocketAddr, u32)>),
    /// How many queries each source has asked.
    Asked(BTreeMap<IpAddr, u64>),
}

impl Default for Marks {
    fn default() -> Self {
        Self::Connections(HashSet::new())
    }
}

impl Marks {
    /// New connections since an earlier picture, by source.
    pub(crate) fn since(&self, earlier: &Self) -> BTreeMap<IpAddr, u64> {
        let mut fresh = BTreeMap::new();
        match (self, earlier) {
            (Self::Connections(all), Self::Connections(before)) => {
                for (client, _) in all.difference(before) {
                    *fresh.entry(client.ip()).or_default() += 1;
                }
            }
            (Self::Asked(all), Self::Asked(before)) => {
                for (&source, &asked) in all {
                    let before = before.get(&source).copied().unwrap_or(0);
                    fresh.insert(source, asked.saturating_sub(before));
                }
            }
            // Another data path has replaced it.
            _ => {}
        }
        fresh
    }
}

impl Gateway {
    /// The gateway of the configured interface.
    ///
    /// # Errors
    ///
    /// If there is none, or it may not be read.
    pub(crate) fn find(config: &Config) -> Result<Self, Failure> {
        match publish::read(&config.interface) {
            Ok(Some(_)) => Ok(Self::User(config.interface.clone())),
            // Nobody can hide a gateway in the kernel by taking the other's name.
            Ok(None) | Err(PublishError::Taken { .. }) => Self::in_the_kernel(config),
            Err(error) => Err(Failure::refused(error)),
        }
    }

    #[cfg(feature = "ebpf")]
    fn in_the_kernel(config: &Config) -> Result<Self, Failure> {
        use narrows_gateway::interface::Interface;
        use narrows_gateway::kernel::View;
        let interface = Interface::find(&config.interface).map_err(Failure::refused)?;
        let view = View::open(config).map_err(Failure::refused)?;
        Ok(Self::Kernel(interface, view))
    }

    #[cfg(not(feature = "ebpf"))]
    fn in_the_kernel(config: &Config) -> Result<Self, Failure> {
        Err(Failure::refused(format!(
            "no narrows-gateway serves {} in user space, and {}",
            config.interface,
            super::BUILT_WITHOUT
        )))
    }

    /// Its present state.
    ///
    /// # Errors
    ///
    /// If it has ended, or cannot be read.
    pub(crate) fn look(&self) -> Result<Picture, Failure> {
        match self {
            Self::User(interface) => {
                let told = publish::read(interface).map_err(Failure::fault)?;
                let ended = || Failure::fault(format!("the gateway of {interface} has ended"));
                Ok(Picture::told(&told.ok_or_else(ended)?))
            }
            #[cfg(feature = "ebpf")]
            Self::Kernel(interface, view) => Picture::seen(interface, view).map_err(Failure::fault),
        }
    }
}

impl Picture {
    /// From the output of a gateway in user space ([`Picture::tell`]). Missing values, as from
    /// another version, are left out.
    pub(crate) fn told(value: &Value) -> Self {
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
        entries.sort_by_key(|(name, _)| {
            super::user::STATES.iter().position(|(_, state)| state == name)
        });
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

    /// From the maps of attached programs.
    #[cfg(feature = "ebpf")]
    fn seen(
        interface: &narrows_gateway::interface::Interface,
        view: &narrows_gateway::kernel::View,
    ) -> Result<Self, narrows_gateway::kernel::KernelError> {
        use narrows_gateway::kernel::sweep::STATES;
        let settings = view.settings()?;
        let about = view.about();
        let at = Duration::from_nanos(narrows_gateway::keys::boot_ns());
        let counters = view.counters()?;
        let entries = view.entries()?;
        let mut connections = HashSet::new();
        view.each(|client, flow| {
            connections.insert((client, flow.query_seq));
        })?;
        let states = STATES.iter().zip(entries.states).skip(1);
        Ok(Self {
            at,
            interface: interface.name.clone(),
            attached: view.interfaces().iter().all(|name| {
                let found = narrows_gateway::interface::Interface::find(name);
                found.is_ok_and(|interface| view.is_attached(&interface))
            }),
            interfaces: view.interfaces(),
            has_daemon: about.is_some() && view.has_daemon(),
            about: about.map(|about| About {
                mode: about.mode,
                version: about.version,
                pid: about.pid.into(),
                started_at: about.started_at,
                settings: about.settings,
            }),
            servers: view.servers()?.into_iter().flatten().collect(),
            port: settings.port,
            active: settings.active != 0,
            close_fin: settings.close_fin != 0,
            syncache: settings.syncache != 0,
            axfr_detect: settings.axfr_detect != 0,
            mss: [settings.mss4, settings.mss6],
            entries: states.map(|(name, n)| ((*name).to_owned(), n)).collect(),
            room: view.room().into(),
            counters,
            latencies: view.latencies()?,
            sources: entries.sources,
            marks: Marks::Connections(connections),
            checks: view.checks(),
            user: None,
        })
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

    /// The output of a gateway in user space, for [`Picture::told`].
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

    /// The lines about what runs, and the connections by state.
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
        let active = match self.active {
            true => "active".into(),
            false => format!("NOT ACTIVE: everything {passes}"),
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
        }
        text
    }
}

/// A line about the last checks, and one for each that failed; empty if there were none.
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

/// The numbers of an array.
fn words(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// How long the server took, for programs: microseconds, rounded up to a quarter octave.
fn answers(latencies: &Latencies) -> Value {
    let of = |share| latencies.quantile_us(share);
    json!({
        "count": latencies.count(), "p50_us": of(0.5), "p95_us": of(0.95), "p99_us": of(0.99),
    })
}

/// A line about how long the server took; empty if it answered nothing.
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

/// A span of seconds in its largest unit.
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
    use super::*;
    use narrows_gateway::core::BUCKETS;

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
        let latencies = Latencies::of(&words).expect("as many as there are");
        assert_eq!(
            took(&latencies),
            "answers      100 over UDP: half within 5 us, 95 % within 1.3 ms, 99 % within 1.3 ms\n"
        );
        assert_eq!(took(&Latencies::default()), "");
    }

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
    fn what_is_told_is_read_again() {
        let client = IpAddr::from([192, 0, 2, 9]);
        let told = picture().tell([(client, Source { connections: 2, asked: 5 })]);
        let back = Picture::told(&serde_json::from_str(&told.to_string()).expect("JSON"));
        assert_eq!(back.object(), picture().object());
        assert_eq!((back.head(), back.at), (picture().head(), picture().at));
        assert_eq!(back.sources, BTreeMap::from([(client, 2)]));
        let later = Marks::Asked(BTreeMap::from([(client, 8)]));
        assert_eq!(later.since(&back.marks), BTreeMap::from([(client, 3)]));
        assert!(back.head().contains("3 packets found no room"), "{}", back.head());
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

    #[test]
    fn what_is_not_told_is_left_out() {
        let back = Picture::told(&json!({ "counters": { "syn": 1, "of_tomorrow": 2 } }));
        assert_eq!(back.counters, [(Counter::Syn, 1)]);
        assert!(back.head().contains("in user space"));
    }

    #[test]
    fn connections_that_were_not_there_are_new() {
        let of = |numbers: &[u32]| {
            let client = SocketAddr::from(([192, 0, 2, 9], 5));
            Marks::Connections(numbers.iter().map(|&number| (client, number)).collect())
        };
        let fresh = of(&[1, 2, 3]).since(&of(&[3]));
        assert_eq!(fresh, BTreeMap::from([(IpAddr::from([192, 0, 2, 9]), 2)]));
    }
}

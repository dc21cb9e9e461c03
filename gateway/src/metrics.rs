//! Metrics for Prometheus: the OpenMetrics text format, over HTTP on a loopback port.
//!
//! prometheus-client, the project's own library for Rust, writes the text. The server implements
//! only as much of HTTP (RFC 9112) as a scrape needs: one request per connection, `GET /metrics`.
//! The metrics are those of the daemon's last tick, at most a second old.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::checked::Checked;
use crate::core::{Counter, Latencies};

/// The published metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The interface.
    pub interface: String,
    /// The data path.
    pub mode: String,
    /// All counters.
    pub counters: Vec<(Counter, u64)>,
    /// How long the server took for the first reply to each query.
    pub latencies: Latencies,
    /// Connections that sent a query, by state.
    pub states: Vec<(&'static str, u64)>,
    /// How many connections there is room for.
    pub room: u64,
    /// Whether packets are served rather than passed.
    pub active: bool,
    /// The share of the clients that is served, from 0 to 1.
    pub share: f64,
    /// The last real connection to each server address, if there was one.
    pub checks: Vec<Checked>,
}

/// The endpoint. It gets a snapshot from time to time, and answers with the latest.
#[derive(Debug)]
pub struct Metrics {
    shared: Arc<Mutex<Snapshot>>,
    address: SocketAddr,
}

impl Metrics {
    /// Answers on a listening socket, in threads of its own, until the process ends; with `first`
    /// until there is another snapshot.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start the thread.
    pub fn serve(listener: TcpListener, first: Snapshot) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(first));
        let listener = Arc::new(listener);
        for _ in 0..AT_ONCE {
            let (listener, theirs) = (Arc::clone(&listener), Arc::clone(&shared));
            std::thread::Builder::new().name("metrics".into()).spawn(move || {
                for connection in listener.incoming() {
                    match connection {
                        // A reader may go away early.
                        Ok(connection) => drop(answer(connection, &theirs)),
                        // Usually the descriptors are used up, which will not change at once.
                        Err(_) => std::thread::sleep(Duration::from_millis(100)),
                    }
                }
            })?;
        }
        Ok(Self { shared, address })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Publishes this snapshot from now on.
    pub fn tell(&self, snapshot: Snapshot) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for &(counter, value) in &self.counters {
            let metric = ConstCounter::new(value);
            let text = counter.text();
            metric.encode(encoder.encode_descriptor(
                counter.name(),
                text,
                None,
                metric.metric_type(),
            )?)?;
        }
        let help = "how long the server took to answer over UDP";
        let unit = Some(&Unit::Seconds);
        encoder
            .encode_descriptor("answer", help, unit, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(
                self.latencies.sum_s(),
                self.latencies.count(),
                &self.latencies.octaves(),
                None,
            )?;
        let one = ConstGauge::new(0i64);
        let help = "connections that sent a query, by state";
        let mut states = encoder.encode_descriptor("connections", help, None, one.metric_type())?;
        for &(state, n) in &self.states {
            ConstGauge::new(n.cast_signed()).encode(states.encode_family(&[("state", state)])?)?;
        }
        let gauges = [
            ("connections_room", "connections that there is room for", self.room.cast_signed()),
            ("active", "1: packets are served; 0: they pass", i64::from(self.active)),
        ];
        for (name, help, value) in gauges {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        let help = "the share of the clients whose new connections are served, from 0 to 1";
        let share = ConstGauge::new(self.share);
        share.encode(encoder.encode_descriptor(
            "active_share",
            help,
            None,
            share.metric_type(),
        )?)?;
        let help = "1: a real connection to the server address failed; 0: it was served";
        let mut failed =
            encoder.encode_descriptor("check_failed", help, None, one.metric_type())?;
        for checked in &self.checks {
            let labels = [("server", checked.server.to_string())];
            ConstGauge::new(i64::from(checked.failed.is_some()))
                .encode(failed.encode_family(&labels)?)?;
        }
        let help =
            "when a real connection to the server address was last made, in seconds since 1970";
        let mut at = encoder.encode_descriptor("checked_at", help, unit, one.metric_type())?;
        for checked in &self.checks {
            let labels = [("server", checked.server.to_string())];
            ConstGauge::new(checked.at.cast_signed()).encode(at.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Returns the text of a snapshot.
fn text(snapshot: Snapshot) -> String {
    let labels = [("interface", snapshot.interface.clone()), ("mode", snapshot.mode.clone())];
    let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
    let mut registry = Registry::with_prefix_and_labels("narrows_gateway", labels);
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

fn answer(mut connection: TcpStream, shared: &Mutex<Snapshot>) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let end = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = connection.read(&mut chunk)?;
        if length == 0 || request.len() > REQUEST_MAX || Instant::now() > end {
            return Ok(());
        }
        request.extend_from_slice(&chunk[..length]);
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        (b"GET", b"/metrics") => {
            let snapshot = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ("200 OK", OPEN_METRICS, text(snapshot))
        }
        (b"GET", _) => ("404 Not Found", "text/plain", "see /metrics\n".into()),
        _ => ("405 Method Not Allowed", "text/plain", "GET alone\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(body.as_bytes())
}

/// How many connections are answered at once. A silent one occupies one of these for [`PATIENCE`].
const AT_ONCE: usize = 8;
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of a request.
const REQUEST_MAX: usize = 8192;
/// OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::BUCKETS;

    fn serve() -> Metrics {
        let first = Snapshot { interface: "eth1".into(), ..Snapshot::default() };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Metrics::serve(listener, first).expect("a thread")
    }

    fn server() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 53], 53))
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut connection = TcpStream::connect(address).expect("it listens");
        connection.write_all(request.as_bytes()).expect("it reads");
        let mut reply = String::new();
        connection.read_to_string(&mut reply).expect("it answers");
        reply
    }

    #[test]
    fn a_scrape_gets_the_latest_snapshot() {
        let metrics = serve();
        let reply = ask(metrics.address(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(reply.contains("narrows_gateway_active{interface=\"eth1\""), "{reply}");
        metrics.tell(Snapshot {
            interface: "eth0".into(),
            mode: "native".into(),
            counters: vec![(Counter::Syn, 7), (Counter::Query, 5)],
            latencies: {
                // Two of 4 to 5 us, one of a second.
                let mut words = [0; BUCKETS + 1];
                (words[4], words[75], words[BUCKETS]) = (2, 1, 1_000_009);
                Latencies::of(&words).expect("a word for each bucket and the sum")
            },
            states: vec![("query", 2), ("idle", 3)],
            room: 100,
            active: true,
            share: 0.1,
            checks: vec![Checked::new(
                server(),
                1_700_000_000,
                Some("a connection: refused".into()),
            )],
        });
        let reply = ask(metrics.address(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        let labels = "interface=\"eth0\",mode=\"native\"";
        for line in [
            "# TYPE narrows_gateway_syn counter".into(),
            format!("narrows_gateway_syn_total{{{labels}}} 7"),
            format!("narrows_gateway_connections{{{labels},state=\"idle\"}} 3"),
            format!("narrows_gateway_active{{{labels}}} 1"),
            format!("narrows_gateway_active_share{{{labels}}} 0.1"),
            format!("narrows_gateway_check_failed{{{labels},server=\"192.0.2.53:53\"}} 1"),
            format!(
                "narrows_gateway_checked_at_seconds{{{labels},server=\"192.0.2.53:53\"}} 1700000000"
            ),
            "# TYPE narrows_gateway_answer_seconds histogram".into(),
            format!("narrows_gateway_answer_seconds_count{{{labels}}} 3"),
            format!("narrows_gateway_answer_seconds_sum{{{labels}}} 1.000009"),
            format!("narrows_gateway_answer_seconds_bucket{{{labels},le=\"0.000128\"}} 2"),
            format!("narrows_gateway_answer_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            "# EOF".into(),
        ] {
            assert!(reply.lines().any(|other| other == line), "{line} is not in\n{reply}");
        }
    }

    /// The dashboard and the alert rules only name metrics that exist, under their published names.
    #[test]
    fn the_dashboard_and_the_alerts_name_metrics_that_there_are() {
        let metrics = text(Snapshot {
            counters: Counter::ALL.iter().map(|&counter| (counter, 1)).collect(),
            states: vec![("idle", 1)],
            checks: vec![Checked::new(server(), 1, None)],
            ..Snapshot::default()
        });
        let metrics: Vec<&str> =
            metrics.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let [dashboard, alerts] =
            [include_str!("../monitoring/grafana.json"), include_str!("../monitoring/alerts.yml")];
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for text in [dashboard, alerts] {
            let named: Vec<&str> = text
                .split(|c| !part(c))
                .filter(|word| word.starts_with("narrows_gateway_"))
                .collect();
            assert!(named.len() > 10);
            for name in named {
                assert!(metrics.contains(&name), "{name} is not a metric");
            }
        }
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
        assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 5));
        for alert in alerts.split("- alert: ").skip(1) {
            for key in ["expr: ", "for: ", "severity: ", "summary: "] {
                assert!(alert.contains(key), "{key}in {alert}");
            }
        }
    }

    #[test]
    fn silent_connections_delay_no_scrape() {
        let metrics = serve();
        let silent: Vec<TcpStream> = (0..AT_ONCE - 1)
            .map(|_| TcpStream::connect(metrics.address()).expect("it listens"))
            .collect();
        let started = Instant::now();
        assert!(ask(metrics.address(), "GET /metrics HTTP/1.1\r\n\r\n").contains(" 200 OK"));
        assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
        drop(silent);
    }

    #[test]
    fn other_requests_are_refused() {
        let metrics = serve();
        assert!(ask(metrics.address(), "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(
            ask(metrics.address(), "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405")
        );
        assert!(ask(metrics.address(), "\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}

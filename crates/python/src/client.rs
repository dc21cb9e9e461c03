//! `DnsClient` and `Path`: narrows-client for Python. Its dictionaries use the names of a
//! measurement's tables (python/narrows/results/exchanges.py).

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use narrows_client::path::{Path as Relay, Rule};
use narrows_client::{Client, ConnectionFacts, Exchange, Query, Schedule, Server, Transport};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Adds the classes of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DnsClient>()?;
    module.add_function(wrap_pyfunction!(retry_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(retry_schedules, module)?)?;
    module.add_class::<Path>()
}

/// Returns the names of the retry schedules.
#[pyfunction]
fn retry_schedules() -> Vec<&'static str> {
    Schedule::NAMES.to_vec()
}

/// Returns a retry schedule's timeouts in seconds. Raises ValueError for an unknown name.
#[pyfunction]
fn retry_schedule(name: &str) -> PyResult<Vec<f64>> {
    Ok(schedule(name)?.timeouts().iter().map(Duration::as_secs_f64).collect())
}

fn schedule(name: &str) -> PyResult<Schedule> {
    Schedule::named(name)
        .ok_or_else(|| PyValueError::new_err(format!("no retry schedule is called {name:?}")))
}

/// Asks one DNS server over one transport, one query at a time.
#[pyclass(module = "narrows._core", frozen)]
struct DnsClient(Mutex<Client>);

#[pymethods]
impl DnsClient {
    /// Creates a client of the server at an address. Raises OSError if its socket cannot be
    /// created.
    #[new]
    #[pyo3(signature = (address, port, transport, source=None, timeout_s=5.0, reuse=false, watch=true, late_acknowledgements=false, tls_name=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        address: &str,
        port: u16,
        transport: &str,
        source: Option<&str>,
        timeout_s: f64,
        reuse: bool,
        watch: bool,
        late_acknowledgements: bool,
        tls_name: Option<String>,
    ) -> PyResult<Self> {
        let transport = match transport {
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            "tls" => Transport::Tls,
            "quic" => Transport::Quic,
            other => return Err(PyValueError::new_err(format!("{other:?} is no transport"))),
        };
        let source = source.map(parse_address).transpose()?;
        let timeout = seconds(timeout_s)?;
        let server = Server {
            source,
            timeout,
            reuse,
            watch,
            late_acknowledgements,
            tls_name,
            ..Server::new(SocketAddr::new(parse_address(address)?, port), transport)
        };
        Ok(Self(Mutex::new(Client::new(server).map_err(system)?)))
    }

    /// Asks and returns the result. Blocks with the interpreter's lock released. Raises ValueError
    /// for a name or type that cannot be read. `retry` names the schedule by which to ask again;
    /// the times are those of the last attempt.
    #[pyo3(signature = (name, kind, recursion=false, edns=Some(1232), nsid=false, retry=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn ask<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        kind: &str,
        recursion: bool,
        edns: Option<u16>,
        nsid: bool,
        retry: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let query =
            Query::new(name, kind).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let query = Query { recursion, edns, nsid, ..query };
        let schedule = retry.map(schedule).transpose()?;
        let exchanges = py.detach(|| {
            let mut client = self.client()?;
            Ok::<_, PyErr>(match schedule {
                Some(schedule) => client.ask_again(&query, &schedule),
                None => vec![client.ask(&query)],
            })
        })?;
        let last = exchanges.last().ok_or_else(|| PyRuntimeError::new_err("nothing was asked"))?;
        let row = exchange_row(py, last)?;
        row.set_item("attempts", exchanges.len())?;
        Ok(row)
    }

    /// Returns what is known about the connections that ended since the last call.
    fn connections<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let ended = self.client()?.take_connections();
        ended.iter().map(|facts| connection_row(py, facts)).collect()
    }

    /// Closes the connection that waits for another query, if there is one.
    fn close(&self) -> PyResult<()> {
        self.client()?.close();
        Ok(())
    }

    /// Returns whether it sees the arriving packets.
    #[getter]
    fn watches(&self) -> PyResult<bool> {
        Ok(self.client()?.watches())
    }
}

impl DnsClient {
    fn client(&self) -> PyResult<std::sync::MutexGuard<'_, Client>> {
        self.0.lock().map_err(|_| PyRuntimeError::new_err("an earlier call has failed"))
    }
}

fn exchange_row<'py>(py: Python<'py>, exchange: &Exchange) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    let times = &exchange.times;
    row.set_item("started_s", unix(exchange.started))?;
    row.set_item("connect_ms", millis(times.connect))?;
    row.set_item("secure_ms", millis(times.secure))?;
    row.set_item("first_byte_ms", millis(times.first_byte))?;
    row.set_item("query_ms", millis(times.query))?;
    row.set_item("total_ms", millis(times.total))?;
    row.set_item("outcome", exchange.outcome.name())?;
    row.set_item("stage", exchange.stage.map(|stage| stage.name()))?;
    row.set_item("detail", Some(&exchange.detail).filter(|words| !words.is_empty()))?;
    row.set_item("query_bytes", exchange.query_bytes)?;
    row.set_item("reused", exchange.reused)?;
    row.set_item("connection", exchange.connection)?;
    let reply = exchange.reply.as_ref();
    row.set_item("reply_bytes", reply.map(|reply| reply.bytes))?;
    row.set_item("rcode", reply.map(|reply| reply.rcode_name()))?;
    row.set_item("truncated", reply.map(|reply| reply.truncated))?;
    row.set_item("answers", reply.map(|reply| reply.answers))?;
    let site = reply.and_then(|reply| reply.nsid.as_deref());
    row.set_item("site", site.map(|name| String::from_utf8_lossy(name).into_owned()))?;
    let segments = &exchange.segments;
    row.set_item("segments", segments.count)?;
    row.set_item("segment_bytes", Some(&segments.sizes).filter(|sizes| !sizes.is_empty()))?;
    row.set_item("prefix", segments.prefix.map(|prefix| prefix.name()))?;
    row.set_item("query_retransmissions", segments.query_again)?;
    row.set_item("reply_retransmissions", segments.again)?;
    Ok(row)
}

fn connection_row<'py>(py: Python<'py>, facts: &ConnectionFacts) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("connection", facts.number)?;
    row.set_item("started_s", unix(facts.started))?;
    row.set_item("ended_s", facts.ended.map(unix))?;
    row.set_item("syn_ms", millis(facts.syn))?;
    row.set_item("secure_ms", millis(facts.secure))?;
    row.set_item("syn_retransmissions", facts.syn_again)?;
    row.set_item("exchanges", facts.exchanges)?;
    row.set_item("ending", facts.ending.name())?;
    row.set_item("closed_by", facts.closer.map(|closer| closer.name()))?;
    row.set_item("client_bytes", facts.client_bytes)?;
    row.set_item("server_bytes", facts.server_bytes)?;
    row.set_item("client_segments", facts.client_segments)?;
    row.set_item("server_segments", facts.server_segments)?;
    row.set_item("client_retransmissions", facts.client_again)?;
    row.set_item("mss_bytes", facts.mss)?;
    row.set_item("rtt_ms", millis(facts.rtt))?;
    Ok(row)
}

/// A path between two TUN devices, with delays and losses.
#[pyclass(module = "narrows._core", frozen)]
struct Path(Relay);

#[pymethods]
impl Path {
    /// Creates the devices. Rules are tuples of a protocol's number, an address on the left, one on
    /// the right (None: any), a one-way delay in ms, and the share that is lost. The first matching
    /// rule counts. Raises OSError if the devices cannot be created.
    #[new]
    fn new(left: &str, right: &str, rules: Vec<RuleTuple>, seed: u64) -> PyResult<Self> {
        let rules = rules.into_iter().map(rule).collect::<PyResult<Vec<Rule>>>()?;
        Relay::new(left, right, rules, seed).map(Self).map_err(system)
    }

    /// Carries packets, with the interpreter's lock released, until `stop` is called.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.run()).map_err(system)
    }

    /// Ends `run`.
    fn stop(&self) {
        self.0.stop();
    }

    /// Returns how many packets have arrived and how many were lost so far.
    fn counts(&self) -> (u64, u64) {
        self.0.counts()
    }
}

type RuleTuple = (Option<u8>, Option<String>, Option<String>, f64, f64);

fn rule((protocol, left, right, delay_ms, loss): RuleTuple) -> PyResult<Rule> {
    let delay = seconds(delay_ms / 1e3)?;
    let address = |text: Option<String>| text.as_deref().map(parse_address).transpose();
    Ok(Rule { protocol, left: address(left)?, right: address(right)?, delay, loss })
}

/// Converts seconds to a span that clocks can be moved by: at most a day.
fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|span| *span <= Duration::from_secs(86_400))
        .ok_or_else(|| PyValueError::new_err(format!("{value} s is not between 0 and a day")))
}

fn parse_address(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| PyValueError::new_err(format!("{text:?} is no IP address")))
}

fn unix(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn millis(span: Option<Duration>) -> Option<f64> {
    span.map(|span| span.as_secs_f64() * 1e3)
}

/// Converts to Python's OSError with its number, so that Python finds the words and the subclass.
#[expect(clippy::needless_pass_by_value, reason = "the form that map_err hands over")]
fn system(error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let words = text.split(" (os error").next().unwrap_or(&text).to_owned();
            PyOSError::new_err((number, words))
        }
        None => PyOSError::new_err(error.to_string()),
    }
}

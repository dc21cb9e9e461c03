//! What the command line asks for.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How queries are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Datagrams, from a few sockets.
    Udp,
    /// A connection for each query, closed by the client after the answer.
    Tcp,
    /// Connections that the client closes as soon as they are established, without a query.
    Connect,
    /// Queries on connections that stay open, one after the other on each. There are as many
    /// connections as queries wait at once.
    Kept,
    /// Connections that stay open.
    Hold,
}

/// The settings; each field is the flag of the same name.
pub(crate) struct Options {
    pub(crate) server: SocketAddr,
    pub(crate) transport: Transport,
    /// Queries a second.
    pub(crate) rate: f64,
    /// `--seconds`.
    pub(crate) length: Duration,
    /// Exponential gaps rather than constant ones.
    pub(crate) poisson: bool,
    pub(crate) seed: u64,
    /// `--source`, may be repeated: the client's addresses, used in turn.
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) zone: String,
    /// The number of different names.
    pub(crate) names: u32,
    /// `--type`, as a number.
    pub(crate) kind: u16,
    /// EDNS payload size; 0: queries without OPT.
    pub(crate) edns: u16,
    /// A query without an answer by then is lost.
    pub(crate) timeout: Duration,
    /// `--open`: the most queries that wait for answers at once; further ones are not sent.
    pub(crate) most_open: usize,
    /// `tcp`: SYNs carry the query, once the server has given a cookie (TCP Fast Open, RFC 7413).
    pub(crate) fast_open: bool,
    /// `hold`: how many.
    pub(crate) count: usize,
    /// `hold`: whether to ask a query on each connection.
    pub(crate) asked: bool,
}

impl Options {
    /// Reads flags and their values.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            server: SocketAddr::from(([127, 0, 0, 1], 53)),
            transport: Transport::Udp,
            rate: 100.0,
            length: Duration::from_secs(1),
            poisson: false,
            seed: 1,
            sources: Vec::new(),
            zone: "example.net".to_owned(),
            names: 1000,
            kind: 1,
            edns: 1232,
            timeout: Duration::from_secs(2),
            most_open: 20_000,
            fast_open: false,
            count: 0,
            asked: false,
        };
        let mut named_server = false;
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--poisson" => options.poisson = true,
                "--asked" => options.asked = true,
                "--fast-open" => options.fast_open = true,
                _ => {
                    let value =
                        words.next().ok_or_else(|| format!("{flag}: the value is missing"))?;
                    named_server |= flag == "--server";
                    options.set(&flag, &value)?;
                }
            }
        }
        if !named_server {
            return Err("--server is missing; hint: --server 192.0.2.53:53".to_owned());
        }
        if options.fast_open && options.transport != Transport::Tcp {
            return Err("--fast-open needs a query for each connection: --transport tcp".to_owned());
        }
        if options.sources.is_empty() {
            let any = if options.server.is_ipv4() { "0.0.0.0" } else { "::" };
            options.sources.push(parsed("--source", any)?);
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        match flag {
            "--server" => self.server = parsed(flag, value)?,
            "--transport" => {
                self.transport = match value {
                    "udp" => Transport::Udp,
                    "tcp" => Transport::Tcp,
                    "connect" => Transport::Connect,
                    "kept" => Transport::Kept,
                    "hold" => Transport::Hold,
                    _ => {
                        let known = "udp, tcp, connect, kept, hold";
                        return Err(format!("{flag}: {value:?} is none of {known}"));
                    }
                }
            }
            "--rate" => {
                self.rate = parsed(flag, value)?;
                if !(self.rate.is_finite() && self.rate >= 0.1) {
                    return Err(format!("{flag}: {value} is not at least 0.1"));
                }
            }
            "--seconds" => self.length = seconds(flag, value)?,
            "--seed" => self.seed = parsed(flag, value)?,
            "--source" => self.sources.push(parsed(flag, value)?),
            "--zone" => {
                let fits = |label: &str| (1..64).contains(&label.len());
                if value.len() > 200 || !value.split('.').all(fits) {
                    return Err(format!("{flag}: {value:?} is no domain name without final dot"));
                }
                value.clone_into(&mut self.zone);
            }
            "--names" => self.names = parsed::<u32>(flag, value)?.clamp(1, 10_000_000),
            "--type" => self.kind = parsed(flag, value)?,
            "--edns" => self.edns = parsed(flag, value)?,
            "--timeout" => self.timeout = seconds(flag, value)?,
            "--open" => self.most_open = parsed(flag, value)?,
            "--count" => self.count = parsed(flag, value)?,
            _ => return Err(format!("{flag}: there is no such flag")),
        }
        Ok(())
    }
}

fn parsed<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag}: {value:?} is not understood"))
}

fn seconds(flag: &str, value: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(parsed(flag, value)?).map_err(|error| format!("{flag}: {error}"))
}

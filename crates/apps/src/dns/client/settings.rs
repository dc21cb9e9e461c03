//! The settings of a group of workers, and their rules.

use narrows_transport::{quic, tls};
use narrows_units::settings::{any, entries, positive, size, whole};
use narrows_units::{Span, Time, keys};

use super::super::connections::{Connections, Reuse};
use super::super::exchange::Sizes;
use super::super::{HEADER, HTTPS_PORT, PORT, TLS_PORT, WITHOUT_EDNS};
use super::super::{http3, https};
use super::{Arrivals, Calls, Workers};
use crate::environment::{IP_HEADER, UDP_HEADER};
use crate::record::{MOST_QUERIES, Transport};
use crate::secure::check_first_link;
use crate::{Application, Environment, Protocol, Service, Settings, Use};

keys! {
    /// The settings of a group of workers.
    pub struct Client as "DnsClient" {
        /// The server that they ask: an index into the plan's applications.
        server: usize = 0, any();
        /// The path to the server: an index into the plan's paths.
        there: usize = 0, any();
        /// The path back: an index into the plan's paths.
        back: usize = 0, any();
        /// Number of workers.
        workers: u32 = 1, whole(1, 100_000);
        /// When the first worker starts.
        start: Time = Time::ZERO, any();
        /// Workers, or `arrivals`, start at random times within this time after `start`.
        spread: Span = Span::ZERO, any();
        /// Queries before measurement starts, for each worker; with `arrivals`, for the group.
        warm_up: u32 = 0, whole(0, 10_000_000);
        /// Measured queries, for each worker; with `arrivals`, for the group. Without it, queries
        /// go on until the run ends. With 0, the group asks only what pages need, which name it as
        /// their `resolver`; it then has as many workers as these may ask for at once. A run that would record more than 50 million queries stops
        /// early and is marked as partial.
        queries: Option<u32> = None, whole(0, 10_000_000);
        /// When queries begin, however many are under way. At most `workers` of them can be under
        /// way at once. `None`: each worker waits for the end of its query before the next.
        arrivals: Option<Arrivals> = None, any();
        /// Mean of the exponentially distributed pause between the end of a query and the next.
        think_mean: Span = Span::ZERO, any();
        /// The lengths of queries and replies.
        sizes: Sizes = Sizes::fixed(42, 72), any();
        /// The time after which an unanswered query is given up; `None`: its attempts decide.
        gives_up: Option<Span> = None, positive();
        /// How they ask over UDP; `None`: they ask only over TCP.
        udp: Option<Udp> = None, any();
        /// How they ask over TCP; `None`: they never do.
        tcp: Option<Tcp> = None, any();
    }
}

keys! {
    /// How a client asks over UDP.
    pub struct Udp as "DnsClientUdp" {
        /// The timeouts of successive attempts. There are as many attempts as entries.
        timeouts: Vec<Span> = vec![Span::from_secs(1)], entries(1, 64);
        /// The longest reply that it accepts (RFC 6891, 6.2.3); 512 without EDNS.
        payload: u16 = WITHOUT_EDNS, size(WITHOUT_EDNS as u64, 65_507);
        /// Whether it asks over TCP after a truncated reply. Otherwise the reply counts as an
        /// answer.
        tcp_if_truncated: bool = false, any();
        /// Whether it asks over TCP after the last timeout.
        tcp_if_silent: bool = false, any();
        /// Whether each attempt comes from a port of its own. Otherwise a worker uses one port.
        new_port: bool = false, any();
    }
}

keys! {
    /// How a client asks over TCP.
    pub struct Tcp as "DnsClientTcp" {
        /// The settings of its ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// Whether it keeps connections.
        reuse: Reuse = Reuse::Never, any();
        /// The time after which a connection that is not established is given up; `None`: TCP
        /// decides.
        connect_timeout: Option<Span> = None, positive();
        /// The time after which a query without a reply is given up; `None`: it waits forever.
        answer_timeout: Option<Span> = None, positive();
        /// How many connections are tried for a query, depending on how the last one failed.
        attempts: Attempts = Attempts::default(), any();
        /// Whether it asks over UDP again after a failure, before the next connection.
        udp_between: bool = false, any();
        /// How many connections are tried in a row before that if they are refused.
        refused_together: u8 = 1, whole(1, 255);
        /// Whether length and query are separate writes.
        length_apart: bool = false, any();
        /// How it encrypts; `None`: it does not.
        tls: Option<Tls> = None, any();
    }
}

keys! {
    #[derive(Copy)]
    /// How a client asks over TLS (RFC 7858).
    pub struct Tls as "DnsClientTls" {
        /// Its handshake.
        handshake: tls::Client = tls::Client::default(), any();
        /// The multiple of bytes to which queries are padded (RFC 8467); `None`: no padding.
        padding: Option<u32> = None, size(1, 65_535);
        /// How it uses HTTPS (RFC 8484); `None`: it does not, and puts a length before each query.
        https: Option<https::Requests> = None, any();
        /// How it uses QUIC instead of TCP (RFC 9250); `None`: it does not.
        quic: Option<quic::Config> = None, any();
        /// How it uses HTTP/3 over QUIC (RFC 9114); `None`: it does not.
        http3: Option<http3::Requests> = None, any();
    }
}

keys! {
    #[derive(Copy)]
    /// The number of connections tried for a query, including the first, by kind of failure.
    pub struct Attempts {
        /// The SYN was answered with a reset.
        refused: u8 = 1, whole(1, 255);
        /// The server closed before it answered.
        closed: u8 = 1, whole(1, 255);
        /// The server reset the connection.
        reset: u8 = 1, whole(1, 255);
        /// Nothing came in time.
        silent: u8 = 1, whole(1, 255);
    }
}

impl Attempts {
    /// Creates the same number for each kind of failure.
    pub const fn of(number: u8) -> Self {
        Self { refused: number, closed: number, reset: number, silent: number }
    }
}

impl Tcp {
    /// Returns the server's port.
    pub fn port(&self) -> u16 {
        self.transport().1
    }

    /// Returns the transport of an attempt, and the server's port.
    pub(super) fn transport(&self) -> (Transport, u16) {
        match &self.tls {
            None => (Transport::Tcp, PORT),
            Some(Tls { http3: Some(_), .. }) => (Transport::Http3, HTTPS_PORT),
            Some(Tls { quic: Some(_), .. }) => (Transport::Quic, TLS_PORT),
            Some(Tls { https: None, .. }) => (Transport::Tls, TLS_PORT),
            Some(Tls { https: Some(_), .. }) => (Transport::Https, HTTPS_PORT),
        }
    }
}

impl Client {
    /// Returns its QUIC settings, if it uses QUIC.
    pub(crate) fn quic(&self) -> Option<&quic::Config> {
        self.tcp.as_ref()?.tls.as_ref()?.quic.as_ref()
    }

    /// Returns whether it asks only what other applications call for.
    fn is_on_demand(&self) -> bool {
        self.queries == Some(0)
    }

    /// Returns the number of queries that each worker asks; with arrivals, all together. `None`:
    /// they ask until the run ends.
    #[inline]
    pub(super) fn each(&self) -> Option<u32> {
        self.queries.map(|queries| self.warm_up + queries)
    }
}

impl Settings for Client {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.check_round_trip(self.there, self.back)?;
        let server = environment.server(self.server, Protocol::Dns)?;
        if self.warm_up.checked_add(self.queries.unwrap_or(0)).is_none() {
            return Err("warm_up, queries: too many together".into());
        }
        if self.is_on_demand() && (self.arrivals.is_some() || self.think_mean > Span::ZERO) {
            return Err("queries: 0 excludes arrivals and think_mean".into());
        }
        if self.arrivals.is_some() && self.think_mean > Span::ZERO {
            return Err("think_mean: excludes arrivals".into());
        }
        let over_udp = self.udp.as_ref().map_or(0, |udp| udp.timeouts.len());
        let mut attempts = over_udp as u64;
        if let Some(udp) = &self.udp {
            if udp.timeouts.contains(&Span::ZERO) {
                return Err("timeouts: each must be above zero".into());
            }
            if (udp.tcp_if_truncated || udp.tcp_if_silent) && self.tcp.is_none() {
                return Err("tcp: is needed for what UDP cannot do".into());
            }
        }
        match &self.tcp {
            None if self.udp.is_none() => return Err("udp, tcp: one of them is needed".into()),
            None => {}
            Some(tcp) => {
                environment.check_tcp(tcp.tcp)?;
                let Attempts { refused, closed, reset, silent } = tcp.attempts;
                let most = refused.max(closed).max(reset).max(silent);
                if let Some(tls) = &tcp.tls {
                    if tls.https.is_some() && tls.quic.is_some() {
                        return Err("tls: https: excludes quic".into());
                    }
                    if tls.http3.is_some() && tls.quic.is_none() {
                        return Err("tls: http3: needs quic".into());
                    }
                    if self.udp.is_some() {
                        return Err("tls: excludes udp".into());
                    }
                    if !server.tls {
                        return Err("tls: the server has none".into());
                    }
                    if tls.https.is_some() && !server.https {
                        return Err("https: the server has none".into());
                    }
                    if tls.quic.is_some() && !server.quic {
                        return Err("quic: the server has none".into());
                    }
                    if tls.http3.is_some() && !server.http3 {
                        return Err("http3: the server has none".into());
                    }
                }
                if self.quic().is_some() {
                    check_first_link(environment, self.there)?;
                    check_first_link(environment, self.back)?;
                }
                if tcp.udp_between && self.udp.is_none() {
                    return Err("udp_between: needs udp".into());
                }
                attempts += u64::from(most) * if tcp.udp_between { 2 } else { 1 };
            }
        }
        let total = Settings::queries(self).saturating_mul(attempts);
        if total >= u64::from(u32::MAX) {
            return Err(format!("{total} attempts are more than the table can hold"));
        }
        // A flow of datagrams, and a connection for each worker.
        Ok(1 + self.workers as usize)
    }

    fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
        // The shortest segment is a SYN-ACK or an acknowledgement without options.
        const SHORTEST_SEGMENT: u16 = IP_HEADER + 20;
        let (query, reply) = self.sizes.shortest();
        let shortest = |message: u32| match self.tcp {
            Some(_) => SHORTEST_SEGMENT,
            None => over_udp(message),
        };
        // A truncated reply is no longer than its query.
        let reply = if self.truncates() { reply.min(query).max(HEADER) } else { reply };
        // Only UDP fragments its packets.
        let longest = self.udp.as_ref().map_or((0, 0), |_| self.sizes.longest());
        let using = |path, least: u32, most: u32| {
            environment.datagrams(path, (shortest(least), over_udp(most)), true)
        };
        vec![using(self.there, query, longest.0), using(self.back, reply, longest.1)]
    }

    fn queries(&self) -> u64 {
        let Some(queries) = self.queries.filter(|_| !self.is_on_demand()) else {
            return MOST_QUERIES;
        };
        let askers = if self.arrivals.is_some() { 1 } else { u64::from(self.workers) };
        askers.saturating_mul(u64::from(self.warm_up) + u64::from(queries))
    }

    fn service(&self) -> Option<Service> {
        self.is_on_demand().then_some(Service {
            protocol: Protocol::Names,
            tls: false,
            https: false,
            quic: false,
            http3: false,
        })
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        let reuse = self.tcp.as_ref().map_or(Reuse::Never, |tcp| tcp.reuse);
        Box::new(Workers {
            name: name.to_owned(),
            unfinished: self.workers,
            arriving: None,
            calls: self.is_on_demand().then(|| Calls::new(self.workers)),
            begun: 0,
            connections: Connections::new(reuse, self.workers),
            settings: self,
            workers: Vec::new(),
            first_socket: 0,
            association: None,
        })
    }
}

impl Client {
    /// Returns whether a reply may be shorter than intended.
    fn truncates(&self) -> bool {
        match &self.sizes {
            // The server may send less than 1232 bytes, but never less than 512.
            Sizes::Drawn { reply: crate::Draw::Constant(bytes), .. } => {
                bytes.get() > u64::from(WITHOUT_EDNS)
            }
            _ => true,
        }
    }
}

/// Returns the length of the IP packet of a message over UDP, as far as it fits one.
pub(super) fn over_udp(message: u32) -> u16 {
    (u32::from(IP_HEADER + UDP_HEADER) + message).min(u32::from(u16::MAX)) as u16
}

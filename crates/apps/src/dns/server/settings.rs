//! The settings of a server, and the rules that they must meet.

use narrows_transport::{quic, tls};
use narrows_units::settings::{any, size, whole};
use narrows_units::{Span, keys, words};

use super::super::WITHOUT_EDNS;
use super::super::{http3, https};
use super::{HalfOpenLimits, Serving};
use crate::{Application, Environment, Protocol, Service, Settings, Use};

keys! {
    /// The settings of a server.
    pub struct Server as "DnsServer" {
        /// Constant part of the time from a query's arrival at the server to its reply.
        service: Span = Span::ZERO, any();
        /// Mean of an exponentially distributed part, added to `service`.
        service_jitter_mean: Span = Span::ZERO, any();
        /// The longest reply that it sends over UDP.
        udp_payload: u16 = 65_507, size(WITHOUT_EDNS as u64, 65_507);
        /// How it serves TCP; `None`: it refuses connections.
        tcp: Option<Tcp> = None, any();
    }
}

keys! {
    /// How a server serves TCP.
    pub struct Tcp as "DnsServerTcp" {
        /// The settings of its ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// How many established connections may wait to be accepted.
        backlog: u32 = 128, whole(0, 65_535);
        /// The most concurrent connections; `None`: no limit.
        connections: Option<u32> = None, whole(1, 1_000_000);
        /// The most concurrent connections from one client address; `None`: no limit. Further ones
        /// are closed.
        connections_per_client: Option<u32> = None, whole(1, 1_000_000);
        /// What happens to a connection above `connections`.
        when_full: WhenFull = WhenFull::Wait, any();
        /// The time after which a connection without queries is closed.
        idle_timeout: Span = Span::from_secs(10), any();
        /// The time after which a connection is closed if its first query has not arrived.
        first_query_timeout: Span = Span::from_secs(10), any();
        /// The time after which a connection is closed if only a part of a query has arrived.
        /// `None`: `idle_timeout` and `first_query_timeout` apply.
        half_query_timeout: Option<Span> = None, any();
        /// Shorter idle timeouts for a busy server. While more than this share of `connections` is
        /// in use, the timeout holds for newly accepted connections, and for whatever they do
        /// afterwards.
        busy_levels: Vec<(f64, Span)> = Vec::new(), any();
        /// Whether the newly accepted connection counts among those in use.
        busy_counts_new: bool = false, any();
        /// Whether a place in the table keeps a shorter timeout for all later connections. The
        /// place that became free last is used first.
        busy_stays: bool = false, any();
        /// The number of queries after which a connection is closed; `None`: no limit.
        queries_per_connection: Option<u32> = None, whole(1, 1_000_000);
        /// How it reacts to a query.
        on_query: OnQuery = OnQuery::Answer, any();
        /// Whether replies are sent in the order of their queries. Otherwise each is sent as soon
        /// as it is ready.
        in_order: bool = false, any();
        /// Whether length and message are separate writes.
        length_apart: bool = false, any();
        /// The time added to the service time of queries over TCP.
        extra_service: Span = Span::ZERO, any();
        /// The limits of half-open connections.
        half_open: HalfOpenLimits = HalfOpenLimits::default(), any();
        /// Whether queries over TCP come without a connection, as behind narrows-gateway.
        stateless: bool = false, any();
        /// How it serves TLS, on a port of its own; `None`: it does not.
        tls: Option<Tls> = None, any();
    }
}

keys! {
    #[derive(Copy)]
    /// How a server serves TLS (RFC 7858).
    pub struct Tls as "DnsServerTls" {
        /// Its handshake.
        handshake: tls::Server = tls::Server::default(), any();
        /// The multiple of bytes to which replies to padded queries are padded (RFC 8467); `None`:
        /// no padding.
        padding: Option<u32> = None, size(1, 65_535);
        /// The time added to the service time of queries over TLS and QUIC; `None`: as over TCP.
        extra_service: Option<Span> = None, any();
        /// How it serves HTTPS (RFC 8484), on a port of its own; `None`: it does not.
        https: Option<Https> = None, any();
        /// How it serves QUIC (RFC 9250); `None`: it does not.
        quic: Option<quic::Config> = None, any();
        /// How it serves HTTP/3 over QUIC (RFC 9114), on HTTPS' port; `None`: it does not.
        http3: Option<http3::Responses> = None, any();
    }
}

keys! {
    #[derive(Copy)]
    /// How a server serves HTTPS. Its sockets there may have other settings.
    pub struct Https as "DnsServerHttps" {
        /// The settings of its ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// Its handshake.
        handshake: tls::Server = tls::Server::default(), any();
        /// What it adds to its replies.
        responses: https::Responses = https::Responses::default(), any();
    }
}

impl Server {
    /// Returns whether clients may use TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.tcp.as_ref().is_some_and(|tcp| tcp.tls.is_some())
    }

    /// Returns its QUIC settings, if it serves QUIC.
    pub(crate) fn quic(&self) -> Option<&quic::Config> {
        self.tcp.as_ref()?.tls.as_ref()?.quic.as_ref()
    }

    /// Returns how it serves HTTP/3, if it does.
    pub(super) fn http3(&self) -> Option<http3::Responses> {
        self.tcp.as_ref()?.tls.as_ref()?.http3
    }

    /// Returns whether clients may use HTTPS.
    pub(crate) fn speaks_https(&self) -> bool {
        let tls = self.tcp.as_ref().and_then(|tcp| tcp.tls);
        tls.is_some_and(|tls| tls.https.is_some())
    }
}

words! {
    /// What happens to a connection beyond a server's limit.
    pub enum WhenFull {
        /// It waits to be accepted, and so do its queries.
        Wait = "wait",
        /// It is closed at once.
        Reject = "reject",
        /// The connection that has been idle longest is closed instead.
        Oldest = "oldest",
    }
}

words! {
    /// The reaction to a query over TCP.
    pub enum OnQuery {
        /// It is answered.
        Answer = "answer",
        /// The connection is closed.
        Close = "close",
        /// The connection is reset.
        Reset = "reset",
    }
}

impl Settings for Server {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        let Some(tcp) = &self.tcp else { return Ok(0) };
        environment.check_tcp(tcp.tcp)?;
        if let Some(tls) = &tcp.tls {
            if let Some(https) = &tls.https {
                environment.check_tcp(https.tcp).map_err(|why| format!("https: {why}"))?;
            }
            if tls.http3.is_some() && tls.quic.is_none() {
                return Err("tls: http3: needs quic".into());
            }
            if tcp.stateless {
                return Err("tls: needs connections, but the server is stateless".into());
            }
        }
        if tcp.stateless && tcp.on_query != OnQuery::Answer {
            return Err("on_query: needs connections, but the server is stateless".into());
        }
        if tcp.busy_levels.iter().any(|&(share, _)| !(0.0..=1.0).contains(&share)) {
            return Err("busy_levels: shares are from 0 to 1".into());
        }
        if tcp.connections.is_none() && !tcp.busy_levels.is_empty() {
            return Err("busy_levels: need a limit of connections".into());
        }
        Ok(0)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        // The clients name the paths of both directions.
        Vec::new()
    }

    fn service(&self) -> Option<Service> {
        Some(Service {
            protocol: Protocol::Dns,
            tls: self.speaks_tls(),
            https: self.speaks_https(),
            quic: self.quic().is_some(),
            http3: self.http3().is_some(),
        })
    }

    fn quic(&self) -> Option<&quic::Config> {
        self.quic()
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Serving::new(self, name))
    }
}

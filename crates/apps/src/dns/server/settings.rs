//! The settings of a server, and the rules that they must meet.

use narrows_transport::{quic, tls};
use narrows_units::Span;

use super::super::WITHOUT_EDNS;
use super::super::https::Responses;
use super::{HalfOpenLimits, Serving};
use crate::{Application, Environment, Protocol, Service, Settings, Use};

/// The settings of a server.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Server {
    /// The constant part of the time from a query's arrival to its reply.
    pub service: Span,
    /// The mean of an exponentially distributed part that is added to it.
    pub service_jitter_mean: Span,
    /// The longest reply that it sends over UDP.
    pub udp_payload: u16,
    /// How it serves TCP; `None`: it refuses connections.
    pub tcp: Option<Tcp>,
}

/// How a server serves TCP.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tcp {
    /// The settings of its ends: an index into the plan's `tcp`.
    pub tcp: usize,
    /// How many established connections may wait to be accepted.
    pub backlog: u32,
    /// The most concurrent connections; `None`: no limit.
    pub connections: Option<u32>,
    /// The most concurrent connections from one client address; `None`: no limit. Further ones are
    /// closed.
    pub connections_per_client: Option<u32>,
    /// What happens to a connection above `connections`.
    pub when_full: WhenFull,
    /// The time after which a connection without queries is closed.
    pub idle_timeout: Span,
    /// The time after which a connection is closed if its first query has not arrived.
    pub first_query_timeout: Span,
    /// The time after which a connection is closed if only a part of a query has arrived. `None`:
    /// `idle_timeout` and `first_query_timeout` apply.
    #[cfg_attr(feature = "serde", serde(default))]
    pub half_query_timeout: Option<Span>,
    /// Shorter idle timeouts for a busy server. While more than this share of `connections` is in
    /// use, the timeout holds for newly accepted connections, and for whatever they do afterwards.
    pub busy_levels: Vec<(f64, Span)>,
    /// Whether the newly accepted connection counts among those in use.
    #[cfg_attr(feature = "serde", serde(default))]
    pub busy_counts_new: bool,
    /// Whether a place in the table keeps a shorter timeout for all later connections. The place
    /// that became free last is used first.
    #[cfg_attr(feature = "serde", serde(default))]
    pub busy_stays: bool,
    /// The number of queries after which a connection is closed; `None`: no limit.
    pub queries_per_connection: Option<u32>,
    /// How it reacts to a query.
    #[cfg_attr(feature = "serde", serde(default))]
    pub on_query: OnQuery,
    /// Whether replies are sent in the order of their queries. Otherwise each is sent as soon as it
    /// is ready.
    pub in_order: bool,
    /// Whether length and message are separate writes.
    pub length_apart: bool,
    /// The time added to the service time of queries over TCP.
    pub extra_service: Span,
    /// The limits of half-open connections.
    #[cfg_attr(feature = "serde", serde(default = "linux"))]
    pub half_open: HalfOpenLimits,
    /// Whether queries over TCP come without a connection, as behind narrows-gateway.
    pub stateless: bool,
    /// How it serves TLS, on a port of its own; `None`: it does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tls: Option<Tls>,
}

/// How a server serves TLS (RFC 7858).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tls {
    /// Its handshake.
    pub handshake: tls::Server,
    /// The multiple of bytes to which replies to padded queries are padded (RFC 8467); `None`: no
    /// padding.
    pub padding: Option<u32>,
    /// The time added to the service time of queries over TLS and QUIC; `None`: as over TCP.
    #[cfg_attr(feature = "serde", serde(default))]
    pub extra_service: Option<Span>,
    /// How it serves HTTPS (RFC 8484), on a port of its own; `None`: it does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub https: Option<Https>,
    /// How it serves QUIC (RFC 9250); `None`: it does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub quic: Option<quic::Config>,
}

/// How a server serves HTTPS. Its sockets there may have other settings.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Https {
    /// The settings of its ends: an index into the plan's `tcp`.
    pub tcp: usize,
    /// Its handshake.
    pub handshake: tls::Server,
    /// What it adds to its replies.
    pub responses: Responses,
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

    /// Returns whether clients may use HTTPS.
    pub(crate) fn speaks_https(&self) -> bool {
        let tls = self.tcp.as_ref().and_then(|tcp| tcp.tls);
        tls.is_some_and(|tls| tls.https.is_some())
    }
}

#[cfg(feature = "serde")]
fn linux() -> HalfOpenLimits {
    HalfOpenLimits::LINUX
}

/// What happens to a connection beyond a server's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WhenFull {
    /// It waits to be accepted, and so do its queries.
    Wait,
    /// It is closed at once.
    Reject,
    /// The connection that has been idle longest is closed instead.
    Oldest,
}

/// The reaction to a query over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OnQuery {
    /// It is answered.
    #[default]
    Answer,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
}

impl Settings for Server {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        if self.udp_payload < WITHOUT_EDNS {
            return Err(format!("udp_payload: must be at least {WITHOUT_EDNS} B"));
        }
        let Some(tcp) = &self.tcp else { return Ok(0) };
        environment.check_tcp(tcp.tcp)?;
        if let Some(tls) = &tcp.tls {
            tls.handshake.check().map_err(|why| format!("tls: {why}"))?;
            if tls.padding.is_some_and(|block| !(1..=u32::from(u16::MAX)).contains(&block)) {
                return Err("tls: padding: must be 1 to 65535".into());
            }
            if let Some(quic) = &tls.quic {
                quic.check().map_err(|why| format!("quic: {why}"))?;
            }
            if let Some(https) = &tls.https {
                environment.check_tcp(https.tcp).map_err(|why| format!("https: {why}"))?;
                let check = https.handshake.check().and_then(|()| https.responses.check());
                check.map_err(|why| format!("https: {why}"))?;
            }
            if tcp.stateless {
                return Err("tls: needs connections, but the server is stateless".into());
            }
        }
        if tcp.stateless && tcp.on_query != OnQuery::Answer {
            return Err("on_query: needs connections, but the server is stateless".into());
        }
        if tcp.connections == Some(0) || tcp.connections_per_client == Some(0) {
            return Err("connections: must be at least one".into());
        }
        if tcp.queries_per_connection == Some(0) {
            return Err("queries_per_connection: must be at least one".into());
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
        })
    }

    fn quic(&self) -> Option<&quic::Config> {
        self.quic()
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Serving::new(self, name))
    }
}

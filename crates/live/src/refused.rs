//! What real sockets cannot honour.

use narrows_apps::dns::exchange::Sizes;
use narrows_apps::dns::server::HalfOpenLimits;
use narrows_apps::dns::{PADDED, TRUNCATED};
use narrows_apps::{Kind, Message, ping, udp};
use narrows_sim::plan::Plan;
use narrows_transport::{quic, tcp, tls};

use crate::datagrams::LEAST_PAYLOAD;
use crate::dns;
use crate::part::Part;
use crate::real::Real;
use crate::secure::{Alone, Carrier, Pair};

/// Returns what cannot be honoured of a plan whose nodes are prepared ([`Part`](crate::Part)), each
/// in one line that begins with the name of the application.
pub fn refusals(plan: &Plan, real: &Real) -> Vec<String> {
    let part = Part { prepared: true, real: real.clone(), ..Part::default() };
    refused(plan, &vec![true; plan.applications.len()], &part)
}

/// Returns what cannot be honoured of a plan, each in one line that begins with the place.
pub(crate) fn refused(plan: &Plan, played: &[bool], part: &Part) -> Vec<String> {
    let mut found = Vec::new();
    for (number, config) in plan.tcp.iter().enumerate() {
        found.extend(
            of_tcp(config, part.prepared).into_iter().map(|why| format!("tcp[{number}]: {why}")),
        );
    }
    for (application, _) in plan.applications.iter().zip(played).filter(|(_, played)| **played) {
        let why = of_kind(&application.kind, part.prepared)
            .or_else(|| of_client(plan, &application.kind, &part.real))
            .or_else(|| part.split.as_ref().and_then(|_| of_split(&application.kind)));
        found.extend(why.map(|why| format!("{}: {why}", application.name)));
    }
    found
}

fn of_kind(kind: &Kind, prepared: bool) -> Option<String> {
    let why = match kind {
        Kind::DnsServer(server) => {
            let tcp = server.tcp.as_ref()?;
            if tcp.stateless {
                "stateless: narrows-gateway does this, and no socket"
            } else if !prepared && tcp.half_open != HalfOpenLimits::LINUX {
                "half_open: sysctls decide it, not sockets"
            } else {
                return None;
            }
        }
        Kind::Udp(udp::Udp { ecn, .. }) if *ecn != udp::Codepoint::NotEct => {
            "ecn: narrows-live sends datagrams that are not ECN-capable"
        }
        Kind::Udp(udp::Udp { packet_bytes, .. }) | Kind::Ping(ping::Ping { packet_bytes, .. }) => {
            return of_length(*packet_bytes).map(|why| format!("packet_bytes: {why}"));
        }
        Kind::Trace(trace) => {
            let shortest = trace.packets.iter().map(|&(_, bytes)| bytes).min()?;
            return of_length(shortest).map(|why| format!("packets: {why}"));
        }
        Kind::Custom(_) => "an application from outside narrows",
        _ => return None,
    };
    Some(why.to_owned())
}

/// How an end encrypts.
struct Encrypted<T> {
    handshake: T,
    quic: Option<quic::Config>,
}

/// Refuses what rustls and quinn-proto cannot follow, of an application and its server.
fn of_client(plan: &Plan, kind: &Kind, real: &Real) -> Option<String> {
    let (client, number, [is_https, is_http3]) = match kind {
        Kind::DnsClient(client) => {
            let tls = client.tcp.as_ref()?.tls.as_ref()?;
            let found = Encrypted { handshake: tls.handshake, quic: tls.quic };
            (found, client.server, [tls.https.is_some(), tls.http3.is_some()])
        }
        Kind::Page(page) => {
            let secure = page.secure?;
            let found = Encrypted { handshake: secure.handshake, quic: secure.quic };
            (found, page.responder, [false; 2])
        }
        _ => return None,
    };
    let server = of_server(&plan.applications.get(number)?.kind, is_https)?;
    if real.servers.contains(&(number as u32)) {
        if is_https || client.quic.is_some() {
            return Some("a real server is asked over UDP, TCP or TLS".into());
        }
        let alone = Alone::new(client.handshake, server.handshake);
        return alone.err().map(|why| format!("tls: {why}"));
    }
    match (client.quic, server.quic) {
        (Some(quic), Some(of_server)) => {
            let ends = ((client.handshake, &quic), (server.handshake, &of_server));
            crate::quic::refused(ends.0, ends.1, is_http3).map(|why| format!("quic: {why}"))
        }
        _ => {
            let pair = Pair::new(client.handshake, server.handshake, Carrier::Tcp);
            pair.err().map(|why| format!("tls: {why}"))
        }
    }
}

fn of_server(kind: &Kind, is_https: bool) -> Option<Encrypted<tls::Server>> {
    match kind {
        Kind::DnsServer(server) => {
            let tls = server.tcp.as_ref()?.tls.as_ref()?;
            let handshake = if is_https { tls.https.as_ref()?.handshake } else { tls.handshake };
            Some(Encrypted { handshake, quic: tls.quic })
        }
        Kind::Responder(responder) => {
            let secure = responder.secure?;
            Some(Encrypted { handshake: secure.handshake, quic: secure.quic })
        }
        _ => None,
    }
}

/// Refuses queries that cannot say what they ask for, and sessions that a server elsewhere would
/// have to know of.
fn of_split(kind: &Kind) -> Option<String> {
    let Kind::DnsClient(client) = kind else { return None };
    let tls = client.tcp.as_ref().and_then(|tcp| tcp.tls.as_ref());
    if tls.is_some_and(|tls| tls.handshake.early_data) {
        return Some("tls: early_data: it needs both ends in one process".into());
    }
    let takes = client.udp.as_ref().map_or(0, |udp| udp.payload);
    let padded = tls.is_some_and(|tls| tls.padding.is_some());
    let ([query, reply], over_udp) = match &client.sizes {
        Sizes::Chosen(all) => (
            [client.sizes.shortest().0, client.sizes.longest().1],
            all.iter().any(|choice| choice.over_udp.is_some()),
        ),
        drawn @ Sizes::Drawn { .. } => ([drawn.shortest().0, drawn.longest().1], false),
    };
    let all = if over_udp { u32::MAX } else { reply };
    let flags = if over_udp { TRUNCATED } else { 0 } | if padded { PADDED } else { 0 };
    let meant = Message { notes: [all, u32::from(takes) | flags], ..Message::default() };
    let least = dns::least(&meant);
    ((query as usize) < least).then(|| {
        format!("sizes: a query of {query} B cannot say what it asks for; it needs {least} B")
    })
}

/// Leaves congestion controls that narrows does not have to the kernel, by their names.
///
/// # Errors
///
/// Returns an error if one has settings: sockets have none for it.
pub fn name_controls(plan: &mut Plan) -> Result<(), String> {
    for (number, config) in plan.tcp.iter_mut().enumerate() {
        config.congestion.bind(|own| {
            let has_none = own.settings().is_empty();
            let named = || tcp::Congestion::custom(own.name(), |_seed| Named);
            has_none.then(named).ok_or_else(|| {
                format!("tcp[{number}]: congestion: sockets have no settings for {}", own.name())
            })
        })?;
    }
    Ok(())
}

/// A congestion control of the kernel, which no connection of the simulator uses.
#[derive(Debug)]
struct Named;

impl tcp::CongestionControl for Named {}

/// Refuses packets that are too short for what they mean.
fn of_length(bytes: u16) -> Option<String> {
    let least = HEADERS + LEAST_PAYLOAD;
    (bytes < least)
        .then(|| format!("{bytes} B have no room for what they mean; it needs {least} B"))
}

/// Returns the settings that a socket cannot have: those that differ from Linux's, and have no
/// socket option.
fn of_tcp(config: &tcp::Config, prepared: bool) -> Option<String> {
    const OPTIONS: [&str; 4] = ["mss", "congestion", "nagle", "pacing"];
    let values = |config: &tcp::Config| serde_json::to_value(config).unwrap_or_default();
    let (ours, linux) = (values(config), values(&tcp::Config::default()));
    let mut keys = ours.as_object()?.iter();
    let (key, value) = keys.find(|&(key, value)| {
        let is_set = prepared || OPTIONS.contains(&key.as_str());
        !is_set && linux.get(key) != Some(value)
    })?;
    Some(format!("{key}: {value} has no socket option; the kernel decides it"))
}

/// The IPv4 and UDP headers.
const HEADERS: u16 = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_transport::tcp::Recovery;

    #[test]
    fn what_only_the_kernel_decides_is_named() {
        let linux = tcp::Config::default();
        assert_eq!(of_tcp(&linux, false), None);
        let options = tcp::Config {
            congestion: tcp::Congestion::Bbr,
            pacing: true,
            nagle: false,
            mss: 500,
            ..tcp::Config::default()
        };
        assert_eq!(of_tcp(&options, false), None);
        for (config, key) in [
            (tcp::Config { rack: false, ..linux.clone() }, "rack"),
            (tcp::Config { fast_open: true, ..linux.clone() }, "fast_open"),
            (tcp::Config { recovery: Recovery::NewReno, ..linux.clone() }, "recovery"),
            (tcp::Config { initial_window: 3, ..linux }, "initial_window"),
        ] {
            let why = of_tcp(&config, false).expect("no socket option does this");
            assert!(why.starts_with(&format!("{key}: ")), "{why}");
            assert_eq!(of_tcp(&config, true), None);
        }
    }

    #[test]
    fn datagrams_have_room_for_their_meaning() {
        assert_eq!(of_length(40), None);
        assert!(of_length(39).is_some());
    }
}

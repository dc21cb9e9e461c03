//! DNS over UDP and TCP: what real servers and clients were seen to do (docs/dns-servers.md,
//! docs/dns-clients.md, and the trials with NSD 3.2.13 and emulated servers behind paper R).

mod connections;
mod fast_open;
mod full_servers;
mod udp;

use crate::common::{self, asking, kept, listening, numbers, profile, run, table};
use narrows_sim::plan::dns::client::{Attempts, Client, Persistent, Reuse, Tcp, Udp};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server::{self, Server, WhenFull};
use narrows_sim::plan::{Application, Capture, Kind, LinkChange, Middlebox, Plan};
use narrows_sim::table::Column;
use narrows_sim::{Simulation, Stopped, tcp};
use narrows_units::{Rate, Span, Time};

/// Half of the round trip.
const ONE_WAY_MS: f64 = 20.0;

/// TCP settings of the client (0), and of the server (1).
fn settings() -> Vec<tcp::Config> {
    let mut server = profile("linux-6");
    server.nagle = false;
    vec![profile("linux-6"), server]
}

fn client() -> Client {
    Client {
        server: 1,
        there: 0,
        back: 1,
        workers: 1,
        start: Time::ZERO,
        spread: Span::ZERO,
        warm_up: 0,
        queries: Some(10),
        arrivals: None,
        think_mean: Span::from_ms(200),
        sizes: Sizes::fixed(40, 745),
        gives_up: None,
        udp: None,
        tcp: Some(over_tcp()),
    }
}

fn over_tcp() -> Tcp {
    Tcp { answer_timeout: Some(Span::from_secs(5)), ..asking() }
}

fn over_udp() -> Udp {
    Udp {
        timeouts: vec![Span::from_secs(5); 2],
        payload: 1232,
        tcp_if_truncated: true,
        tcp_if_silent: false,
        new_port: false,
    }
}

fn server() -> Server {
    Server {
        service: Span::from_us(100),
        service_jitter_mean: Span::ZERO,
        udp_payload: 1232,
        tcp: Some(listening()),
    }
}

/// A client and a server, 20 ms apart on a fast link.
fn plan(client: Client, server: Server) -> Plan {
    let one_way = Span::from_ms(ONE_WAY_MS as u64);
    let end = Span::from_secs(200);
    Plan { tcp: settings(), ..common::client_and_server(client, server, one_way, end) }
}

fn texts(simulation: &Simulation, name: &str, column: &str) -> Vec<String> {
    let table = table(simulation, name);
    let found = table.columns.iter().find(|(other, _)| *other == column);
    match found {
        Some((_, Column::Text(values))) => values.iter().map(str::to_owned).collect(),
        other => panic!("{column}: {other:?}"),
    }
}

/// Response times as multiples of the round trip.
fn ratios(simulation: &Simulation) -> Vec<f64> {
    let responses = numbers(&table(simulation, "queries"), "response_ms");
    responses.iter().map(|ms| ms / (2.0 * ONE_WAY_MS)).collect()
}

#[test]
fn impossible_settings_are_refused() {
    let refused = |client: Client, server: Server| {
        Simulation::new(plan(client, server)).expect_err("it is impossible").to_string()
    };
    let with = |tcp: Tcp| Client { tcp: Some(tcp), ..client() };
    let listens = |tcp: server::Tcp| Server { tcp: Some(tcp), ..server() };
    for (client, server, said) in [
        (Client { tcp: None, ..client() }, server(), "dns: udp, tcp"),
        (with(Tcp { tcp: 9, ..over_tcp() }), server(), "dns: tcp: no such"),
        (
            with(Tcp { attempts: Attempts::of(0), ..over_tcp() }),
            server(),
            "dns: tcp.attempts.refused",
        ),
        (with(Tcp { udp_between: true, ..over_tcp() }), server(), "dns: udp_between"),
        (with(Tcp { refused_together: 0, ..over_tcp() }), server(), "dns: tcp.refused_together"),
        (Client { tcp: None, udp: Some(over_udp()), ..client() }, server(), "dns: tcp: is needed"),
        (
            Client { udp: Some(Udp { payload: 511, ..over_udp() }), ..client() },
            server(),
            "dns: udp.payload",
        ),
        (client(), listens(server::Tcp { tcp: 9, ..listening() }), "dns: tcp: no such"),
        (
            client(),
            listens(server::Tcp { connections: Some(0), ..listening() }),
            "dns: tcp.connections",
        ),
        (
            client(),
            listens(server::Tcp { busy_levels: vec![(0.5, Span::ZERO)], ..listening() }),
            "dns: busy_levels",
        ),
        (
            client(),
            listens(server::Tcp {
                stateless: true,
                on_query: server::OnQuery::Reset,
                ..listening()
            }),
            "dns: on_query: needs connections",
        ),
        (client(), Server { udp_payload: 100, ..server() }, "dns: udp_payload"),
    ] {
        let message = refused(client, server);
        assert!(message.starts_with(said), "{message}, not {said}");
    }
}

#[test]
fn who_is_no_dns_server_is_not_asked() {
    let asks = |server| Simulation::new(plan(Client { server, ..client() }, self::server()));
    assert!(asks(1).is_ok());
    // A client that asks itself would get its own datagrams back as replies.
    let refused = asks(0).expect_err("a client answers nothing").to_string();
    assert!(refused.ends_with("answers nothing like this"), "{refused}");
    let refused = asks(2).expect_err("there are two").to_string();
    assert!(refused.ends_with("server: no such application"), "{refused}");
}

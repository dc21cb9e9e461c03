//! Traffic that is encrypted: TLS, HTTPS and QUIC, with the settings that the language has by default.

use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::https::{Requests, Responses};
use narrows_sim::plan::secure::{SecureClient, SecureServer};
use narrows_sim::plan::{Kind, Plan, dns};
use narrows_sim::{quic, tls};
use narrows_units::Span;

use crate::common::Dialogue;
use crate::namespaces::numbers;
use crate::{KEPT, PACKETS, compare, dialogue, pages_with, plan_of, play};

/// Clients pad.
#[test]
fn dns_over_tls() {
    compare(encrypted(tls_client(0), tls_server(), |_, _| {}), 19, &PACKETS);
    let client = tls::Client { resume: false, ..tls_client(0) };
    compare(encrypted(client, tls_server(), |_, _| {}), 29, &PACKETS);
}

/// Each query after the first leaves with a ClientHello.
#[test]
fn dns_over_tls_in_early_data() {
    compare(slowly(encrypted(early_client(), early_server(), |_, _| {})), 21, &PACKETS);
}

#[test]
fn dns_over_https() {
    compare(over_https(), 22, &PACKETS);
    compare(on_one_connection(over_https()), 23, &PACKETS);
}

pub(crate) fn over_https() -> Plan {
    let handshake = tls_client(2);
    encrypted(handshake, tls_server(), |client, server| {
        client.https = Some(Requests::default());
        let responses = Responses { acknowledges_apart: true, ..Responses::default() };
        let handshake = tls_server();
        server.https = Some(dns::server::Https { tcp: 0, handshake, responses });
    })
}

#[test]
fn dns_over_quic() {
    let plan = encrypted(tls_client(3), tls_server(), over_quic);
    compare(plan.clone(), 24, &PACKETS);
    compare(on_one_connection(plan), 25, &PACKETS);
}

#[test]
fn dns_over_quic_in_early_data() {
    let client = tls::Client { early_data: true, ..tls_client(3) };
    compare(slowly(encrypted(client, early_server(), over_quic)), 26, &PACKETS);
}

#[test]
fn dns_over_http3() {
    let plan = encrypted(tls_client(2), tls_server(), over_http3);
    compare(plan.clone(), 44, &PACKETS);
    compare(on_one_connection(plan), 45, &PACKETS);
}

#[test]
fn dns_over_http3_in_early_data() {
    let client = tls::Client { early_data: true, ..tls_client(2) };
    compare(slowly(encrypted(client, early_server(), over_http3)), 46, &PACKETS);
}

/// Lets the server take so long for a reply that the ticket for the next connection arrives before.
fn slowly(mut plan: Plan) -> Plan {
    for application in &mut plan.applications {
        if let Kind::DnsServer(server) = &mut application.kind {
            server.service = Span::from_ms(300);
        }
    }
    plan
}

/// The server confirms handshakes before clients ask, and replies fill many packets.
#[test]
fn dns_over_quic_that_waits() {
    let plan = encrypted(tls_client(3), tls_server(), |client, server| {
        for quic in [&mut client.quic, &mut server.quic] {
            *quic = Some(quic::Config {
                waits: true,
                congestion: quic::Congestion::Cubic,
                search_to: Some(1400),
                ecn: true,
                ..quic::Config::default()
            });
        }
    });
    let mut plan = plan;
    for application in &mut plan.applications {
        if let Kind::DnsClient(client) = &mut application.kind {
            client.sizes = Sizes::fixed(40, 60_000);
        }
    }
    compare(plan, 27, &PACKETS);
}

pub(crate) fn over_quic(client: &mut dns::client::Tls, server: &mut dns::server::Tls) {
    client.quic = Some(quic::Config::default());
    server.quic = client.quic;
}

fn over_http3(client: &mut dns::client::Tls, server: &mut dns::server::Tls) {
    over_quic(client, server);
    (client.http3, server.http3) = (Some(Default::default()), Some(Default::default()));
}

fn early_client() -> tls::Client {
    tls::Client { early_data: true, ..tls_client(0) }
}

fn early_server() -> tls::Server {
    tls::Server { early_data: true, ..tls_server() }
}

/// Returns a plan of a client that asks on a new connection each time. `change` changes how both
/// ends encrypt.
pub(crate) fn encrypted(
    client: tls::Client,
    server: tls::Server,
    change: impl Fn(&mut dns::client::Tls, &mut dns::server::Tls),
) -> Plan {
    let mut asks = dns::client::Tls {
        handshake: client,
        padding: Some(128),
        https: None,
        quic: None,
        http3: None,
    };
    let mut serves = dns::server::Tls {
        handshake: server,
        padding: Some(468),
        extra_service: None,
        https: None,
        quic: None,
        http3: None,
    };
    change(&mut asks, &mut serves);
    let mut dialogue = dialogue();
    dialogue.client.udp = None;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    dialogue.asking().tls = Some(asks);
    dialogue.serving().tls = Some(serves);
    plan_of(dialogue)
}

/// A server takes its time for a signature, and none if a session is resumed.
#[test]
fn handshakes_that_take_time() {
    let service = Span::from_ms(100);
    let server = tls::Server { service, ..tls_server() };
    let over_tls = encrypted(tls_client(0), server, |_, _| {});
    let over_quic = encrypted(tls_client(3), server, over_quic);
    for (number, plan) in [(40, over_tls), (41, over_quic)] {
        compare(plan.clone(), number, &PACKETS);
        let Some(tables) = play(plan, number + 2) else { return };
        let times = numbers(&tables, "attempts", "handshake_ms");
        assert!(times[0] >= 100.0 && times[1..].iter().all(|&ms| ms < 100.0), "{times:?}");
    }
}

pub(crate) fn on_one_connection(mut plan: Plan) -> Plan {
    for application in &mut plan.applications {
        if let Kind::DnsClient(client) = &mut application.kind {
            client.tcp.iter_mut().for_each(|tcp| tcp.reuse = KEPT);
        }
    }
    plan
}

/// A client that resumes sessions, and asks for a protocol whose name has this length.
pub(crate) fn tls_client(alpn: u32) -> tls::Client {
    let default = tls::Client::default();
    let hello = default.hello + if alpn > 0 { 7 + alpn } else { 0 };
    tls::Client { hello, alpn, resume: true, ..default }
}

pub(crate) fn tls_server() -> tls::Server {
    tls::Server::default()
}

#[test]
fn pages_over_tls() {
    compare_pages(20, None);
}

#[test]
fn pages_over_quic() {
    compare_pages(28, Some(quic::Config::default()));
}

fn compare_pages(number: u8, quic: Option<quic::Config>) {
    let handshake = tls_client(2);
    let client = SecureClient { handshake, quic };
    let server = SecureServer { handshake: tls_server(), quic };
    let plan = pages_with(Some(client), Some(server));
    let order = ["pages.browser", "pages.load", "objects.browser", "objects.load"];
    compare(plan, number, &order);
}

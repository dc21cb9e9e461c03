//! ECN on SYN and SYN-ACK behind RED. The rules are in transport's tests.

use crate::common;
use narrows_sim::Simulation;
use narrows_sim::plan::dns::client::Tcp;
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server;
use narrows_sim::plan::{Kind, Plan};
use narrows_sim::tcp::{Config, EcnControl};
use narrows_units::{Span, Time};

const CONTROLS: [EcnControl; 3] = [EcnControl::Data, EcnControl::SynAck, EcnControl::PlusPlus];

fn ecn(ecn_control: EcnControl) -> Config {
    let config = Config::profile("linux-6").expect("a known profile");
    Config { ecn: true, ecn_control, ..config }
}

/// Runs connections, one for each query, across a bottleneck whose RED marks what it may and drops
/// the rest, while downloads with ECN keep its queue long. Returns the durations of the handshakes
/// in ms. `to_server`: the data go in the direction of the SYNs; otherwise in that of the SYN-ACKs.
fn handshakes(control: EcnControl, to_server: bool) -> (Vec<f64>, Simulation) {
    let mut plan: Plan = common::dumbbell(8, 10, common::red_ecn());
    plan.tcp = vec![ecn(EcnControl::Data), ecn(control)];
    common::add_resolvers(&mut plan, 20, 30);
    let client = common::resolvers(&mut plan);
    if to_server {
        std::mem::swap(&mut client.there, &mut client.back);
    }
    client.start = Time::ZERO + Span::from_secs(2);
    client.think_mean = Span::from_ms(100);
    client.sizes = Sizes::fixed(42, 500);
    client.udp = None;
    client.tcp = Some(Tcp { tcp: 1, ..common::asking() });
    for application in &mut plan.applications {
        if let Kind::DnsServer(server) = &mut application.kind {
            server.tcp = Some(server::Tcp { tcp: 1, ..common::listening() });
        }
    }
    let simulation = common::run(plan);
    let attempts = common::table(&simulation, "attempts");
    let ms = common::numbers(&attempts, "handshake_ms");
    (ms.into_iter().filter(|ms| !ms.is_nan()).collect(), simulation)
}

#[test]
fn behind_red_syns_are_marked_instead_of_dropped() {
    // A SYN or SYN-ACK that is dropped comes again a second later at the earliest.
    let lost = |(ms, _): &(Vec<f64>, Simulation)| ms.iter().filter(|&&ms| ms >= 1000.0).count();
    for to_server in [true, false] {
        let [data, syn_ack, plus_plus] = CONTROLS.map(|control| handshakes(control, to_server));
        assert!(data.0.len() > 300, "{}", data.0.len());
        assert!(lost(&data) >= 5, "{to_server}: {}", lost(&data));
        assert_eq!(lost(&plus_plus), 0, "{to_server}");
        // RFC 5562 helps only the SYN-ACK, and a mark costs it another round trip.
        assert_eq!(lost(&syn_ack) == 0, !to_server, "{to_server}: {}", lost(&syn_ack));
        if !to_server {
            let slow = |ms: &[f64]| ms.iter().copied().fold(0.0, f64::max);
            assert!(slow(&syn_ack.0) > slow(&plus_plus.0) + 40.0);
        }
    }
}

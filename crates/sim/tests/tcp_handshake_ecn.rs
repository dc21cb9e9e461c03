//! ECN on SYN and SYN-ACK: RFC 3168, RFC 5562 and ECN++, rule by rule, and behind RED.

#[allow(dead_code, reason = "other tests use more of it")]
mod common;
#[path = "../../transport/tests/tcp_script/mod.rs"]
mod tcp_script;

use narrows_qdisc::Ecn;
use narrows_sim::Simulation;
use narrows_sim::plan::dns::client::Tcp;
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server;
use narrows_sim::plan::{Kind, Plan};
use narrows_sim::tcp::{Config, EcnControl, Flags, Segment, Seq, SynOptions};
use narrows_units::{Span, Time};
use tcp_script::{Script, linux, stamp};

const CONTROLS: [EcnControl; 3] = [EcnControl::Data, EcnControl::SynAck, EcnControl::PlusPlus];

fn ecn(ecn_control: EcnControl) -> Config {
    Config { ecn: true, ecn_control, ..linux() }
}

/// A SYN (`ack`: none) or SYN-ACK of the other end.
fn syn(script: &Script, ack: Option<u32>, flags: Flags, ecn: Ecn) -> Segment {
    let kind = if ack.is_some() { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
    let options =
        SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, fast_open: None };
    Segment {
        ack: Seq(ack.unwrap_or(0)),
        window: 65_535,
        flags: kind.with(flags),
        ecn,
        timestamps: Some((stamp(script.now), 0)),
        syn: Some(options),
        ..Segment::default()
    }
}

fn asks(control: EcnControl) -> Flags {
    let classic = Flags::ECE.with(Flags::CWR);
    if control == EcnControl::PlusPlus { classic.with(Flags::AE) } else { classic }
}

#[test]
fn a_syn_is_capable_with_ecn_plus_plus_alone_and_once() {
    for (control, first) in CONTROLS.into_iter().zip(["SEW 0:0", "SEW 0:0", "SEWA 0:0 ect0"]) {
        let mut client = Script::client(&ecn(control));
        client.connect().sends(&[first]);
        client.at(1100.0).sends(&["S 0:0"]);
    }
}

#[test]
fn a_syn_ack_is_capable_with_rfc_5562_and_ecn_plus_plus_once() {
    let answers = ["SE. 0:0 ack 1", "SE. 0:0 ack 1 ect0", "SA. 0:0 ack 1 ect0"];
    let repeated = ["SE. 0:0 ack 1", "SE. 0:0 ack 1", "SA. 0:0 ack 1"];
    for (at, control) in CONTROLS.into_iter().enumerate() {
        let mut server = Script::server(&ecn(control));
        let syn = syn(&server, None, asks(control), Ecn::NotEct);
        server.gets_segment(&syn).sends(&[answers[at]]);
        server.at(1100.0).sends(&[repeated[at]]);
    }
    // A client that asks for nothing gets the usual answer.
    let mut server = Script::server(&ecn(EcnControl::PlusPlus));
    server.gets_syn().sends(&["S. 0:0 ack 1"]);
}

/// RFC 5562, 3.2: ECE makes the server repeat the SYN-ACK without ECT, and costs the initial
/// window.
#[test]
fn rfc5562_a_marked_syn_ack_comes_again() {
    let config = ecn(EcnControl::SynAck);
    let mut client = Script::client(&config);
    client.connect().forget();
    let marked = syn(&client, Some(1), Flags::ECE, Ecn::Ce);
    client.at(50.0).gets_segment(&marked).sends(&["E. 1:1 ack 1"]);
    assert!(!client.endpoint.is_established());
    let again = syn(&client, Some(1), Flags::ECE, Ecn::NotEct);
    client.at(100.0).gets_segment(&again).sends(&[". 1:1 ack 1"]);
    assert!(client.endpoint.is_established() && client.endpoint.ecn_negotiated());
    assert_eq!(client.endpoint.cwnd(), 10, "the mark was for the other end");

    let mut server = Script::server(&config);
    let asking = syn(&server, None, asks(EcnControl::SynAck), Ecn::NotEct);
    server.gets_segment(&asking).forget();
    server.at(100.0).gets("E. 1:1 ack 1").sends(&["SE. 0:0 ack 1"]);
    assert!(!server.endpoint.is_established());
    server.at(200.0).gets(". 1:1 ack 1").sends(&[]);
    assert!(server.endpoint.is_established() && server.endpoint.ecn_negotiated());
    server.write(5000).sends(&[". 1:1449 ack 1 ect0"]);
}

/// ECN++, 3.2.1.3: the sender of a marked SYN starts from one segment.
#[test]
fn ecn_plus_plus_a_marked_syn_costs_the_clients_initial_window() {
    let config = ecn(EcnControl::PlusPlus);
    let mut server = Script::server(&config);
    let marked = syn(&server, None, asks(EcnControl::PlusPlus), Ecn::Ce);
    server.gets_segment(&marked).sends(&["SWA. 0:0 ack 1 ect0"]);
    assert_eq!(server.endpoint.counters().marks_received, 1);
    for (answer, window) in [
        (Flags::AE, 10),
        (Flags::AE.with(Flags::CWR), 1),
        // An old server, which agrees to ECN and says nothing about the SYN; and one without ECN.
        (Flags::ECE, 1),
        (Flags(0), 1),
    ] {
        let mut client = Script::client(&config);
        client.connect().forget();
        let answer_segment = syn(&client, Some(1), answer, Ecn::NotEct);
        client.at(50.0).gets_segment(&answer_segment).sends(&[". 1:1 ack 1"]);
        assert_eq!(client.endpoint.ecn_negotiated(), answer != Flags(0));
        client.write(5000);
        assert_eq!(client.endpoint.cwnd(), window, "{answer:?}");
    }
}

#[test]
fn ecn_plus_plus_a_marked_syn_ack_costs_the_servers_initial_window() {
    let config = ecn(EcnControl::PlusPlus);
    let mut client = Script::client(&config);
    client.connect().forget();
    let marked = syn(&client, Some(1), Flags::AE, Ecn::Ce);
    client.at(50.0).gets_segment(&marked).sends(&["E. 1:1 ack 1"]);
    assert!(client.endpoint.is_established());
    client.write(100).sends(&["P. 1:101 ack 1 ect0"]);

    let mut server = Script::server(&config);
    let asking = syn(&server, None, asks(EcnControl::PlusPlus), Ecn::Ect0);
    server.gets_segment(&asking).forget();
    server.at(50.0).gets("E. 1:1 ack 1").sends(&[]);
    assert!(server.endpoint.is_established());
    server.write(5000).sends(&[". 1:1449 ack 1 ect0"]);
    assert_eq!(server.endpoint.counters().ecn_reductions, 0);
}

#[test]
fn ecn_plus_plus_fins_and_retransmissions_are_capable() {
    let mut client = Script::client(&ecn(EcnControl::PlusPlus));
    client.connect().forget();
    let answer = syn(&client, Some(1), Flags::AE, Ecn::NotEct);
    client.at(50.0).gets_segment(&answer).forget();
    client.write(100).close().sends(&["P. 1:101 ack 1 ect0", "F. 101:101 ack 1 ect0"]);
    client.at(2000.0);
    let again = client.take_sent();
    assert!(!again.is_empty() && again.iter().all(|(_, segment)| segment.ecn == Ecn::Ect0));
}

/// Runs connections, one for each query, across a bottleneck whose RED marks what it may and drops
/// the rest, while downloads with ECN keep its queue long. Returns the durations of the handshakes
/// in ms. `to_server`: the data go in the direction of the SYNs; otherwise in that of the SYN-ACKs.
fn handshakes(control: EcnControl, to_server: bool) -> (Vec<f64>, Simulation) {
    let mut plan: Plan = common::dumbbell(8, 10, common::red_ecn());
    plan.tcp = vec![Config { ecn: true, ..linux() }, ecn(control)];
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

#[test]
fn control_packets_need_ecn() {
    let config = Config { ecn: false, ..ecn(EcnControl::SynAck) };
    assert_eq!(config.check().map_err(|error| error.key().to_owned()), Err("ecn_control".into()));
}

//! ECN on SYN and SYN-ACK: RFC 3168, RFC 5562 and ECN++, rule by rule.

use crate::tcp_script::{Script, linux, stamp};
use narrows_transport::tcp::{Config, EcnControl, Flags, Segment, Seq, SynOptions};
use narrows_units::Ecn;

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

/// Linux 7.3: once a timeout is over, a repeated SYN-ACK no longer agrees to ECN, but the server goes
/// on to send ECN-capable data.
#[test]
fn a_server_that_falls_back_sends_ecn_capable_data_to_a_client_without_ecn() {
    for (fallback, last) in [(false, "SE. 0:0 ack 1"), (true, "S. 0:0 ack 1")] {
        for repeated_syn in [false, true] {
            let config = Config { syn_ack_ecn_fallback: fallback, ..ecn(EcnControl::Data) };
            let mut server = Script::server(&config);
            let asks = syn(&server, None, asks(EcnControl::Data), Ecn::NotEct);
            server.gets_segment(&asks).sends(&["SE. 0:0 ack 1"]);
            if !repeated_syn {
                server.at(1500.0).sends(&["SE. 0:0 ack 1"]);
                server.at(3500.0).sends(&[last]);
            } else {
                // An answer before the first timeout agrees, and one after it does not.
                let again = syn(&server, None, Flags::default(), Ecn::NotEct);
                server.at(700.0).gets_segment(&again).sends(&["SE. 0:0 ack 1"]);
                server.at(1800.0).sends(&["SE. 0:0 ack 1"]);
                server.at(2000.0).gets_segment(&again).sends(&[last]);
            }
            server.at(3600.0).gets(". 1:1 ack 1").write(1000).sends(&["P. 1:1001 ack 1 ect0"]);
        }
    }
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

#[test]
fn control_packets_need_ecn() {
    let config = Config { ecn: false, ..ecn(EcnControl::SynAck) };
    assert_eq!(config.check().map_err(|error| error.key().to_owned()), Err("ecn_control".into()));
}

/// The flags AE, CWR and ECE, as a number in this order (RFC 9768, table 2).
fn bits(number: u8) -> Flags {
    let all = [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)];
    all.into_iter().filter(|(bit, _)| number & bit != 0).fold(Flags(0), |sum, (_, f)| sum.with(f))
}

/// RFC 3168, 6.1.1, and RFC 9768, 3.1: what a server answers to each SYN. Only one with ECE and CWR
/// asks; if AE is set too, it asks for Accurate ECN, which RFC 3168 takes for a plain request.
#[test]
fn a_server_agrees_to_what_the_syn_asks() {
    for flags in 0..8 {
        let asks = flags & 0b011 == 0b011;
        for control in CONTROLS {
            let config = ecn(control);
            let accurate = flags == 0b111 && control == EcnControl::PlusPlus;
            let mut server = Script::server(&config);
            let syn = syn(&server, None, bits(flags), Ecn::NotEct);
            server.gets_segment(&syn);
            let [(_, answer)] = server.take_sent()[..] else { panic!("{flags:03b}") };
            let expected = match (asks, accurate) {
                (false, _) => Flags(0),
                (true, false) => Flags::ECE,
                (true, true) => Flags::AE,
            };
            let kind = Flags::SYN.with(Flags::ACK);
            assert_eq!(answer.flags, kind.with(expected), "{flags:03b} {control:?}");
            let capable = asks && control != EcnControl::Data;
            assert_eq!(answer.ecn == Ecn::Ect0, capable, "{flags:03b} {control:?}");
            server.at(50.0).gets(". 1:1 ack 1");
            assert_eq!(server.endpoint.ecn_negotiated(), asks);
            server.write(1448);
            let [(_, data)] = server.take_sent()[..] else { panic!("{flags:03b}") };
            assert_eq!(data.ecn == Ecn::Ect0, asks, "{flags:03b} {control:?}");
        }
    }
}

/// RFC 3168, 6.1.1: ECE without CWR agrees, both together are a reflection of the request. RFC
/// 9768, table 2: 010, 100 and 110 agree to Accurate ECN; 110 says that the SYN was marked.
#[test]
fn a_client_takes_what_the_syn_ack_agrees_to() {
    for (flags, plain, accurate, window) in [
        (0b000, false, false, 1),
        (0b001, true, true, 1),
        (0b010, false, true, 10),
        (0b011, false, false, 1),
        (0b100, false, true, 10),
        (0b110, false, true, 1),
        (0b111, false, false, 1),
    ] {
        for control in CONTROLS {
            for repeats in [false, true] {
                let mut client = Script::client(&ecn(control));
                client.connect();
                // A repeated SYN is not capable, so it could not be marked (6.1.1.1).
                client.at(if repeats { 1100.0 } else { 50.0 }).forget();
                let answer = syn(&client, Some(1), bits(flags), Ecn::NotEct);
                client.gets_segment(&answer);
                let plus_plus = control == EcnControl::PlusPlus;
                let agrees = if plus_plus { accurate } else { plain };
                assert_eq!(client.endpoint.ecn_negotiated(), agrees, "{flags:03b} {control:?}");
                let expected = if plus_plus && !repeats { window } else { 10 };
                assert_eq!(client.endpoint.cwnd(), expected, "{flags:03b} {control:?}");
            }
        }
    }
    let mut client = Script::client(&linux());
    client.connect().at(50.0);
    let answer = syn(&client, Some(1), Flags::ECE, Ecn::NotEct);
    client.gets_segment(&answer);
    assert!(!client.endpoint.ecn_negotiated(), "nobody has asked");
}

/// RFC 5562, 3: only with its own setting, only if ECN was agreed to, and only if the SYN-ACK is
/// marked, does a client refuse it.
#[test]
fn only_a_marked_syn_ack_is_refused() {
    for (control, flags, mark, refuses) in [
        (EcnControl::SynAck, Flags::ECE, Ecn::Ce, true),
        (EcnControl::SynAck, Flags::ECE, Ecn::Ect0, false),
        (EcnControl::SynAck, Flags(0), Ecn::Ce, false),
        (EcnControl::Data, Flags::ECE, Ecn::Ce, false),
        (EcnControl::PlusPlus, Flags::AE, Ecn::Ce, false),
    ] {
        let mut client = Script::client(&ecn(control));
        client.connect().at(50.0).forget();
        let answer = syn(&client, Some(1), flags, mark);
        client.gets_segment(&answer);
        assert_eq!(client.endpoint.is_established(), !refuses, "{control:?} {flags:?} {mark:?}");
        let marks = u64::from(mark == Ecn::Ce);
        assert_eq!(client.endpoint.counters().marks_received, marks);
        // With ECN++, the third segment reports the mark.
        let echoes = refuses || control == EcnControl::PlusPlus && mark == Ecn::Ce;
        client.sends(&[if echoes { "E. 1:1 ack 1" } else { ". 1:1 ack 1" }]);
    }
}

/// A server repeats its SYN-ACK for ECE only with RFC 5562, if ECN was agreed to, and once.
#[test]
fn a_server_repeats_a_refused_syn_ack_once() {
    for (control, asks, repeats) in [
        (EcnControl::SynAck, Flags::ECE.with(Flags::CWR), true),
        (EcnControl::SynAck, Flags(0), false),
        (EcnControl::Data, Flags::ECE.with(Flags::CWR), false),
    ] {
        let mut server = Script::server(&ecn(control));
        let asking = syn(&server, None, asks, Ecn::NotEct);
        server.gets_segment(&asking).forget();
        server.at(50.0).gets("E. 1:1 ack 1");
        assert_eq!(server.endpoint.is_established(), !repeats, "{control:?} {asks:?}");
        assert_eq!(server.take_sent().len(), usize::from(repeats));
        if repeats {
            server.at(100.0).gets("E. 1:1 ack 1").sends(&[]);
            assert!(server.endpoint.is_established());
            assert_eq!(server.endpoint.cwnd(), 1, "RFC 5562, 3.2");
        }
    }
    // With ECN++, a report without an agreement is no report.
    let mut server = Script::server(&ecn(EcnControl::PlusPlus));
    server.gets_syn().forget();
    server.at(50.0).gets("E. 1:1 ack 1").sends(&[]);
    assert_eq!(server.endpoint.cwnd(), 10);
    let mut server = Script::server(&ecn(EcnControl::PlusPlus));
    let asking = syn(&server, None, Flags::ECE.with(Flags::CWR).with(Flags::AE), Ecn::NotEct);
    server.gets_segment(&asking).forget();
    server.at(50.0).gets("E. 1:1 ack 1").sends(&[]);
    assert_eq!(server.endpoint.cwnd(), 1, "its SYN-ACK was marked");
}

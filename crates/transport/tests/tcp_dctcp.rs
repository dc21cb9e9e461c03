//! DCTCP (RFC 8257) on a connection: the receiver's state of marks, and what is ECN-capable.

use crate::tcp_script::{MSS, Script, linux, stamp};
use narrows_transport::tcp::{AckPolicy, Config, Congestion, Flags, Segment, Seq, SynOptions};
use narrows_units::{Ecn, Span};

fn dctcp() -> Config {
    Config { congestion: Congestion::Dctcp, ..linux() }
}

/// A SYN (`ack`: none) or SYN-ACK of the other end.
fn syn(script: &Script, ack: Option<u32>, flags: Flags) -> Segment {
    let kind = if ack.is_some() { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
    let options =
        SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, fast_open: None };
    Segment {
        ack: Seq(ack.unwrap_or(0)),
        window: 65_535,
        flags: kind.with(flags),
        timestamps: Some((stamp(script.now), 0)),
        syn: Some(options),
        ..Segment::default()
    }
}

fn client(config: &Config, answer: Flags) -> Script {
    let mut client = Script::client(config);
    client.connect().sends(&["SEW 0:0 ect0"]);
    let answer = syn(&client, Some(1), answer);
    client.at(50.0).gets_segment(&answer);
    client
}

/// RFC 8257, 3.5, and Linux: every segment is ECN-capable, also SYN, SYN-ACK, acknowledgements,
/// retransmissions and the FIN.
#[test]
fn every_segment_is_ecn_capable() {
    let mut client = client(&dctcp(), Flags::ECE);
    client.sends(&[". 1:1 ack 1 ect0"]);
    client.write(100).close().sends(&["P. 1:101 ack 1 ect0", "F. 101:101 ack 1 ect0"]);
    client.at(2000.0);
    let again = client.take_sent();
    assert!(!again.is_empty() && again.iter().all(|(_, segment)| segment.ecn == Ecn::Ect0));

    let mut server = Script::server(&dctcp());
    let asks = syn(&server, None, Flags::ECE.with(Flags::CWR));
    server.gets_segment(&asks).sends(&["SE. 0:0 ack 1 ect0"]);
}

/// RFC 8257, 3.5: without ECN at the other end, nothing is ECN-capable, and a loss halves the
/// window.
#[test]
fn without_ecn_it_is_reno() {
    let mut client = client(&dctcp(), Flags(0));
    client.sends(&[". 1:1 ack 1"]);
    client.write(20 * u64::from(MSS));
    assert!(client.take_sent().iter().all(|(_, segment)| segment.ecn == Ecn::NotEct));
    client.at(100.0).gets(&format!("E. 1:1 ack {}", 1 + MSS));
    assert_eq!(client.endpoint.counters().ecn_reductions, 0);
    assert_eq!(client.endpoint.cwnd(), 11);
}

/// RFC 8257, 3.2, figure 1: ECE is the state of the latest data. At a change, what was not
/// acknowledged is acknowledged at once with the old state, and the new segment with the new one.
#[test]
fn rfc8257_3_2_a_change_of_marks_is_acknowledged_at_once() {
    let acks = AckPolicy::Delayed(Span::from_ms(500));
    let mut server = Script::server(&Config { acks, receive_autotuning: false, ..dctcp() });
    let asks = syn(&server, None, Flags::ECE.with(Flags::CWR));
    server.gets_segment(&asks).forget();
    server.at(50.0).gets(". 1:1 ack 1 ect0").sends(&[]);
    server.at(51.0).gets(". 1:101 ack 1 ect0").sends(&[]);
    // Marks begin while an acknowledgement waits.
    server
        .at(52.0)
        .gets(". 101:201 ack 1 ce")
        .sends(&[". 1:1 ack 101 ect0", "E. 1:1 ack 201 ect0"]);
    server.at(53.0).gets(". 201:301 ack 1 ce").sends(&[]);
    // CWR does not change the state, but hurries, as in Linux.
    server.at(54.0).gets("W. 301:351 ack 1 ce").sends(&["E. 1:1 ack 351 ect0"]);
    server.at(54.5).gets(". 351:401 ack 1 ce").sends(&[]);
    server
        .at(55.0)
        .gets(". 401:501 ack 1 ect0")
        .sends(&["E. 1:1 ack 401 ect0", ". 1:1 ack 501 ect0"]);
    // Nothing waits: only the new state is reported.
    server.at(56.0).gets(". 501:601 ack 1 ce").sends(&["E. 1:1 ack 601 ect0"]);
    server.at(57.0).gets(". 601:701 ack 1 ect0").sends(&[". 1:1 ack 701 ect0"]);
}

/// The same with Accurate ECN, as in Linux 7.3 (`dctcp_ece_ack_update`): what was not acknowledged is
/// acknowledged first. Both acknowledgements already count the new mark.
#[test]
fn with_accurate_ecn_a_change_of_marks_acknowledges_what_waits_first() {
    let acks = AckPolicy::Delayed(Span::from_ms(500));
    let config = Config { acks, receive_autotuning: false, accurate_ecn: true, ..dctcp() };
    let mut server = Script::server(&config);
    let asks = syn(&server, None, Flags::AE.with(Flags::ECE).with(Flags::CWR));
    server.gets_segment(&asks).forget();
    server.at(50.0).gets("A. 1:1 ack 1 ect0").sends(&[]);
    server.at(51.0).gets("EA. 1:101 ack 1 ect0").sends(&[]);
    server
        .at(52.0)
        .gets("EA. 101:201 ack 1 ce")
        .sends(&["WA. 1:1 ack 101 ect0", "WA. 1:1 ack 201 ect0"]);
    server.at(53.0).gets("EA. 201:301 ack 1 ce").sends(&[]);
    server
        .at(54.0)
        .gets("EA. 301:401 ack 1 ect0")
        .sends(&["EWA. 1:1 ack 301 ect0", "EWA. 1:1 ack 401 ect0"]);
    // Nothing waits.
    server.at(55.0).gets("EA. 401:501 ack 1 ce").sends(&[". 1:1 ack 501 ect0"]);
}

/// RFC 8257, 3.3: from alpha = 1, the first marked window halves the window; when few segments are
/// marked later, it falls by little.
#[test]
fn rfc8257_3_3_the_window_falls_by_half_of_alpha() {
    let mut client = client(&Config { acks: AckPolicy::EverySegment, ..dctcp() }, Flags::ECE);
    client.write_forever().forget();
    let (mut acked, mut at) = (1, 100.0);
    let mut round = |client: &mut Script, marked: bool| {
        let before = client.endpoint.cwnd();
        for n in 0..before {
            acked += MSS;
            at += 0.01;
            let flags = if marked && n == 0 { "E." } else { "." };
            client.at(at).gets(&format!("{flags} 1:1 ack {acked}")).forget();
        }
        at += 50.0;
        (before, client.endpoint.cwnd())
    };
    assert_eq!(round(&mut client, false), (10, 20));
    let (before, after) = round(&mut client, true);
    // One of the window's segments is marked: alpha is 15/16 and a bit.
    assert!((before / 2..=before / 2 + 2).contains(&after), "{before} {after}");
    for _ in 0..60 {
        round(&mut client, false);
    }
    let (before, after) = round(&mut client, true);
    assert!(before > 60 && after.abs_diff(before) <= 2, "alpha is 0 by now: {before} {after}");
    assert_eq!(client.endpoint.counters().ecn_reductions, 2);
}

#[test]
fn classic_recovery_is_refused() {
    let ns_2 = Config::profile("ns-2").expect("listed");
    let config = Config { congestion: Congestion::Dctcp, ..ns_2 };
    assert_eq!(config.check().map_err(|error| error.key().to_owned()), Err("congestion".into()));
    assert_eq!(dctcp().check(), Ok(()));
}

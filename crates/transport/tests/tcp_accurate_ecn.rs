//! Accurate ECN (RFC 9768), rule by rule: the handshake, the counters, and what the sender makes of
//! them.

use crate::tcp_pipe::{Path, Pipe};
use crate::tcp_script::{MSS, Script, linux, show, stamp};
use narrows_transport::tcp::{
    AccurateEcn, AckPolicy, Config, Congestion, EcnBytes, EcnControl, Flags, Order, Segment, Seq,
    SynOptions,
};
use narrows_units::{Ecn, Span, Time};

const FLAGS: [Flags; 3] = [Flags::AE, Flags::CWR, Flags::ECE];
/// The payload of a full segment with timestamps and the AccECN option.
const LESS: u32 = MSS - 12;

fn accurate() -> Config {
    Config { accurate_ecn: true, ..linux() }
}

/// AE, CWR and ECE as a number of three bits.
fn ace(bits: u8) -> Flags {
    FLAGS.iter().zip([4, 2, 1]).fold(
        Flags(0),
        |all, (&flag, bit)| {
            if bits & bit != 0 { all.with(flag) } else { all }
        },
    )
}

fn read_ace(segment: &Segment) -> u8 {
    FLAGS
        .iter()
        .zip([4, 2, 1])
        .map(|(&f, bit)| if segment.flags.contains(f) { bit } else { 0 })
        .sum()
}

/// A SYN (`ack`: none) or SYN-ACK of the other end.
fn syn(script: &Script, ack: Option<u32>, bits: u8, ecn: Ecn) -> Segment {
    let kind = if ack.is_some() { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
    let options =
        SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, fast_open: None };
    Segment {
        ack: Seq(ack.unwrap_or(0)),
        window: 65_535,
        flags: kind.with(ace(bits)),
        ecn,
        timestamps: Some((stamp(script.now), 0)),
        syn: Some(options),
        ..Segment::default()
    }
}

/// A segment of the other end, whose SYN had number 0.
fn segment(script: &Script, (seq, len, ack): (u32, u32, u32), bits: u8, ecn: Ecn) -> Segment {
    Segment {
        seq: Seq(seq),
        len: len as u16,
        ack: Seq(ack),
        window: 32_768,
        flags: Flags::ACK.with(ace(bits)),
        ecn,
        timestamps: Some((stamp(script.now), stamp(script.now))),
        ..Segment::default()
    }
}

/// A client that uses Accurate ECN.
fn client(config: &Config) -> Script {
    let mut client = Script::client(config);
    client.connect().sends(&["SEWA 0:0"]);
    let answer = syn(&client, Some(1), 0b010, Ecn::NotEct);
    client.at(50.0).gets_segment(&answer).sends(&["W. 1:1 ack 1 ect0"]);
    client
}

/// A server that uses Accurate ECN.
fn server(config: &Config) -> Script {
    let mut server = Script::server(config);
    let asks = syn(&server, None, 0b111, Ecn::NotEct);
    server.gets_segment(&asks).sends(&["SW. 0:0 ack 1"]);
    let third = segment(&server, (1, 0, 1), 0b010, Ecn::Ect0);
    server.at(50.0).gets_segment(&third).sends(&[]);
    assert!(server.endpoint.ecn_negotiated());
    server
}

const CODES: [(Ecn, u8); 4] =
    [(Ecn::NotEct, 0b010), (Ecn::Ect1, 0b011), (Ecn::Ect0, 0b100), (Ecn::Ce, 0b110)];

/// RFC 9768, table 2: the SYN-ACK says how the SYN arrived; servers of other kinds answer as they
/// know.
#[test]
fn rfc9768_table_2_a_syn_ack_says_how_the_syn_arrived() {
    for (arrived, code) in CODES {
        let mut server = Script::server(&accurate());
        let asks = syn(&server, None, 0b111, arrived);
        server.gets_segment(&asks);
        let answer = server.take_sent()[0].1;
        assert_eq!(read_ace(&answer), code, "{arrived:?}");
        assert_eq!((answer.ecn, answer.accurate), (Ecn::NotEct, Some(AccurateEcn::INITIAL)));
        assert_eq!(answer.header_bytes(), 52);
    }
    // A server that knows only RFC 3168, and a client that asks only for RFC 3168 or for nothing.
    for (config, asks, answer) in [
        (Config { ecn: true, ..linux() }, 0b111, "SE. 0:0 ack 1"),
        (linux(), 0b111, "SE. 0:0 ack 1"),
        (accurate(), 0b011, "SE. 0:0 ack 1"),
        (accurate(), 0b000, "S. 0:0 ack 1"),
    ] {
        let mut server = Script::server(&config);
        let asks = syn(&server, None, asks, Ecn::NotEct);
        server.gets_segment(&asks).sends(&[answer]);
    }
}

/// The same table on the client's side: 001 and 101 mean RFC 3168; 000 and a reflected 111, no ECN.
#[test]
fn rfc9768_table_2_a_client_falls_back_to_what_the_server_knows() {
    for (answer, negotiated, third) in [
        (0b010, true, "W. 1:1 ack 1 ect0"),
        (0b011, true, "W. 1:1 ack 1 ect0"),
        (0b100, true, "W. 1:1 ack 1 ect0"),
        (0b110, true, "W. 1:1 ack 1 ect0"),
        (0b001, true, ". 1:1 ack 1"),
        (0b000, false, ". 1:1 ack 1"),
        (0b111, false, ". 1:1 ack 1"),
    ] {
        let mut client = Script::client(&accurate());
        client.connect().forget();
        let segment = syn(&client, Some(1), answer, Ecn::NotEct);
        client.at(50.0).gets_segment(&segment).sends(&[third]);
        assert_eq!(client.endpoint.ecn_negotiated(), negotiated, "{answer:03b}");
        client.write(5000);
        let data = client.take_sent()[0].1;
        assert_eq!(data.ecn.is_capable(), negotiated, "{answer:03b}");
        let counts = third.starts_with('W');
        assert_eq!(u32::from(data.len), if counts { LESS } else { MSS });
        // The payload is shorter by the option, so that the packet has the same length.
        assert_eq!(u32::from(data.header_bytes()) + u32::from(data.len), 1480);
        assert_eq!(read_ace(&data), if counts { 5 } else { 0 });
    }
}

/// Table 3: the third segment says how the SYN-ACK arrived; a mark counts.
#[test]
fn rfc9768_table_3_the_third_segment_says_how_the_syn_ack_arrived() {
    for (arrived, code) in CODES {
        let mut client = Script::client(&accurate());
        client.connect().forget();
        let answer = syn(&client, Some(1), 0b010, arrived);
        client.at(50.0).gets_segment(&answer);
        assert_eq!(read_ace(&client.take_sent()[0].1), code, "{arrived:?}");
        client.write(100);
        let counter = if arrived == Ecn::Ce { 6 } else { 5 };
        assert_eq!(read_ace(&client.take_sent()[0].1), counter, "the counter, from 5 on");
    }
}

/// Table 4: what a server makes of the third segment. 000 means that the path clears the flags: it
/// sends no ECT then.
#[test]
fn rfc9768_table_4_a_cleared_third_segment_ends_ect() {
    for (code, data, window) in [
        (0b000, "EA. 1:1437 ack 1", 10),
        (0b001, "EA. 1:1437 ack 1 ect0", 10),
        (0b010, "EA. 1:1437 ack 1 ect0", 10),
        (0b100, "EA. 1:1437 ack 1 ect0", 10),
        (0b110, "EA. 1:1437 ack 1 ect0", 1),
        (0b111, "EA. 1:1437 ack 1 ect0", 10),
    ] {
        let mut server = Script::server(&accurate());
        let asks = syn(&server, None, 0b111, Ecn::NotEct);
        server.gets_segment(&asks).forget();
        let third = segment(&server, (1, 0, 1), code, Ecn::NotEct);
        server.at(50.0).gets_segment(&third).write(5000);
        assert_eq!(server.endpoint.cwnd(), window, "{code:03b}");
        let first = server.take_sent()[0].1;
        // The counter starts from 5: AE and ECE.
        assert_eq!(show(&first), data, "{code:03b}");
        assert_eq!(server.endpoint.counters().ecn_reductions, 0);
    }
}

/// 3.2.2.1: if the third segment is lost, data come first, with the counter and not the code.
#[test]
fn data_in_place_of_the_third_segment_carry_the_counter() {
    let mut server = Script::server(&accurate());
    let asks = syn(&server, None, 0b111, Ecn::NotEct);
    server.gets_segment(&asks).forget();
    let data = segment(&server, (1, 1000, 1), 0b101, Ecn::Ect0);
    server.at(50.0).gets_segment(&data).forget();
    server.write(20 * u64::from(LESS)).forget();
    let ack = segment(&server, (1001, 0, 1 + LESS), 0b101, Ecn::Ect0);
    server.at(100.0).gets_segment(&ack);
    assert_eq!(server.endpoint.counters().marks_reported, 0);
}

/// 3.2.2 and 3.2.3: the receiver counts packets, from 5 on and modulo 8, and bytes by codepoint.
#[test]
fn a_receiver_counts_packets_and_bytes() {
    let mut server = server(&Config { acks: AckPolicy::EverySegment, ..accurate() });
    let (mut ce, mut ect0) = (0, 1);
    for n in 0..20 {
        let arrived = if n % 3 == 0 { Ecn::Ect0 } else { Ecn::Ce };
        let data = segment(&server, (1 + 1000 * n, 1000, 1), 0b101, arrived);
        server.at(60.0 + f64::from(n)).gets_segment(&data);
        if arrived == Ecn::Ce {
            ce += 1;
        } else {
            ect0 += 1000;
        }
        let [(_, ack)] = server.take_sent()[..] else { panic!("one acknowledgement") };
        assert_eq!(read_ace(&ack), (5 + ce) as u8 % 8, "{n}");
        let option = ack.accurate.expect("the option is on every segment");
        assert_eq!((option.order(), option.fields()), (Order::Zero, &[ect0, 1000 * ce, 1][..]));
        assert_eq!(ack.header_bytes(), 44);
    }
    assert_eq!(server.endpoint.counters().marks_received, u64::from(ce));
    // CWR is a bit of the counter: nothing else happens.
    let data = segment(&server, (20_001, 1000, 1), 0b111, Ecn::Ect1);
    server.at(90.0).gets_segment(&data);
    let ack = server.take_sent()[0].1;
    assert_eq!(ack.accurate.map(|option| option.order()), Some(Order::One), "ECT(1) has arrived");
}

/// 3.2.2.5.1: a mark after data without one is reported at once, and so is every second mark while
/// data wait for an acknowledgement. Linux also reports the end of marks at once.
#[test]
fn rfc9768_3_2_2_5_1_marks_hurry() {
    let delayed = AckPolicy::Delayed(Span::from_ms(500));
    let mut server = server(&Config { acks: delayed, receive_autotuning: false, ..accurate() });
    let mut sent = Vec::new();
    for (n, arrived) in [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect0].into_iter().enumerate() {
        let n = n as u32;
        let data = segment(&server, (1 + 200 * n, 200, 1), 0b101, arrived);
        server.at(60.0 + f64::from(n)).gets_segment(&data);
        sent.push(server.take_sent().len());
    }
    // The first mark begins a row, the third is the second that nobody knows of; then they end.
    assert_eq!(sent, [0, 1, 0, 1, 1]);
}

/// A bare acknowledgement that is marked is not acknowledged before the third: two ends must not
/// answer each other forever.
#[test]
fn marked_acknowledgements_are_answered_by_the_third() {
    let mut client = client(&accurate());
    client.write(10 * u64::from(LESS)).forget();
    let mut answers = Vec::new();
    for n in 1..=6 {
        let ack = segment(&client, (1, 0, 1 + n * LESS), 0b101, Ecn::Ce);
        client.at(100.0 + f64::from(n)).gets_segment(&ack);
        answers.push(client.take_sent().len());
    }
    assert_eq!(answers, [0, 0, 1, 0, 0, 1]);
}

/// A sender reduces its window once for all marks of a round trip, and sends no CWR: that is a bit
/// of the counter.
#[test]
fn marks_reduce_the_window_once_a_round_trip() {
    let mut client = client(&Config { congestion: Congestion::Reno, ..accurate() });
    client.write_forever().forget();
    for (n, bits) in [5, 6, 7, 7, 0, 0].into_iter().enumerate() {
        let n = n as u32 + 1;
        let ack = segment(&client, (1, 0, 1 + n * LESS), bits, Ecn::NotEct);
        client.at(100.0 + f64::from(n)).gets_segment(&ack);
        let ect =
            client.take_sent().iter().all(|(_, sent)| sent.ecn == Ecn::Ect0 && read_ace(sent) == 5);
        assert!(ect, "nothing but the counter");
    }
    let counters = client.endpoint.counters();
    assert_eq!((counters.marks_reported, counters.ecn_reductions), (3, 1));
    assert_eq!(client.endpoint.ssthresh(), Some(5), "half of 11, of which one is acknowledged");
}

/// 3.2.2.5: acknowledgements get lost, and those that remain are overtaken by later ones: every
/// mark is counted once.
#[test]
fn counts_survive_lost_and_reordered_acknowledgements() {
    let jitter = Span::from_ms(5);
    for (seed, jitter) in [(1, Span::ZERO), (2, jitter), (14, jitter), (15, jitter)] {
        let path = Path { ack_loss: 0.3, mark: 0.05, jitter, ..Path::lossless(Span::from_ms(40)) };
        let mut pipe = Pipe::new(&accurate(), path, seed);
        pipe.write(3000 * u64::from(LESS));
        pipe.run(Time::ZERO + Span::from_secs(200), |_, _| {});
        assert!(pipe.ends[0].all_acked());
        let [reported, received] = pipe.ends.each_ref().map(|end| end.counters());
        // The last marks may be on acknowledgements that are lost. A wrong wrap would be 8 marks.
        assert!(received.marks_received > 100);
        let missed = received.marks_received.checked_sub(reported.marks_reported);
        assert!(missed.is_some_and(|missed| missed < 8), "{seed}: {missed:?}");
        assert!(reported.marked_bytes_reported > 100 * u64::from(LESS));
    }
}

/// SACK blocks leave room for two counters, or for none: then one block makes room if a counter has
/// changed.
#[test]
fn the_option_shares_the_room_with_sack_blocks() {
    let mut server = server(&Config { acks: AckPolicy::EverySegment, ..accurate() });
    let (mut lengths, mut blocks) = (Vec::new(), Vec::new());
    let arrivals = [(1001, Ecn::Ect0), (3001, Ecn::Ect0), (5001, Ecn::Ect0), (7001, Ecn::NotEct)];
    for (n, (at, arrived)) in arrivals.into_iter().enumerate() {
        let data = segment(&server, (at, 1000, 1), 0b101, arrived);
        server.at(60.0 + n as f64).gets_segment(&data);
        let [(_, ack)] = server.take_sent()[..] else { panic!("one acknowledgement") };
        assert!(ack.header_bytes() <= 60);
        lengths.push(ack.accurate.map(|option| option.fields().len()));
        blocks.push(ack.sack.len());
    }
    // The last has changed no counter.
    assert_eq!(blocks, [1, 2, 2, 3]);
    assert_eq!(lengths, [Some(3), Some(2), Some(2), None]);
}

#[test]
fn accurate_ecn_goes_with_ecn_plus_plus_and_without_a_handshake() {
    let config = Config { ecn_control: EcnControl::PlusPlus, ..accurate() };
    assert_eq!(config.check(), Ok(()));
    let mut client = Script::client(&config);
    client.connect().sends(&["SEWA 0:0 ect0"]);
    let answer = syn(&client, Some(1), 0b100, Ecn::Ect0);
    client.at(50.0).gets_segment(&answer).sends(&["A. 1:1 ack 1 ect0"]);
    let mut server = Script::server(&config);
    let asks = syn(&server, None, 0b111, Ecn::Ect0);
    server.gets_segment(&asks).sends(&["SA. 0:0 ack 1 ect0"]);

    let mut client = Script::client(&Config { skip_handshake: true, ..accurate() });
    client.connect().write(100).sends(&["PEA. 1:101 ack 1 ect0"]);

    let key = |config: Config| config.check().map_err(|error| error.key().to_owned());
    let syn_ack = Config { ecn_control: EcnControl::SynAck, ..accurate() };
    assert_eq!(key(syn_ack), Err("ecn_control".to_owned()));
    let ns_2 = Config::profile("ns-2").expect("listed");
    assert_eq!(key(Config { accurate_ecn: true, ..ns_2 }), Err("accurate_ecn".to_owned()));
}

/// Prague sends ECT(1) on every segment, and only over Accurate ECN: otherwise it is Reno with
/// ECT(0), or without ECN.
#[test]
fn prague_sends_ect1_over_accurate_ecn_alone() {
    let prague = Config { congestion: Congestion::Prague, ..linux() };
    assert_eq!(prague.check(), Ok(()));
    for (answer, third, data) in [
        (0b010, "W. 1:1 ack 1 ect1", "PEA. 1:101 ack 1 ect1"),
        (0b001, ". 1:1 ack 1", "P. 1:101 ack 1 ect0"),
        (0b000, ". 1:1 ack 1", "P. 1:101 ack 1"),
    ] {
        let mut client = Script::client(&prague);
        client.connect().sends(&["SEWA 0:0 ect1"]);
        let answer = syn(&client, Some(1), answer, Ecn::NotEct);
        client.at(50.0).gets_segment(&answer).sends(&[third]);
        client.write(100).sends(&[data]);
    }
    let mut server = Script::server(&prague);
    let asks = syn(&server, None, 0b111, Ecn::Ect1);
    server.gets_segment(&asks).sends(&["SEW. 0:0 ack 1 ect1"]);
}

/// The option's counters wrap at 2^24 bytes, of which a long transfer has more.
#[test]
fn byte_counters_wrap_in_a_long_transfer() {
    let path = Path { mark: 0.3, ..Path::lossless(Span::from_ms(10)) };
    let config = Config { acks: AckPolicy::EverySegment, ..accurate() };
    let mut pipe = Pipe::new(&config, path, 5);
    pipe.write(50_000_000);
    pipe.run(Time::ZERO + Span::from_secs(600), |_, _| {});
    let bytes = pipe.ends[0].counters().marked_bytes_reported;
    assert!(pipe.ends[0].all_acked() && bytes > 1 << 23, "{bytes}");
    let all = EcnBytes { ce: bytes as u32, ..EcnBytes::INITIAL };
    assert_eq!(AccurateEcn::new(Order::Zero, all, 2).fields()[1], bytes as u32 & 0xff_ffff);
}

/// RFC 9768, 3.1.4.1, and Linux 7.3: the first repeated SYN asks again, the next does not. DCTCP's are
/// all ECN-capable.
#[test]
fn a_client_asks_for_accurate_ecn_twice() {
    for (config, ect) in [
        (accurate(), ""),
        (Config { congestion: Congestion::Dctcp, ..accurate() }, " ect0"),
        (Config { ecn_control: EcnControl::PlusPlus, ..accurate() }, ""),
    ] {
        let mut client = Script::client(&config);
        client.connect().forget().at(5000.0);
        let asks = format!("SEWA 0:0{ect}");
        client.sends(&[&asks, &format!("S 0:0{ect}")]);
    }
}

/// Linux 7.3: after a timeout, further SYN-ACKs say nothing of ECN, and from the second one on, or
/// after a SYN that no longer asks, data are not ECN-capable.
#[test]
fn a_server_gives_up_accurate_ecn_if_it_repeats_its_syn_ack() {
    let dctcp = Config { congestion: Congestion::Dctcp, ..accurate() };
    for (config, ect) in [(accurate(), ""), (dctcp, " ect0")] {
        // Timeouts, then SYNs; SYN-ACKs that answer, and then those that do not.
        for (timeouts, again, (answers, silent), capable) in [
            (0, &[][..], (0, 0), true),
            (1, &[], (1, 0), true),
            (2, &[], (1, 1), false),
            (0, &[0b111], (1, 0), true),
            (0, &[0b111, 0b111], (2, 0), false),
            (1, &[0b111], (1, 1), false),
            (0, &[0b000], (1, 0), false),
        ] {
            let mut server = Script::server(&config);
            let asks = syn(&server, None, 0b111, Ecn::NotEct);
            server.gets_segment(&asks).forget();
            let mut at_ms = [300.0, 1500.0, 3500.0][timeouts];
            for &bits in again {
                server.at(at_ms);
                let repeated = syn(&server, None, bits, Ecn::NotEct);
                server.gets_segment(&repeated);
                at_ms += 600.0;
            }
            server.at(at_ms);
            let said = ["SW. 0:0 ack 1", "S. 0:0 ack 1"].map(|said| format!("{said}{ect}"));
            let sent: Vec<String> = server.take_sent().iter().map(|(_, it)| show(it)).collect();
            let expected = [vec![said[0].clone(); answers], vec![said[1].clone(); silent]].concat();
            assert_eq!(sent, expected, "{timeouts} timeouts, then {again:?}");
            let third = segment(&server, (1, 0, 1), 0b010, Ecn::Ect0);
            server.gets_segment(&third).write(1000);
            let data: Vec<_> = server.take_sent().iter().map(|(_, it)| it.ecn).collect();
            let wanted = if capable { Ecn::Ect0 } else { Ecn::NotEct };
            assert_eq!(data, [wanted], "{timeouts} timeouts, then {again:?}");
        }
    }
}

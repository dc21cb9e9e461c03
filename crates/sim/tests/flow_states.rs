//! Windows, round trips, rates and states of connections over time.

use crate::common::{
    Dialogue, SERVER, busy_plan, dumbbell, fingerprint, kept, numbers, on_off, pfifo, run, send,
    table, texts,
};
use narrows_sim::plan::dns::{client, exchange, server};
use narrows_sim::plan::{Draw, FlowMonitor, LinkChange, Plan};
use narrows_sim::{Simulation, quic, tcp, tls};
use narrows_units::{Bytes, Span, Time};

const SEGMENT: f64 = 1448.0;

fn sampled(plan: Plan, group: &str, interval: Span) -> Plan {
    Plan { flow_monitor: Some(FlowMonitor { groups: vec![group.into()], interval }), ..plan }
}

fn column(simulation: &Simulation, name: &str) -> Vec<f64> {
    numbers(&table(simulation, "flow_states"), name)
}

/// A download over a path of 60 ms whose links are fast: in slow start the window doubles in every
/// round trip, and the whole window is in flight between two of them. No acknowledgement is delayed.
/// The handshake takes one round trip, so it is open at the second sample.
fn slow_start() -> Plan {
    let mut plan = dumbbell(1, 100, pfifo(10_000));
    plan.tcp[0].acks = tcp::AckPolicy::EverySegment;
    plan.tcp[0].congestion = tcp::Congestion::Reno;
    plan.tcp[0].receive_buffer = Bytes::new(64_000_000);
    plan
}

#[test]
fn a_window_doubles_in_every_round_trip() {
    let interval = Span::from_ms(59);
    let simulation = run(Plan {
        end: Time::ZERO + Span::from_ms(240),
        ..sampled(slow_start(), "flows", interval)
    });
    let states = table(&simulation, "flow_states");
    assert_eq!(numbers(&states, "t_s"), [0.118, 0.177, 0.236]);
    let windows = [10.0, 20.0, 40.0].map(|segments| segments * SEGMENT);
    assert_eq!(numbers(&states, "cwnd_bytes"), windows);
    assert_eq!(numbers(&states, "in_flight_bytes"), windows);
    assert_eq!(numbers(&states, "segment_bytes"), [SEGMENT; 3]);
    assert!(numbers(&states, "ssthresh_bytes").iter().all(|bytes| bytes.is_nan()));
    assert_eq!(texts(&states, "state"), ["slow-start"; 3]);
    assert_eq!(numbers(&states, "retransmissions"), [0.0; 3]);
    // Half a round trip after they were sent, the segments of a window have all arrived.
    let goodputs = windows.map(|bytes| 8.0 * bytes / 0.059);
    assert_eq!(numbers(&states, "goodput_bit_per_s"), goodputs);
    // `tcp_update_pacing_rate`: twice the window in a round trip. SYN and SYN-ACK take 60 ms, and
    // less than 0.1 ms for their bytes.
    let (srtt, rate) = (numbers(&states, "srtt_ms"), numbers(&states, "pacing_bit_per_s"));
    assert!((60.0..60.1).contains(&numbers(&states, "min_rtt_ms")[0]));
    for ((window, srtt), rate) in windows.iter().zip(srtt).zip(rate) {
        assert!((60.0..61.5).contains(&srtt), "{srtt}");
        assert!((rate / (2.0 * 8.0 * window / srtt * 1e3) - 1.0).abs() < 1e-4, "{rate} {srtt}");
    }
    assert_eq!(texts(&states, "group"), ["flows"; 3]);
    assert_eq!(texts(&states, "name"), ["flow 0"; 3]);
    assert_eq!(numbers(&states, "connection"), [0.0; 3]);
}

/// `tcp_min_rtt_wlen`: a path gets 40 ms longer after 10 s, and 300 s after the handshake, its shorter
/// round trip counts no more.
#[test]
fn the_shortest_round_trip_is_forgotten_after_300_seconds() {
    let mut plan = sampled(slow_start(), "flows", Span::from_secs(1));
    plan.tcp[0].receive_buffer = Bytes::new(4_000);
    let delay = Some(plan.links[0].delay + Span::from_ms(40));
    let at = Time::ZERO + Span::from_secs(10);
    let rate = plan.links[0].rate;
    plan.changes.push(LinkChange { at, link: 0, rate, delay, ..LinkChange::default() });
    plan.end = Time::ZERO + Span::from_secs(310);
    let simulation = run(plan);
    let (times, shortest) = (column(&simulation, "t_s"), column(&simulation, "min_rtt_ms"));
    assert_eq!(times.len(), 310);
    for (time, shortest) in times.into_iter().zip(shortest) {
        let expected = if time <= 300.0 { 60.0 } else { 100.0 };
        assert!((expected..expected + 0.5).contains(&shortest), "{time} s: {shortest} ms");
    }
}

/// A sample at the end of the run says what `flows` says, and goodputs add up to what arrived.
#[test]
fn the_last_sample_is_what_the_table_of_flows_has() {
    let mut plan = sampled(busy_plan(), "flows", Span::from_ms(100));
    plan.end = Time::ZERO + Span::from_secs(8);
    let simulation = run(plan);
    let (flows, states) = (table(&simulation, "flows"), table(&simulation, "flow_states"));
    let times = numbers(&states, "t_s");
    let last: Vec<usize> = (0..times.len()).filter(|&row| times[row] == 8.0).collect();
    assert_eq!(last.len(), 12);
    let names = texts(&states, "name");
    for (number, &row) in last.iter().enumerate() {
        assert_eq!(names[row], texts(&flows, "name")[number]);
        let of_flow = |name: &str| numbers(&flows, name)[number];
        let of_sample = |name: &str| numbers(&states, name)[row];
        let window = of_sample("cwnd_bytes") / of_sample("segment_bytes");
        assert_eq!(window, of_flow("cwnd_segments"));
        assert_eq!(of_sample("srtt_ms"), of_flow("srtt_ms"));
        assert_eq!(of_sample("min_rtt_ms"), of_flow("min_rtt_ms"));
        assert_eq!(of_sample("retransmissions"), of_flow("segments_retransmitted"));
        let own = (0..times.len()).filter(|&other| names[other] == names[row]);
        let goodputs = numbers(&states, "goodput_bit_per_s");
        let bytes: f64 = own.map(|other| goodputs[other] * 0.1 / 8.0).sum();
        assert!((bytes - of_flow("bytes_received")).abs() < 1e-3, "{bytes}");
    }
    let words = texts(&states, "state");
    for word in ["slow-start", "avoidance", "recovery", "cwr"] {
        assert!(words.contains(&word), "nothing was in {word}");
    }
}

#[test]
fn samples_change_no_other_table_and_no_event() {
    let others = |simulation: &Simulation| {
        let mut tables = simulation.tables();
        tables.retain(|table| table.name != "flow_states");
        format!("{tables:#?}")
    };
    let mut bursts = dumbbell(9, 20, pfifo(40));
    on_off(&mut bursts, 64);
    for (plan, group) in [(busy_plan(), "flows"), (bursts, "flows"), (over_quic(), "dns")] {
        let without = run(plan.clone());
        assert!(table(&without, "flow_states").columns[0].1.is_empty());
        for every in [Span::from_us(3700), Span::from_ms(100), Span::from_secs(1000)] {
            let with = run(sampled(plan.clone(), group, every));
            assert_eq!(with.events(), without.events());
            assert_eq!(others(&with), others(&without));
            let again = run(sampled(plan.clone(), group, every));
            assert_eq!(fingerprint(&with), fingerprint(&again));
        }
    }
}

/// A connection counts from its handshake to its close.
#[test]
fn a_closed_connection_has_no_samples() {
    let mut plan = slow_start();
    let burst = Draw::Constant(Bytes::new(10_000));
    send(&mut plan, &burst, &Draw::Constant(Span::ZERO), Some(1));
    let simulation = run(sampled(plan, "flows", Span::from_ms(10)));
    let times = column(&simulation, "t_s");
    let flows = table(&simulation, "flows");
    let (open, closed) = (numbers(&flows, "established_s")[0], numbers(&flows, "end_s")[0]);
    let expected = (1..100).map(|tick| f64::from(tick) / 100.0);
    assert_eq!(times, expected.filter(|&at| at >= open && at < closed).collect::<Vec<_>>());
}

/// A client that asks three queries over one connection, with replies of 20 segments.
fn over_tcp() -> Dialogue {
    let mut dialogue = Dialogue::new();
    dialogue.asking().reuse = kept();
    dialogue.client.sizes = exchange::Sizes::fixed(40, 30_000);
    dialogue
}

fn over_quic() -> Plan {
    let client = tls::Client {
        hello: 225,
        pads_hello: true,
        key_share: 32,
        alpn: 3,
        apart: false,
        resume: false,
        early_data: false,
        close_notify: false,
    };
    let mut dialogue = over_tcp();
    let (padding, quic) = (None, Some(quic::Config::default()));
    dialogue.asking().tls =
        Some(client::Tls { handshake: client, padding, https: None, quic, http3: None });
    dialogue.serving().tls = Some(server::Tls {
        handshake: SERVER,
        padding,
        extra_service: None,
        https: None,
        quic,
        http3: None,
    });
    dialogue.plan()
}

/// Of connections with messages, the server is sampled.
#[test]
fn servers_are_sampled_over_tcp_and_quic() {
    for (mut plan, segment) in [(over_tcp().plan(), 1448.0), (over_quic(), 1200.0)] {
        plan.end = Time::ZERO + Span::from_secs(5);
        let name = plan.applications[0].name.clone();
        let simulation = run(sampled(plan, &name, Span::from_ms(10)));
        let states = table(&simulation, "flow_states");
        let goodputs = numbers(&states, "goodput_bit_per_s");
        let bytes: f64 = goodputs.iter().map(|rate| rate * 0.01 / 8.0).sum();
        // Each reply has a length of two bytes before it (RFC 1035, 4.2.2; RFC 9250, 4.2).
        assert!((bytes - 3.0 * 30_002.0).abs() < 1e-3, "{bytes}");
        assert!(numbers(&states, "connection").iter().all(|&number| number == 0.0));
        assert!(texts(&states, "name").iter().all(|name| name.is_empty()));
        assert_eq!(numbers(&states, "segment_bytes")[0], segment);
        assert!(texts(&states, "state").iter().all(|state| *state == "slow-start"));
        let shortest = numbers(&states, "min_rtt_ms");
        assert!(shortest[shortest.len() - 1] > 40.0);
        // A reply of 20 segments is longer than the first window, which therefore grows.
        let windows = numbers(&states, "cwnd_bytes");
        assert!(windows[0] <= 10.0 * segment && windows[windows.len() - 1] > 15.0 * segment);
        let in_flight = numbers(&states, "in_flight_bytes");
        assert!(in_flight.iter().zip(&windows).all(|(flight, window)| flight <= window));
        assert!(in_flight.iter().any(|&bytes| bytes > 9.0 * segment));
    }
}

/// Connections that come and go get numbers of their own, also if they share a number of the
/// simulator.
#[test]
fn each_connection_has_its_own_number() {
    let mut dialogue = over_tcp();
    dialogue.asking().reuse = client::Reuse::Never;
    let plan = dialogue.plan();
    let name = plan.applications[0].name.clone();
    let simulation = run(sampled(plan, &name, Span::from_ms(10)));
    let mut numbers = column(&simulation, "connection");
    assert!(numbers.is_sorted());
    numbers.dedup();
    assert_eq!(numbers, [0.0, 1.0, 2.0]);
}

#[test]
fn an_unknown_group_and_an_interval_of_zero_are_refused() {
    let refused = |group: &str, interval| {
        let plan = sampled(dumbbell(1, 10, pfifo(10)), group, interval);
        Simulation::new(plan).map(|_| ()).expect_err("a rule is broken").to_string()
    };
    assert_eq!(
        refused("flow", Span::from_ms(1)),
        "flow_monitor.groups[0]: no application has this name"
    );
    assert_eq!(refused("flows", Span::ZERO), "flow_monitor.interval: must be above zero");
}

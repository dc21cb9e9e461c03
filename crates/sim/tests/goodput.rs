//! What groups of TCP connections deliver over time.

use crate::common::{
    add_resolvers, busy_plan, connections, dumbbell, numbers, on_off, pfifo, run, send, table,
    texts,
};
use narrows_sim::plan::{Draw, Plan};
use narrows_sim::{Simulation, Stopped};
use narrows_units::{Bytes, Span, Time};

/// The times of a group's samples and the bytes delivered by then.
fn delivered(simulation: &Simulation, group: &str, direction: &str) -> Vec<(f64, f64)> {
    let rows = table(simulation, "goodput");
    let (times, bytes) = (numbers(&rows, "t_s"), numbers(&rows, "bytes_received"));
    let (groups, directions) = (texts(&rows, "group"), texts(&rows, "direction"));
    let wanted = groups.iter().zip(&directions).map(|found| found == (&group, &direction));
    let samples = times.into_iter().zip(bytes).zip(wanted);
    samples.filter_map(|(sample, wanted)| wanted.then_some(sample)).collect()
}

fn sampled(mut plan: Plan, every: Span) -> Plan {
    plan.goodput_interval = Some(every);
    plan
}

#[test]
fn a_bulk_flow_delivers_at_the_rate_of_its_bottleneck() {
    // A queue that never overflows in this time, and never runs empty once the window is open.
    let simulation = run(sampled(dumbbell(1, 10, pfifo(100_000)), Span::from_ms(100)));
    let samples = delivered(&simulation, "flows", "forward");
    assert_eq!(samples.len(), 200);
    // 1448 payload bytes in 1538 on the wire.
    let expected = 10e6 / 8.0 * 0.1 * 1448.0 / 1538.0;
    for pair in samples.windows(2).filter(|pair| pair[0].0 > 1.0) {
        let gained = pair[1].1 - pair[0].1;
        assert!((gained - expected).abs() <= 1448.0, "{} s: {gained}, {expected}", pair[1].0);
    }
}

#[test]
fn the_last_sample_is_what_the_connections_received() {
    let mut plan = busy_plan();
    plan.end = Time::ZERO + Span::from_us(7_654_321);
    let simulation = run(sampled(plan, Span::from_ms(300)));
    let samples = delivered(&simulation, "flows", "forward");
    let received: f64 = numbers(&table(&simulation, "flows"), "bytes_received").iter().sum();
    // 25 whole intervals, and the rest until the end.
    assert_eq!(samples.len(), 26);
    assert_eq!(samples.last(), Some(&(7.654321, received)));
    assert!(samples.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    // DNS over UDP delivers nothing over TCP.
    assert!(delivered(&simulation, "dns", "forward").is_empty());
}

#[test]
fn samples_change_no_other_table_and_no_event() {
    let others = |simulation: &Simulation| {
        let mut tables = simulation.tables();
        tables.retain(|table| table.name != "goodput");
        format!("{tables:#?}")
    };
    let mut bursts = dumbbell(9, 20, pfifo(40));
    on_off(&mut bursts, 64);
    for plan in [busy_plan(), bursts] {
        let without = run(Plan { goodput_interval: None, ..plan.clone() });
        assert!(table(&without, "goodput").columns[0].1.is_empty());
        for every in [Span::from_us(37), Span::from_ms(100), Span::from_secs(1000)] {
            let with = run(sampled(plan.clone(), every));
            assert_eq!(with.events(), without.events());
            assert_eq!(others(&with), others(&without));
        }
    }
}

/// A handshake on an empty path, then a segment behind the handshake's acknowledgement.
#[test]
fn a_sample_counts_what_arrives_at_its_time() {
    let mut plan = dumbbell(1, 10, pfifo(100));
    plan.tcp[0].timestamps = false;
    let burst = Draw::Constant(Bytes::new(1000));
    send(&mut plan, &burst, &Draw::Constant(Span::ZERO), Some(1));
    // Frames cross links of 100, 10 and 100 Mbit/s, with 30 ms of delay.
    let crossing = |frame: u64| Span::from_ns(frame * 8 * (10 + 100 + 10)) + Span::from_ms(30);
    // SYN and SYN-ACK have 12 bytes of options. The acknowledgement has Ethernet's least length.
    let handshake = crossing(52 + 38) + crossing(52 + 38);
    let arrives = handshake + Span::from_ns(84 * 8 * 10) + crossing(1000 + 40 + 38);
    let before = Span::from_ps(arrives.as_ps() - 1);
    for (every, expected) in [(arrives, 1000.0), (before, 0.0)] {
        let simulation = run(sampled(plan.clone(), every));
        assert_eq!(delivered(&simulation, "flows", "forward")[0].1, expected);
    }
}

#[test]
fn uploads_and_downloads_of_a_group_are_apart() {
    let mut plan = dumbbell(3, 10, pfifo(60));
    for connection in connections(&mut plan).into_iter().skip(2) {
        // The reverse of the first connection.
        (connection.there, connection.back) = (1, 0);
    }
    let simulation = run(sampled(plan, Span::from_secs(1)));
    let received = numbers(&table(&simulation, "flows"), "bytes_received");
    let last = |direction| delivered(&simulation, "flows", direction).last().map(|sample| sample.1);
    assert_eq!(last("forward"), Some(received[0] + received[1]));
    assert_eq!(last("backward"), Some(received[2]));
    assert!(received[2] > 0.0);
}

#[test]
fn a_run_that_ends_early_is_sampled_at_its_end() {
    let mut plan = dumbbell(1, 10, pfifo(60));
    add_resolvers(&mut plan, 1, 5);
    plan.end_when_done = true;
    let simulation = run(sampled(plan, Span::from_secs(1)));
    assert_eq!(simulation.stopped(), Stopped::Done);
    let samples = delivered(&simulation, "flows", "forward");
    let received = numbers(&table(&simulation, "flows"), "bytes_received")[0];
    assert_eq!(samples.last(), Some(&(simulation.now().as_secs_f64(), received)));
}

#[test]
fn an_interval_of_zero_is_refused() {
    let error = sampled(dumbbell(1, 10, pfifo(60)), Span::ZERO).check().expect_err("refused");
    assert_eq!(error.to_string(), "goodput_interval: must be above zero");
}

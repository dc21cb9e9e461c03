//! Streams of datagrams and probes: their rates, and closed forms of the delays that they meet.

use crate::common::{ETHERNET, dumbbell, fingerprint, numbers, on_off, pfifo, run, table};
use narrows_sim::plan::{
    Application, Draw, Framing, Kind, Plan, Stream, ping, trace,
    udp::{self, Spacing},
};
use narrows_sim::table::{Column, Table};
use narrows_sim::{Simulation, Stopped};
use narrows_units::{Rate, Span, Time};

const S: u64 = 1_000_000_000_000;

/// A dumbbell of 10 Mbit/s without traffic, for `seconds`.
fn quiet(pairs: usize, queue: u32, seconds: u64) -> Plan {
    let mut plan = dumbbell(pairs, 10, pfifo(queue));
    plan.applications.clear();
    plan.end = Time::ZERO + Span::from_secs(seconds);
    plan
}

/// The path of pair 0, from left to right.
fn stream() -> Stream {
    Stream { name: "stream".into(), there: 0, back: 1, start: Time::ZERO, stop: None }
}

fn constant(bps: u64) -> udp::Udp {
    udp::Udp {
        streams: vec![stream()],
        packet_bytes: 1000,
        rate: Rate::from_bps(bps).expect("not zero"),
        spacing: Spacing::Even,
        on_off: None,
        ecn: udp::Codepoint::NotEct,
        packets: None,
        period: Span::from_secs(1),
    }
}

fn probes(interval: Span, spacing: Spacing) -> ping::Ping {
    ping::Ping { streams: vec![stream()], packet_bytes: 84, interval, spacing, probes: None }
}

fn add(plan: &mut Plan, name: &str, kind: Kind) {
    plan.applications.push(Application { name: name.into(), kind });
}

fn sum(table: &Table, column: &str) -> f64 {
    numbers(table, column).iter().sum()
}

fn texts(table: &Table, name: &str) -> Vec<String> {
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Text(values))) => values.iter().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

fn refusal(plan: Plan) -> String {
    Simulation::new(plan).expect_err("the plan is not sound").to_string()
}

#[test]
fn a_constant_stream_sends_its_rate_and_meets_the_delay_of_the_path() {
    let mut plan = quiet(1, 100, 10);
    add(&mut plan, "udp", Kind::Udp(constant(2_000_000)));
    let simulation = run(plan);
    let rows = table(&simulation, "streams");
    // 2 Mbit/s in packets of 8000 bits: 250 a second.
    let sent = numbers(&rows, "sent_packets");
    assert_eq!(sent[..10], [250.0; 10]);
    assert_eq!(numbers(&rows, "sent_bytes")[..10], [250_000.0; 10]);
    assert_eq!(sum(&rows, "lost_packets") + sum(&rows, "reordered_packets"), 0.0);
    // 1038 bytes over 100, 10 and 100 Mbit/s; 30 ms.
    let expected_ms = 1038.0 * 8.0 * (2.0 / 100e6 + 1.0 / 10e6) * 1e3 + 30.0;
    for column in ["delay_min_ms", "delay_mean_ms", "delay_max_ms"] {
        assert!((numbers(&rows, column)[3] - expected_ms).abs() < 1e-6);
    }
    assert!(numbers(&rows, "jitter_ms")[..10].iter().all(|&jitter| jitter < 1e-6));
}

#[test]
fn what_is_sent_is_received_or_lost_or_under_way() {
    // 20 Mbit/s into 10 Mbit/s, of which framing leaves 10 x 1000 / 1038 Mbit/s.
    let mut plan = quiet(1, 50, 20);
    let mut stream = constant(20_000_000);
    stream.streams[0].stop = Some(Time::ZERO + Span::from_secs(19));
    add(&mut plan, "udp", Kind::Udp(stream));
    let simulation = run(plan);
    let rows = table(&simulation, "streams");
    let [sent, received, lost] =
        ["sent_packets", "received_packets", "lost_packets"].map(|column| numbers(&rows, column));
    assert_eq!(sent.len(), 19);
    for row in 0..19 {
        assert_eq!(sent[row], 2500.0);
        assert_eq!(sent[row], received[row] + lost[row]);
    }
    let expected = 10e6 / 8.0 / 1038.0;
    assert!((received[10] - expected).abs() <= 1.0, "{} {expected}", received[10]);
}

#[test]
fn on_times_share_the_rate_however_short_they_are() {
    // One packet's time is 4 ms; on and off times are 3 and 9 ms on average: a quarter of 2 Mbit/s.
    let exponential = |ms| Draw::Exponential { mean: Span::from_ms(ms) };
    let settings = [
        (Draw::Constant(Span::from_ms(3)), Draw::Constant(Span::from_ms(9)), 0.002),
        (exponential(3), exponential(9), 0.03),
    ];
    for (on, off, within) in settings {
        let mut plan = quiet(1, 100, 400);
        let mut stream = constant(2_000_000);
        stream.on_off = Some(udp::OnOff { on, off });
        add(&mut plan, "udp", Kind::Udp(stream));
        let sent = sum(&table(&run(plan), "streams"), "sent_packets");
        let expected = 250.0 * 400.0 / 4.0;
        assert!((sent / expected - 1.0).abs() < within, "{sent} {expected}");
    }
}

#[test]
fn a_poisson_stream_has_its_rate_and_its_variance() {
    let mut plan = quiet(1, 10_000, 1000);
    let mut stream = constant(2_000_000);
    stream.spacing = Spacing::Poisson;
    add(&mut plan, "udp", Kind::Udp(stream));
    let counts = numbers(&table(&run(plan), "streams"), "sent_packets");
    let counts = &counts[..1000];
    let mean = counts.iter().sum::<f64>() / 1000.0;
    let variance = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / 999.0;
    // 250 a second: five standard errors of the mean, sqrt(250 / 1000), and of the variance,
    // 250 x sqrt(2 / 999).
    assert!((mean - 250.0).abs() < 5.0 * 0.5, "{mean}");
    assert!((variance - 250.0).abs() < 5.0 * 11.2, "{variance}");
}

#[test]
fn probes_at_poisson_times_meet_the_waiting_time_of_an_m_d_1_queue() {
    // Pollaczek and Khinchine: a load of rho has a mean wait of rho / (2 (1 - rho)) services.
    // Packets and probes of 1000 bytes; the first link is fast, so that packets come as they are
    // sent. Half of the load is the probes' own, and none of it is framing.
    for rho in [0.5, 0.8] {
        let mut plan = quiet(1, 100_000, 1000);
        for link in &mut plan.links {
            link.framing = Framing { overhead: 0, min: 0, ..ETHERNET };
        }
        for link in &mut plan.links[1..] {
            link.rate = Rate::from_bps(1_000_000_000_000).expect("not zero");
        }
        let mut load = constant((rho * 5e6) as u64);
        load.spacing = Spacing::Poisson;
        add(&mut plan, "load", Kind::Udp(load));
        let service_ms = 0.8;
        let mut probing =
            probes(Span::from_secs_f64(service_ms / 1e3 / (rho / 2.0)), Spacing::Poisson);
        probing.packet_bytes = 1000;
        probing.streams[0].name = "another".into();
        add(&mut plan, "ping", Kind::Ping(probing));
        let simulation = run(plan);
        let rtts: Vec<f64> = numbers(&table(&simulation, "pings"), "rtt_ms");
        let answered: Vec<f64> = rtts.into_iter().filter(|rtt| rtt.is_finite()).collect();
        let mean = answered.iter().sum::<f64>() / answered.len() as f64;
        let wait = mean - 60.0 - service_ms;
        let expected = service_ms * rho / (2.0 * (1.0 - rho));
        assert!(answered.len() > 300_000);
        assert!((wait / expected - 1.0).abs() < 0.03, "load {rho}: {wait} ms, {expected} ms");
    }
}

#[test]
fn every_probe_is_a_row_with_its_round_trip_or_where_it_was_lost() {
    let mut plan = quiet(1, 100, 10);
    // Pair 0's links: in.forward 2, in.backward 3.
    plan.links[2].loss = 0.2.into();
    plan.links[3].loss = 0.3.into();
    let mut probing = probes(Span::from_ms(10), Spacing::Even);
    probing.probes = Some(900);
    add(&mut plan, "ping", Kind::Ping(probing));
    let rows = table(&run(plan), "pings");
    let (fates, lost_at) = (texts(&rows, "fate"), texts(&rows, "lost_at"));
    let (sent, rtts) = (numbers(&rows, "sent_s"), numbers(&rows, "rtt_ms"));
    // 84 + 38 bytes each way.
    let expected_ms = 2.0 * (122.0 * 8.0 * (2.0 / 100e6 + 1.0 / 10e6) * 1e3 + 30.0);
    let mut counts = [0.0_f64; 3];
    assert_eq!(fates.len(), 900);
    for row in 0..900 {
        assert!((sent[row] - 0.01 * row as f64).abs() < 1e-9);
        let (fate, place) = match fates[row].as_str() {
            "answered" => (0, ""),
            "probe-lost" => (1, "in.forward0"),
            "answer-lost" => (2, "in.backward0"),
            other => panic!("{other}"),
        };
        assert_eq!(lost_at[row], place);
        assert_eq!(fate == 0, (rtts[row] - expected_ms).abs() < 1e-6);
        counts[fate] += 1.0 / 900.0;
    }
    // Five standard errors of a share of 900: at most 0.083.
    for (share, expected) in counts.into_iter().zip([0.8 * 0.7, 0.2, 0.8 * 0.3]) {
        assert!((share - expected).abs() < 0.083, "{share} {expected}");
    }
}

#[test]
fn a_trace_is_sent_as_it_is_listed_and_again() {
    let mut plan = quiet(1, 100, 10);
    let packets = [(0, 100), (500, 1500), (500, 28), (1200, 700)];
    let list = packets.map(|(ms, bytes)| (Span::from_ms(ms), bytes)).to_vec();
    let settings = trace::Trace {
        streams: vec![Stream { start: Time::ZERO + Span::from_secs(1), ..stream() }],
        packets: list,
        repeat_after: Some(Span::from_secs(4)),
        period: Span::from_secs(1),
    };
    add(&mut plan, "trace", Kind::Trace(settings.clone()));
    let rows = table(&run(plan.clone()), "streams");
    assert_eq!(numbers(&rows, "t_s"), [1.0, 2.0, 5.0, 6.0, 9.0]);
    assert_eq!(numbers(&rows, "sent_packets"), [3.0, 1.0, 3.0, 1.0, 3.0]);
    assert_eq!(numbers(&rows, "sent_bytes"), [1628.0, 700.0, 1628.0, 700.0, 1628.0]);
    let once = trace::Trace { repeat_after: None, ..settings.clone() };
    plan.applications[0].kind = Kind::Trace(once);
    assert_eq!(sum(&table(&run(plan.clone()), "streams"), "sent_packets"), 4.0);
    let falling = trace::Trace {
        packets: vec![(Span::from_ms(2), 100), (Span::from_ms(1), 100)],
        ..settings
    };
    plan.applications[0].kind = Kind::Trace(falling);
    assert_eq!(refusal(plan), "trace: packets: times must not fall");
}

#[test]
fn a_packet_that_another_overtakes_is_counted() {
    let mut plan = quiet(1, 100, 2);
    // The path gets 10 ms shorter at 1 s. Packets are 4 ms apart, so the first on the shorter path
    // overtakes two.
    plan.changes.push(narrows_sim::plan::LinkChange {
        at: Time::from_ps(S),
        link: 0,
        rate: plan.links[0].rate,
        delay: Some(Span::from_ms(10)),
        ..narrows_sim::plan::LinkChange::default()
    });
    add(&mut plan, "udp", Kind::Udp(constant(2_000_000)));
    assert_eq!(sum(&table(&run(plan), "streams"), "reordered_packets"), 2.0);
}

#[test]
fn shortcuts_change_no_result_and_a_million_packets_a_second_meet_the_event_limit() {
    let mut plan = dumbbell(4, 10, pfifo(60));
    on_off(&mut plan, 40);
    let mut stream = constant(3_000_000);
    stream.spacing = Spacing::Poisson;
    stream.on_off = Some(udp::OnOff {
        on: Draw::Exponential { mean: Span::from_ms(200) },
        off: Draw::Pareto { mean: Span::from_ms(200), shape: 1.5 },
    });
    add(&mut plan, "udp", Kind::Udp(stream));
    add(&mut plan, "ping", Kind::Ping(probes(Span::from_ms(20), Spacing::Poisson)));
    let mut plain = plan.clone();
    plain.modes.collapse = false;
    assert_eq!(fingerprint(&run(plan)), fingerprint(&run(plain)));

    let mut plan = quiet(1, 100, 1000);
    plan.event_limit = 100_000;
    add(&mut plan, "udp", Kind::Udp(constant(8_000_000_000)));
    assert_eq!(run(plan).stopped(), Stopped::EventLimit);
}

#[test]
fn impossible_settings_are_refused_by_name() {
    let refused = |kind: Kind| {
        let mut plan = quiet(1, 100, 1000);
        add(&mut plan, "group", kind);
        refusal(plan)
    };
    let udp = |change: &dyn Fn(&mut udp::Udp)| {
        let mut settings = constant(1_000_000);
        change(&mut settings);
        refused(Kind::Udp(settings))
    };
    assert_eq!(udp(&|udp| udp.packet_bytes = 27), "group: packet_bytes: must be at least 28");
    assert_eq!(
        udp(&|udp| udp.period = Span::from_us(1)),
        "group: period: 1000000001 rows are more than the limit of 10000000"
    );
    assert_eq!(
        udp(&|udp| {
            let never = Draw::Constant(Span::from_ps(1));
            udp.on_off = Some(udp::OnOff { on: never.clone(), off: never });
        }),
        "group: on: is below a thousandth of the time between packets"
    );
    assert_eq!(
        refused(Kind::Ping(probes(Span::from_us(10), Spacing::Even))),
        "group: interval: 100000001 probes are more than the limit of 10000000"
    );
}

/// A bottleneck that follows a trace.
fn traced(ms: Vec<u32>, queue: narrows_sim::plan::Queue) -> Plan {
    let mut plan = quiet(1, 1000, 20);
    for link in &mut plan.links {
        link.framing = Framing { overhead: 0, min: 0, ..ETHERNET };
    }
    plan.links[0].opportunities_ms = Some(ms);
    plan.links[0].queue = queue;
    plan
}

#[test]
fn a_link_that_follows_a_trace_sends_1500_bytes_at_each_of_its_moments() {
    // There are four opportunities every 20 ms: 300 kB a second. Packets of 500 bytes share them,
    // and what exceeds this rate is lost.
    let ms = vec![3, 6, 9, 20];
    let mut plan = traced(ms, pfifo(30));
    let mut stream = constant(8_000_000);
    stream.packet_bytes = 500;
    add(&mut plan, "udp", Kind::Udp(stream));
    let simulation = run(plan);
    let rows = table(&simulation, "streams");
    let received = numbers(&rows, "received_bytes");
    for second in &received[2..18] {
        assert!((second - 4.0 * 1500.0 * 50.0).abs() <= 4500.0, "{second}");
    }
    assert!(sum(&rows, "lost_packets") > 0.0);
}

#[test]
fn an_idle_link_that_follows_a_trace_lets_a_packet_wait_for_its_next_moment() {
    // A probe every 10 ms, an opportunity every 7 ms: the waits are spread evenly over 0 to 7 ms.
    let mut plan = traced(vec![7], pfifo(30));
    add(&mut plan, "ping", Kind::Ping(probes(Span::from_ms(10), Spacing::Even)));
    let rows = table(&run(plan), "pings");
    let there = numbers(&rows, "there_ms");
    let own_ms = 30.0 + 2.0 * 84.0 * 8.0 / 100e6 * 1e3;
    let (mut shortest, mut longest) = (f64::MAX, 0.0_f64);
    for wait_ms in there.iter().filter(|there| there.is_finite()).map(|there| there - own_ms) {
        (shortest, longest) = (shortest.min(wait_ms), longest.max(wait_ms));
    }
    assert!((0.0..1.0).contains(&shortest) && (6.0..7.0).contains(&longest));
}

#[test]
fn a_link_that_follows_a_trace_gives_the_same_in_both_modes_and_without_shortcuts() {
    let ms = vec![1, 2, 3, 3, 3, 9, 40, 41, 41, 42];
    for scheduled in [false, true] {
        let mut plan = dumbbell(4, 10, pfifo(60));
        on_off(&mut plan, 40);
        plan.links[0].opportunities_ms = Some(ms.clone());
        plan.links[1].opportunities_ms = Some(ms.clone());
        add(&mut plan, "udp", Kind::Udp(constant(500_000)));
        let mut plain = plan.clone();
        plan.modes.scheduled = if scheduled { vec![0, 1] } else { Vec::new() };
        plain.modes.collapse = false;
        assert_eq!(fingerprint(&run(plan)), fingerprint(&run(plain)));
    }
}

#[test]
fn impossible_traces_of_links_are_refused_by_name() {
    let refused = |ms: Vec<u32>| refusal(traced(ms, pfifo(30)));
    let name = "bottleneck.forward: opportunities_ms: ";
    assert_eq!(refused(Vec::new()), format!("{name}must last for some time"));
    assert_eq!(refused(vec![0, 0]), format!("{name}must last for some time"));
    assert_eq!(refused(vec![2, 1]), format!("{name}must not fall"));
    assert_eq!(refused(vec![1; 1_300_000]), format!("{name}has too many in one millisecond"));
    let mut plan = traced(vec![1], pfifo(30));
    plan.changes.push(narrows_sim::plan::LinkChange {
        at: Time::from_ps(S),
        link: 0,
        rate: plan.links[0].rate,
        ..narrows_sim::plan::LinkChange::default()
    });
    assert_eq!(refusal(plan), "changes[0]: bottleneck.forward follows a trace");
}

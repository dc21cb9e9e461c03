//! One-way delays: closed forms, captures at both ends, and the counters of other tables.

use crate::common;

use common::{
    add_resolvers, busy_plan, dumbbell, fingerprint, numbers, on_off, pfifo, run, table, texts,
};
use narrows_qdisc::codel;
use narrows_sim::Simulation;
use narrows_sim::plan::{
    Application, Capture, Kind, Middlebox, OneWayMonitor, Plan, Queue, Stream,
    udp::{self, Spacing},
};
use narrows_units::{Rate, Span, Time};

fn monitor(groups: &[&str]) -> Option<OneWayMonitor> {
    Some(OneWayMonitor {
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        flows: true,
        packets: true,
        from: Time::ZERO,
        to: Time::MAX,
    })
}

/// A stream of datagrams of 1000 bytes over a dumbbell of 10 Mbit/s with nothing else.
fn stream(bps: u64, seconds: u64, queue: Queue) -> Plan {
    let mut plan = dumbbell(1, 10, queue);
    plan.end = Time::ZERO + Span::from_secs(seconds);
    let stream = Stream { name: "stream".into(), there: 0, back: 1, start: Time::ZERO, stop: None };
    let kind = Kind::Udp(udp::Udp {
        streams: vec![stream],
        packet_bytes: 1000,
        rate: Rate::from_bps(bps).expect("not zero"),
        spacing: Spacing::Even,
        on_off: None,
        ecn: udp::Codepoint::NotEct,
        packets: None,
        period: Span::from_secs(1),
    });
    plan.applications = vec![Application { name: "stream".into(), kind }];
    plan.one_way_monitor = monitor(&["stream"]);
    plan
}

/// The sum of a column of `delays` over the rows of groups, or of flows.
fn total(simulation: &Simulation, column: &str, of_flows: bool) -> f64 {
    let delays = table(simulation, "delays");
    let values = numbers(&delays, column);
    let rows = texts(&delays, "flow").into_iter().zip(values);
    rows.filter(|(flow, _)| flow.is_empty() != of_flows).map(|(_, value)| value).sum()
}

#[test]
fn a_packet_alone_takes_its_transmissions_and_delays() {
    // 8 packets a second. Each has 1038 bytes on wires of 100, 10 and 100 Mbit/s, which delay it by
    // 5, 20 and 5 ms.
    let expected = 30.0 + 8.0 * 1038.0 * (1.0 / 100e6 + 1.0 / 10e6 + 1.0 / 100e6) * 1e3;
    for collapse in [true, false] {
        let mut plan = stream(64_000, 10, pfifo(1000));
        plan.modes.collapse = collapse;
        let done = run(plan);
        let delays = table(&done, "delays");
        assert_eq!(texts(&delays, "direction"), ["there", "there"]);
        assert_eq!(texts(&delays, "flow"), ["", "0"]);
        // The last one is sent as the run ends.
        assert_eq!(numbers(&delays, "sent_packets"), [81.0, 81.0]);
        assert_eq!(numbers(&delays, "arrived_packets"), [80.0, 80.0]);
        let packets = table(&done, "packet_delays");
        let fates = texts(&packets, "fate");
        assert!(fates[..80].iter().all(|fate| *fate == "arrived") && fates[80] == "under-way");
        for &ms in &numbers(&packets, "delay_ms")[..80] {
            // A picosecond is 1e-9 ms.
            assert!((ms - expected).abs() < 1.5e-9, "{ms} and not {expected}");
        }
        for column in ["delay_mean_ms", "delay_max_ms"] {
            // Histograms count nanoseconds.
            assert!((numbers(&delays, column)[0] - expected).abs() < 1.5e-6);
        }
        assert!((numbers(&delays, "delay_p9999_ms")[0] / expected - 1.0).abs() < 0.01);
    }
}

#[test]
fn packets_that_queue_take_as_long_as_the_queue_is() {
    // 20 Mbit/s into 10: the backlog grows to 50 packets of 1038 bytes, behind the one that is being
    // sent. The rest is lost.
    let done = run(stream(20_000_000, 10, pfifo(50)));
    let wire = 8.0 * 1038.0 / 10e6 * 1e3;
    let longest = numbers(&table(&done, "delays"), "delay_max_ms")[0];
    let least = 30.0 + 1.2 * wire;
    assert!(longest <= least + 50.0 * wire && longest > least + 49.0 * wire, "{longest}");
    let [sent, arrived, lost] = ["sent_packets", "arrived_packets", "lost_packets"]
        .map(|column| total(&done, column, false));
    assert!(lost > 0.4 * sent, "{lost} of {sent}");
    // The last ones are under way.
    assert!((49.0..110.0).contains(&(sent - arrived - lost)));
    let fates = table(&done, "packet_delays");
    let count = |fate: &str| texts(&fates, "fate").iter().filter(|each| **each == fate).count();
    assert_eq!([count("arrived") as f64, count("lost") as f64], [arrived, lost]);
}

#[test]
fn only_packets_sent_within_the_window_count() {
    let mut plan = stream(80_000, 10, pfifo(50));
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    // One packet every 100 ms; those of 2.0 to 4.9 s.
    plan.one_way_monitor =
        plan.one_way_monitor.map(|it| OneWayMonitor { from: at(1950), to: at(4950), ..it });
    assert_eq!(total(&run(plan), "sent_packets", false), 30.0);
}

/// Downloads, bursts and DNS over CoDel, or the busy plan; with ECN and losses.
fn plans() -> Vec<(&'static str, Plan)> {
    let mut codel = dumbbell(5, 10, Queue::Codel(codel::Config::default()));
    codel.end = Time::ZERO + Span::from_secs(8);
    on_off(&mut codel, 20);
    add_resolvers(&mut codel, 10, 20);
    let mut busy = busy_plan();
    busy.end = Time::ZERO + Span::from_secs(8);
    let mut small_mtu = codel.clone();
    small_mtu.links[0].mtu = 1300;
    small_mtu.links[1].mtu = 1300;
    small_mtu.links[0].middlebox = Some(Middlebox { drop_fragments: true, ..Middlebox::default() });
    let plans = [("codel", codel), ("busy", busy), ("small MTU", small_mtu)];
    plans
        .into_iter()
        .map(|(name, mut plan)| {
            let mut groups: Vec<&str> =
                plan.applications.iter().map(|application| &*application.name).collect();
            groups.dedup();
            plan.one_way_monitor = monitor(&groups);
            (name, plan)
        })
        .collect()
}

#[test]
fn whoever_measures_changes_nothing_and_shortcuts_change_no_delay() {
    for (name, plan) in plans() {
        let done = run(plan.clone());
        let mut others = [plan.clone(), plan.clone(), plan.clone()];
        others[0].modes.collapse = false;
        others[1].modes.scheduled = (0..plan.links.len()).collect();
        others[2].modes.scheduled.push(0);
        for (number, other) in others.into_iter().enumerate() {
            assert!(fingerprint(&run(other)) == fingerprint(&done), "{name}: {number} differs");
        }
        let mut plain = plan.clone();
        plain.one_way_monitor = None;
        let mut tables = done.tables();
        tables.retain(|table| !table.name.contains("delay"));
        assert_eq!(format!("{:#?}", run(plain).tables()), format!("{tables:#?}"), "{name}");
    }
}

#[test]
fn delays_are_those_between_captures_at_both_ends() {
    let mut plan = dumbbell(4, 10, pfifo(10_000));
    plan.end = Time::ZERO + Span::from_secs(5);
    plan.applications.remove(0);
    plan.applications.extend(stream(1_000_000, 5, pfifo(1)).applications);
    plan.one_way_monitor = monitor(&["stream"]);
    for collapse in [true, false] {
        let mut plan = plan.clone();
        plan.modes.collapse = collapse;
        // What leaves on pair 0's first link, and what arrives on its last one.
        let leaving = Capture::of(2, "");
        let arriving = Capture { back: Some(4), ..Capture::of(5, "") };
        plan.captures = vec![leaving.clone(), arriving.clone()];
        let done = run(plan);
        let transmission = Span::from_ns(83_040);
        let sent: Vec<Time> = done.captured_by(&leaving).iter().map(|packet| packet.at).collect();
        let arrived = done.captured_by(&arriving);
        let arrived: Vec<Time> = arrived.iter().filter(|p| p.inbound).map(|p| p.at).collect();
        assert!(arrived.len() > 500 && sent.len() > arrived.len());
        let written = numbers(&table(&done, "packet_delays"), "delay_ms");
        for (at, (&sent, &arrived)) in sent.iter().zip(&arrived).enumerate() {
            let ps = (arrived.since(sent) + transmission).as_ps();
            assert_eq!((written[at] * 1e9).round() as u64, ps, "packet {at}");
        }
        assert_eq!(arrived.len() as f64, total(&done, "arrived_packets", false));
        assert!(written[arrived.len()..].iter().all(|ms| ms.is_nan()));
    }
}

#[test]
fn flows_add_up_to_their_groups_and_quantiles_are_exact_to_a_percent() {
    for (name, plan) in plans() {
        let done = run(plan);
        for column in ["sent_packets", "arrived_packets", "lost_packets"] {
            let (groups, flows) = (total(&done, column, false), total(&done, column, true));
            assert_eq!(groups, flows, "{name}: {column}");
        }
        let (delays, packets) = (table(&done, "delays"), table(&done, "packet_delays"));
        let keys = |table| {
            let [groups, flows, directions] =
                ["group", "flow", "direction"].map(|column| texts(table, column));
            let both = groups.into_iter().zip(flows).zip(directions);
            both.map(|((group, flow), direction)| (group, flow, direction)).collect::<Vec<_>>()
        };
        let (of_packets, all) = (keys(&packets), numbers(&packets, "delay_ms"));
        for (row, wanted) in keys(&delays).into_iter().enumerate() {
            let belongs = |&(group, flow, direction): &(&str, &str, &str)| {
                (group, direction) == (wanted.0, wanted.2)
                    && (wanted.1.is_empty() || flow == wanted.1)
            };
            let of_row = of_packets.iter().zip(&all).filter(|(key, _)| belongs(key));
            let mut times: Vec<f64> =
                of_row.map(|(_, &time)| time).filter(|time| !time.is_nan()).collect();
            times.sort_by(f64::total_cmp);
            assert_eq!(times.len() as f64, numbers(&delays, "arrived_packets")[row], "{wanted:?}");
            if times.is_empty() {
                continue;
            }
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            assert!((mean - numbers(&delays, "delay_mean_ms")[row]).abs() < 1.1e-6);
            for (share, column) in [
                (0.5, "delay_p50_ms"),
                (0.95, "delay_p95_ms"),
                (0.99, "delay_p99_ms"),
                (0.999, "delay_p999_ms"),
                (0.9999, "delay_p9999_ms"),
            ] {
                let place = (share * times.len() as f64).ceil() as usize - 1;
                let (exact, written) = (times[place], numbers(&delays, column)[row]);
                assert!(
                    (written / exact - 1.0).abs() < 0.01,
                    "{wanted:?} {column}: {written}, {exact}"
                );
            }
        }
    }
}

#[test]
fn groups_must_exist_and_come_once() {
    let refused = |groups: &[&str]| {
        let mut plan = stream(64_000, 1, pfifo(50));
        plan.one_way_monitor = monitor(groups);
        plan.check().expect_err("the groups are wrong").to_string()
    };
    assert_eq!(refused(&["web"]), "one_way_monitor.groups[0]: no application has this name");
    assert_eq!(
        refused(&["stream", "stream"]),
        "one_way_monitor.groups[1]: the same application again"
    );
}

//! Fragments, path MTU discovery and middleboxes.

use crate::common::{
    add_resolvers, connections, dumbbell, fingerprint, numbers, on_off, pfifo, resolvers, run,
    table,
};
use narrows_sim::Simulation;
use narrows_sim::captured::Frame;
use narrows_sim::plan::{Block, Capture, Kind, Middlebox, Plan, dns};
use narrows_sim::table::Column;
use narrows_units::{Span, Time};

fn texts(simulation: &Simulation, of: &str, name: &str) -> Vec<String> {
    let table = table(simulation, of);
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Text(values))) => values.iter().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

/// One resolver worker, whose replies in IP packets of `reply_bytes` cross links 2, 0 and 4.
fn asks(reply_bytes: u16) -> Plan {
    let mut plan = dumbbell(1, 10, pfifo(100));
    connections(&mut plan)[0].start = Time::ZERO + Span::from_secs(1000);
    add_resolvers(&mut plan, 1, 5);
    set_reply(&mut plan, reply_bytes);
    plan.end_when_done = true;
    plan
}

/// Sets the length of replies, as IP packets; nobody truncates them.
fn set_reply(plan: &mut Plan, reply_bytes: u16) {
    let client = resolvers(plan);
    client.sizes = dns::exchange::Sizes::fixed(42, (reply_bytes - 28).into());
    client.udp.as_mut().expect("it asks over UDP").payload = 65_507;
    for application in &mut plan.applications {
        if let Kind::DnsServer(server) = &mut application.kind {
            server.udp_payload = 65_507;
        }
    }
}

/// One connection that transfers a megabyte over links 2, 0 and 4.
fn transfers(limits: &[(usize, u16)]) -> Plan {
    let mut plan = dumbbell(1, 10, pfifo(1000));
    on_off(&mut plan, 700);
    for &(link, mtu) in limits {
        plan.links[link].mtu = mtu;
    }
    plan
}

fn received(simulation: &Simulation) -> f64 {
    numbers(&table(simulation, "flows"), "bytes_received")[0]
}

#[test]
fn a_long_reply_takes_as_long_as_its_fragments() {
    // 3500 bytes: fragments with 1480, 1480 and 520 bytes of payload. On the wire they have 1538,
    // 1538 and 578 bytes. Each leaves the bottleneck behind the one before it, and then finds the
    // faster link idle.
    let simulation = run(asks(3500));
    let at_bottleneck = (1538.0 + 1538.0 + 578.0) * 8.0 / 10e6;
    let back_ms = (1538.0 * 8.0 / 100e6 + at_bottleneck + 578.0 * 8.0 / 100e6) * 1e3;
    let there_ms = 108.0 * 8.0 * (2.0 / 100e6 + 1.0 / 10e6) * 1e3;
    let expected_ms = there_ms + back_ms + 60.0 + 0.2;
    let rtts = numbers(&table(&simulation, "queries"), "rtt_ms");
    assert!(rtts.len() >= 5);
    for rtt_ms in rtts {
        assert!((rtt_ms - expected_ms).abs() < 1e-6, "{rtt_ms} {expected_ms}");
    }
}

#[test]
fn a_lost_fragment_loses_the_reply() {
    // Each of three fragments is lost with probability 0.1, so 0.9^3 of the replies come.
    let mut plan = asks(4000);
    plan.links[0].loss = 0.1.into();
    let client = resolvers(&mut plan);
    (client.workers, client.queries) = (20, Some(100));
    plan.end = Time::ZERO + Span::from_secs(3000);
    let simulation = run(plan);
    let fates = texts(&simulation, "attempts", "fate");
    let of = |fate: &str| fates.iter().filter(|&other| other == fate).count() as f64;
    let (answered, lost) = (of("answered"), of("reply-lost"));
    assert_eq!(answered + lost, fates.len() as f64, "each query must have exactly one fate");
    let share = answered / fates.len() as f64;
    let sd = (0.729 * 0.271 / fates.len() as f64).sqrt();
    assert!((share - 0.729).abs() < 4.0 * sd, "{share}");
}

#[test]
fn middleboxes_drop_what_they_are_told_to_and_nothing_else() {
    let long = Middlebox { drop_dns_above: Some(512), ..Middlebox::default() };
    let fragments = Middlebox { drop_fragments: true, ..Middlebox::default() };
    // An IP packet of 540 bytes carries a message of 512.
    let cases = [
        (540, &long, ""),
        (541, &long, "middlebox-dns-length"),
        (4000, &long, "middlebox-dns-length"),
        (1500, &fragments, ""),
        (1501, &fragments, "middlebox-fragment"),
    ];
    for (reply_bytes, middlebox, reason) in cases {
        let mut plan = asks(reply_bytes);
        plan.links[0].middlebox = Some(middlebox.clone());
        let simulation = run(plan);
        let reasons = texts(&simulation, "attempts", "reason");
        assert!(reasons.iter().all(|other| other == reason), "{reply_bytes}: {reasons:?}");
    }
}

#[test]
fn segments_are_as_long_as_the_senders_own_link_takes() {
    let mut plan = transfers(&[(2, 1400)]);
    plan.captures = [0].map(|link| Capture::of(link, "")).to_vec();
    let simulation = run(plan);
    let longest = simulation.captured(0).into_iter().map(|packet| match packet.frame {
        Frame::Tcp(segment) => 20 + segment.header_bytes() + segment.len,
        Frame::Udp { .. } | Frame::TooBig { .. } | Frame::Arp { .. } => 0,
    });
    assert_eq!(longest.max(), Some(1400));
}

#[test]
fn a_router_tells_the_sender_what_a_later_link_takes() {
    let mut plan = transfers(&[(0, 1300)]);
    plan.captures = [0, 3].map(|link| Capture::of(link, "")).to_vec();
    let simulation = run(plan);
    assert!(received(&simulation) > 1e6, "{}", received(&simulation));
    let frames = |link| simulation.captured(link).into_iter().map(|packet| packet.frame);
    let reported = frames(3).filter_map(|frame| match frame {
        Frame::TooBig { mtu, ip_bytes, .. } => Some((mtu, ip_bytes)),
        _ => None,
    });
    // All ten segments of the initial window are too long: ten messages of 576 bytes (RFC 1812).
    assert_eq!(reported.collect::<Vec<_>>(), [(1300, 576); 10]);
    let longest = frames(0).filter_map(|frame| match frame {
        Frame::Tcp(segment) => Some(20 + segment.header_bytes() + segment.len),
        _ => None,
    });
    assert_eq!(longest.max(), Some(1300));
}

#[test]
fn without_the_routers_message_the_connection_stalls() {
    let mut plan = transfers(&[(0, 1300)]);
    plan.links[3].middlebox = Some(Middlebox { drop_too_big: true, ..Middlebox::default() });
    assert_eq!(received(&run(plan)), 0.0);
}

#[test]
fn tcp_to_port_53_is_another_matter_than_other_tcp() {
    for block in [Block::Drop, Block::Reject] {
        let mut plan = transfers(&[]);
        let middlebox = Middlebox { block_tcp_53: Some(block), ..Middlebox::default() };
        plan.links[0].middlebox = Some(middlebox);
        assert!(received(&run(plan)) > 1e6);
    }
}

#[test]
fn shortcuts_change_no_result() {
    let long = Middlebox { drop_dns_above: Some(2500), ..Middlebox::default() };
    for (mtu, middlebox, reply_bytes, connections) in [
        (576, None, 100, 4),
        (576, None, 100, 1),
        (1280, None, 100, 4),
        (1500, None, 3000, 4),
        (1500, Some(long.clone()), 3000, 4),
        (1280, Some(long), 3000, 4),
    ] {
        let mut plan = dumbbell(connections, 10, pfifo(40));
        on_off(&mut plan, 100);
        add_resolvers(&mut plan, 5, 20);
        set_reply(&mut plan, reply_bytes);
        plan.links[0].mtu = mtu;
        plan.links[4].middlebox = middlebox.clone();
        for (index, link) in plan.links.iter_mut().enumerate().skip(2) {
            link.delay = Span::from_us(700 * index as u64 + 13);
        }
        let mut plain = plan.clone();
        plain.modes.collapse = false;
        let (fast, plain) = (run(plan), run(plain));
        assert!(fast.events() <= plain.events());
        let same = fingerprint(&fast) == fingerprint(&plain);
        assert!(same, "mtu {mtu}, replies of {reply_bytes}, {middlebox:?}");
        assert!(received(&fast) > 1e5);
    }
}

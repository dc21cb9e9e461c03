//! What goes in comes out once, in time and in order; and what callers may do wrong.

use alloc::string::ToString;
use alloc::vec::Vec;

use narrows_qdisc::fifo::PfifoConfig;
use narrows_qdisc::traffic::Whim;
use narrows_qdisc::{AnyConfig, Random, cake, codel, red};
use narrows_units::{Rate, Span};

use super::*;
use crate::{GilbertElliott, Jitter, LinkState, Loss};

fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).expect("not zero")
}

/// 1000 bytes take a millisecond; the delay is 10 ms.
fn config(queue: impl Into<AnyConfig>) -> Config {
    Config {
        rate: rate(8_000_000),
        delay: Span::from_ms(10),
        queue: queue.into(),
        ..Config::default()
    }
}

fn packet(number: u32) -> Packet<u32> {
    Packet { bytes: 1000, payload: number, ..Packet::default() }
}

fn link(config: &Config, changes: &[Change]) -> Link<u32> {
    Link::new(config, changes, 1).expect("the settings are sound").report_losses()
}

/// Pops at each time that the link names, until nothing is left.
fn drain<T>(link: &mut Link<T>) -> Vec<Outcome<T>> {
    let mut out = Vec::new();
    while let Some(at) = link.next_at() {
        let before = out.len();
        while let Some(it) = link.pop(at) {
            assert_eq!(it.at, at, "nothing is due before the link says so");
            out.push(it);
        }
        assert!(out.len() > before || link.next_at().is_none_or(|next| next > at));
    }
    out
}

#[test]
fn a_burst_waits_in_the_queue_and_arrives_packet_by_packet() {
    let mut link = link(&config(PfifoConfig { limit: 3 }), &[]);
    for number in 0..5 {
        link.push(us(500), packet(number)).expect("it is sound");
    }
    assert_eq!(link.backlog(us(500)).packets, 3);
    // One is on the wire, three wait, and there is no room for the fifth.
    let out: Vec<_> =
        drain(&mut link).iter().map(|it| (it.packet.payload, it.at, it.fate)).collect();
    let dropped = (4, us(500), Fate::Dropped(DropReason::Overflow));
    let arrived = |number, at| (number, us(at), Fate::Arrived);
    let times = [11_500, 12_500, 13_500, 14_500];
    let expected = (0..).zip(times).map(|(number, at)| arrived(number, at));
    assert_eq!(out, [dropped].into_iter().chain(expected).collect::<Vec<_>>());
    assert_eq!((link.counters().pushed, link.counters().arrived), (5, 4));
    assert_eq!(link.counters().dropped, [1, 0, 0]);
}

#[test]
fn a_queue_that_decides_at_departure_drops_and_marks() {
    let codel = codel::Config { limit: 1000, ecn: true, ..codel::Config::default() };
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut link = link(&config(codel.clone()), &[]);
        let mut out = Vec::new();
        // Twice what the link carries, for a second.
        for number in 0..2000 {
            let at = us(500 * u64::from(number));
            while link.next_at().is_some_and(|due| due <= at) {
                out.extend(link.pop(at));
            }
            link.push(at, Packet { ecn, ..packet(number) }).expect("it is sound");
        }
        out.extend(drain(&mut link));
        let counters = link.counters();
        assert_eq!(out.len(), 2000);
        let dropped: u64 = counters.dropped.iter().sum();
        let marked = out.iter().filter(|it| it.packet.ecn == Ecn::Ce).count() as u64;
        assert_eq!(marked, counters.marked);
        assert!(if ecn == Ecn::NotEct { dropped > 10 } else { marked > 10 }, "{counters:?}");
        assert_eq!(dropped + counters.arrived, 2000);
    }
}

#[test]
fn a_washed_packet_has_no_code_point() {
    let queue = cake::Config { wash: true, ..cake::Config::default() };
    let mut link = link(&config(queue), &[]);
    link.push(us(0), Packet { dscp: 46, ecn: Ecn::Ect0, ..packet(1) }).expect("it is sound");
    let out = drain(&mut link);
    assert_eq!((out[0].packet.dscp, out[0].packet.ecn), (0, Ecn::Ect0));
}

/// Sends random bursts of several flows through a link. Returns what became of them.
fn random_traffic(config: &Config, changes: &[Change], seed: u64) -> Vec<Outcome<u32>> {
    let mut link = link(config, changes);
    let mut random = Random::new(seed, "traffic");
    let (mut at, mut out) = (Time::ZERO, Vec::new());
    for number in 0..3000 {
        if !random.bits().is_multiple_of(4) {
            at += random.exponential(Span::from_us(1_500));
        }
        while let Some(due) = link.next_at().filter(|&due| due <= at) {
            out.extend(link.pop(due));
        }
        let sent = Packet {
            bytes: 1 + random.bits() % 1500,
            flow: u64::from(random.bits() % 5),
            ecn: if random.bits().is_multiple_of(2) { Ecn::NotEct } else { Ecn::Ect0 },
            dscp: [0, 8, 46][random.bits() as usize % 3],
            protocol: if random.bits().is_multiple_of(2) { Protocol::Udp } else { Protocol::Tcp },
            ports: (53, 1000 + (random.bits() % 9) as u16),
            hosts: (random.bits() % 3, random.bits() % 3),
            payload: number,
        };
        link.push(at, sent).expect("it is sound");
    }
    out.extend(drain(&mut link));
    let counters = link.counters();
    assert_eq!(counters.pushed, 3000);
    let ends = counters.arrived + counters.dropped.iter().sum::<u64>() + counters.lost;
    assert_eq!((ends, out.len()), (3000, 3000), "{}", config.queue.name());
    assert_eq!(link.backlog(at + Span::from_secs(1000)).packets, 0);
    out
}

#[test]
fn every_packet_comes_out_once_from_every_queue() {
    for listed in AnyConfig::LISTED {
        let plain = config((listed.default)());
        let out = random_traffic(&plain, &[], 1);
        assert!(out.is_sorted_by_key(|it| it.at));
        assert!(out.iter().all(|it| it.at >= it.pushed_at));
        let mut numbers: Vec<u32> = out.iter().map(|it| it.packet.payload).collect();
        numbers.sort_unstable();
        assert!((0..3000).eq(numbers), "{}", listed.name);
        let same = random_traffic(&plain, &[], 1);
        assert_eq!(out, same, "{}", listed.name);
        let states = GilbertElliott { p: 0.02, r: Some(0.3), ..GilbertElliott::default() };
        let jitter = Jitter { deviation: Span::from_ms(4), ..Jitter::default() };
        let rough = Config { loss: Loss::Bursts { states }, jitter: Some(jitter), ..plain };
        let turn = |at, state| Change { at: us(at), state: Some(state), ..Change::default() };
        let changes = [
            turn(300_000, LinkState::Down),
            turn(400_000, LinkState::Up),
            Change { at: us(500_000), rate: Some(rate(3_000_000)), ..Change::default() },
        ];
        let out = random_traffic(&rough, &changes, 2);
        assert!(out.iter().any(|it| it.fate == Fate::Lost), "{}", listed.name);
    }
}

#[test]
fn decisions_at_arrival_come_to_the_same_with_an_event_for_each_departure() {
    let listed = AnyConfig::LISTED.iter().filter(|listed| listed.decides_at_enqueue);
    for queue in listed.map(|listed| (listed.default)()).chain([Whim::config(false)]) {
        let early = config(queue);
        let late = Config { scheduled: true, ..early.clone() };
        let sorted = |config| {
            let mut out = random_traffic(config, &[], 3);
            out.sort_by_key(|it| it.packet.payload);
            out
        };
        assert_eq!(sorted(&early), sorted(&late), "{}", early.queue.name());
    }
}

#[test]
fn a_link_that_follows_a_trace_sends_when_the_trace_says() {
    let ms = crate::trace::opportunities("5\n7\n").expect("it is a trace");
    let traced = Config { opportunities_ms: Some(ms), ..config(PfifoConfig::default()) };
    let mut traced = link(&traced, &[]);
    for number in 0..3 {
        traced.push(us(0), Packet { bytes: 1500, ..packet(number) }).expect("it is sound");
    }
    let ms: Vec<_> = drain(&mut traced).iter().map(|it| it.at.as_ps() / 1_000_000_000).collect();
    assert_eq!(ms, [15, 17, 22]);
    let table = crate::trace::rates("0,8e6\n0.0015,4e6\n").expect("it is a table");
    let mut changing = link(&config(PfifoConfig::default()), &table.changes());
    for number in 0..3 {
        changing.push(us(0), packet(number)).expect("it is sound");
    }
    let times: Vec<_> = drain(&mut changing).iter().map(|it| it.at).collect();
    assert_eq!(times, [11_000, 12_000, 14_000].map(us));
}

#[test]
fn a_link_that_stays_down_keeps_its_packets_for_ever() {
    let down = Change { at: us(0), state: Some(LinkState::Down), ..Change::default() };
    for scheduled in [false, true] {
        let config = Config { scheduled, ..config(PfifoConfig::default()) };
        let mut link = link(&config, core::slice::from_ref(&down));
        link.push(us(1), packet(0)).expect("it is sound");
        assert_eq!((link.next_at(), link.pop(Time::MAX)), (None, None));
        assert_eq!(link.counters().arrived, 0);
    }
}

#[test]
fn a_refused_packet_changes_nothing() {
    for queue in [AnyConfig::from(PfifoConfig::default()), codel::Config::default().into()] {
        let mut link = link(&config(queue), &[]);
        assert_eq!((link.next_at(), link.pop(us(700))), (None, None));
        let past = PushError::Past { now: us(700) };
        assert_eq!(link.push(us(699), packet(0)), Err(past));
        assert_eq!(past.to_string(), "the time is in the past; an earlier call had 0.0007 s");
        for bytes in [0, 65_536, u32::MAX] {
            let refused = link.push(us(700), Packet { bytes, ..packet(0) });
            assert_eq!(refused, Err(PushError::Length));
        }
        let refused = link.push(us(700), Packet { dscp: 64, ..packet(0) });
        assert_eq!(refused, Err(PushError::CodePoint));
        assert_eq!(link.push(Time::MAX, packet(0)), Err(PushError::Never));
        assert_eq!((link.counters(), link.next_at()), (Counters::default(), None));
        link.push(us(700), Packet { bytes: 65_535, ..packet(1) }).expect("IP has no longer one");
        // An earlier time of `pop` is no error, but brings nothing.
        assert_eq!(link.pop(us(3)), None);
        assert_eq!(drain(&mut link)[0].at, us(700 + 65_535 + 10_000));
        let late = Time::from_ps(u64::MAX - 1);
        link.push(late, packet(2)).expect("it is not the end of time");
        assert_eq!(link.pop(Time::MAX), None, "it would arrive after the end of time");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let base = || config(PfifoConfig::default());
    let red = red::linux::Config { probability: f64::NAN, ..red::linux::Config::example() };
    let states = GilbertElliott { p: 2.0, ..GilbertElliott::default() };
    let jitter = Jitter { correlation: -1.0, ..Jitter::default() };
    let cases = [
        (Config { loss: Loss::Each(f64::NAN), ..base() }, "loss"),
        (Config { loss: Loss::Each(1.5), ..base() }, "loss"),
        (Config { loss: Loss::Bursts { states }, ..base() }, "p"),
        (Config { jitter: Some(jitter), ..base() }, "jitter.correlation"),
        (Config { queue: red.into(), ..base() }, "queue.probability"),
        (Config { queue: PfifoConfig { limit: 0 }.into(), ..base() }, "queue.limit"),
        (Config { opportunities_ms: Some(Vec::new()), ..base() }, "opportunities_ms"),
        (Config { opportunities_ms: Some([5, 3].into()), ..base() }, "opportunities_ms"),
    ];
    for (config, key) in cases {
        let refused = Link::<()>::new(&config, &[], 1).expect_err(key);
        assert!(refused.key().ends_with(key), "{refused}");
    }
    let wrong = Change { loss: Some(Loss::Each(-0.1)), ..Change::default() };
    let refused = Link::<()>::new(&base(), &[wrong], 1).expect_err("it is negative");
    assert_eq!(refused.key(), "changes.loss");
}

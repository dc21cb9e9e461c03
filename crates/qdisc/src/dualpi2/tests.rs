use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use rand_core::Rng;

use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use crate::{DropReason::Early, DropReason::Forced, DropReason::Overflow};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// Settings under which the probability stays where a test sets it.
fn frozen() -> Config {
    Config { tupdate: Span::from_secs(1_000_000), limit: 1_000_000, ..Config::default() }
}

fn put(queue: &mut Dualpi2<TestPacket>, now: Time, ecn: Ecn, packets: u32) {
    for _ in 0..packets {
        let packet = TestPacket { ecn, bytes: 1500, ..TestPacket::default() };
        queue.enqueue(now, packet, &mut Vec::new());
    }
}

#[test]
fn it_obeys_the_laws_in_every_mode() {
    for bits in 0..16 {
        let [drop_on_overload, drop_enqueue, any_ect, packets] =
            [1, 2, 4, 8].map(|bit| bits & bit != 0);
        let config = Config {
            limit: 60,
            memlimit: any_ect.then_some(Bytes::new(60_000)),
            target: Span::from_ms(2),
            drop_on_overload,
            drop_enqueue,
            any_ect,
            step_packets: packets.then_some(3),
            min_qlen_step: u32::from(packets),
            classic_protection: [0.0, 0.1, 0.5, 1.0][bits % 4],
            mtu: Bytes::new(if bits == 15 { 1 } else { 1514 }),
            ..Config::default()
        };
        laws::check(|| Dualpi2::new(&config, 3));
    }
}

/// The probabilities that follow from RFC 9332, figure 5, with a target of 15 ms, updates every 16
/// ms, alpha 0.16 and beta 3.2, if a packet comes at 24 ms and stays.
#[test]
fn the_probability_follows_the_rfc() {
    let expected =
        [0.0, 0.02448, 0.07712, 0.13232, 0.19008, 0.25040, 0.31328, 0.37872, 0.44672, 0.51728];
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let mut queue = Dualpi2::new(&Config { limit: 1, ..Config::default() }, 1);
        queue.dequeue(at_ms(16), &mut Vec::new());
        assert_eq!(queue.probability(), 0.0);
        put(&mut queue, at_ms(24), ecn, 1);
        for (number, expected) in (1..).zip(expected) {
            // The packet that is refused now only lets the update happen.
            if number > 1 {
                put(&mut queue, at_ms(16 * number), ecn, 1);
            }
            let found = queue.probability();
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected} at {number}");
        }
    }
}

/// The delay is the longer of both queues'.
#[test]
fn either_queue_raises_the_probability() {
    for [first, second] in [[Ecn::NotEct, Ecn::Ect1], [Ecn::Ect1, Ecn::NotEct]] {
        let mut queue = Dualpi2::new(&Config { limit: 2, ..Config::default() }, 1);
        put(&mut queue, at_ms(24), first, 1);
        put(&mut queue, at_ms(30), second, 1);
        put(&mut queue, at_ms(32), first, 1);
        assert!((queue.probability() - 0.024_48).abs() < 1e-12);
    }
}

/// However long nothing was called, the result is that of calls at every update.
#[test]
fn updates_that_were_due_are_made_up_for() {
    for start in [0.0, 0.3, 1.0] {
        for oldest in [None, Some(at_ms(1))] {
            for ms in [15, 16, 100, 5_000, 100_000] {
                let mut once = Control::new(&Config::default());
                once.probability = start;
                let mut often = once.clone();
                for ms in 0..=ms {
                    if often.is_due(at_ms(ms)) {
                        often.update(at_ms(ms), oldest);
                    }
                }
                if once.is_due(at_ms(ms)) {
                    once.update(at_ms(ms), oldest);
                }
                let apart = (once.probability - often.probability).abs();
                assert!(apart < 1e-9, "{apart} after {ms} ms");
            }
        }
    }
    // Weights so small that no bound is met.
    let mut once = Control::new(&Config { alpha: 1e-7, beta: 1e-4, ..Config::default() });
    once.probability = 0.3;
    let mut often = once.clone();
    (1..=6250).for_each(|number| often.update(at_ms(16 * number), Some(at_ms(1))));
    once.update(at_ms(100_000), Some(at_ms(1)));
    assert!((once.probability - often.probability).abs() < 1e-9 && often.probability < 0.5);
    // Alpha times the target, 0.0024, for each of 10 updates without packets, and none at 159 ms.
    let mut idle = Control::new(&Config::default());
    idle.probability = 0.5;
    idle.update(at_ms(175), None);
    assert!((idle.probability - 0.476).abs() < 1e-12);
}

/// Returns the shares of packets that the controller marked and dropped at a fixed probability.
fn shares(config: &Config, probability: f64, ecn: Ecn) -> [f64; 2] {
    const PACKETS: u32 = 40_000;
    let mut queue = Dualpi2::new(config, 5);
    put(&mut queue, Time::ZERO, ecn, PACKETS + 3);
    queue.control.probability = probability;
    let mut dropped = Vec::new();
    while queue.backlog().packets > 3 {
        queue.dequeue(Time::ZERO, &mut dropped);
    }
    [queue.counters().marked_early as f64, dropped.len() as f64].map(|n| n / f64::from(PACKETS))
}

/// RFC 9332, section 2.1: p_C = p'^2 and p_L = k p'.
#[test]
fn drops_in_c_are_the_square_and_marks_in_l_are_coupled() {
    for (coupling_factor, probability, classic, low) in
        [(2, 0.2, 0.04, 0.4), (4, 0.2, 0.04, 0.8), (2, 0.5, 0.25, 1.0), (1, 0.3, 0.09, 0.3)]
    {
        let config = Config { coupling_factor, ..frozen() };
        // 40,000 draws: four standard deviations are at most 0.01.
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.01;
        let [marked, lost] = shares(&config, probability, Ecn::NotEct);
        assert!(near(lost, classic) && marked == 0.0, "{marked} {lost}");
        let [marked, lost] = shares(&config, probability, Ecn::Ect0);
        assert!(near(marked, classic) && lost == 0.0, "{marked} {lost}");
        for ecn in [Ecn::Ect1, Ecn::Ce] {
            let [marked, lost] = shares(&config, probability, ecn);
            assert!(near(marked, low) && lost == 0.0, "{marked} {lost}");
        }
    }
}

/// RFC 9332, section 4.2: above the probability at which L marks everything, both queues drop.
#[test]
fn in_overload_both_queues_drop_with_the_square() {
    let config = frozen();
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let [marked, lost] = shares(&config, 0.6, ecn);
        assert!((lost - 0.36).abs() < 0.01, "{lost}");
        let rest = if ecn == Ecn::Ect1 { 1.0 - lost } else { 0.0 };
        assert!((marked - rest).abs() < 1e-9, "{marked}");
    }
}

/// RFC 9331, section 4.1, and RFC 9332, section 2.3: ECT(1) and CE are L4S.
#[test]
fn the_ecn_field_chooses_the_queue() {
    let waits = |any_ect, ecn| {
        let mut queue = Dualpi2::new(&Config { any_ect, ..Config::default() }, 1);
        put(&mut queue, Time::ZERO, ecn, 1);
        queue.backlogs().map(|backlog| backlog.packets)
    };
    let fields = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    assert_eq!(fields.map(|ecn| waits(false, ecn)), [[1, 0], [0, 1], [1, 0], [0, 1]]);
    assert_eq!(fields.map(|ecn| waits(true, ecn)), [[1, 0], [0, 1], [0, 1], [0, 1]]);
}

#[test]
fn the_step_marks_what_has_waited_longer() {
    let most = Span::from_ms(1);
    for (waits, marks) in [(most, 0), (most + Span::from_ps(1), 1)] {
        let mut queue = Dualpi2::new(&frozen(), 1);
        put(&mut queue, Time::ZERO, Ecn::Ect1, 1);
        let packet = queue.dequeue(Time::ZERO + waits, &mut Vec::new()).expect("it waits");
        assert_eq!((u64::from(packet.marks), queue.counters().marked_forced), (marks, marks));
    }
    // It is for L alone.
    let mut queue = Dualpi2::new(&frozen(), 1);
    put(&mut queue, Time::ZERO, Ecn::Ect0, 1);
    assert_eq!(queue.dequeue(at_ms(100), &mut Vec::new()).map(|packet| packet.marks), Some(0));
}

#[test]
fn the_step_can_count_packets() {
    let mut queue = Dualpi2::new(&Config { step_packets: Some(3), ..frozen() }, 1);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 6);
    let marks: Vec<u8> =
        (0..6).filter_map(|_| queue.dequeue(at_ms(9), &mut Vec::new())).map(|p| p.marks).collect();
    // They leave 5, 4, 3, 2, 1 and 0 behind.
    assert_eq!(marks, [1, 1, 0, 0, 0, 0]);
}

#[test]
fn the_step_spares_packets_that_found_few() {
    let mut queue = Dualpi2::new(&Config { min_qlen_step: 2, ..frozen() }, 1);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 4);
    let marks: Vec<u8> =
        (0..4).filter_map(|_| queue.dequeue(at_ms(9), &mut Vec::new())).map(|p| p.marks).collect();
    assert_eq!(marks, [0, 0, 1, 1]);
}

/// Returns the queue that each packet leaves, `C` or `L`.
fn order(queue: &mut Dualpi2<TestPacket>, packets: usize) -> alloc::string::String {
    let next = || queue.dequeue(Time::ZERO, &mut Vec::new());
    let name = |packet: TestPacket| if packet.ecn == Ecn::NotEct { 'C' } else { 'L' };
    core::iter::from_fn(next).take(packets).map(name).collect()
}

#[test]
fn l_goes_first_and_c_gets_its_share() {
    for (classic_protection, share) in [(0.0, 0.0), (0.1, 0.1), (0.5, 0.5), (1.0, 1.0)] {
        let mut queue = Dualpi2::new(&Config { classic_protection, ..frozen() }, 1);
        put(&mut queue, Time::ZERO, Ecn::NotEct, 2_000);
        put(&mut queue, Time::ZERO, Ecn::Ect1, 2_000);
        let sent = order(&mut queue, 1_000);
        let classic = sent.chars().filter(|&name| name == 'C').count() as f64;
        assert!((classic / 1_000.0 - share).abs() < 0.012, "{classic}");
    }
    // With a share of 0.1, the initial credit is -0.8 MTU, and each packet from L adds 0.1 of its
    // length. A packet from C takes 0.9 of its own.
    let mut queue = Dualpi2::new(&frozen(), 1);
    put(&mut queue, Time::ZERO, Ecn::NotEct, 9);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 30);
    assert_eq!(queue.credit(), -1211);
    assert_eq!(order(&mut queue, 20), "LLLLLLLLLCLLLLLLLLLC");
    // With equal shares, the credit is zero at first, and after each packet from C.
    let mut queue = Dualpi2::new(&Config { classic_protection: 0.5, ..frozen() }, 1);
    put(&mut queue, Time::ZERO, Ecn::NotEct, 9);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 9);
    assert_eq!(order(&mut queue, 6), "LCLCLC");
}

#[test]
fn credit_moves_only_while_both_wait_and_starts_anew_when_both_are_empty() {
    let mut queue = Dualpi2::new(&frozen(), 1);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 3);
    put(&mut queue, Time::ZERO, Ecn::NotEct, 1);
    assert_eq!(order(&mut queue, 3), "LLL");
    assert_eq!(queue.credit(), -1211 + 450);
    assert_eq!(order(&mut queue, 1), "C");
    assert_eq!(queue.credit(), -1211 + 450);
    assert_eq!(order(&mut queue, 1), "");
    assert_eq!(queue.credit(), -1211);
}

/// Nobody asks Linux's queue below a shaper while it is empty.
#[test]
fn credit_stays_if_nobody_notices_that_both_are_empty() {
    let mut queue = Dualpi2::new(&Config { idles: false, ..frozen() }, 1);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 3);
    put(&mut queue, Time::ZERO, Ecn::NotEct, 1);
    assert_eq!(order(&mut queue, 4), "LLLC");
    assert_eq!(order(&mut queue, 1), "");
    assert_eq!(queue.credit(), -1211 + 450);
}

/// Nothing is dropped or marked by the controller while less than two MTUs are left.
#[test]
fn the_controller_spares_the_last_packets() {
    for (left, spared) in [(3027, true), (3028, false)] {
        for ecn in [Ecn::NotEct, Ecn::Ect1] {
            let mut queue = Dualpi2::new(&frozen(), 1);
            for bytes in [100, left] {
                let packet = TestPacket { ecn, bytes, ..TestPacket::default() };
                queue.enqueue(Time::ZERO, packet, &mut Vec::new());
            }
            queue.control.probability = 1.0;
            let mut dropped = Vec::new();
            let sent = queue.dequeue(Time::ZERO, &mut dropped).expect("one is left");
            assert_eq!((sent.bytes == 100, dropped.is_empty()), (spared, spared));
        }
    }
}

#[test]
fn the_limits_are_those_of_both_queues_together() {
    let mut queue = Dualpi2::new(&Config { limit: 3, ..Config::default() }, 1);
    put(&mut queue, Time::ZERO, Ecn::NotEct, 2);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 2);
    assert_eq!(queue.backlogs().map(|backlog| backlog.packets), [2, 1]);
    assert_eq!(queue.counters().dropped_overflow, 1);
    // By default, twice the MTU for each packet of the limit.
    for (bytes, lost) in [(4_000, 0), (4_001, 1)] {
        let mtu = Bytes::new(1_000);
        let mut queue = Dualpi2::new(&Config { limit: 2, mtu, ..Config::default() }, 1);
        let packet = TestPacket { bytes, ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut Vec::new());
        assert_eq!(queue.counters().dropped_overflow, lost);
    }
    let memlimit = Some(Bytes::new(4_500));
    let mut queue = Dualpi2::new(&Config { memlimit, ..Config::default() }, 1);
    put(&mut queue, Time::ZERO, Ecn::NotEct, 2);
    put(&mut queue, Time::ZERO, Ecn::Ect1, 2);
    assert_eq!((queue.backlog().packets, queue.counters().dropped_overflow), (3, 1));
}

/// Decisions at enqueue show in the verdict, and leave departures alone.
#[test]
fn it_can_decide_when_packets_come() {
    let mut queue = Dualpi2::new(&Config { drop_enqueue: true, ..frozen() }, 1);
    queue.control.probability = 1.0;
    let mut dropped = Vec::new();
    let mut verdicts =
        [Ecn::NotEct, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1].map(|ecn| {
            let packet = TestPacket { ecn, bytes: 1514, ..TestPacket::default() };
            queue.enqueue(Time::ZERO, packet, &mut dropped)
        });
    // The first two find less than two MTUs, the third exactly these.
    assert_eq!(verdicts[..2], [Verdict::Queued; 2]);
    assert_eq!(verdicts[2..], [Verdict::Dropped; 4]);
    let reasons: Vec<DropReason> = dropped.iter().map(|&(_, reason)| reason).collect();
    assert_eq!(reasons, [Forced, Early, Forced, Forced]);
    queue.control.probability = 0.5;
    verdicts = [Ecn::Ect1; 6].map(|ecn| {
        let packet = TestPacket { ecn, ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut dropped)
    });
    assert_eq!(verdicts, [Verdict::Marked; 6]);
    // The step does not mark them again.
    while queue.dequeue(at_ms(50), &mut dropped).is_some() {}
    assert_eq!((queue.counters().marked_early, queue.counters().marked_forced), (6, 0));
    assert_eq!(dropped.len(), 4);
}

/// Sends packets of 1250 bytes, `percent` of what a line of 10 Mbit/s carries, for `seconds`.
/// Returns the mean delay in milliseconds, and the shares of packets that were dropped and marked,
/// all over the second half.
fn overload(config: &Config, percent: u64, seconds: u64, ecn: Ecn) -> [f64; 3] {
    let mut queue = Dualpi2::new(config, 1);
    let mut inside = VecDeque::new();
    let mut dropped = vec![];
    let (mut delay_s, mut sent, mut marked, mut lost) = (0.0, 0.0, 0.0, 0.0);
    let mut number = 0;
    for ms in 0..seconds * 1000 {
        while number * 100 < ms * percent {
            let packet = TestPacket { number, bytes: 1250, ecn, ..TestPacket::default() };
            queue.enqueue(at_ms(ms), packet, &mut dropped);
            inside.push_back((number, at_ms(ms)));
            number += 1;
        }
        let packet = queue.dequeue(at_ms(ms), &mut dropped);
        let late = ms > seconds * 500;
        lost += f64::from(u8::from(late)) * dropped.len() as f64;
        for (packet, _) in dropped.drain(..) {
            inside.retain(|&(number, _)| number != packet.number);
        }
        if let Some(packet) = packet {
            let (_, came_at) = inside.pop_front().expect("it came");
            if late {
                delay_s += at_ms(ms).since(came_at).as_secs_f64();
                sent += 1.0;
                marked += f64::from(packet.marks);
            }
        }
    }
    let out = sent + lost;
    [delay_s * 1000.0 / sent, lost / out, marked / sent]
}

/// A load that does not react: the excess goes, and the delay is the target, in either queue. In
/// the authors' measurements too, an unresponsive load of 140 and 200 % in L waits for 15 ms.
#[test]
fn a_constant_overload_is_held_at_the_target() {
    for (percent, ecn, marks) in [
        (120, Ecn::NotEct, 0.0),
        (200, Ecn::NotEct, 0.0),
        (200, Ecn::Ect1, 1.0),
        (140, Ecn::Ect1, 1.0),
    ] {
        let [delay_ms, lost, marked] = overload(&Config::default(), percent, 60, ecn);
        assert!((lost - (1.0 - 100.0 / percent as f64)).abs() < 0.01, "{percent} %: {lost}");
        assert!((delay_ms - 15.0).abs() < 2.0, "{percent} %: {delay_ms} ms");
        assert!((marked - marks).abs() < 0.01, "{percent} %: {marked}");
    }
    // Less than k p' = 1 of excess is marked away, if senders reacted. These do not: L is full.
    let config = Config { drop_on_overload: false, limit: 100, ..Config::default() };
    let [delay_ms, lost, marked] = overload(&config, 150, 20, Ecn::Ect1);
    assert!((lost - 1.0 / 3.0).abs() < 0.01, "{lost}");
    assert!(delay_ms > 90.0 && marked == 1.0, "{delay_ms} ms, {marked}");
}

#[test]
fn without_drops_on_overload_the_probability_stops_where_l_marks_everything() {
    let config = Config { drop_on_overload: false, coupling_factor: 4, ..frozen() };
    let mut control = Control::new(&config);
    control.update(Time::ZERO + config.tupdate, Some(Time::ZERO));
    assert_eq!(control.probability, 0.25);
    let mut dropped = Vec::new();
    let mut queue = Dualpi2::new(&Config { limit: 5, drop_on_overload: false, ..frozen() }, 1);
    queue.control.probability = 0.5;
    for _ in 0..9 {
        let packet = TestPacket { ecn: Ecn::Ect1, ..TestPacket::default() };
        queue.enqueue(at_us(1), packet, &mut dropped);
    }
    assert!(dropped.len() == 4 && dropped.iter().all(|&(_, reason)| reason == Overflow));
}

#[test]
fn impossible_settings_are_refused() {
    let refused = |config: Config| config.check().expect_err("it is impossible").to_string();
    let step = Config { limit: 100, step_packets: Some(100), ..Config::default() };
    assert!(refused(step).starts_with("step_packets: is not below limit"));
    let least = Config { limit: 100, min_qlen_step: 100, ..Config::default() };
    assert!(refused(least).starts_with("min_qlen_step: is not below limit"));
    for (config, key) in [
        (Config { alpha: -0.1, ..Config::default() }, "alpha"),
        (Config { beta: f64::NAN, ..Config::default() }, "beta"),
        (Config { classic_protection: 1.01, ..Config::default() }, "classic_protection"),
        (Config { tupdate: Span::ZERO, ..Config::default() }, "tupdate"),
        (Config { coupling_factor: 0, ..Config::default() }, "coupling_factor"),
    ] {
        assert!(refused(config).starts_with(key));
    }
}

#[test]
fn any_times_and_sizes_will_do() {
    for seed in 0..40 {
        let mut random = Pcg32::seed_from_u64(seed);
        let config = Config {
            limit: 2 + random.next_u32() % 50,
            memlimit: [None, Some(Bytes::new(1))][seed as usize % 5 % 2],
            target: Span::from_ps(1),
            tupdate: Span::from_ps([1, 1 << 34, u64::MAX][seed as usize % 3]),
            alpha: [0.0, 0.16, MOST_GAIN][seed as usize % 4 % 3],
            beta: [0.0, 3.2, MOST_GAIN][seed as usize % 5 % 3],
            coupling_factor: [1, 2, 255][seed as usize % 3],
            step_thresh: Span::from_ps([0, u64::MAX][seed as usize % 2]),
            step_packets: (seed % 3 == 0).then_some(1),
            min_qlen_step: (seed % 2) as u32,
            drop_on_overload: seed % 3 == 0,
            drop_enqueue: seed % 7 == 0,
            any_ect: seed % 5 == 0,
            classic_protection: [0.0, 1e-9, 0.5, 1.0][seed as usize % 4],
            idles: seed % 2 == 0,
            mtu: Bytes::new([1, 1514, u32::MAX.into()][seed as usize % 3]),
        };
        let mut queue = Dualpi2::new(&config, seed);
        let mut now = Time::ZERO;
        for number in 0..2_000 {
            now +=
                Span::from_ps([0, 0, 1, 1 << 20, 1 << 40, 1 << 60][random.next_u32() as usize % 6]);
            let packet = TestPacket {
                number,
                bytes: [0, 1, 1500, u32::MAX][random.next_u32() as usize % 4],
                ecn: [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][random.next_u32() as usize % 4],
                ..TestPacket::default()
            };
            queue.enqueue(now, packet, &mut Vec::new());
            if random.next_u32() % 2 == 0 {
                let waited = queue.backlog().packets > 0;
                assert_eq!(queue.dequeue(now, &mut Vec::new()).is_some(), waited);
            }
            assert!(queue.counters().balance(queue.backlog()));
            assert!((0.0..=1.0).contains(&queue.probability()));
        }
    }
}

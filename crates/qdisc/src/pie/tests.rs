use alloc::string::ToString;
use alloc::vec::Vec;

use rand_core::Rng;

use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use crate::{DropReason::Early, DropReason::Overflow, Ecn};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

#[test]
fn it_obeys_the_laws_in_every_mode() {
    for bits in 0..8 {
        let [ecn, bytemode, dq_rate_estimator] = [1, 2, 4].map(|bit| bits & bit != 0);
        let config = Config {
            limit: if bits == 7 { 10 } else { 200 },
            target: Span::from_ms(2),
            beta: 32,
            alpha: 32,
            ecn,
            bytemode,
            dq_rate_estimator,
            ..Config::default()
        };
        laws::check(|| Pie::new(&config, bits));
    }
}

/// Sends packets of 1250 bytes, one every `gap_us`, over a line of 10 Mbit/s for `seconds`. Returns
/// the mean delay in milliseconds and the share of drops, both over the second half.
fn overload(queue: &mut Pie<TestPacket>, gap_us: u64, seconds: u64, ecn: Ecn) -> (f64, f64) {
    let half = at_us(seconds * 500_000);
    let mut dropped = Vec::new();
    let mut leaves_at = Time::ZERO;
    let (mut delays, mut sent, mut arrived, mut lost) = (0.0, 0.0, 0.0, 0.0);
    for n in 0..seconds * 1_000_000 / gap_us {
        let now = at_us(n * gap_us);
        while leaves_at <= now {
            let arrived_at = queue.storage.head().map(|head| head.arrived_at);
            let (Some(arrived_at), Some(_)) = (arrived_at, queue.dequeue(leaves_at, &mut dropped))
            else {
                break;
            };
            if now > half {
                delays += leaves_at.since(arrived_at).as_secs_f64() * 1e3;
                sent += 1.0;
            }
            leaves_at += Span::from_ms(1);
        }
        leaves_at = leaves_at.max(now);
        let packet = TestPacket { bytes: 1250, ecn, ..TestPacket::default() };
        let verdict = queue.enqueue(now, packet, &mut dropped);
        if now > half {
            arrived += 1.0;
            lost += f64::from(u8::from(verdict == Verdict::Dropped));
        }
    }
    (delays / sent, lost / arrived)
}

/// A load that does not react: the excess is dropped, and the delay is the target.
#[test]
fn a_constant_overload_is_held_at_the_target() {
    // At 1.2 times the rate, a share of 1 - 1/1.2 has to be dropped; at twice the rate, half.
    for (gap_us, share) in [(833, 0.167), (500, 0.5)] {
        let mut queue = Pie::new(&Config::default(), 1);
        let (delay_ms, lost) = overload(&mut queue, gap_us, 60, Ecn::NotEct);
        assert!((lost - share).abs() < 0.01, "{lost}");
        assert!((delay_ms - 15.0).abs() < 2.0, "{delay_ms} ms");
        assert_eq!(queue.counters().dropped_overflow, 0);
    }
}

/// tc-pie(8): packets are marked up to 10 %, and dropped above.
#[test]
fn with_ecn_packets_are_marked_up_to_ten_percent() {
    let config = Config { ecn: true, ..Config::default() };
    let mut dropped = Vec::new();
    for (prob, marks) in [(CERTAIN / 10, true), (CERTAIN / 10 + 1, false)] {
        for ecn in [Ecn::Ect0, Ecn::NotEct] {
            let mut queue = Pie::new(&config, 1);
            for _ in 0..4 {
                queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
            }
            queue.control.vars.drop_prob = prob;
            queue.control.vars.accu_prob = 9 * CERTAIN;
            // 100 ms of delay, and the burst allowance is used up.
            for us in [100_000, 250_000] {
                queue.control.vars.on_departure(
                    &queue.params,
                    at_us(us),
                    at_us(us - 100_000),
                    1,
                    1,
                );
            }
            let packet = TestPacket { ecn, ..TestPacket::default() };
            let verdict = queue.enqueue(Time::ZERO, packet, &mut dropped);
            let marked = marks && ecn == Ecn::Ect0;
            assert_eq!(verdict, if marked { Verdict::Marked } else { Verdict::Dropped });
            assert_eq!(queue.counters().dropped(Early), u64::from(!marked));
        }
    }
}

#[test]
fn the_limit_is_in_packets_and_restarts_the_sum() {
    let mut queue = Pie::new(&Config { limit: 2, ..Config::default() }, 1);
    let mut dropped = Vec::new();
    queue.control.vars.accu_prob = 5;
    let verdicts = [(); 3].map(|()| queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Dropped]);
    assert_eq!(dropped, [(TestPacket::default(), Overflow)]);
    assert_eq!(queue.control.vars.accu_prob, 0);
}

/// RFC 8033, section 5.2: packets that arrive within 150 ms after an idle time are not dropped.
#[test]
fn a_burst_of_150_ms_passes() {
    let mut queue = Pie::new(&Config::default(), 1);
    let mut dropped = Vec::new();
    for _ in 0..900 {
        queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
    }
    for ms in 0..150 {
        queue.dequeue(at_us(ms * 1_000), &mut dropped);
        queue.enqueue(at_us(ms * 1_000), TestPacket::default(), &mut dropped);
    }
    assert!(queue.probability() > 0.01 && dropped.is_empty());
    for ms in 150..400 {
        queue.dequeue(at_us(ms * 1_000), &mut dropped);
        queue.enqueue(at_us(ms * 1_000), TestPacket::default(), &mut dropped);
    }
    assert!(!dropped.is_empty());
}

/// What Linux's timer was seen to do: 15 ms become 16 ms at HZ 1000, 20 ms at 250 and 30 ms at 100.
#[test]
fn a_kernels_timer_takes_a_jiffy_more() {
    for (jiffy, period) in [(1, 16), (4, 20), (10, 30)] {
        let config = Config { jiffy: Some(Span::from_ms(jiffy)), ..Config::default() };
        let mut queue = Pie::new(&config, 1);
        let mut dropped = Vec::new();
        let mut updates = Vec::new();
        for ms in 0..1_000 {
            let now = at_us(ms * 1_000);
            let before = queue.probability();
            queue.enqueue(now, TestPacket::default(), &mut dropped);
            if ms > 0 && ms % 2 == 0 {
                // Half of the arriving packets stay, so the delay grows at every update.
                queue.dequeue(now, &mut dropped);
            }
            if queue.probability() > before {
                updates.push(ms);
            }
        }
        for pair in updates.windows(2).take(10) {
            assert_eq!(pair[1] - pair[0], period, "{updates:?}");
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let base = Config::default;
    assert_eq!(base().check(), Ok(()));
    for (config, error) in [
        (Config { limit: 0, ..base() }, "limit: must be above zero"),
        (Config { target: Span::ZERO, ..base() }, "target: must be above zero"),
        (Config { tupdate: Span::ZERO, ..base() }, "tupdate: must be above zero"),
        (Config { jiffy: Some(Span::ZERO), ..base() }, "jiffy: must be above zero"),
        (Config { mtu: Bytes::ZERO, ..base() }, "mtu: must be above zero"),
        (Config { alpha: 33, ..base() }, "alpha: must be at most 32"),
        (Config { beta: 33, ..base() }, "beta: must be at most 32"),
    ] {
        assert_eq!(config.check().expect_err(error).to_string(), error);
    }
}

#[test]
fn any_times_and_sizes_will_do() {
    for seed in 0..60 {
        let mut random = Pcg32::seed_from_u64(seed);
        let config = Config {
            limit: 1 + random.next_u32() % 50,
            target: Span::from_ps([1, 1_000_000_000, u64::MAX][seed as usize % 3]),
            tupdate: Span::from_ps([1, 1_000_000_000, u64::MAX][seed as usize % 5 % 3]),
            jiffy: [None, Some(Span::from_ps(1)), Some(Span::from_ps(u64::MAX))]
                [seed as usize % 7 % 3],
            ecn: seed % 2 == 0,
            bytemode: seed % 4 < 2,
            dq_rate_estimator: seed % 8 < 4,
            mtu: Bytes::new(1 + u64::from(random.next_u32()) * (seed % 2)),
            ..Config::default()
        };
        let mut queue = Pie::new(&config, seed);
        let mut now = Time::ZERO;
        let mut dropped = Vec::new();
        for number in 0..2_000 {
            now +=
                Span::from_ps([0, 0, 1, 1 << 20, 1 << 40, 1 << 60][random.next_u32() as usize % 6]);
            let bytes = [0, 1, 1500, u32::MAX][random.next_u32() as usize % 4];
            let packet = TestPacket { number, bytes, ecn: Ecn::Ect0, ..TestPacket::default() };
            queue.enqueue(now, packet, &mut dropped);
            if random.next_u32() % 2 == 0 {
                let waited = queue.backlog().packets > 0;
                assert_eq!(queue.dequeue(now, &mut dropped).is_some(), waited);
            }
            assert!(queue.counters().balance(queue.backlog()));
        }
    }
}

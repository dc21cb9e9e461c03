use alloc::borrow::ToOwned;
use alloc::string::ToString;
use alloc::vec::Vec;

use narrows_units::{Bytes, Rate, Span, Time};

use super::*;
use crate::Ecn;
use crate::laws;
use crate::traffic::TestPacket;

fn in_bytes() -> Config {
    Config {
        unit: Unit::Bytes,
        mean_packet: Bytes::new(1000),
        limit: 60_000,
        min: 5_000.0,
        max: 15_000.0,
        ..Config::example()
    }
}

fn with_average(config: Config, average: f64) -> Red<TestPacket> {
    let mut red = Red::new(config, 11);
    red.avg = average;
    red.q_time = None;
    red
}

fn packet(bytes: u32, ecn: Ecn) -> TestPacket {
    TestPacket { bytes, ecn, ..TestPacket::default() }
}

/// Gaps between early marks at a constant average: how many packets, the marked one included.
fn gaps(red: &mut Red<TestPacket>, bytes: u32, marks: usize) -> Vec<u32> {
    let mut gaps = Vec::new();
    let mut gap = 0;
    while gaps.len() <= marks {
        gap += 1;
        if red.decide(bytes).is_some() {
            gaps.push(gap);
            gap = 0;
        }
    }
    // The first starts outside the thresholds, with a count of its own.
    gaps.split_off(1)
}

/// Pearson's statistic of gaps that should be uniform on `first..=last`.
fn chi_square(gaps: &[u32], first: u32, last: u32) -> f64 {
    assert!(gaps.iter().all(|gap| (first..=last).contains(gap)), "a gap is out of range");
    let expected = gaps.len() as f64 / f64::from(last - first + 1);
    let counts = (first..=last).map(|value| gaps.iter().filter(|&&gap| gap == value).count());
    counts.map(|n| libm::pow(n as f64 - expected, 2.0) / expected).sum()
}

#[test]
fn it_obeys_the_laws_in_every_mode() {
    for unit in [Config { weight: 0.02, max_p: 0.2, ..Config::example() }, in_bytes()] {
        for bits in 0..8 {
            let [gentle, wait, ecn] = [1, 2, 4].map(|bit| bits & bit != 0);
            let config = Config { gentle, wait, ecn, ..unit.clone() };
            laws::check(|| Red::new(config.clone(), bits));
        }
    }
    let adaptive = Some(Adaptive { interval: Span::from_ms(20), ..Adaptive::default() });
    laws::check(|| Red::new(Config { adaptive: adaptive.clone(), ..Config::example() }, 3));
    let strict =
        Config { ecn: true, mark_above_max: true, limit: 12, weight: 0.5, ..Config::example() };
    laws::check(|| Red::new(strict.clone(), 9));
}

#[test]
fn the_average_follows_a_constant_queue_by_powers_of_one_minus_w() {
    let mut red = Red::new(Config { min: 100.0, max: 200.0, ..Config::example() }, 1);
    let mut dropped = Vec::new();
    for _ in 0..10 {
        red.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
    }
    red.avg = 0.0;
    for n in 1..1000 {
        red.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
        red.dequeue(Time::ZERO, &mut dropped);
        let closed = 10.0 * (1.0 - libm::pow(0.998, f64::from(n)));
        assert!((red.average() - closed).abs() < 1e-9);
    }
}

#[test]
fn byte_mode_averages_bytes() {
    let mut red = Red::new(Config { weight: 0.5, ..in_bytes() }, 1);
    let mut dropped = Vec::new();
    for bytes in [400, 600, 1] {
        red.enqueue(Time::ZERO, packet(bytes, Ecn::NotEct), &mut dropped);
    }
    // The average is 0 (the queue was idle), then 400 / 2, then (200 + 1000) / 2.
    assert_eq!(red.average(), 600.0);
}

#[test]
fn an_idle_time_counts_as_the_packets_that_it_would_have_carried() {
    // 1000 bytes take 0.8 ms at 10 Mbit/s: 80.5 ms are 100 packets.
    for config in [Config::example(), in_bytes()] {
        let mut red = with_average(config, 4.0);
        let mut dropped = Vec::new();
        red.dequeue(Time::ZERO, &mut dropped);
        // A second look does not start the idle time again.
        red.dequeue(Time::ZERO + Span::from_ms(40), &mut dropped);
        let at = Time::ZERO + Span::from_us(80_500);
        red.enqueue(at, packet(1000, Ecn::NotEct), &mut dropped);
        assert!((red.average() - 4.0 * libm::pow(0.998, 100.0)).abs() < 1e-12);
    }
}

#[test]
fn a_power_by_squaring_is_the_power() {
    assert_eq!(power(0.998, 0), 1.0);
    assert!((power(0.998, 1000) / libm::pow(0.998, 1000.0) - 1.0).abs() < 1e-12);
    assert_eq!(power(0.5, u64::MAX), 0.0);
}

#[test]
fn nothing_happens_below_min_and_the_count_restarts() {
    let mut red = with_average(Config::example(), 4.999);
    red.count = Some(1000);
    assert_eq!(red.decide(1000), None);
    assert_eq!(red.count, None);
}

#[test]
fn p_b_rises_linearly_to_max_p_at_max() {
    for (average, p) in [(5.0, 0.0), (10.0, 0.01), (14.999_999, 0.02)] {
        let red = with_average(Config::example(), average);
        assert!((red.p_b() - p).abs() < 1e-8);
    }
}

#[test]
fn every_packet_is_hit_from_max_on() {
    let mut red = with_average(Config::example(), 15.0);
    assert_eq!(red.decide(1000), Some(DropReason::Forced));
    assert_eq!(red.count, Some(0));
}

#[test]
fn gentle_rises_from_max_p_at_max_to_one_at_twice_max() {
    let config = Config { gentle: true, ..Config::example() };
    for (average, p) in [(15.0, 0.02), (22.5, 0.51), (29.999_999_9, 1.0)] {
        let red = with_average(config.clone(), average);
        assert!((red.p_b() - p).abs() < 1e-8);
    }
    assert_eq!(with_average(config, 30.0).decide(1000), Some(DropReason::Forced));
}

/// p_b = 0.02: in figure 2 the count is 1 at the first packet after a mark, so that gaps are
/// uniform on 1..=49.
#[test]
fn gaps_between_marks_are_uniform_on_one_to_one_over_p() {
    // In the middle, p_b is half of `max_p`: 0.04 / 2 keeps 1/p_b exact.
    let mut red = with_average(Config { max_p: 0.04, ..Config::example() }, 10.0);
    let gaps = gaps(&mut red, 1000, 49_000);
    // With 48 degrees of freedom, the statistic exceeds 93.2 once in 10000 times.
    let statistic = chi_square(&gaps, 1, 49);
    assert!(statistic < 93.2 && statistic > 15.0, "{statistic}");
    let mean = gaps.iter().map(|&gap| f64::from(gap)).sum::<f64>() / gaps.len() as f64;
    // Standard error: sqrt((49^2 - 1) / 12 / 49000) = 0.064.
    assert!((mean - 25.0).abs() < 4.0 * 0.064);
}

#[test]
fn wait_spaces_marks_one_to_two_times_one_over_p() {
    let config = Config { max_p: 0.04, wait: true, ..Config::example() };
    let gaps = gaps(&mut with_average(config, 10.0), 1000, 50_000);
    // Counts of 50 to 99 have p/(2 - count p) = 1/50, 1/49, ..., 1: uniform on 50 values.
    let statistic = chi_square(&gaps, 50, 99);
    assert!(statistic < 94.7 && statistic > 15.0, "{statistic}");
}

#[test]
fn in_byte_mode_small_packets_are_hit_in_proportion_to_their_size() {
    let config = Config { max_p: 0.04, ..in_bytes() };
    let mean = |bytes| {
        let gaps = gaps(&mut with_average(config.clone(), 10_000.0), bytes, 20_000);
        gaps.iter().map(|&gap| f64::from(gap)).sum::<f64>() / gaps.len() as f64
    };
    let (large, small) = (mean(1000), mean(100));
    // The same number of bytes passes between two marks. The count runs in steps of a whole mean
    // packet, so a step of ten small packets is a little longer than one large one.
    assert!((large - 25.0).abs() < 0.5, "{large}");
    assert!((small / large - 10.0).abs() < 0.5, "{small} against {large}");
}

#[test]
fn with_ecn_capable_packets_are_marked_between_and_dropped_above_max() {
    let config = Config { ecn: true, max_p: 1.0, gentle: true, ..Config::example() };
    for (average, reason) in [(20.0, DropReason::Early), (30.5, DropReason::Forced)] {
        for mark_above_max in [false, true] {
            let config = Config { mark_above_max, ..config.clone() };
            let marks = reason == DropReason::Early || mark_above_max;
            for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                let mut red = with_average(config.clone(), average);
                let mut dropped = Vec::new();
                let verdict = red.enqueue(Time::ZERO, packet(1000, ecn), &mut dropped);
                if marks && ecn.is_capable() {
                    assert_eq!((verdict, dropped.len()), (Verdict::Marked, 0));
                    assert_eq!(red.head().map(|packet| packet.ecn), Some(Ecn::Ce));
                } else {
                    assert_eq!(verdict, Verdict::Dropped);
                    assert_eq!(dropped, [(packet(1000, ecn), reason)]);
                }
            }
        }
    }
}

#[test]
fn without_ecn_nothing_is_marked() {
    let mut red = with_average(Config { mark_above_max: true, ..Config::example() }, 20.0);
    let mut dropped = Vec::new();
    let verdict = red.enqueue(Time::ZERO, packet(1000, Ecn::Ect0), &mut dropped);
    assert_eq!((verdict, dropped[0].1), (Verdict::Dropped, DropReason::Forced));
}

#[test]
fn the_limit_counts_in_the_unit() {
    let mut dropped = Vec::new();
    let mut red = Red::new(Config { limit: 2, ..Config::example() }, 1);
    let verdicts =
        [1, 1500, 1].map(|bytes| red.enqueue(Time::ZERO, packet(bytes, Ecn::NotEct), &mut dropped));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Dropped]);
    let mut red = Red::new(Config { limit: 2000, ..in_bytes() }, 1);
    let verdicts = [1500, 501, 500]
        .map(|bytes| red.enqueue(Time::ZERO, packet(bytes, Ecn::NotEct), &mut dropped));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Dropped, Verdict::Queued]);
    assert!(dropped.iter().all(|&(_, reason)| reason == DropReason::Overflow));
}

#[test]
fn a_drop_at_the_limit_restarts_the_count() {
    let config = Config { limit: 1, max_p: 1e-9, weight: 1e-9, ..Config::example() };
    let mut red = with_average(config, 10.0);
    let mut dropped = Vec::new();
    for _ in 0..5 {
        red.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
    }
    assert_eq!((dropped.len(), red.count), (4, Some(0)));
}

#[test]
fn impossible_settings_are_refused_by_field() {
    type Change = fn(&mut Config);
    let refused: [(Change, &str); 8] = [
        (|c| c.limit = 0, "limit: must be above zero"),
        (|c| c.min = 0.0, "min: must be above zero"),
        (|c| c.max = f64::NAN, "max: must be above zero"),
        (|c| c.min = c.max, "min: 15 is not below max (15); hint: exchange or fix them"),
        (|c| c.weight = 0.0, "weight: must be above zero"),
        (|c| c.weight = f64::NAN, "weight: must be above zero"),
        (|c| c.max_p = 1.5, "max_p: must be at most 1"),
        (|c| c.mean_packet = Bytes::ZERO, "mean_packet: must be above zero"),
    ];
    for (change, error) in refused {
        let mut config = Config::example();
        change(&mut config);
        assert_eq!(config.check().expect_err(error).to_string(), error);
    }
    assert_eq!(Config::example().check(), Ok(()));
}

#[test]
fn a_slow_link_forgets_slowly() {
    let slow = Rate::from_bps(1_000).expect("not zero");
    let mut red = with_average(Config { bandwidth: Some(slow), ..Config::example() }, 4.0);
    red.q_time = Some(Time::ZERO);
    // 1000 bytes take 8 s: two packets in 20 s.
    let at = Time::ZERO + Span::from_secs(20);
    red.enqueue(at, TestPacket::default(), &mut Vec::new());
    assert!((red.average() - 4.0 * 0.998 * 0.998).abs() < 1e-12);
}

/// Adaptive RED at a constant average, with an arrival each 10 ms: `max_p` after each arrival.
fn adapted(config: Config, average: f64, arrivals: u64) -> Vec<f64> {
    let mut red = Red::<TestPacket>::new(config, 1);
    (1..=arrivals)
        .map(|n| {
            red.avg = average;
            red.adapt(Time::ZERO + Span::from_ms(10 * n));
            red.max_p()
        })
        .collect()
}

/// Floyd, Gummadi and Shenker, figure 1; target range and time from their section 4.
#[test]
fn adaptive_red_changes_the_probability_each_interval_towards_the_target() {
    let config = |max_p| Config { max_p, adaptive: Some(Adaptive::default()), ..Config::example() };
    // The target is from 5 + 0.4 * 10 to 15 - 0.4 * 10.
    for average in [9.0, 10.0, 11.0] {
        assert_eq!(adapted(config(0.1), average, 1_000), [0.1; 1_000]);
    }
    // Above the target, alpha is added after 0.51 s, 1.02 s and so on.
    let above = adapted(config(0.1), 11.01, 153);
    for (n, max_p) in above.iter().enumerate() {
        let changes = (n as u64 + 1) / 51;
        assert!((max_p - 0.1 - 0.01 * changes as f64).abs() < 1e-12, "{n}");
    }
    // `max_p` rises by at most a quarter at a time.
    assert!((adapted(config(0.02), 11.01, 51)[50] - 0.025).abs() < 1e-12);
    // Below the target, `max_p` is multiplied by beta.
    let below = adapted(config(0.1), 8.99, 102);
    assert!((below[50] - 0.09).abs() < 1e-12 && (below[101] - 0.081).abs() < 1e-12);
}

#[test]
fn adaptive_red_stays_between_bottom_and_top() {
    let config = |max_p| Config { max_p, adaptive: Some(Adaptive::default()), ..Config::example() };
    // The last step may go beyond the bound, to 0.5 + 0.01 or 0.01 * 0.9 at most.
    let top = adapted(config(0.4), 14.0, 10_000);
    assert!(top[9_999] >= 0.5 && top[9_999] < 0.51);
    let bottom = adapted(config(0.4), 6.0, 10_000);
    assert!(bottom[9_999] <= 0.01 && bottom[9_999] > 0.009);
}

/// An unresponsive load, 10 % above the rate, is held in the target range.
#[test]
fn adaptive_red_brings_the_average_to_the_middle_whatever_the_first_probability() {
    for max_p in [0.01, 0.5] {
        let rate = Rate::from_bps(10_000_000).expect("not zero");
        let automatic = Config::automatic(rate, 1250, Span::from_ms(20));
        let mut red = Red::new(Config { max_p, ..automatic }, 1);
        let mut dropped = Vec::new();
        let (mut sum, mut count) = (0.0, 0.0);
        // 1100 packets a second in, 1000 out, for ten minutes.
        for n in 0..660_000u64 {
            let now = Time::ZERO + Span::from_us(n * 10_000 / 11);
            if n % 11 != 0 {
                red.dequeue(now, &mut dropped);
            }
            red.enqueue(now, packet(1250, Ecn::NotEct), &mut dropped);
            dropped.clear();
            if n > 330_000 {
                sum += red.average();
                count += 1.0;
            }
        }
        // The thresholds are 10 and 30 packets, so the target is 18 to 22.
        let mean = sum / count;
        assert!((18.0..=22.0).contains(&mean), "{mean} from {max_p}, now {}", red.max_p());
    }
}

/// ns-2's `initialize_params`, by hand for a link of 10 Mbit/s and packets of 1000 bytes.
#[test]
fn automatic_settings_follow_from_rate_and_delay() {
    let mbit = |mbit: u64| Rate::from_bps(mbit * 1_000_000).expect("not zero");
    let config = Config::automatic(mbit(10), 1000, Span::from_ms(5));
    // At 1250 packets a second, half of the target is 3.1 packets, so `min` is 5.
    assert_eq!((config.min, config.max, config.gentle), (5.0, 15.0, true));
    // 1 - exp(-1/1250).
    assert!((config.weight - 7.996_8e-4).abs() < 1e-9);
    let config = Config::automatic(mbit(100), 1000, Span::from_ms(5));
    assert_eq!((config.min, config.max), (31.25, 93.75));
    assert_eq!(config.adaptive.as_ref().map(|adaptive| adaptive.bottom), Some(0.000_8));
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn adaptive_settings_that_make_no_sense_are_refused() {
    let check = |adaptive| {
        Config { adaptive: Some(adaptive), ..Config::example() }
            .check()
            .map_err(|error| error.to_string())
    };
    let base = Adaptive::default;
    assert_eq!(check(base()), Ok(()));
    assert_eq!(
        check(Adaptive { interval: Span::ZERO, ..base() }),
        Err("adaptive.interval: must be above zero".to_owned())
    );
    assert_eq!(
        check(Adaptive { beta: 1.1, ..base() }),
        Err("adaptive.beta: must be at most 1".to_owned())
    );
}

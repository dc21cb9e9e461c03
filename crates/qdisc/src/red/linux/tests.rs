use alloc::string::ToString;
use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};

use super::*;
use crate::Ecn;
use crate::laws;
use crate::traffic::TestPacket;

/// The settings of the Harhalakis bed: Wlog 6, probability 0.1 over 187500 bytes.
fn bed() -> Config {
    Config {
        limit: Bytes::new(375_000),
        min: Some(Bytes::new(74_874)),
        max: Some(Bytes::new(262_374)),
        avpkt: Bytes::new(1400),
        burst: Some(98),
        probability: 0.1,
        ..Config::example()
    }
}

fn with_average(config: Config, bytes: u64) -> Red<TestPacket> {
    let mut red = Red::new(config, 7);
    red.state.average = bytes << red.parameters.w;
    red.state.idle_since = None;
    red
}

fn packet(ecn: Ecn) -> TestPacket {
    TestPacket { bytes: 1000, ecn, ..TestPacket::default() }
}

/// What happens to a packet that arrives while the average stays at `average`, and the drop.
fn fate(config: &Config, average: u64, ecn: Ecn) -> (Verdict, Option<DropReason>) {
    let mut red = with_average(config.clone(), average);
    // Any random number is reached, so that between the thresholds the packet is hit.
    red.state.count = Some(i32::MAX as u32 - 1);
    let mut dropped = Vec::new();
    let verdict = red.enqueue(Time::ZERO, packet(ecn), &mut dropped);
    (verdict, dropped.first().map(|&(_, reason)| reason))
}

const BETWEEN: u64 = 170_000;
const ABOVE: u64 = 300_000;

#[test]
fn it_obeys_the_laws_in_every_mode() {
    let small = Config {
        limit: Bytes::new(30_000),
        min: Some(Bytes::new(3_000)),
        max: Some(Bytes::new(9_000)),
        burst: Some(5),
        probability: 0.3,
        ..Config::example()
    };
    assert_eq!(small.check(), Ok(()));
    laws::check(|| Red::new(small.clone(), 1));
    laws::check(|| Red::new(Config { adaptive: true, ..small.clone() }, 2));
    let ecn = Config { ecn: true, ..small };
    laws::check(|| Red::new(ecn.clone(), 3));
    laws::check(|| Red::new(Config { harddrop: true, ..ecn.clone() }, 4));
    laws::check(|| Red::new(Config { nodrop: true, ..ecn.clone() }, 5));
    laws::check(|| Red::new(Config { limit: Bytes::new(8_000), ..ecn.clone() }, 6));
}

#[test]
fn the_average_follows_a_constant_backlog_by_powers_of_one_minus_w() {
    let red = Red::<TestPacket>::new(bed(), 1);
    let (mut qavg, backlog, w) = (0, 200_000, 1.0 / 64.0);
    for n in 1..2_000 {
        qavg = red.parameters.average_busy(qavg, backlog);
        let closed = backlog as f64 * (1.0 - libm::pow(1.0 - w, f64::from(n)));
        let average = qavg as f64 / 64.0;
        // A shift drops less than one unit of 1/64 byte at each step. The sum of these errors,
        // weighted by (1-w)^k, stays below one byte, and the average stays above the closed form.
        assert!((0.0..1.0).contains(&(average - closed)), "{n}: {average}, not {closed}");
    }
}

#[test]
fn the_average_counts_what_waits_before_the_packet() {
    let mut red = Red::new(bed(), 1);
    let mut dropped = Vec::new();
    // The first arrival ends the idle time of an empty queue, the second finds 1000 bytes.
    red.enqueue(Time::ZERO, packet(Ecn::NotEct), &mut dropped);
    assert_eq!(red.average(), 0.0);
    red.enqueue(Time::ZERO, packet(Ecn::NotEct), &mut dropped);
    assert_eq!(red.average(), 1000.0 / 64.0);
}

#[test]
fn a_burst_of_burst_packets_passes_an_empty_queue() {
    // What `burst` promises: after that many packets of avpkt the average is about min.
    let mut red = Red::new(bed(), 1);
    let mut dropped = Vec::new();
    for _ in 0..98 {
        let packet = TestPacket { bytes: 1400, ..TestPacket::default() };
        assert_eq!(red.enqueue(Time::ZERO, packet, &mut dropped), Verdict::Queued);
    }
    assert!(red.average() < 74_874.0);
}

#[test]
fn nothing_happens_below_min_and_the_count_restarts() {
    let mut red = with_average(bed(), 74_873);
    red.state.count = Some(1000);
    assert_eq!(red.state.decide(&red.parameters, &mut red.random), Decision::Pass);
    assert_eq!(red.state.count, None);
}

#[test]
fn the_first_packet_between_the_thresholds_only_draws_a_number() {
    let mut red = with_average(bed(), 262_373);
    for _ in 0..1000 {
        red.state.count = None;
        assert_eq!(red.state.decide(&red.parameters, &mut red.random), Decision::Pass);
        assert_eq!(red.state.count, Some(0));
    }
}

#[test]
fn every_packet_is_hit_from_max_on_and_the_count_restarts() {
    let mut red = with_average(bed(), 262_374);
    red.state.count = Some(1000);
    assert_eq!(red.state.decide(&red.parameters, &mut red.random), Decision::Forced);
    assert_eq!(red.state.count, None);
}

/// In the middle between the thresholds p is 0.05: gaps are uniform on 1..=20.
#[test]
fn gaps_between_marks_are_uniform_on_one_to_one_over_p() {
    let mut red = with_average(bed(), 74_874 + 93_750);
    let mut gaps = [0u32; 20];
    let mut gap = 0;
    let mut marks = 0;
    while marks <= 20_000 {
        gap += 1;
        if red.state.decide(&red.parameters, &mut red.random) == Decision::Early {
            // The first gap starts outside the thresholds. Because the divisor is rounded, one gap
            // in 3500 is 21.
            if marks > 0 {
                gaps[(gap - 1).min(19)] += 1;
            }
            marks += 1;
            gap = 0;
        }
    }
    let expected = 1000.0;
    let chi_square: f64 =
        gaps.iter().map(|&n| libm::pow(f64::from(n) - expected, 2.0) / expected).sum();
    // With 19 degrees of freedom, the statistic exceeds 50.8 once in 10000 times, and is below
    // 4.9 once in 2000 times.
    assert!(chi_square < 50.8, "{chi_square}: {gaps:?}");
    assert!(chi_square > 2.0, "{chi_square}: the gaps are too even to be random");
    // The mean is (1 + 20) / 2, its standard error sqrt((20^2 - 1) / 12 / 20000) = 0.041.
    let sum: f64 = gaps.iter().zip(1..).map(|(&n, gap)| f64::from(n) * f64::from(gap)).sum();
    assert!((sum / 20_000.0 - 10.5).abs() < 4.0 * 0.041);
}

#[test]
fn random_numbers_are_divided_by_max_p_over_delta_rounded_down() {
    let parameters = Red::<TestPacket>::new(bed(), 1).parameters;
    // 429496729 / 187500 = 2290.6
    assert_eq!(parameters.divisor, 2290);
}

/// tc sends 0 for a probability of 1; the kernel then takes 2^-Plog (Plog 16) times delta.
#[test]
fn probability_one_becomes_a_power_of_two_times_delta() {
    let red = Red::<TestPacket>::new(Config { probability: 1.0, ..Config::example() }, 1);
    assert_eq!(red.config().derive().map(|derived| (derived.plog, derived.max_p)), Ok((16, 0)));
    assert_eq!(red.parameters.max_p, 0xffff * 60_000);
}

#[test]
fn without_ecn_all_are_dropped_for_the_reason_that_hit_them() {
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let early = (Verdict::Dropped, Some(DropReason::Early));
        let forced = (Verdict::Dropped, Some(DropReason::Forced));
        assert_eq!(fate(&bed(), BETWEEN, ecn), early);
        assert_eq!(fate(&bed(), ABOVE, ecn), forced);
    }
}

#[test]
fn with_ecn_capable_packets_are_marked_between_and_above_the_thresholds() {
    let config = Config { ecn: true, ..bed() };
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        assert_eq!(fate(&config, BETWEEN, ecn), (Verdict::Marked, None));
        assert_eq!(fate(&config, ABOVE, ecn), (Verdict::Marked, None));
    }
    let early = (Verdict::Dropped, Some(DropReason::Early));
    let forced = (Verdict::Dropped, Some(DropReason::Forced));
    assert_eq!(fate(&config, BETWEEN, Ecn::NotEct), early);
    assert_eq!(fate(&config, ABOVE, Ecn::NotEct), forced);
}

#[test]
fn harddrop_drops_above_max_and_still_marks_between() {
    let config = Config { ecn: true, harddrop: true, ..bed() };
    assert_eq!(fate(&config, BETWEEN, Ecn::Ect0), (Verdict::Marked, None));
    let forced = (Verdict::Dropped, Some(DropReason::Forced));
    assert_eq!(fate(&config, ABOVE, Ecn::Ect0), forced);
}

#[test]
fn nodrop_queues_what_cannot_be_marked_unless_harddrop_says_otherwise() {
    let config = Config { ecn: true, nodrop: true, ..bed() };
    assert_eq!(fate(&config, BETWEEN, Ecn::NotEct), (Verdict::Queued, None));
    assert_eq!(fate(&config, ABOVE, Ecn::NotEct), (Verdict::Queued, None));
    assert_eq!(fate(&config, ABOVE, Ecn::Ect0), (Verdict::Marked, None));
    let config = Config { harddrop: true, ..config };
    let forced = (Verdict::Dropped, Some(DropReason::Forced));
    assert_eq!(fate(&config, ABOVE, Ecn::NotEct), forced);
}

#[test]
fn marks_and_drops_are_counted_by_reason() {
    let mut red = with_average(Config { ecn: true, ..bed() }, BETWEEN);
    red.state.count = Some(i32::MAX as u32 - 1);
    let mut dropped = Vec::new();
    red.enqueue(Time::ZERO, packet(Ecn::Ect0), &mut dropped);
    red.state.count = Some(i32::MAX as u32 - 1);
    red.enqueue(Time::ZERO, packet(Ecn::NotEct), &mut dropped);
    red.state.average = ABOVE << 6;
    for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::NotEct] {
        red.enqueue(Time::ZERO, packet(ecn), &mut dropped);
    }
    let counters = red.counters();
    assert_eq!((counters.marked_early, counters.marked_forced), (1, 3));
    assert_eq!((counters.dropped_early, counters.dropped_forced), (1, 2));
    assert_eq!(counters.marked_packets(), 4);
}

#[test]
fn a_packet_marked_and_then_refused_by_the_limit_counts_as_both() {
    let mut red = with_average(Config { ecn: true, limit: Bytes::new(999), ..bed() }, ABOVE);
    let mut dropped = Vec::new();
    let verdict = red.enqueue(Time::ZERO, packet(Ecn::Ect0), &mut dropped);
    assert_eq!(verdict, Verdict::Dropped);
    let marked = TestPacket { marks: 1, ..packet(Ecn::Ce) };
    assert_eq!(dropped, [(marked, DropReason::Overflow)]);
    let counters = red.counters();
    assert_eq!((counters.marked_forced, counters.marked_then_dropped), (1, 1));
    assert_eq!((counters.dropped_overflow, counters.marked_packets()), (1, 0));
}

#[test]
fn the_limit_is_the_child_s_in_bytes() {
    let mut red = Red::new(Config { limit: Bytes::new(2_500), ..bed() }, 1);
    let mut dropped = Vec::new();
    let verdicts = [1000, 1000, 501, 500, 1].map(|bytes| {
        let packet = TestPacket { bytes, ..TestPacket::default() };
        red.enqueue(Time::ZERO, packet, &mut dropped)
    });
    use Verdict::{Dropped, Queued};
    assert_eq!(verdicts, [Queued, Queued, Dropped, Queued, Dropped]);
    assert!(dropped.iter().all(|&(_, reason)| reason == DropReason::Overflow));
}

#[test]
fn idle_time_starts_at_the_first_dequeue_that_finds_nothing_and_ends_with_any_arrival() {
    let mut red = with_average(bed(), ABOVE);
    let mut dropped = Vec::new();
    let at = |tenth_ms: u64| Time::ZERO + Span::from_us(100 * tenth_ms);
    assert_eq!(red.state.idle_since, None);
    red.dequeue(at(10), &mut dropped);
    red.dequeue(at(20), &mut dropped);
    assert_eq!(red.state.idle_since, Some(at(10)));
    // The packet is dropped above max, but it still ends the idle time.
    assert_eq!(red.enqueue(at(30), packet(Ecn::NotEct), &mut dropped), Verdict::Dropped);
    assert_eq!(red.state.idle_since, None);
}

/// `htb_dequeue_tree` and `tbf_dequeue` never call `red_dequeue` of an empty queue.
#[test]
fn below_a_shaper_the_average_moves_with_arrivals_only() {
    let mut red = with_average(Config { idles: false, ..bed() }, BETWEEN);
    let mut dropped = Vec::new();
    let second = |count: u64| Time::ZERO + Span::from_secs(count);
    assert!(red.dequeue(second(1), &mut dropped).is_none());
    assert_eq!(red.state.idle_since, None);
    red.enqueue(second(100), packet(Ecn::NotEct), &mut dropped);
    // One arrival at an empty queue: 1 - 2^-6 of it is left.
    assert_eq!(red.average(), BETWEEN as f64 * 63.0 / 64.0);
}

/// Within the cells that the table tells apart, the decay is 2^-n, n rounded down.
#[test]
fn idle_decay_stays_within_a_factor_of_two_of_its_closed_form() {
    let parameters = Red::<TestPacket>::new(bed(), 1).parameters;
    let qavg = 200_000 << 6;
    // 2^-(t lW), lW being -ln(1 - W) / 17500 for each microsecond.
    let lw = -libm::log(1.0 - 1.0 / 64.0) / 17_500.0;
    for ms in (1_200..30_000).step_by(50) {
        let idle = Span::from_ms(ms);
        let decayed = parameters.average_idle(qavg, idle) as f64;
        // The table is looked up at the start of a cell of 2^17 us.
        let cell = idle.as_us() >> 17 << 17;
        let closed = qavg as f64 * libm::exp2(-(cell as f64) * lw);
        let ratio = decayed / closed;
        assert!(ratio > 0.99 && ratio < 2.01 || decayed < 100.0, "{ms} ms: {ratio}");
    }
}

#[test]
fn a_short_idle_time_decays_linearly_by_cells_and_not_below_a_half() {
    let parameters = Red::<TestPacket>::new(bed(), 1).parameters;
    let qavg = 1 << 23;
    let decayed = |us| parameters.average_idle(qavg, Span::from_us(us));
    assert_eq!(decayed(0), qavg);
    assert_eq!(decayed(1 << 14), qavg - (qavg >> 3));
    assert_eq!(decayed(1 << 16), qavg >> 1);
    // The table's first 9 cells are 0, and the next shifts by one bit.
    assert_eq!(decayed((9 << 17) - 1), qavg >> 1);
    assert_eq!(decayed(9 << 17), qavg >> 1);
    assert_eq!(decayed(17 << 17), qavg >> 2);
}

#[test]
fn a_very_long_idle_time_is_bounded_by_the_last_cell() {
    let parameters = Red::<TestPacket>::new(bed(), 1).parameters;
    let qavg = (1 << 31) + 12345;
    assert_eq!(parameters.average_idle(qavg, Span::from_secs(3600)), 1);
}

/// The paper: (1-W)^(t/s), where s is a packet's transmission time. For W = 2^-6 and s = 1.12 ms,
/// half is gone in ln 2 / -ln(63/64) = 44 packet times, 49.3 ms. Here the linear part removes the
/// first half in 65.5 ms, and then nothing changes for two seconds.
#[test]
fn an_idle_queue_forgets_22_times_more_slowly_than_in_the_paper() {
    let parameters = Red::<TestPacket>::new(bed(), 1).parameters;
    let qavg = 200_000u64 << 6;
    // Each bit of the table takes 15.625 / ln 2 times the paper's half-life.
    let half_life_us = core::f64::consts::LN_2 / -libm::log(1.0 - 1.0 / 64.0) * 1120.0;
    let bits = 20.0;
    let us = bits * half_life_us * 15.625 / core::f64::consts::LN_2;
    let just_before = Span::from_us((us - 131_072.0) as u64);
    let just_after = Span::from_us((us + 131_072.0) as u64);
    assert_eq!(parameters.average_idle(qavg, just_before), qavg >> 19);
    assert_eq!(parameters.average_idle(qavg, just_after), qavg >> 20);
}

#[test]
fn adaptation_raises_a_small_probability_by_a_quarter_and_others_by_a_percent() {
    let mut red = with_average(Config { probability: 0.02, adaptive: true, ..bed() }, 200_000);
    let mut expected = red.parameters.max_p;
    for half_second in 1..60 {
        let tick = Time::ZERO + Span::from_ms(500 * half_second);
        let just_before = Time::from_ps(tick.as_ps() - 1);
        red.adapt(just_before);
        assert_eq!(red.parameters.max_p, expected);
        red.adapt(tick);
        if expected <= 50 * 42_949_673 {
            expected += (expected / 4).min(42_949_673);
        }
        assert_eq!(red.parameters.max_p, expected);
    }
    assert!((0.50..0.52).contains(&red.probability()));
}

#[test]
fn adaptation_lowers_the_probability_by_a_tenth_down_to_below_a_percent() {
    let mut red = with_average(Config { adaptive: true, ..bed() }, 100_000);
    red.adapt(Time::ZERO + Span::from_ms(500));
    assert_eq!(red.parameters.max_p, 429_496_729 / 10 * 9);
    red.adapt(Time::ZERO + Span::from_secs(3600));
    // 0.1 * 0.9^22 = 0.00985 is the first value below 1 %.
    assert!((red.probability() - 0.1 * libm::pow(0.9, 22.0)).abs() < 1e-6);
}

#[test]
fn adaptation_leaves_the_probability_alone_between_two_and_three_fifths() {
    // delta / 5 = 37500: the target is 149874 to 187374.
    for average in [149_874, 170_000, 187_374] {
        let mut red = with_average(Config { adaptive: true, ..bed() }, average);
        red.adapt(Time::ZERO + Span::from_secs(60));
        assert_eq!(red.parameters.max_p, 429_496_729);
    }
    for (average, rises) in [(149_873, false), (187_375, true)] {
        let mut red = with_average(Config { adaptive: true, ..bed() }, average);
        red.adapt(Time::ZERO + Span::from_ms(500));
        assert_eq!(red.parameters.max_p > 429_496_729, rises);
        assert_ne!(red.parameters.max_p, 429_496_729);
    }
}

#[test]
fn adaptation_rounds_the_divisor_to_nearest() {
    let mut red = with_average(Config { adaptive: true, ..bed() }, 170_000);
    red.adapt(Time::ZERO + Span::from_ms(500));
    // 2290.6 is rounded up; before the timer's first run it was 2290.
    assert_eq!(red.parameters.divisor, 2291);
}

#[test]
fn adaptation_caught_up_with_late_equals_the_timer() {
    for average in [100_000, 170_000, 200_000] {
        // In the last, the average is still high at the first tick.
        for idle in [None, Some(Time::ZERO), Some(Time::ZERO + Span::from_us(499_900))] {
            let mut often = with_average(Config { adaptive: true, ..bed() }, average);
            often.state.idle_since = idle;
            let mut late = often.clone();
            for tick in 1..400 {
                often.adapt(Time::ZERO + Span::from_ms(500 * tick));
            }
            late.adapt(Time::ZERO + Span::from_ms(500 * 399 + 499));
            assert_eq!(late.parameters.max_p, often.parameters.max_p);
            assert_eq!(late.adapt_at, often.adapt_at);
        }
    }
}

#[test]
fn without_adaptive_the_probability_stays() {
    let mut red = with_average(bed(), 200_000);
    red.dequeue(Time::ZERO + Span::from_secs(60), &mut Vec::new());
    assert_eq!(red.parameters.max_p, 429_496_729);
}

#[test]
fn impossible_settings_are_refused_by_field() {
    type Change = fn(&mut Config);
    let refused: [(Change, &str); 11] = [
        (|c| c.limit = Bytes::ZERO, "limit: must be above zero"),
        (|c| c.limit = Bytes::new(1 << 32), "limit: must be at most 4294967295"),
        (|c| c.min = Some(Bytes::ZERO), "min: must be above zero"),
        (|c| c.avpkt = Bytes::ZERO, "avpkt: must be above zero"),
        (
            |c| c.min = c.max,
            "min: \"90 kB\" is not below max (\"90 kB\"); hint: tc-red(8) advises a max of at least twice min",
        ),
        (|c| c.probability = 0.0, "probability: must be above zero"),
        (|c| c.probability = 1.1, "probability: must be at most 1"),
        (|c| c.probability = f64::NAN, "probability: must be above zero"),
        (
            |c| c.burst = Some(29),
            "burst: 29 is below min / avpkt, which no weight of the average gives; hint: at least 30",
        ),
        (|c| c.nodrop = true, "nodrop: needs ecn = true; hint: set ecn, or leave nodrop out"),
        (
            |c| c.max = Some(Bytes::new(1 << 31)),
            "max: \"2 GiB\" is too large for the weight that burst 55 asks for; hint: lower it or burst",
        ),
    ];
    for (change, error) in refused {
        let mut config = Config { probability: 1.0, ..Config::example() };
        change(&mut config);
        assert_eq!(config.check().expect_err(error).to_string(), error);
    }
    let config = Config { bandwidth: Rate::from_bps(7), ..Config::example() };
    let error = config.check().expect_err("less than a byte a second");
    assert_eq!(error.key(), "bandwidth");
}

#[test]
fn the_seed_decides() {
    let drops = |seed| {
        let mut red = Red::new(bed(), seed);
        let mut dropped = Vec::new();
        for number in 0..5_000 {
            red.state.average = BETWEEN << 6;
            red.state.idle_since = None;
            red.enqueue(Time::ZERO, TestPacket { number, ..TestPacket::default() }, &mut dropped);
            red.dequeue(Time::ZERO, &mut Vec::new());
        }
        dropped.iter().map(|(packet, _)| packet.number).collect::<Vec<_>>()
    };
    assert_eq!(drops(1), drops(1));
    assert_ne!(drops(1), drops(2));
}

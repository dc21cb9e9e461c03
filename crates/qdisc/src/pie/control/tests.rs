use alloc::vec::Vec;

use rand_core::SeedableRng;

use super::*;

fn params(config: &Config) -> Params {
    Params::new(config, Span::ZERO)
}

fn vars(qdelay_ms: u64, qdelay_old_ms: u64, prob: f64) -> Vars {
    Vars {
        qdelay: ms(qdelay_ms),
        qdelay_old: ms(qdelay_old_ms),
        burst_allowance: 0,
        drop_prob: of(prob),
        ..Control::new(&params(&Config::default())).vars
    }
}

fn ms(ms: u64) -> Ticks {
    ticks(Span::from_ms(ms).as_ps())
}

fn of(probability: f64) -> u64 {
    (probability * CERTAIN as f64) as u64
}

fn probability(vars: &Vars) -> f64 {
    vars.drop_prob as f64 / CERTAIN as f64
}

/// What one update makes of the probability.
fn updated(mut vars: Vars, backlog: u64) -> f64 {
    vars.update(&params(&Config::default()), backlog);
    probability(&vars)
}

/// RFC 8033, section 4.2: alpha 0.125 Hz and beta 1.25 Hz, and the table of the auto-tuning.
#[test]
fn the_auto_tuning_divides_the_weights_by_the_table_s_numbers() {
    for (prob, divisor) in [
        (0.0, 2048.0),
        (0.000_000_9, 2048.0),
        (0.000_001_1, 512.0),
        (0.000_009, 512.0),
        (0.000_011, 128.0),
        (0.000_09, 128.0),
        (0.000_11, 32.0),
        (0.000_9, 32.0),
        (0.001_1, 8.0),
        (0.009, 8.0),
        (0.011, 2.0),
        (0.09, 2.0),
        (0.11, 1.0),
        (0.9, 1.0),
    ] {
        // 20 ms now, 18 ms before, 15 ms wanted.
        let expected = (0.125 * 0.005 + 1.25 * 0.002) / divisor;
        let delta = updated(vars(20, 18, prob), 1) - prob;
        // Here, probabilities of up to 1 are exact to 2^-53, and delays to 64 ns.
        assert!((delta - expected).abs() < expected * 3e-4 + 1e-15, "{prob}: {delta} {expected}");
        // The same holds in the other direction, if there is room.
        let delta = updated(vars(10, 12, prob), 1) - prob;
        let expected = expected.min(prob);
        assert!((delta + expected).abs() < expected * 3e-4 + 1e-15, "-{prob}: {delta} {expected}");
    }
}

#[test]
fn a_probability_of_ten_percent_rises_by_two_percent_at_most() {
    assert!((updated(vars(240, 15, 0.2), 1) - 0.22).abs() < 1e-9);
    // Below a probability of 10 % there is no such bound: half of 0.125 * 0.225 + 1.25 * 0.225.
    assert!((updated(vars(240, 15, 0.09), 1) - 0.2447).abs() < 1e-4);
}

#[test]
fn a_delay_above_250_ms_adds_two_percent() {
    let base = 0.125 * 0.235 / 2.0;
    assert!((updated(vars(250, 250, 0.05), 1) - 0.05 - base).abs() < 1e-6);
    assert!((updated(vars(251, 251, 0.05), 1) - 0.05 - base - 0.02).abs() < 1e-4);
}

#[test]
fn the_probability_exceeds_one_and_an_overflow_resets_it_to_one_as_in_linux() {
    // Two additions of 2 %: the one for long delays, and the controller's largest step.
    assert!((updated(vars(300, 240, 0.99), 1) - 1.03).abs() < 1e-9);
    assert!((updated(vars(300, 240, 255.0), 1) - 255.04).abs() < 1e-9);
    assert_eq!(updated(vars(300, 240, 255.99), 1), 1.0);
    assert_eq!(updated(vars(1, 100, 0.01), 1), 0.0);
}

/// At 1 and above, each packet is dropped, also once the delay is low again.
#[test]
fn a_probability_above_one_drops_everything_beyond_two_packets() {
    let params = params(&Config::default());
    let mut vars = vars(1, 1, 17.0);
    let mut random = Pcg32::seed_from_u64(1);
    for _ in 0..1_000 {
        assert!(vars.hits(&params, 2 * params.mtu, 1000, &mut random));
        // As the queue does after each drop.
        vars.accu_prob = 0;
        assert!(!vars.hits(&params, 2 * params.mtu - 1, 1000, &mut random));
        vars.update(&params, 3028);
    }
    assert!(probability(&vars) > 15.0);
}

#[test]
fn an_idle_queue_s_probability_shrinks_by_a_sixty_fourth() {
    let after_target = 0.5 - 0.125 * 0.015;
    assert!((updated(vars(0, 0, 0.5), 0) - after_target * 63.0 / 64.0).abs() < 1e-7);
    // This does not happen if packets wait, or if there was a delay before.
    assert!((updated(vars(0, 0, 0.5), 1) - after_target).abs() < 1e-7);
    let after_both = after_target - 1.25 * 0.001;
    assert!((updated(vars(0, 1, 0.5), 0) - after_both).abs() < 1e-7);
}

/// RFC 8033, section 5.2.
#[test]
fn the_burst_allowance_comes_back_when_the_probability_is_zero_and_delays_are_low() {
    let params = params(&Config::default());
    for (qdelay, qdelay_old, prob, comes_back) in
        [(7, 7, 0.0, true), (8, 7, 0.0, false), (7, 8, 0.0, false), (7, 7, 0.5, false)]
    {
        let mut vars = Vars { accu_prob: 1, ..vars(qdelay, qdelay_old, prob) };
        vars.update(&params, 1);
        assert_eq!(vars.burst_allowance, if comes_back { MAX_BURST } else { 0 });
        assert_eq!(vars.accu_prob, u64::from(!comes_back));
    }
}

#[test]
fn departures_use_up_the_burst_allowance() {
    let params = params(&Config::default());
    let mut vars = Control::new(&params).vars;
    let mut random = Pcg32::seed_from_u64(1);
    vars.drop_prob = CERTAIN;
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    for (leaves_at, left) in [(1_000, 150), (1_040, 110), (1_149, 1), (1_150, 0), (5_000, 0)] {
        vars.on_departure(&params, at(leaves_at), at(leaves_at - 100), 1000, 10_000);
        assert_eq!(vars.burst_allowance, ms(left));
        assert_eq!(vars.hits(&params, 10_000, 1000, &mut random), left == 0);
    }
}

#[test]
fn the_delay_is_that_of_the_last_departure_and_zero_when_nothing_waits() {
    let params = params(&Config::default());
    let mut vars = vars(0, 0, 0.0);
    let at = |us| Time::ZERO + Span::from_us(us);
    vars.on_departure(&params, at(20_000), at(3_000), 1000, 1);
    assert_eq!(vars.qdelay, ticks(Span::from_ms(17).as_ps()));
    vars.on_departure(&params, at(20_000), at(3_000), 1000, 0);
    assert_eq!(vars.qdelay, 0);
}

/// RFC 8033, section 4.1: the safeguards.
#[test]
fn low_delays_and_short_queues_are_left_alone() {
    let params = params(&Config::default());
    let mut random = Pcg32::seed_from_u64(1);
    // The accumulated probability is such that every other packet is hit.
    let mut drops = |vars: Vars, backlog| {
        Vars { accu_prob: CERTAIN * 9, ..vars }.hits(&params, backlog, 1000, &mut random)
    };
    assert!(drops(vars(8, 8, 0.19), 3028));
    assert!(!drops(vars(7, 8, 0.19), 3028));
    assert!(drops(vars(7, 8, 0.21), 3028));
    assert!(!drops(vars(8, 8, 0.19), 3027));
}

/// RFC 8033, section 5.4: no drop below 0.85, always one from 8.5 on.
#[test]
fn accumulated_probabilities_space_the_drops() {
    let params = params(&Config::default());
    let mut random = Pcg32::seed_from_u64(5);
    let p = 0.05;
    let mut vars = vars(20, 20, p);
    let (mut gap, mut gaps) = (0u32, Vec::new());
    while gaps.len() < 20_000 {
        gap += 1;
        if vars.hits(&params, 100_000, 1000, &mut random) {
            gaps.push(gap);
            // `enqueue` does the same.
            vars.accu_prob = 0;
            gap = 0;
        }
    }
    let (least, most) = (gaps.iter().min(), gaps.iter().max());
    // 17 * 0.05 is 0.85, less what integers round away; 170 * 0.05 is 8.5.
    assert!(least >= Some(&17) && most <= Some(&171), "{least:?} {most:?}");
    // 16 or 17 packets pass for sure; then the gap is geometric with mean 1/p.
    let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    let certain = f64::from(*least.expect("gaps") - 1);
    let error = 4.0 * (1.0 / p) / (gaps.len() as f64).sqrt();
    assert!((mean - certain - 1.0 / p).abs() < error + 0.01, "{mean}");
}

/// RFC 8033, section 5: with byte mode, a packet's probability is in proportion to its size.
#[test]
fn byte_mode_scales_the_probability_by_the_size() {
    let params = params(&Config { bytemode: true, ..Config::default() });
    let mut random = Pcg32::seed_from_u64(5);
    for (bytes, part) in [(757, 0.5), (1514, 1.0), (1515, 1.0), (0, 0.0)] {
        let mut vars = vars(20, 20, 0.01);
        vars.accu_prob = 7;
        vars.hits(&params, 100_000, bytes, &mut random);
        let added = (vars.accu_prob.saturating_sub(7)) as f64 / CERTAIN as f64;
        assert!((added - 0.01 * part).abs() < 1e-9);
        // If the probability is zero, the sum starts again.
        assert_eq!(vars.accu_prob == 0, bytes == 0);
    }
}

/// RFC 8033, section 4.3. 1250 bytes a millisecond are 20.48 units of 1/256 byte a tick.
#[test]
fn the_departure_rate_is_estimated_over_16_kilobytes_of_a_queue_as_long() {
    let params = params(&Config { dq_rate_estimator: true, ..Config::default() });
    let mut vars = vars(0, 0, 0.0);
    for n in 0..20 {
        let now = Time::ZERO + Span::from_ms(700 + n);
        vars.on_departure(&params, now, Time::ZERO, 1250, 20_000 - n);
        // The first departure begins the measurement; the fourteenth, 13 ms later, ends it: the
        // bytes of fourteen packets in the time of thirteen.
        let known = if n < 13 { 0 } else { (14 * 1250 * 256) / ms(13) };
        assert_eq!(vars.departures.average_rate, known);
    }
    // The delay is the backlog over the rate, at the next update.
    vars.update(&params, 12_500);
    let expected = 12_500 * 256 / vars.departures.average_rate;
    assert_eq!(vars.qdelay, expected);
    // Both delays are now below half of the target, and the probability is zero: everything starts
    // again.
    vars.update(&params, 1_000);
    vars.update(&params, 1_000);
    assert_eq!((vars.departures.average_rate, vars.departures.count), (0, None));
}

#[test]
fn a_short_queue_is_no_measure_of_the_departure_rate() {
    let params = params(&Config { dq_rate_estimator: true, ..Config::default() });
    let mut vars = vars(0, 0, 0.0);
    for n in 0..100 {
        vars.on_departure(&params, Time::ZERO + Span::from_ms(n), Time::ZERO, 1250, 16_383);
    }
    assert_eq!((vars.departures.average_rate, vars.departures.count), (0, None));
}

/// The proof that lazy updates are exact: many at once leave the same state as one by one.
#[test]
fn updates_caught_up_with_at_once_are_the_same_as_one_by_one() {
    let mut random = Pcg32::seed_from_u64(3);
    for round in 0..3_000 {
        let mut pick = |of: &[u64]| of[random.next_u32() as usize % of.len()];
        let config = Config {
            alpha: pick(&[0, 1, 2, 32]) as u32,
            beta: pick(&[0, 20, 32]) as u32,
            target: Span::from_us(pick(&[1, 1_000, 15_000, 15_001, 400_000])),
            dq_rate_estimator: pick(&[0, 0, 1]) == 1,
            ..Config::default()
        };
        let params = params(&config);
        let delays = [0, 1, 15_624, ms(1), ms(15), ms(15) + 1, ms(16), ms(249), ms(251), ms(9_000)];
        let start = Vars {
            qdelay: pick(&delays),
            qdelay_old: pick(&delays),
            burst_allowance: pick(&[0, 5, MAX_BURST]),
            drop_prob: pick(&[
                0,
                1,
                63,
                64,
                1 << 20,
                1 << 36,
                1 << 40,
                1 << 50,
                1 << 53,
                1 << 55,
                CERTAIN,
                u64::MAX - (1 << 50),
            ]),
            accu_prob: pick(&[0, 7]),
            departures: Departures {
                average_rate: pick(&[0, 1, 20, 20_000]),
                ..Departures::default()
            },
        };
        let backlog = pick(&[0, 1, 10_000, 1_000_000]);
        let due = pick(&[1, 2, 3, 10, 100, 1_000, 4_000]);
        let mut single = start;
        for _ in 0..due {
            single.update(&params, backlog);
        }
        let mut at_once = start;
        at_once.update_times(due, &params, backlog);
        assert_eq!(at_once, single, "round {round}: {start:?}, {due} times, {config:?}");
    }
}

/// The longest possible idle time, at the shortest interval.
#[test]
fn an_endless_idle_time_is_caught_up_with_in_few_steps() {
    let config = Config { tupdate: Span::from_ps(1), ..Config::default() };
    let params = params(&config);
    for (qdelay, backlog) in [(0, 0), (0, 1), (ms(15) + 1, 1), (ms(15) - 1, 1), (ms(400), 1)] {
        let mut control = Control::new(&params);
        control.vars = Vars { qdelay, ..vars(0, 0, 0.7) };
        control.catch_up(Time::MAX, &params, backlog);
        assert!(if qdelay > ms(15) {
            control.vars.drop_prob >= CERTAIN
        } else {
            control.vars.drop_prob == 0
        });
    }
}

/// Between a high target and 250 ms, the added two percent and the pull of the target balance at an
/// edge of the auto-tuning, and the probability swings around this edge without end.
#[test]
fn a_swing_without_end_is_caught_up_with_too() {
    let config =
        Config { tupdate: Span::from_ps(1), target: Span::from_ms(12_800), ..Config::default() };
    let params = params(&config);
    let mut swings = 0;
    for qdelay in (300..12_800).step_by(100) {
        let mut control = Control::new(&params);
        control.vars = Vars { qdelay: ms(qdelay), qdelay_old: ms(qdelay), ..vars(0, 0, 0.05) };
        control.catch_up(Time::MAX, &params, 1);
        let before = control.vars;
        control.vars.update(&params, 1);
        swings += u32::from(control.vars != before);
    }
    assert!(swings > 0, "the probability always settled, so nothing was tested");
}

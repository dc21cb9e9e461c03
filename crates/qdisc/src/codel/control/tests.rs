use super::*;

fn with_count(count: u32, inverse_root: u16) -> Control {
    Control { count, inverse_root, ..Control::default() }
}

fn fraction(control: &Control) -> f64 {
    f64::from(control.inverse_root) / 65_536.0
}

fn params() -> Params {
    Params {
        target: Span::from_ms(5),
        interval: Span::from_ms(100),
        ce_threshold: Span::MAX,
        ce_selector: (0, 0),
        mtu: 1514,
        ecn: false,
        when_empty: WhenEmpty::Forget,
    }
}

#[test]
fn each_step_of_the_root_is_half_x_times_three_minus_count_x_squared() {
    for count in [1, 2, 3, 10, 1000] {
        for x in [0.001, 0.01, 0.03, 0.1] {
            let mut control = with_count(count, (x * 65_536.0) as u16);
            let x = fraction(&control);
            let next = x / 2.0 * (3.0 - f64::from(count) * x * x);
            if (0.0..1.0).contains(&next) {
                control.refine_root();
                assert!((fraction(&control) - next).abs() < 2.0 / 65_536.0, "{count} {x}");
            }
        }
    }
}

/// The closed form: drops come interval / sqrt(count) apart.
#[test]
fn counting_up_the_fraction_follows_the_inverse_square_root() {
    let mut control = with_count(1, u16::MAX);
    let mut worst: f64 = 0.0;
    for count in 2..=1000u32 {
        control.count = count;
        control.refine_root();
        let root = 1.0 / f64::from(count).sqrt();
        // The step from 1 to 2 gives 1/2 (3 - 2) = 0.5, and the step to 3 gives 0.25 (3 - 0.75).
        let expected = match count {
            2 => 0.5,
            3 => 0.5625,
            _ => root,
        };
        let error = (fraction(&control) / expected - 1.0).abs();
        // Sixteen bits, rounded down, resolve one part in 65536 / sqrt(count).
        let resolution = 3.0 * f64::from(count).sqrt() / 65_536.0;
        let method = match count {
            2 | 3 => 0.0,
            4..=7 => 0.03,
            8..=15 => 0.01,
            _ => 0.002,
        };
        assert!(error < resolution + method, "{count}: {} for {expected}", fraction(&control));
        if count > 15 {
            worst = worst.max(error);
        }
    }
    assert!(worst > 0.0, "sixteen bits cannot be exact");
}

#[test]
fn a_fraction_far_too_large_wraps_as_in_the_kernel_and_finds_back() {
    // 3 - 95 * 0.18^2 is below zero, so its product with half of 0.18 wraps: one is added.
    let mut control = with_count(95, (0.18 * 65_536.0) as u16);
    control.refine_root();
    assert!((fraction(&control) - (1.0 + 0.09 * (3.0 - 95.0 * 0.0324))).abs() < 1e-3);
    // The fraction wanders, but it comes close to the root again.
    let found = (0..10_000).any(|_| {
        control.refine_root();
        (fraction(&control) * 95f64.sqrt() - 1.0).abs() < 0.001
    });
    assert!(found);
}

#[test]
fn the_control_law_adds_the_interval_over_the_root() {
    let control = with_count(4, 32_768);
    let at = control.control_law(Time::ZERO + Span::from_ms(7), &params());
    assert_eq!(at, Time::ZERO + Span::from_ms(57));
    // The time saturates.
    let endless = Params { interval: Span::MAX, ..params() };
    assert_eq!(control.control_law(Time::MAX, &endless), Time::MAX);
}

#[test]
fn the_rate_of_the_last_cycle_is_kept_for_16_intervals() {
    let entered = |count, lastcount, since_ms: u64| {
        let mut control = Control {
            lastcount,
            drop_next: Some(Time::ZERO + Span::from_ms(500)),
            ..with_count(count, 6_554)
        };
        control.enter_dropping(Time::ZERO + Span::from_ms(500 + since_ms), &params());
        assert_eq!(control.lastcount, control.count);
        control.count
    };
    // A cycle that began with 3 and ended with 100: 97 drops held the queue.
    assert_eq!(entered(100, 3, 0), 97);
    assert_eq!(entered(100, 3, 1_599), 97);
    assert_eq!(entered(100, 3, 1_600), 1);
    // A cycle with one drop or none tells nothing about the rate.
    assert_eq!(entered(4, 3, 0), 1);
    assert_eq!(entered(3, 3, 0), 1);
}

/// RFC 8289, 5.6: the old rate is kept only if `delta > 1`. Otherwise, the next drop comes a whole
/// interval later, not an interval over the root of the last count.
#[test]
fn a_cycle_with_a_single_drop_starts_again_at_the_interval() {
    let start = Time::ZERO + Span::from_ms(500);
    let next_ms = |count, inverse_root| {
        let mut control =
            Control { lastcount: 3, drop_next: Some(start), ..with_count(count, inverse_root) };
        control.enter_dropping(start, &params());
        control.drop_next.expect("it has been entered").since(start).as_us() / 1000
    };
    assert_eq!(next_ms(4, 32_768), 99, "an interval, less one part in 65536");
    // Two drops do keep it: the root of 2 drops, by one Newton step from the root of 5.
    let x = f64::from(29_309) / 65_536.0;
    let kept = 100.0 * x / 2.0 * (3.0 - 2.0 * x * x);
    assert_eq!(next_ms(5, 29_309), kept as u64);
}

/// In this case, `drop_next` is zero in Linux. Its clock began at boot, so it takes zero for long
/// ago.
#[test]
fn overflows_before_the_first_cycle_do_not_set_its_rate() {
    let mut control = with_count(51, 0);
    control.enter_dropping(Time::ZERO + Span::from_ms(300), &params());
    assert_eq!((control.count, control.lastcount), (1, 1));
    // An interval later, less one part in 65536.
    let next = control.drop_next.expect("it has been entered");
    assert_eq!(next.since(Time::ZERO + Span::from_ms(300)).as_us(), 99_998);
}

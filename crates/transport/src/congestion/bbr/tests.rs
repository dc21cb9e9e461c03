use super::*;

/// Section 4.3.2.1 and 4.3.3: 2/ln 2 and its inverse, in Linux's units; 1 % margin.
#[test]
fn the_constants_are_linuxs() {
    assert_eq!((HIGH_GAIN, DRAIN_GAIN, CWND_GAIN), (739, 88, 512));
    assert_eq!(CYCLE, [320, 192, 256, 256, 256, 256, 256, 256]);
    // 10 segments of 1448 B in 1 ms are 14.48 MB/s, in units of 2^-24 segments a microsecond.
    let bandwidth = 10 * BANDWIDTH_UNIT / 1000;
    assert_eq!(bytes_per_second(bandwidth, UNIT, 1448), 14_335_186);
    assert_eq!(bytes_per_second(bandwidth, UNIT * 5 / 4, 1448), 17_918_982);
    let gib = u64::from(u32::MAX) * BANDWIDTH_UNIT / 1_000_000;
    assert!(bytes_per_second(gib, HIGH_GAIN, 65_535) > 1 << 48, "no overflow");
}

/// Section 4.3.4.2: PROBE_BW begins in any phase but that of 3/4, each as likely as the others.
#[test]
fn the_cycle_begins_anywhere_but_in_its_drain() {
    let mut begins = [0; 8];
    for seed in 0..7000 {
        let mut bbr = Bbr::new(seed);
        bbr.begin_probe_bw(0);
        begins[bbr.phase] += 1;
    }
    assert_eq!(begins[1], 0);
    assert!([0, 2, 3, 4, 5, 6, 7].iter().all(|&k| (850..1150).contains(&begins[k])), "{begins:?}");
}

/// The product is rounded up, and has room for three bursts; without a round trip it is the first
/// window.
#[test]
fn the_product_is_rounded_up() {
    let mut bbr = Bbr::new(1);
    // 0.83 segments in a millisecond.
    let bandwidth = 83 * BANDWIDTH_UNIT / 100_000;
    assert_eq!(bbr.product(bandwidth, UNIT), FIRST_WINDOW);
    for (rtt_us, gain, expected) in
        [(40_000, UNIT, 34), (40_000, CWND_GAIN, 67), (1000, UNIT, 1), (1300, UNIT, 2)]
    {
        bbr.min_rtt_us = Some(rtt_us);
        assert_eq!(bbr.product(bandwidth, gain), expected, "{rtt_us} {gain}");
    }
}

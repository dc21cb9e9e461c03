//! What tc(8) computes from a user's settings before it passes them to the kernel.
//!
//! Source: iproute2 6.1, `tc/tc_red.c` and `tc/q_red.c`; `tc_core.c` for the unit of time.
//!
//! Differences: `min` has to be smaller than `max` (tc also accepts equal ones). Where the C code
//! would convert a number that does not fit a byte, which is undefined there, the table saturates
//! at 31. Rates above 2^32 bytes per second are not cut to 32 bits.

use alloc::format;

use narrows_units::{Bytes, Rate};

use super::{Config, TC_BANDWIDTH};
use crate::ConfigError;

/// What tc passes to the kernel: `struct tc_red_qopt`, `TCA_RED_STAB` and `TCA_RED_MAX_P`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The average's weight is 2^-`wlog`.
    pub wlog: u8,
    /// `probability` / (`max` - `min`) is about 2^-`plog`.
    pub plog: u8,
    /// `probability` as a 32-bit fraction. It is zero if that overflows (`probability` 1); the
    /// kernel then falls back to `plog`.
    pub max_p: u32,
    /// A cell of `stab` spans 2^`scell_log` microseconds of idle time.
    pub scell_log: u8,
    /// For each cell of idle time: by how many bits the average shrinks.
    pub stab: [u8; 256],
}

/// The largest Plog that tc tries.
const MOST_PLOG: u8 = 31;
/// tc's ticks of 64 ns in a microsecond (`/proc/net/psched`: 1000 / 64).
const TICKS_PER_US: f64 = 15.625;

impl Derived {
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let wlog = eval_ewma(config)?;
        let bandwidth = config.bandwidth.unwrap_or(TC_BANDWIDTH);
        let (scell_log, stab) = eval_idle_damping(config, bandwidth, wlog)?;
        // On x86-64, the C conversion of 2^32 gives 0, and tc 6.1 was seen to send that.
        let max_p = (config.probability * 4_294_967_296.0) as u64 as u32;
        Ok(Self { wlog, plog: eval_p(config)?, max_p, scell_log, stab })
    }
}

/// Returns the `burst` that tc sets if none is given (`red_parse_opt`).
pub fn default_burst(min: Bytes, max: Bytes, avpkt: Bytes) -> u32 {
    let bytes = u128::from(min.get()) * 2 + u128::from(max.get());
    let packets = bytes / (3 * u128::from(avpkt.get())).max(1);
    u32::try_from(packets).unwrap_or(u32::MAX)
}

/// Returns the smallest `burst` that tc accepts: below min / avpkt, `tc_red_eval_ewma` finds no
/// weight.
pub fn least_burst(min: Bytes, avpkt: Bytes) -> u64 {
    min.get().div_ceil(avpkt.get().max(1))
}

/// Returns the largest distance of `max` from `min` for which tc finds a probability per byte
/// (`tc_red_eval_P`): it must be above 2^-31.
pub fn most_apart(probability: f64) -> Bytes {
    let above = libm::ceil(probability * (1u64 << MOST_PLOG) as f64);
    Bytes::new((above as u64).saturating_sub(1))
}

/// `tc_red_eval_ewma`: returns the smallest Wlog for which burst + 1 - min/avpkt <= (1 -
/// (1-W)^burst) / W, where W is 2^-Wlog.
pub(super) fn eval_ewma(config: &Config) -> Result<u8, ConfigError> {
    let (min, avpkt, burst) = (config.lower(), config.avpkt, config.packets());
    let a = f64::from(burst) + 1.0 - min.get() as f64 / avpkt.get() as f64;
    if a < 1.0 {
        let what = format!("{burst} is below min / avpkt, which no weight of the average gives");
        let hint = format!("at least {}", least_burst(min, avpkt));
        return Err(ConfigError::new("burst", what).or(hint));
    }
    let mut w = 0.5;
    for wlog in 1..32 {
        if a <= (1.0 - libm::pow(1.0 - w, f64::from(burst))) / w {
            return Ok(wlog);
        }
        w /= 2.0;
    }
    let key = if config.burst.is_some() { "burst" } else { "min" };
    let what = format!("{burst} is more than any weight of the average gives");
    let hint = format!("raise min above avpkt (\"{avpkt}\") or lower burst");
    Err(ConfigError::new(key, what).or(hint))
}

/// `tc_red_eval_P`: returns the smallest Plog for which probability / (max - min) * 2^Plog > 1.
pub(super) fn eval_p(config: &Config) -> Result<u8, ConfigError> {
    let mut p = config.probability / (config.upper() - config.lower()).get() as f64;
    for plog in 0..=MOST_PLOG {
        if p > 1.0 {
            return Ok(plog);
        }
        p *= 2.0;
    }
    Err(ConfigError::new("probability", "is too small for the distance of min and max")
        .or("raise it or bring min and max together"))
}

/// `tc_red_eval_idle_damping`: computes Scell_log and the table.
///
/// tc's unit of time here is the tick of 64 ns; the kernel's is the microsecond.
pub(super) fn eval_idle_damping(
    config: &Config,
    bandwidth: Rate,
    wlog: u8,
) -> Result<(u8, [u8; 256]), ConfigError> {
    let too_low = || {
        ConfigError::new("bandwidth", "is too low for RED's average to decay by")
            .or("raise it, or the link's rate")
    };
    let bytes_per_s = (bandwidth.as_bps() / 8) as f64;
    if bytes_per_s == 0.0 {
        return Err(too_low());
    }
    let xmit_time = libm::trunc(1e6 * (config.avpkt.get() as f64 / bytes_per_s) * TICKS_PER_US);
    let lw = -libm::log(1.0 - 1.0 / (1u64 << wlog) as f64) / xmit_time;
    let max_time = 31.0 / lw;
    let scell_log =
        (0..32).find(|&log| max_time / ((1u64 << log) as f64) < 512.0).ok_or_else(too_low)?;
    let mut stab = [0; 256];
    for (i, entry) in stab.iter_mut().enumerate().skip(1) {
        *entry = (((i << scell_log) as f64 * lw) as u8).min(31);
    }
    stab[255] = 31;
    Ok((scell_log, stab))
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn config(settings: [u64; 6], probability: f64) -> Config {
        let [limit, min, max, avpkt, burst, mbit] = settings;
        Config {
            limit: Bytes::new(limit),
            min: Some(Bytes::new(min)),
            max: Some(Bytes::new(max)),
            avpkt: Bytes::new(avpkt),
            burst: Some(burst as u32),
            probability,
            bandwidth: Rate::from_bps(mbit * 1_000_000),
            ..Config::default()
        }
    }

    /// Builds a table from the lengths of its runs of 0, 1, 2, ...; the last entry is always 31.
    fn table(runs: &[usize]) -> Vec<u8> {
        let runs = runs.iter().enumerate();
        runs.flat_map(|(value, &length)| vec![value as u8; length]).chain([31]).collect()
    }

    /// By hand: a = 98 + 1 - 74874/1400 = 45.52; (1 - (1-W)^98)/W is 30.57 for W = 2^-5 and 50.32
    /// for 2^-6, so Wlog is 6. 0.1 / 187500 = 5.333e-7, times 2^20 is 0.559, times 2^21 is 1.118:
    /// Plog is 21. 1400 B take 1120 us = 17500 ticks; -ln(63/64) / 17500 = 8.9990e-7, so
    /// max_time is 3.4448e7: 525.6 cells of 2^16, 262.8 of 2^17.
    #[test]
    fn parameters_of_the_harhalakis_bed_by_hand() {
        let derived = Derived::new(&config([375_000, 74_874, 262_374, 1400, 98, 10], 0.1));
        let derived = derived.expect("tc takes it");
        assert_eq!((derived.wlog, derived.plog, derived.scell_log), (6, 21, 17));
        assert_eq!(derived.max_p, 429_496_729);
    }

    /// What `strace -x -s 2000 -e trace=sendmsg tc qdisc add ... red ...` (iproute2 6.1, x86-64)
    /// shows in TCA_RED_PARMS, TCA_RED_STAB and TCA_RED_MAX_P.
    #[test]
    fn parameters_are_those_that_tc_sends() {
        let cases = [
            (
                config([375_000, 74_874, 262_374, 1400, 98, 10], 0.1),
                (6, 21, 17, 429_496_729),
                table(&[
                    9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 9, 8, 8, 9, 8, 9,
                    8, 9, 8, 9,
                ]),
            ),
            (
                config([400_000, 30_000, 90_000, 1000, 55, 10], 0.02),
                (5, 22, 15, 85_899_345),
                table(&[
                    13, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12,
                    12, 2,
                ]),
            ),
            (
                config([4_000_000, 300_000, 900_000, 1500, 700, 1000], 1.0),
                (10, 20, 14, 0),
                table(&[
                    12, 12, 12, 11, 12, 12, 11, 12, 12, 11, 12, 12, 11, 12, 12, 11, 12, 12, 11, 12,
                    12, 9,
                ]),
            ),
            (
                config([60_000, 3_000, 9_000, 1000, 4, 1], 0.5),
                (2, 14, 15, 2_147_483_648),
                table(&[
                    14, 13, 13, 14, 13, 13, 13, 14, 13, 13, 13, 14, 13, 13, 13, 14, 13, 13, 13, 3,
                ]),
            ),
        ];
        for (config, (wlog, plog, scell_log, max_p), stab) in cases {
            let derived = Derived::new(&config).expect("tc takes it");
            let all = (derived.wlog, derived.plog, derived.scell_log, derived.max_p);
            assert_eq!(all, (wlog, plog, scell_log, max_p));
            assert_eq!(derived.stab.as_slice(), stab);
        }
    }

    #[test]
    fn a_burst_below_min_over_avpkt_is_refused_with_the_least_that_will_do() {
        // tc: "burst 29 is too small ? Try burst 31"; 30 works too.
        let small = config([400_000, 30_000, 90_000, 1000, 29, 10], 0.02);
        let error = Derived::new(&small).expect_err("no weight gives that");
        assert_eq!((error.key(), error.hint()), ("burst", "at least 30"));
        let least = config([400_000, 30_000, 90_000, 1000, 30, 10], 0.02);
        assert!(Derived::new(&least).is_ok());
    }

    /// Harhalakis 2011, section IV: 98 packets; tc-red(8)'s example: (2 * 30000 + 90000) / 3000.
    #[test]
    fn the_default_burst_is_that_of_the_manual_page() {
        let burst =
            |min, max, avpkt| default_burst(Bytes::new(min), Bytes::new(max), Bytes::new(avpkt));
        assert_eq!(burst(75_000, 262_500, 1400), 98);
        assert_eq!(burst(30_000, 90_000, 1000), 50);
        assert_eq!(burst(u64::MAX, u64::MAX, 1), u32::MAX);
    }

    #[test]
    fn tc_finds_a_probability_up_to_the_largest_distance_and_not_beyond() {
        // By hand: 0.1 * 2^31 = 214748364.8, and 0.25 * 2^31 itself is too far.
        assert_eq!(most_apart(0.1).get(), 214_748_364);
        assert_eq!(most_apart(0.25).get(), (1 << 29) - 1);
        for probability in [0.001, 0.02, 0.1, 0.25, 0.7] {
            let apart = |distance: u64| {
                let max = 1000 + distance;
                eval_p(&config([max, 1000, max, 1000, 55, 10], probability))
            };
            let most = most_apart(probability).get();
            assert_eq!(apart(most), Ok(MOST_PLOG));
            assert_eq!(
                apart(most + 1).map_err(|error| error.key().to_owned()),
                Err("probability".into())
            );
        }
    }

    #[test]
    fn a_probability_that_32_bits_cannot_spread_is_refused() {
        let config = config([400_000, 30_000, 90_000, 1000, 55, 10], 1e-5);
        let error = Derived::new(&config).expect_err("31 bits do not hold it");
        assert_eq!(error.key(), "probability");
    }
}

//! Delay variation as netem computes it.
//!
//! Written from tc-netem(8): each value is `correlation` times the last one and the rest a new one.
//! Values have 32 bits and times are in nanoseconds, as in Linux 6.1, and so is the rounding.
//!
//! In the uniform case, netem takes the correlated 32-bit number modulo twice the deviation. With
//! deviations of milliseconds, the modulus is far below 2^32. The remaining low-order part is
//! almost uncorrelated, so `correlation` changes hardly anything. The kernel behaves the same.
//!
//! Differences: the normal distribution's table is computed (4096 quantiles, scaled by 8192), not
//! read from iproute2's `normal.dist`, which differs from it by rounding. netem delays a packet
//! before the device transmits it; we delay it afterwards.

use alloc::boxed::Box;
use alloc::vec;

use narrows_qdisc::Random;
use narrows_units::{Span, Time};

use crate::{Distribution, Jitter};

/// The state of one link's delay variation.
#[derive(Debug)]
pub(super) struct JitterState {
    deviation_ns: u32,
    /// The correlation as a fraction of 2^32; zero for none.
    rho: u32,
    last: u32,
    random: Random,
    /// Quantiles, for the normal distribution.
    table: Option<Box<[i16]>>,
    reorder: bool,
    last_arrival_at: Time,
}

/// The standard deviation in the table's units.
const SCALE: i64 = 8192;
const TABLE_SIZE: usize = 4096;

impl JitterState {
    pub(super) fn new(jitter: Jitter, random: Random) -> Self {
        let table = match jitter.distribution {
            Distribution::Uniform => None,
            Distribution::Normal => Some(normal_table()),
        };
        Self {
            deviation_ns: deviation_ns(&jitter),
            rho: (jitter.correlation.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32,
            last: 0,
            random,
            table,
            reorder: jitter.reorder,
            last_arrival_at: Time::ZERO,
        }
    }

    /// Changes the settings; the correlation goes on from the last value.
    pub(super) fn change(&mut self, jitter: &Jitter) {
        let fresh = Self::new(*jitter, self.random.clone());
        *self = Self { last: self.last, last_arrival_at: self.last_arrival_at, ..fresh };
    }

    /// Returns when a packet whose transmission ends at `ends_at` arrives; never before that.
    #[inline]
    pub(super) fn arrival(&mut self, ends_at: Time, delay: Span) -> Time {
        let offset = self.offset_ns();
        let shift = Span::from_ns(offset.unsigned_abs());
        let delay = if offset < 0 { delay.saturating_sub(shift) } else { delay + shift };
        let mut at = ends_at + delay;
        if !self.reorder {
            at = at.max(self.last_arrival_at);
            self.last_arrival_at = at;
        }
        at
    }

    /// Returns by how much a packet comes later than the delay says.
    fn offset_ns(&mut self) -> i64 {
        if self.deviation_ns == 0 {
            return 0;
        }
        let value = self.value();
        let deviation = i64::from(self.deviation_ns);
        let Some(table) = &self.table else {
            return i64::from(value % (2 * self.deviation_ns)) - deviation;
        };
        // Rounded to the nearest, and halves away from zero.
        let scaled = deviation * i64::from(table[value as usize % TABLE_SIZE]);
        (scaled + scaled.signum() * (SCALE / 2)) / SCALE
    }

    /// Returns the next random value.
    fn value(&mut self) -> u32 {
        let fresh = self.random.bits();
        if self.rho == 0 {
            return fresh;
        }
        // From the new value towards the last one, rounded down.
        let (from, to) = (i128::from(fresh), i128::from(self.last));
        let step = ((to - from) * (i128::from(self.rho) + 1)) >> 32;
        self.last = (from + step) as u32;
        self.last
    }
}

impl Jitter {
    /// Returns the longest time by which a packet can arrive early.
    pub fn longest_lead(&self) -> Span {
        let deviation = Span::from_ns(u64::from(deviation_ns(self)));
        match self.distribution {
            Distribution::Uniform => deviation,
            // The table ends at 4 standard deviations (the range of an i16, divided by 8192).
            Distribution::Normal => deviation * 4,
        }
    }
}

/// Returns the deviation. netem keeps it as a signed 32-bit number of nanoseconds: at most 2.1 s.
fn deviation_ns(jitter: &Jitter) -> u32 {
    u32::try_from(jitter.deviation.as_ps() / 1000).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

/// Returns the quantiles of the standard normal distribution at the midpoints of 4096 equal parts,
/// times 8192.
fn normal_table() -> Box<[i16]> {
    let mut table = vec![0; TABLE_SIZE];
    let mut x = 0.0;
    for above in 0..TABLE_SIZE / 2 {
        let p = 0.5 + (above as f64 + 0.5) / TABLE_SIZE as f64;
        x = normal_quantile(p, x);
        let scaled = libm::round(x * SCALE as f64).min(f64::from(i16::MAX)) as i16;
        table[TABLE_SIZE / 2 + above] = scaled;
        table[TABLE_SIZE / 2 - 1 - above] = -scaled;
    }
    table.into()
}

/// Returns the inverse of the standard normal distribution function for `p` of 0.5 or more, by
/// Newton's method from a `start` that is not above it. The error is far below a table step. The
/// crate statrs has this function, but would bring two more crates; rand_distr does not have it.
fn normal_quantile(p: f64, start: f64) -> f64 {
    let mut x = start;
    // The function is concave above 0, so each step that starts below stays below.
    for _ in 0..40 {
        let density = libm::exp(-x * x / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI);
        let step = (p - normal_distribution(x)) / density;
        x += step;
        if step.abs() < 1e-9 {
            break;
        }
    }
    x
}

/// Returns the standard normal distribution function, by its series (Abramowitz and Stegun
/// 26.2.10).
fn normal_distribution(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        n += 2.0;
        term *= x * x / n;
        sum += term;
    }
    0.5 + sum * libm::exp(-x * x / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const N: usize = 100_000;

    fn offsets(distribution: Distribution, correlation: f64) -> Vec<f64> {
        let deviation = Span::from_ms(25);
        let jitter = Jitter { deviation, correlation, distribution, reorder: true };
        let mut state = JitterState::new(jitter, Random::new(1, "test"));
        (0..N).map(|_| state.offset_ns() as f64 / 1e6).collect()
    }

    #[test]
    fn a_normal_offset_is_the_nearest_nanosecond() {
        let jitter = Jitter {
            deviation: Span::from_ns(12_345),
            correlation: 0.0,
            distribution: Distribution::Normal,
            reorder: true,
        };
        let [mut state, mut same] =
            [(); 2].map(|()| JitterState::new(jitter, Random::new(1, "test")));
        let table = normal_table();
        for _ in 0..1000 {
            let t = table[same.value() as usize % TABLE_SIZE];
            let exact = 12_345.0 * f64::from(t) / 8192.0;
            assert_eq!(state.offset_ns() as f64, exact.round());
        }
    }

    fn mean_and_sd(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn uniform_has_the_moments_of_a_uniform_distribution() {
        let values = offsets(Distribution::Uniform, 0.0);
        assert!(values.iter().all(|v| (-25.0..25.0).contains(v)));
        let (mean, sd) = mean_and_sd(&values);
        // sd = 25 / sqrt(3) = 14.434 ms; a kernel's netem showed the same (14 ms measured).
        assert!(mean.abs() < 0.25 && (sd - 14.434).abs() < 0.1, "{mean} {sd}");
    }

    #[test]
    fn normal_has_the_given_standard_deviation() {
        let (mean, sd) = mean_and_sd(&offsets(Distribution::Normal, 0.0));
        assert!(mean.abs() < 0.4 && (sd - 25.0).abs() < 0.3, "{mean} {sd}");
    }

    #[test]
    fn correlation_narrows_the_normal_distribution_and_leaves_the_uniform_one_alone() {
        // The modulus of the uniform case is far below 2^32, so none of the correlation is left.
        let (_, uniform) = mean_and_sd(&offsets(Distribution::Uniform, 0.25));
        assert!((uniform - 14.434).abs() < 0.1, "{uniform}");
        let values = offsets(Distribution::Uniform, 0.25);
        let (mean, sd) = mean_and_sd(&values);
        let lag: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>()
            / (values.len() as f64 * sd * sd);
        assert!(lag.abs() < 5.0 / (N as f64).sqrt(), "{lag}");
    }

    #[test]
    fn without_reordering_arrivals_keep_their_order() {
        let jitter = Jitter {
            deviation: Span::from_ms(25),
            correlation: 0.0,
            distribution: Distribution::Uniform,
            reorder: false,
        };
        let mut state = JitterState::new(jitter, Random::new(1, "test"));
        let arrivals: Vec<Time> = (0..1000)
            .map(|ms| state.arrival(Time::ZERO + Span::from_ms(ms), Span::from_ms(100)))
            .collect();
        assert!(arrivals.is_sorted());
    }

    #[test]
    fn the_normal_table_is_the_normal_distribution() {
        // From tables of quantiles: 0.975 at 1.95996, 0.8413 at 1.
        assert!((normal_quantile(0.975, 0.0) - 1.959_964).abs() < 1e-5);
        assert!((normal_quantile(0.841_344_746, 0.0) - 1.0).abs() < 1e-6);
        let table = normal_table();
        assert!(table.is_sorted() && table.iter().all(|&t| t != 0));
        // The median lies between the middle two; the outermost is at 1 - 0.5/4096: 3.6674.
        assert_eq!((table[2047], table[2048]), (-3, 3));
        assert!((f64::from(table[4095]) / 8192.0 - 3.667_4).abs() < 1e-3);
    }
}

//! The E-model: from delay and loss to a rating R and a mean opinion score.
//!
//! Source: ITU-T G.107 (06/2015), clause 7 and Annex B; codecs' parameters from ITU-T G.113
//! (11/2007), Appendix I. Everything that a network does not decide has the default of G.107's
//! Table 2: the terminals' loudness, sidetone and echo loss, noise at both ends and on the circuit.
//!
//! Differences:
//!
//! - Echo paths are as long as the speech's own, T = Ta and Tr = 2 Ta: packets travel all the way,
//!   and the far telephone causes the echo.
//! - A burst ratio below 1 counts as 1: losses more regular than random ones are no better.
//! - The advantage factor A is 0, and delay sensitivity has its default (sT = 1, mT = 100 ms).

use libm::{exp, hypot, log2, log10, pow};

/// The parameters of a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Equipment {
    /// The impairment by the codec itself, Ie.
    pub(crate) impairment: f64,
    /// The robustness against packet loss, Bpl.
    pub(crate) robustness: f64,
}

/// The parameters of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passage {
    /// The delay from mouth to ear, Ta.
    pub(crate) delay_ms: f64,
    /// The packet loss, Ppl.
    pub(crate) loss_percent: f64,
    /// `BurstR`: the mean length of bursts of losses, divided by that of random losses.
    pub(crate) burst_ratio: f64,
}

/// Returns the transmission rating factor R (G.107, 7-1).
pub(crate) fn rating(equipment: Equipment, passage: Passage) -> f64 {
    let noise = noise();
    let ro = 15.0 - 1.5 * (SLR + noise);
    let impaired = simultaneous(ro, noise, passage.delay_ms)
        + delay(ro, noise, passage.delay_ms)
        + effective(equipment, passage);
    ro - impaired
}

/// Returns the estimated mean opinion score of a rating, 1 to 4.5 (G.107, Annex B, B-4).
pub(crate) fn mean_opinion_score(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        // Below R = 6.5 the cubic falls below 1.
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

/// Returns Ie,eff: the impairment by the codec and lost packets (7-29).
fn effective(equipment: Equipment, passage: Passage) -> f64 {
    let Equipment { impairment, robustness } = equipment;
    let Passage { loss_percent: lost, burst_ratio, .. } = passage;
    impairment + (95.0 - impairment) * lost / (lost / burst_ratio.max(1.0) + robustness)
}

/// Returns Id: the impairment by talker echo, listener echo and pure delay (7-18).
fn delay(ro: f64, noise: f64, delay_ms: f64) -> f64 {
    let (t, tr) = (delay_ms, 2.0 * delay_ms);
    // 7-19 to 7-22, for a sidetone from 9 to 20 dB.
    let talker = if t < 1.0 {
        0.0
    } else {
        let echo_loss =
            TELR - 40.0 * log10((1.0 + t / 10.0) / (1.0 + t / 150.0)) + 6.0 * exp(-0.3 * t * t);
        let half = (-1.5 * (noise - RLR) - (80.0 + 2.5 * (echo_loss - 14.0))) / 2.0;
        (half + hypot(half, 10.0) - 1.0) * (1.0 - exp(-t))
    };
    // 7-25, 7-26.
    let half = (ro - 10.5 * (WEPL + 7.0) * pow(tr + 1.0, -0.25)) / 2.0;
    let listener = half + hypot(half, 13.0);
    // 7-27, 7-28.
    let mere = if delay_ms <= 100.0 {
        0.0
    } else {
        let x = log2(delay_ms / 100.0);
        25.0 * (saturate(x, 6.0) - 3.0 * saturate(x / 3.0, 6.0) + 2.0)
    };
    talker + listener + mere
}

/// Returns Is: the impairment by loudness, an unsuitable sidetone, and quantisation (7-8).
fn simultaneous(ro: f64, noise: f64, t_ms: f64) -> f64 {
    let loudness = SLR + RLR;
    let x = (loudness + 0.2 * (64.0 + noise - RLR)) / 8.0;
    let too_loud = 20.0 * (saturate(x, 8.0) - x);
    let sidetone = -10.0 * log10(power(-STMR) + exp(-t_ms / 4.0) * power(-TELR));
    let unfit = 12.0 * saturate((sidetone - 13.0) / 6.0, 8.0)
        - 28.0 * saturate((sidetone + 1.0) / 19.4, 35.0)
        - 13.0 * saturate((sidetone - 3.0) / 33.0, 13.0)
        + 29.0;
    let q = 37.0 - 15.0 * log10(QDU);
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let quantised = 15.0 * log10(1.0 + pow(10.0, y) + pow(10.0, z));
    too_loud + unfit + quantised
}

/// Returns No: the sum of all noise, in dBm0p (7-3 to 7-7).
fn noise() -> f64 {
    let at_sender = PS - SLR - DS - 100.0 + 0.004 * square(PS - (SLR + RLR) - DS - 14.0);
    let with_sidetone = PR + 10.0 * log10(1.0 + power(10.0 - LSTR));
    let at_receiver = RLR - 121.0 + with_sidetone + 0.008 * square(with_sidetone - 35.0);
    let powers = [NC, at_sender, at_receiver, NFOR + RLR].map(power);
    10.0 * log10(powers.iter().sum())
}

/// Returns (1 + x^n)^(1/n), which is 1 for small x, and x for large x.
fn saturate(x: f64, n: f64) -> f64 {
    pow(1.0 + pow(x.abs(), n), 1.0 / n)
}

/// Converts decibels to a power ratio.
fn power(db: f64) -> f64 {
    pow(10.0, db / 10.0)
}

fn square(x: f64) -> f64 {
    x * x
}

/// Values of G.107, Table 2, with its names: send and receive loudness, sidetone, echo losses,
/// noise.
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const STMR: f64 = 15.0;
const LSTR: f64 = 18.0;
const DS: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const QDU: f64 = 1.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;

#[cfg(test)]
mod tests {
    use super::*;

    const G711: Equipment = Equipment { impairment: 0.0, robustness: 4.3 };
    const G729A: Equipment = Equipment { impairment: 11.0, robustness: 19.0 };

    const fn passage(delay_ms: f64, loss_percent: f64) -> Passage {
        Passage { delay_ms, loss_percent, burst_ratio: 1.0 }
    }

    /// G.107, 7.7: with all defaults, and therefore no delay, R = 93.2.
    #[test]
    fn the_defaults_give_the_rating_that_g_107_states() {
        let r = rating(G711, passage(0.0, 0.0));
        assert!((r - 93.2).abs() < 0.05, "{r}");
        assert!((mean_opinion_score(r) - 4.41).abs() < 0.005);
    }

    /// G.107, Annex B, Table B.1.
    #[test]
    fn scores_are_those_of_annex_b() {
        for (r, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            assert!((mean_opinion_score(r) - mos).abs() < 0.0075, "{r}");
        }
        assert_eq!([-3.0, 0.0, 3.0].map(mean_opinion_score), [1.0; 3]);
        assert_eq!(mean_opinion_score(120.0), 4.5);
    }

    /// G.113, Appendix I, Table I.2 (measured; the formula was fitted to such tables).
    #[test]
    fn losses_of_g_729a_impair_as_in_g_113() {
        let table = [(0.0, 11.0), (0.5, 13.0), (1.0, 15.0), (2.0, 19.0), (4.0, 26.0), (8.0, 36.0)];
        for (lost, expected) in table {
            let found = effective(G729A, passage(0.0, lost));
            assert!((found - expected).abs() < 0.75, "{lost} %: {found} {expected}");
        }
    }

    #[test]
    fn losses_in_bursts_impair_more() {
        let of_ratio = |burst_ratio| effective(G729A, Passage { burst_ratio, ..passage(0.0, 2.0) });
        // (7-29) calculated by hand: 11 + 84 x 2 / (2 / 2 + 19).
        assert!((of_ratio(2.0) - (11.0 + 168.0 / 20.0)).abs() < 1e-9);
        assert_eq!(of_ratio(0.5), of_ratio(1.0));
    }

    /// Cole and Rosenbluth ("Voice over IP performance monitoring", ACM CCR 31(2), 2001) fit
    /// G.107's Id by two lines, 0.024 d + 0.11 (d - 177.3) H(d - 177.3). The fit holds away from
    /// the bend and below about 350 ms.
    #[test]
    fn delay_impairs_as_its_published_approximation_says() {
        let noise = noise();
        let ro = 15.0 - 1.5 * (SLR + noise);
        for d in [0.0, 25.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0] {
            let approximation = 0.024 * d + 0.11 * (d - 177.3_f64).max(0.0);
            let found = delay(ro, noise, d);
            assert!((found - approximation).abs() < 0.5, "{d} ms: {found} {approximation}");
        }
    }
}

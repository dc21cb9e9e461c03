//! Random numbers for decisions.

use rand_core::Rng;
use rand_pcg::Pcg32;

/// Returns a uniform number in [0, 1), in steps of 2^-32.
#[inline]
pub(crate) fn uniform(random: &mut Pcg32) -> f64 {
    f64::from(random.next_u32()) / 4_294_967_296.0
}

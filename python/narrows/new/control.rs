//! Scalable TCP: the window grows by a hundredth of a segment for each acknowledged segment and
//! falls by an eighth after a loss, so that the time to recover does not depend on the rate.
//!
//! Source: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM
//! Computer Communication Review 33(2), 2003; Linux 6.1, `net/ipv4/tcp_scalable.c`. Below a hundred
//! segments the window grows as Reno's does, as in Linux.

use narrows_sim::tcp::{CongestionControl, Signal, Window};
use narrows_units::Time;

/// Scalable TCP.
#[derive(Clone, Debug, Default)]
pub struct Scalable;

impl CongestionControl for Scalable {
    /// `tcp_scalable_cong_avoid`
    fn grow(&mut self, _now: Time, window: &mut Window, mut acked: u32) {
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        window.additive_increase(window.cwnd.min(AI_COUNT), acked);
    }

    /// `tcp_scalable_ssthresh`
    fn ssthresh(&mut self, _now: Time, cwnd: u32, _signal: Signal) -> u32 {
        (cwnd - (cwnd >> MD_SCALE)).max(2)
    }
}

/// `TCP_SCALABLE_AI_CNT`
const AI_COUNT: u32 = 100;
/// `TCP_SCALABLE_MD_SCALE`
const MD_SCALE: u32 = 3;

#[cfg(test)]
mod tests {
    use narrows_sim::tcp::{Congestion, laws};

    use super::*;

    #[test]
    fn scalable_obeys_the_laws() {
        laws::check(&Congestion::custom("scalable", |_| Scalable));
    }

    #[test]
    fn a_hundred_acknowledged_segments_add_one_and_a_loss_takes_an_eighth() {
        let mut window = Window { cwnd: 800, ssthresh: 800, count: 0 };
        for _ in 0..8 {
            Scalable.grow(Time::ZERO, &mut window, 100);
        }
        assert_eq!(window.cwnd, 808);
        assert_eq!(Scalable.ssthresh(Time::ZERO, 808, Signal::Loss), 707);
    }
}

//! DCTCP (RFC 8257): the window falls by as much as the share of marks says, and grows like Reno's.
//!
//! Written from RFC 8257, 3.3 to 3.5, with its variables, in segments and in units of 1/1024, as
//! Linux 6.12 counts (`dctcp_alpha_on_init` 1024, `dctcp_shift_g` 4). Differences from the RFC,
//! which are Linux's: alpha counts segments and not bytes; where 1/16 of it rounds to 0, the rest is
//! subtracted, so that it reaches 0; a window falls by PRR during the round trip and not at once.
//! The marks are those that the other end reports: without Accurate ECN, an acknowledgement with ECE
//! says that everything that it covers was marked. Every segment is ECN-capable, also SYN, SYN-ACK
//! (RFC 8257, 3.5) and acknowledgements. Without ECN it is Reno. Difference from Linux: a server with
//! another congestion control does not refuse ECN to a SYN that is ECN-capable.

use crate::seq::Seq;

/// The state of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    /// DCTCP.Alpha in units of 1/1024.
    alpha: u32,
    /// DCTCP.WindowEnd.
    window_end: Seq,
    /// Segments delivered in this window, and those of them that were marked.
    delivered: u32,
    marked: u32,
}

impl Dctcp {
    pub(crate) fn new(first: Seq) -> Self {
        Self { alpha: WHOLE, window_end: first, delivered: 0, marked: 0 }
    }

    /// Begins: the connection is established.
    pub(crate) fn start(&mut self, snd_nxt: Seq) {
        *self = Self { alpha: self.alpha, ..Self::new(snd_nxt) };
    }

    /// Takes what an acknowledgement delivers, and updates alpha at the end of a window (RFC 8257,
    /// 3.3).
    #[inline]
    pub(crate) fn on_delivered(&mut self, delivered: u32, marked: u32, snd_una: Seq, snd_nxt: Seq) {
        self.delivered += delivered;
        self.marked += marked;
        if snd_una.before(self.window_end) {
            return;
        }
        // g M.
        let share =
            (u64::from(self.marked) << (WHOLE_BITS - GAIN)) / u64::from(self.delivered.max(1));
        self.alpha -= match self.alpha >> GAIN {
            0 => self.alpha,
            decay => decay,
        };
        self.alpha = (u64::from(self.alpha) + share).min(WHOLE.into()) as u32;
        (self.delivered, self.marked) = (0, 0);
        self.window_end = snd_nxt;
    }

    /// Returns DCTCP.Alpha, 0 to 1.
    pub(crate) fn alpha(&self) -> f64 {
        f64::from(self.alpha) / f64::from(WHOLE)
    }

    /// Returns the window after a mark (RFC 8257, 3.3), or after a loss (3.4: like Reno).
    pub(crate) fn ssthresh(&self, cwnd: u32, is_mark: bool) -> u32 {
        if !is_mark {
            return (cwnd / 2).max(2);
        }
        let cut = u64::from(cwnd) * u64::from(self.alpha) / u64::from(2 * WHOLE);
        (cwnd - cut as u32).max(2)
    }
}

/// 1 in alpha's units.
const WHOLE: u32 = 1 << WHOLE_BITS;
const WHOLE_BITS: u32 = 10;
/// g = 2^-4 (RFC 8257, 4.2).
const GAIN: u32 = 4;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A sender whose windows have 64 segments; alpha after each of them.
    fn alphas(dctcp: &mut Dctcp, marks: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut alphas = Vec::new();
        for marked in marks {
            let end = dctcp.window_end;
            dctcp.on_delivered(32, marked, Seq(end.0.wrapping_sub(1)), end + 64);
            dctcp.on_delivered(32, 0, end, end + 64);
            alphas.push(dctcp.alpha);
        }
        alphas
    }

    /// RFC 8257, 3.3, step 7: alpha = alpha (1 - g) + g M with g = 1/16, from 1 on.
    #[test]
    fn rfc8257_3_3_alpha_is_a_moving_average() {
        let mut dctcp = Dctcp::new(Seq(u32::MAX - 60));
        // 1024 - 64 = 960; 960 - 60 + 64 x 16/64 = 916; 916 - 57 + 64 x 32/64 = 891.
        assert_eq!(alphas(&mut dctcp, [0, 16, 32]), [960, 916, 891]);
        // All marked: back towards 1, and never above.
        let up = alphas(&mut dctcp, [64; 200]);
        assert!(up.is_sorted() && up[199] > 1008 && up.iter().all(|&alpha| alpha <= 1024));
        // Never marked: after n windows (15/16)^n, and in the end exactly 0.
        let mut dctcp = Dctcp::new(Seq(0));
        let down = alphas(&mut dctcp, [0; 120]);
        for (n, &alpha) in down.iter().enumerate().take(40) {
            let law = 1024.0 * libm::pow(15.0 / 16.0, (n + 1) as f64);
            assert!((f64::from(alpha) - law).abs() < 16.0, "{n}: {alpha} {law}");
        }
        assert_eq!(down[119], 0);
    }

    /// Alpha converges to the share of marks, from above and from below, within Linux's rounding:
    /// one part in 64. From 0, a share below 1/4 cannot lift it over 15, of which nothing is left.
    #[test]
    fn alpha_converges_to_the_share_of_marks() {
        for (first, marked, share) in
            [(64, 4, 64), (64, 16, 256), (64, 48, 768), (0, 16, 256), (0, 48, 768), (0, 15, 15)]
        {
            let mut dctcp = Dctcp::new(Seq(0));
            alphas(&mut dctcp, [first; 120]);
            let alpha = *alphas(&mut dctcp, [marked; 150]).last().expect("150 windows");
            assert!(alpha.abs_diff(share) <= 16, "{marked} {first}: {alpha}");
        }
    }

    /// RFC 8257, 3.3, step 9: cwnd = cwnd (1 - alpha / 2); 3.4: a loss halves.
    #[test]
    fn rfc8257_3_3_a_mark_cuts_by_half_of_alpha() {
        for (alpha, cwnd, after) in [
            (1024, 100, 50),
            (512, 100, 75),
            (256, 100, 88),
            (20, 100, 100),
            (21, 100, 99),
            (0, 100, 100),
            (1024, 3, 2),
            (1024, 2, 2),
        ] {
            let dctcp = Dctcp { alpha, ..Dctcp::new(Seq(0)) };
            assert_eq!(dctcp.ssthresh(cwnd, true), after, "{alpha} {cwnd}");
            assert_eq!(dctcp.ssthresh(cwnd, false), (cwnd / 2).max(2));
        }
    }

    /// A window ends when all of it is acknowledged, and the next one is what is in flight then.
    #[test]
    fn alpha_changes_once_a_window() {
        let mut dctcp = Dctcp::new(Seq(1000));
        for (una, nxt, alpha) in [
            (999, 1500, 1024),
            (1000, 2000, 1024),
            (1001, 2100, 1024),
            (1999, 2900, 1024),
            (2000, 3000, 1024),
            (2999, 4000, 1024),
        ] {
            dctcp.on_delivered(4, 4, Seq(una), Seq(nxt));
            assert_eq!(dctcp.alpha, alpha, "{una}");
        }
        dctcp.on_delivered(4, 0, Seq(3000), Seq(5000));
        // 4 of 8: 960 + 32.
        assert_eq!((dctcp.alpha, dctcp.window_end), (992, Seq(5000)));
    }
}

//! Reno. Written from RFC 5681 (3.1) and RFC 8511.

use super::window::Window;

/// Returns half the window, at least 2 segments (RFC 5681, equation 4); 0.8 of it with RFC 8511.
pub fn ssthresh(cwnd: u32, gentle: bool) -> u32 {
    let cwnd = if gentle { (u64::from(cwnd) * 4 / 5) as u32 } else { cwnd / 2 };
    cwnd.max(2)
}

/// RFC 5681, 3.1: grows by one segment for each acknowledged segment in slow start, afterwards by
/// one for each window.
#[inline]
pub fn avoid(window: &mut Window, mut acked: u32) {
    if window.in_slow_start() {
        acked = window.slow_start(acked);
        if acked == 0 {
            return;
        }
    }
    window.additive_increase(window.cwnd, acked);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_stops_at_ssthresh_and_the_rest_counts_for_avoidance() {
        let mut window = Window { cwnd: 9, ssthresh: 10, count: 0 };
        avoid(&mut window, 3);
        assert_eq!((window.cwnd, window.count), (10, 2));
    }

    #[test]
    fn avoidance_adds_one_segment_a_window() {
        let mut window = Window { cwnd: 10, ssthresh: 10, count: 0 };
        for _ in 0..10 {
            avoid(&mut window, 1);
        }
        assert_eq!(window.cwnd, 11);
    }

    #[test]
    fn ssthresh_is_half_but_at_least_two() {
        assert_eq!([1, 3, 4, 11].map(|cwnd| ssthresh(cwnd, false)), [2, 2, 2, 5]);
        assert_eq!(ssthresh(100, true), 80);
    }
}

//! The playout buffer: when speech that has arrived is heard.
//!
//! Each packet of a talk spurt is heard a constant time after it was sent. A packet that arrives
//! later than that is not heard. Between spurts this time may change, because nobody notices that a
//! pause is longer or shorter.
//!
//! - *Fixed*: the first packet of a spurt to arrive waits for a given time.
//! - *Adaptive*: the mean delay plus four times its variation, both smoothed as in TCP; algorithm 1
//!   of Ramjee, Kurose, Towsley and Schulzrinne, "Adaptive playout mechanisms for packetized audio
//!   applications in wide-area networks", INFOCOM 1994. The paper gives no initial values; here
//!   they are the first packet's delay, and a quarter of a packet's time as the variation.

use narrows_units::Span;

use super::Playout;

#[derive(Debug)]
pub(super) struct Buffer {
    playout: Playout,
    packet_time: Span,
    /// The smoothed delay and its variation in seconds; `None`: nothing has arrived yet.
    smoothed: Option<(f64, f64)>,
    /// The current spurt, and how long after sending its packets are heard.
    now: Option<(u32, Span)>,
}

/// The weight of the past, from the paper.
const PAST: f64 = 0.998_002;

impl Buffer {
    pub(super) const fn new(playout: Playout, packet_time: Span) -> Self {
        Self { playout, packet_time, smoothed: None, now: None }
    }

    /// Takes a packet of talk spurt `spurt` that arrived `delay` after it was sent. Returns how
    /// long after sending it is heard, or `None` if it arrived too late.
    pub(super) fn take(&mut self, spurt: u32, delay: Span) -> Option<Span> {
        let smoothed = self.smooth(delay.as_secs_f64());
        let offset = match self.now {
            // The offset of a finished spurt no longer applies, so this packet is not heard.
            Some((other, _)) if spurt < other => return None,
            Some((same, offset)) if same == spurt => offset,
            _ => match self.playout {
                Playout::Fixed(wait) => delay + wait,
                Playout::Adaptive => Span::from_secs_f64(smoothed.0 + 4.0 * smoothed.1),
            },
        };
        self.now = Some((spurt, offset));
        (delay <= offset).then_some(offset)
    }

    fn smooth(&mut self, delay: f64) -> (f64, f64) {
        let smoothed = match self.smoothed {
            None => (delay, self.packet_time.as_secs_f64() / 4.0),
            Some((mean, variation)) => {
                let mean = PAST * mean + (1.0 - PAST) * delay;
                (mean, PAST * variation + (1.0 - PAST) * (mean - delay).abs())
            }
        };
        self.smoothed = Some(smoothed);
        smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_ms(ms)
    }

    #[test]
    fn the_first_packet_of_a_spurt_sets_when_the_others_are_heard() {
        let mut buffer = Buffer::new(Playout::Fixed(ms(40)), ms(20));
        let heard = |buffer: &mut Buffer, spurt, delay| buffer.take(spurt, ms(delay));
        assert_eq!(heard(&mut buffer, 0, 30), Some(ms(70)));
        assert_eq!(heard(&mut buffer, 0, 70), Some(ms(70)));
        assert_eq!(heard(&mut buffer, 0, 71), None);
        assert_eq!(heard(&mut buffer, 1, 100), Some(ms(140)));
        assert_eq!(heard(&mut buffer, 0, 10), None);
    }

    /// With a constant delay, the variation falls to zero as 0.998002^n.
    #[test]
    fn an_adaptive_buffer_comes_down_to_a_constant_delay() {
        let mut buffer = Buffer::new(Playout::Adaptive, ms(20));
        assert_eq!(buffer.take(0, ms(50)), Some(ms(70)));
        for _ in 0..1000 {
            buffer.take(0, ms(50));
        }
        let offset = buffer.take(1, ms(50)).map(Span::as_secs_f64);
        let expected = 0.05 + 4.0 * 0.005 * libm::pow(PAST, 1001.0);
        assert!(offset.is_some_and(|offset| (offset - expected).abs() < 1e-9), "{offset:?}");
    }
}

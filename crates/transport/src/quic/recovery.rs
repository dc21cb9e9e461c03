//! Round trips and losses (RFC 9002, 5, 6 and appendix A).

use alloc::vec::Vec;

use narrows_units::{Span, Time};

use super::space::{Sent, Space};

/// The packet threshold (6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// The granularity of timers (6.1.2).
pub(super) const GRANULARITY: Span = Span::from_ms(1);
/// The round trip before the first sample (6.2.2).
const FIRST_RTT: Span = Span::from_ms(333);

/// The estimate of the round trip (5).
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    latest: Span,
    pub(super) smoothed: Span,
    variation: Span,
    least: Option<Span>,
    pub(super) first_sample_at: Option<Time>,
}

impl RoundTrip {
    pub(super) fn new() -> Self {
        Self {
            latest: Span::ZERO,
            smoothed: FIRST_RTT,
            variation: FIRST_RTT / 2,
            least: None,
            first_sample_at: None,
        }
    }

    /// Takes a sample (5.3). `delay` is how long the peer says it waited.
    pub(super) fn note(&mut self, now: Time, latest: Span, delay: Span) {
        self.latest = latest;
        let Some(least) = self.least else {
            (self.least, self.smoothed, self.variation) = (Some(latest), latest, latest / 2);
            self.first_sample_at = Some(now);
            return;
        };
        let least = least.min(latest);
        self.least = Some(least);
        let adjusted = if latest >= least + delay { latest.saturating_sub(delay) } else { latest };
        let off = self.smoothed.max(adjusted).saturating_sub(self.smoothed.min(adjusted));
        self.variation = (self.variation * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    pub(super) fn least(&self) -> Option<Span> {
        self.least
    }

    /// Forgets the minimum (5.2): after persistent congestion, the path may be a different one.
    pub(super) fn forget_least(&mut self) {
        self.least = self.least.map(|_| self.latest);
    }

    /// Returns the probe timeout without the peer's delay (6.2.1).
    pub(super) fn probe_timeout(&self) -> Span {
        self.smoothed + (self.variation * 4).max(GRANULARITY)
    }

    /// Returns the time after which a packet counts as lost (6.1.2).
    fn loss_delay(&self) -> Span {
        (self.latest.max(self.smoothed) * 9 / 8).max(GRANULARITY)
    }
}

/// Removes and returns the packets that count as lost by now. Notes when the next one will.
pub(super) fn detect_lost(space: &mut Space, now: Time, rtt: &RoundTrip) -> Vec<Sent> {
    space.loss_at = None;
    let Some(largest) = space.largest_acked else { return Vec::new() };
    let delay = rtt.loss_delay();
    let mut lost = Vec::new();
    let mut next: Option<Time> = None;
    // Later packets are still under way and need no check.
    let mut left = space.sent.partition_point(|sent| sent.number <= largest);
    let mut place = 0;
    while place < left {
        let sent = &space.sent[place];
        let due = sent.at + delay;
        if due <= now || largest >= sent.number + PACKET_THRESHOLD {
            lost.extend(space.sent.remove(place));
            left -= 1;
        } else {
            next = Some(next.map_or(due, |next| next.min(due)));
            place += 1;
        }
    }
    space.loss_at = next;
    lost
}

/// Returns whether congestion is persistent (7.6): consecutive packets over more than `duration`
/// were all lost.
pub(super) fn is_persistent(lost: &[Sent], duration: Span, rtt: &RoundTrip) -> bool {
    let Some(since) = rtt.first_sample_at else { return false };
    let mut first: Option<(u64, Time)> = None;
    let mut last = 0;
    for sent in lost.iter().filter(|sent| sent.at > since) {
        let begins = match first {
            Some(begins) if sent.number == last + 1 => begins,
            _ if sent.eliciting => (sent.number, sent.at),
            // 7.6.2: the packets at both ends of the period must be ack-eliciting.
            _ => continue,
        };
        (first, last) = (Some(begins), sent.number);
        if sent.eliciting && sent.at.since(begins.1) > duration {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::frames::Frame;
    use alloc::vec;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn space(times: &[u64]) -> Space {
        let sent = |(number, &ms): (usize, &u64)| Sent {
            number: number as u64,
            at: at(ms),
            bytes: 100,
            eliciting: true,
            in_flight: true,
            frames: vec![Frame::Ping],
        };
        Space { sent: times.iter().enumerate().map(sent).collect(), ..Space::default() }
    }

    /// 5.3: the first sample is the round trip, and half of it the variation. Later, the old values
    /// keep weights of 7/8 and 3/4.
    #[test]
    fn round_trips_are_smoothed() {
        let mut rtt = RoundTrip::new();
        assert_eq!(rtt.probe_timeout(), Span::from_ms(999));
        rtt.note(at(0), Span::from_ms(100), Span::from_ms(25));
        assert_eq!(rtt.probe_timeout(), Span::from_ms(300));
        rtt.note(at(0), Span::from_ms(140), Span::from_ms(20));
        assert_eq!(rtt.smoothed, Span::from_us(102_500));
        assert_eq!(rtt.variation, Span::from_us(42_500));
    }

    /// 5.2 and 5.3: the peer's delay counts only as far as the round trip stays above the minimum.
    /// After persistent congestion the minimum is the latest sample.
    #[test]
    fn the_least_round_trip_can_be_forgotten() {
        let adjusted = |forgets: bool| {
            let mut rtt = RoundTrip::new();
            rtt.note(at(0), Span::from_ms(100), Span::ZERO);
            rtt.note(at(0), Span::from_ms(180), Span::ZERO);
            if forgets {
                rtt.forget_least();
            }
            rtt.note(at(0), Span::from_ms(190), Span::from_ms(50));
            rtt.smoothed
        };
        assert_eq!(adjusted(false), Span::from_us((110_000 * 7 + 140_000) / 8));
        assert_eq!(adjusted(true), Span::from_us((110_000 * 7 + 190_000) / 8));
    }

    /// 6.1.1: a packet is lost if it is three packets behind the largest acknowledged one.
    #[test]
    fn three_packets_later_is_a_loss() {
        let mut rtt = RoundTrip::new();
        rtt.note(at(0), Span::from_ms(100), Span::ZERO);
        let mut space = space(&[0, 1, 2]);
        space.largest_acked = Some(3);
        let lost = detect_lost(&mut space, at(50), &rtt);
        assert_eq!(lost.iter().map(|sent| sent.number).collect::<Vec<_>>(), [0]);
        // 6.1.2: 9/8 of a round trip for the others.
        assert_eq!(space.loss_at, Some(Time::ZERO + Span::from_us(113_500)));
        assert_eq!(detect_lost(&mut space, at(114), &rtt).len(), 1);
    }

    /// 7.6.3, the RFC's example: with a round trip of a second, no variation and no delay, packets
    /// 2 to 8 are lost, over more than three probe timeouts.
    #[test]
    fn the_example_of_persistent_congestion() {
        let mut rtt = RoundTrip::new();
        rtt.note(at(0), Span::from_secs(1), Span::ZERO);
        let mut space = space(&[0, 1, 2, 3, 4, 5, 6, 8].map(|s| 1000 * s));
        let lost: Vec<Sent> = space.sent.drain(1..8).collect();
        assert!(is_persistent(&lost, Span::from_ms(6_001), &rtt));
        assert!(!is_persistent(&lost, Span::from_ms(7_000), &rtt));
        assert!(!is_persistent(&lost[..3], Span::from_ms(6_001), &rtt));
        // 7.6.2: a first packet that is not ack-eliciting does not start the period.
        let mut lost = lost;
        lost[0].eliciting = false;
        assert!(!is_persistent(&lost, Span::from_ms(6_001), &rtt));
        assert!(is_persistent(&lost, Span::from_ms(5_900), &rtt));
    }

    /// 5.3: the peer's delay is subtracted unless the sample falls below the minimum. A sample above
    /// the mean, and one below it, differ from it by as much.
    #[test]
    fn the_peers_delay_never_leads_below_the_minimum() {
        for (latest, delay, adjusted) in [
            (120_000, 20_000, 100_000),
            (119_999, 20_000, 119_999),
            (120_000, 20_001, 120_000),
            (180_000, 20_000, 160_000),
            (60_000, 0, 60_000),
        ] {
            let mut rtt = RoundTrip::new();
            rtt.note(at(5), Span::from_us(100_000), Span::ZERO);
            assert_eq!((rtt.least(), rtt.first_sample_at), (Some(Span::from_ms(100)), Some(at(5))));
            rtt.note(at(9), Span::from_us(latest), Span::from_us(delay));
            assert_eq!(rtt.first_sample_at, Some(at(5)));
            assert_eq!(rtt.least(), Some(Span::from_us(latest.min(100_000))));
            let smoothed = (100_000 * 7000 + adjusted * 1000) / 8;
            assert_eq!(rtt.smoothed.as_ps() / 1000, smoothed, "{latest} {delay}");
            let off = 100_000_u64.abs_diff(adjusted);
            assert_eq!(rtt.variation.as_ps() / 1000, (50_000 * 3000 + off * 1000) / 4);
            let timeout = smoothed + 50_000 * 3000 + off * 1000;
            assert_eq!(rtt.probe_timeout().as_ps() / 1000, timeout, "{latest} {delay}");
        }
    }

    /// 6.1.2 and 6.2.1: timers wait a millisecond at least.
    #[test]
    fn timers_have_a_granularity() {
        let mut rtt = RoundTrip::new();
        rtt.note(at(0), Span::from_us(400), Span::ZERO);
        assert_eq!(rtt.probe_timeout(), Span::from_us(400 + 1000));
        assert_eq!(rtt.loss_delay(), Span::from_ms(1));
        rtt.note(at(0), Span::from_us(8000), Span::ZERO);
        assert_eq!(rtt.loss_delay(), Span::from_us(9000), "the latest is the longer one");
        rtt.note(at(0), Span::from_us(100), Span::ZERO);
        assert_eq!(rtt.loss_delay(), rtt.smoothed * 9 / 8);
    }

    /// 6.1: only what was sent before an acknowledged packet can be lost: after three later ones, or
    /// after 9/8 of a round trip, to the instant.
    #[test]
    fn what_was_sent_before_an_acknowledged_packet_is_lost_in_time() {
        let mut rtt = RoundTrip::new();
        rtt.note(at(0), Span::from_ms(80), Span::ZERO);
        for (largest, now, lost, next) in [
            (None, 1000, &[][..], None),
            (Some(0), 89, &[], Some(90)),
            (Some(0), 90, &[0], None),
            (Some(2), 89, &[], Some(90)),
            (Some(2), 95, &[0], Some(100)),
            (Some(3), 50, &[0], Some(100)),
            (Some(4), 50, &[0, 1], Some(110)),
            (Some(4), 110, &[0, 1, 2], Some(120)),
        ] {
            let mut space = space(&[0, 10, 20, 30, 40, 50]);
            space.largest_acked = largest;
            let found: Vec<u64> =
                detect_lost(&mut space, at(now), &rtt).iter().map(|sent| sent.number).collect();
            assert_eq!(found, lost, "{largest:?} {now}");
            assert_eq!(space.loss_at, next.map(at), "{largest:?} {now}");
            assert_eq!(space.sent.len(), 6 - lost.len());
        }
    }

    /// 7.6.2: the packets between the two ends are all lost, both ends ask for acknowledgements, and
    /// the first was sent after the first sample.
    #[test]
    fn congestion_is_persistent_only_without_a_gap() {
        let mut rtt = RoundTrip::new();
        let duration = Span::from_ms(300);
        let packets = |numbers: &[(u64, u64, bool)]| -> Vec<Sent> {
            let sent = space(&[0]).sent[0].clone();
            let packet = |&(number, ms, eliciting): &(u64, u64, bool)| Sent {
                number,
                at: at(ms),
                eliciting,
                ..sent.clone()
            };
            numbers.iter().map(packet).collect()
        };
        let lost = packets(&[(4, 101, true), (5, 402, true)]);
        assert!(!is_persistent(&lost, duration, &rtt), "there is no sample");
        rtt.note(at(100), Span::from_ms(80), Span::ZERO);
        for (lost, persistent) in [
            (&[(4, 101, true), (5, 402, true)][..], true),
            (&[(4, 101, true), (5, 401, true)], false),
            // The first was sent at the time of the sample.
            (&[(4, 100, true), (5, 402, true)], false),
            (&[(4, 101, true), (6, 402, true)], false),
            (&[(4, 101, true), (5, 402, false)], false),
            (&[(4, 101, false), (5, 402, true)], false),
            (&[(4, 101, true), (5, 402, false), (6, 403, true)], true),
            (&[(4, 101, true), (5, 200, false), (7, 402, true)], false),
            (&[(1, 101, true), (4, 150, true), (5, 402, true), (6, 451, true)], true),
            (&[(1, 101, true), (4, 150, true), (5, 402, true), (6, 450, true)], false),
            (&[(4, 101, false), (5, 110, true), (6, 411, true)], true),
        ] {
            assert_eq!(is_persistent(&packets(lost), duration, &rtt), persistent, "{lost:?}");
        }
    }
}

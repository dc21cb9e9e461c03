//! COBALT: CoDel for what responds, and BLUE for what does not. It controls one queue.
//!
//! Unlike CoDel, it drops at once when the sojourn time passes the target in a state that still
//! remembers drops, it forgets them at the rate at which they came, and 1 / sqrt(count) is exact
//! below 16.
//!
//! As in Linux 6.1 to 7.3, a new queue acts on the packet after the first one that has waited too
//! long, not an interval later: its estimate of the root is zero, which is no root of a count. Its
//! first action sets it. A queue whose last packet left more than an interval ago, and whose next one
//! has waited too long already, does the same.

use narrows_units::{MaybeTime, Span, Time};
use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::Packet;

/// The settings of a control.
#[derive(Clone, Debug)]
pub(super) struct Params {
    pub(super) target: Span,
    pub(super) interval: Span,
    /// How long the largest packet takes at the tin's rate; zero without a rate.
    pub(super) mtu_time: Span,
    /// 1 / sqrt(count) for small counts, in units of 2^-32.
    inverse_roots: [u32; CACHED],
}

impl Params {
    pub(super) fn new(target: Span, interval: Span, mtu_time: Span) -> Self {
        let mut inverse_roots = [u32::MAX; CACHED];
        let mut root = u32::MAX;
        for count in 1..CACHED as u32 {
            for _ in 0..4 {
                root = newton_step(root, count);
            }
            inverse_roots[count as usize] = root;
        }
        Self { target, interval, mtu_time, inverse_roots }
    }

    /// Returns whether a packet has waited long: for more than the target, and more than the largest
    /// packets of the line take, four of them, or two of each bulk flow.
    #[inline]
    fn is_long(&self, sojourn: Span, bulk_flows: u32) -> bool {
        let frames = (2 * u64::from(bulk_flows)).max(4);
        sojourn > self.target && sojourn.as_ps() > self.mtu_time.as_ps().saturating_mul(frames)
    }
}

/// What a control remembers between packets.
#[derive(Clone, Debug)]
pub(super) struct Cobalt {
    /// The drops and marks that are not yet forgotten.
    pub(super) count: u32,
    /// 1 / sqrt(count) in units of 2^-32; zero until the count first changes after it was one.
    inverse_root: u32,
    /// BLUE's probability of a drop, in units of 2^-32.
    pub(super) p_drop: u32,
    dropping: bool,
    /// When the next drop is due, or a drop is forgotten. With a count of zero: until when the flow
    /// is remembered.
    pub(super) drop_next: Time,
    /// When BLUE last changed its probability.
    blue_at: MaybeTime,
}

/// What becomes of a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) drop: bool,
    pub(super) marked: bool,
}

impl Cobalt {
    pub(super) const fn new() -> Self {
        Self {
            count: 0,
            inverse_root: 0,
            p_drop: 0,
            dropping: false,
            drop_next: Time::ZERO,
            blue_at: MaybeTime::NONE,
        }
    }

    /// A packet of the queue was dropped for lack of room.
    pub(super) fn on_full(&mut self, now: Time, params: &Params) {
        self.count = self.count.max(1);
        self.drop_next = now;
        self.dropping = true;
        self.change_blue(now, params, self.p_drop.saturating_add(BLUE_UP));
    }

    /// The queue's turn came, and it had no packet.
    pub(super) fn on_empty(&mut self, now: Time, params: &Params) {
        if self.is_due(now) {
            self.forget_one(params);
        }
        self.dropping = false;
        if self.p_drop > 0 {
            self.change_blue(now, params, self.p_drop.saturating_sub(BLUE_DOWN));
        }
    }

    /// Judges a packet that has waited for `sojourn`, and marks it if that is enough. `bulk_flows`
    /// count only in ingress mode, and are zero otherwise.
    #[inline]
    pub(super) fn judge<P: Packet>(
        &mut self,
        now: Time,
        params: &Params,
        (packet, sojourn): (&mut P, Span),
        bulk_flows: u32,
        random: &mut Pcg32,
    ) -> Decision {
        let is_due = self.is_due(now);
        // Unless the turn is taken below, what counts is the time of the turn before this packet.
        let mut is_late = now > self.drop_next;
        self.follow(now, params, params.is_long(sojourn, bulk_flows));
        let mut decision = Decision { drop: false, marked: false };
        if is_due {
            if self.dropping {
                decision.marked = packet.ecn().is_capable();
                decision.drop = !decision.marked;
                self.step_to(self.count.saturating_add(1), params);
            } else {
                while self.is_due(now) {
                    self.forget_one(params);
                }
            }
            is_late = now > self.drop_next;
        }
        if decision.marked {
            packet.mark();
        }
        // BLUE drops ECN-capable packets too: their senders do not respond to marks.
        decision.drop |= self.p_drop > 0 && random.next_u32() < self.p_drop;
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if is_late && !decision.drop {
            self.drop_next = now;
        }
        decision
    }

    /// Enters the dropping state with a packet that has waited long, and leaves it with another.
    #[inline]
    fn follow(&mut self, now: Time, params: &Params, is_long: bool) {
        if is_long && !self.dropping {
            self.drop_next = self.step_from(now, params);
        }
        self.dropping = is_long;
        self.count = self.count.max(is_long.into());
    }

    /// Returns whether the time has come for the next drop, or to forget one.
    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.count > 0 && self.drop_next <= now
    }

    /// Returns whether there is something to remember of a flow without packets.
    #[inline]
    pub(super) fn remembers(&self, now: Time) -> bool {
        self.p_drop > 0 || self.count > 0 || now < self.drop_next
    }

    /// Lets BLUE change its probability, at most once in a target.
    fn change_blue(&mut self, now: Time, params: &Params, p_drop: u32) {
        if self.blue_at.get().is_none_or(|at| now.since(at) > params.target) {
            (self.p_drop, self.blue_at) = (p_drop, now.into());
        }
    }

    fn forget_one(&mut self, params: &Params) {
        self.step_to(self.count - 1, params);
    }

    /// Sets the count, and with it the next time.
    #[inline]
    fn step_to(&mut self, count: u32, params: &Params) {
        self.count = count;
        self.inverse_root = match params.inverse_roots.get(count as usize) {
            Some(&exact) => exact,
            None => newton_step(self.inverse_root, count),
        };
        self.drop_next = self.step_from(self.drop_next, params);
    }

    /// The control law of CoDel.
    #[inline]
    fn step_from(&self, at: Time, params: &Params) -> Time {
        let scaled = u128::from(params.interval.as_ps()) * u128::from(self.inverse_root);
        at + Span::from_ps((scaled >> 32) as u64)
    }
}

/// Improves `root`, which is near 1 / sqrt(count), by a step of Newton's method.
fn newton_step(root: u32, count: u32) -> u32 {
    let root = u64::from(root);
    let rest = (3u64 << 32).wrapping_sub(((root * root) >> 32) * u64::from(count));
    ((rest / 4).wrapping_mul(root) >> 31) as u32
}

/// How many counts have their root from a table.
const CACHED: usize = 16;
/// 1/256.
const BLUE_UP: u32 = 1 << 24;
/// 1/4096.
const BLUE_DOWN: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;
    use crate::Ecn;
    use crate::traffic::TestPacket;

    fn params() -> Params {
        Params::new(Span::from_ms(5), Span::from_ms(100), Span::ZERO)
    }

    /// A queue that has acted before and forgotten it.
    fn used() -> Cobalt {
        Cobalt { inverse_root: u32::MAX, ..Cobalt::new() }
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Judges a packet every 100 us, from `from` to `to` (in ms), which waited for `sojourn_ms`.
    /// Returns when packets were dropped or marked, in microseconds.
    fn acts(
        cobalt: &mut Cobalt,
        ecn: Ecn,
        sojourn_ms: u64,
        (from, to): (u64, u64),
    ) -> alloc::vec::Vec<u64> {
        let mut random = Pcg32::seed_from_u64(1);
        let mut times = alloc::vec::Vec::new();
        for us in (from * 1_000..to * 1_000).step_by(100) {
            let mut packet = TestPacket { ecn, ..TestPacket::default() };
            let sojourn = Span::from_ms(sojourn_ms);
            let decision = cobalt.judge(at(us), &params(), (&mut packet, sojourn), 0, &mut random);
            assert!(!(decision.drop && decision.marked));
            assert_eq!(decision.marked, packet.ecn == Ecn::Ce && ecn != Ecn::Ce);
            if decision.drop || decision.marked {
                times.push(us);
            }
        }
        times
    }

    #[test]
    fn roots_are_exact_below_sixteen_and_close_from_there_on() {
        let params = params();
        let mut cobalt = Cobalt::new();
        for count in 1..2_000 {
            cobalt.step_to(count, &params);
            let root = f64::from(cobalt.inverse_root) / 4_294_967_296.0;
            let error = (root * f64::from(count).sqrt() - 1.0).abs();
            // A step of Newton's leaves 3/2 of the square of the error, here 1 / (2 count) and a
            // little.
            let bound =
                if count < 16 { 1e-3 } else { 1.7 / (4.0 * f64::from(count * count)) + 1e-5 };
            assert!(error < bound, "{count}: {error}");
        }
    }

    /// The first action comes an interval after the target was passed, the next ones an interval
    /// over the root of their count later.
    #[test]
    fn drops_come_an_interval_over_the_root_of_their_count_apart() {
        for (ecn, target_ms) in [(Ecn::NotEct, 6), (Ecn::Ect0, 6), (Ecn::Ect1, 50)] {
            let times = acts(&mut used(), ecn, target_ms, (0, 1_000));
            let mut due = 100_000.0;
            for (n, &time) in times.iter().enumerate() {
                // The steps between calls, and the errors of roots.
                let tolerance = 200.0 + 40.0 * n as f64;
                assert!((time as f64 - due).abs() < tolerance, "{n}: {time}, not {due}");
                due += 100_000.0 / (n as f64 + 2.0).sqrt();
            }
            // 1 + 1/sqrt(2) + ... + 1/sqrt(n) is 9.97 for 32.
            assert!((31..=33).contains(&times.len()), "{}", times.len());
        }
        assert!(acts(&mut Cobalt::new(), Ecn::NotEct, 5, (0, 1_000)).is_empty());
    }

    #[test]
    fn a_new_queue_acts_on_the_next_packet_and_a_used_one_after_an_interval() {
        let long = |cobalt: &mut Cobalt, from| acts(cobalt, Ecn::Ect0, 6, (from, from + 150));
        let mut cobalt = Cobalt::new();
        let times = long(&mut cobalt, 1_000);
        // 100 ms / sqrt(2) and 100 ms / sqrt(3) later, with roots that are a little too small.
        assert_eq!(times, [1_000_100, 1_070_700, 1_128_500]);
        // Nothing is left of it after half a second.
        assert!(acts(&mut cobalt, Ecn::Ect0, 1, (1_150, 1_650)).is_empty());
        assert_eq!(long(&mut cobalt, 1_650), [1_750_000]);
    }

    /// The first packet after an interval without any has waited too long already.
    #[test]
    fn a_queue_without_packets_for_an_interval_acts_on_the_next_one() {
        for (silent_ms, first) in [(90, 190_000), (110, 110_100)] {
            let mut cobalt = used();
            assert!(acts(&mut cobalt, Ecn::Ect0, 1, (0, 1)).is_empty());
            let times = acts(&mut cobalt, Ecn::Ect0, 6, (silent_ms, silent_ms + 105));
            assert_eq!(times[0], first, "{times:?}");
        }
    }

    #[test]
    fn drops_are_forgotten_at_the_rate_at_which_they_came() {
        let mut cobalt = Cobalt::new();
        acts(&mut cobalt, Ecn::NotEct, 6, (0, 500));
        let grown = cobalt.count;
        assert!(grown > 8);
        assert!(acts(&mut cobalt, Ecn::NotEct, 1, (500, 700)).is_empty());
        assert!(0 < cobalt.count && cobalt.count < grown - 4, "{}", cobalt.count);
        assert!(acts(&mut cobalt, Ecn::NotEct, 1, (700, 1_200)).is_empty());
        assert_eq!(cobalt.count, 0);
        // Nothing is remembered an interval after the last packet.
        assert!(cobalt.remembers(at(1_299_800)));
        assert!(!cobalt.remembers(at(1_300_000)));
    }

    #[test]
    fn a_long_frame_raises_the_time_that_counts_as_long() {
        let mut random = Pcg32::seed_from_u64(1);
        let slow = Params::new(Span::from_ms(5), Span::from_ms(100), Span::from_ms(3));
        for (sojourn, bulk_flows, over) in
            [(12, 0, false), (13, 0, true), (18, 3, false), (19, 3, true)]
        {
            let mut cobalt = Cobalt::new();
            let mut packet = TestPacket::default();
            let waited = (&mut packet, Span::from_ms(sojourn));
            cobalt.judge(at(0), &slow, waited, bulk_flows, &mut random);
            assert_eq!(cobalt.dropping, over, "{sojourn} ms");
        }
    }

    #[test]
    fn blue_grows_once_per_target_while_there_is_no_room_and_falls_when_the_queue_is_empty() {
        let mut cobalt = Cobalt::new();
        for us in 0..12_000 {
            cobalt.on_full(at(us), &params());
        }
        // At 0, 5.001 and 10.002 ms.
        assert_eq!(cobalt.p_drop, 3 << 24);
        assert_eq!(cobalt.count, 1);
        let mut random = Pcg32::seed_from_u64(2);
        let dropped = (0..100_000u64).filter(|us| {
            let mut packet = TestPacket { ecn: Ecn::Ect0, ..TestPacket::default() };
            let waited = (&mut packet, Span::ZERO);
            cobalt.judge(at(12_000 + us), &params(), waited, 0, &mut random).drop
        });
        let share = dropped.count() as f64 / 100_000.0;
        assert!((share - 3.0 / 256.0).abs() < 0.001, "{share}");
        for us in (0..48 * 5_001).step_by(100) {
            cobalt.on_empty(at(200_000 + us), &params());
        }
        assert!(cobalt.p_drop <= 1 << 20, "{}", cobalt.p_drop >> 20);
    }
}

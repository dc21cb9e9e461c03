//! Prague: DCTCP for the Internet. The window follows the share of marks, in fractions of a segment,
//! and short round trips need not be faster than longer ones.
//!
//! Written from draft-briscoe-iccrg-prague-congestion-control-04 (2.3, 2.4) and the rules of the L4S
//! team's Linux of 2022, as facts: alpha starts at 1 and moves once marks are seen, with g = 1/16;
//! a reduction leaves one segment at a time; each segment that was not marked adds 1/cwnd, also
//! during a reduction. With `prague_rtt_scaling`, after 500 rounds that begin with the end of slow
//! start, a flow behaves as if its round trip were at least 25 ms: alpha changes and the window falls
//! at most once in 25 ms, and it grows by (RTT / 25 ms)^2 in a round trip. Without it, this is the
//! control of 2020, which Heist and Morton measured.
//!
//! A loss halves the window, and growth then is Reno's (the draft allows CUBIC's). If the other end
//! has no Accurate ECN, it is Reno with ECT(0). Differences: after a timeout, the threshold is half
//! the window (RFC 5681, equation 4) and the window grows from there at once; a loss in the round
//! trip of a reduction halves what that leaves; there is no fallback where a queue with one class
//! marks ECT(1) as ECT(0), which is off in 2022, too; bursts are those of `segmentation_offload`.

use narrows_units::Span;

use super::moment::elapsed_us;
use super::sample::Delivery;
use super::window::Window;
use crate::seq::Seq;

/// How a flow with a short round trip behaves as if it were longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaling {
    pub is_on: bool,
    /// The round trip as which shorter ones count.
    pub target: Span,
    /// The number of rounds after slow start from which they do.
    pub transition: u32,
}

impl Scaling {
    /// That of 2022.
    pub(crate) const USUAL: Self = Self { is_on: true, target: Span::from_ms(25), transition: 500 };
}

/// The time of a step in microseconds, and the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub us: u32,
    pub scaling: Scaling,
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Prague {
    /// The moving average of the share of marks.
    alpha: f64,
    /// Segments that the window still has to gain, or to lose.
    owed: f64,
    /// `snd_nxt` when the round began.
    round_end: Seq,
    /// Segments that this round has delivered, and those of them that were marked.
    delivered: u32,
    marked: u32,
    /// Rounds since slow start.
    rounds: u32,
    /// When alpha changed, and when a mark last reduced the window.
    changed_us: u32,
    reduced_us: u32,
    seen_marks: bool,
    /// Whether a loss is being repaired: the window does not grow.
    repairs: bool,
}

impl Prague {
    pub(crate) fn new(first: Seq) -> Self {
        Self {
            alpha: 1.0,
            owed: 0.0,
            round_end: first,
            delivered: 0,
            marked: 0,
            rounds: 0,
            changed_us: 0,
            reduced_us: 0,
            seen_marks: false,
            repairs: false,
        }
    }

    /// Begins: the connection is established.
    pub(crate) fn start(&mut self, now_us: u32, snd_nxt: Seq) {
        *self = Self { changed_us: now_us, reduced_us: now_us, ..Self::new(snd_nxt) };
    }

    /// Takes an acknowledgement, and changes the window.
    pub(crate) fn on_ack(&mut self, cx: &Step, window: &mut Window, ack: &Delivery) {
        self.repairs &= !ack.is_open;
        self.seen_marks |= ack.marked > 0;
        self.delivered += ack.delivered;
        self.marked += ack.marked;
        let unmarked = ack.delivered.saturating_sub(ack.marked);
        if unmarked > 0 && ack.is_limited && !self.repairs {
            self.grow(cx, window, unmarked, ack.srtt_us);
        }
        self.settle(window);
        let round_is_over = !ack.snd_una.before(self.round_end);
        if round_is_over && (!self.is_scaled(cx, *window) || self.waited(cx, self.changed_us)) {
            self.end_round(cx, *window, ack.snd_nxt);
        }
    }

    /// Adds the increase for segments that were not marked (draft, 2.4.3).
    fn grow(&mut self, cx: &Step, window: &mut Window, mut unmarked: u32, srtt_us: u32) {
        if window.in_slow_start() {
            unmarked = window.slow_start(unmarked);
        }
        let target_us = cx.scaling.target.as_us() as f64;
        let rtt_us = f64::from(srtt_us);
        let is_short = srtt_us > 0 && rtt_us < target_us;
        let increase = if self.may_scale(cx) && is_short {
            (rtt_us / target_us) * (rtt_us / target_us)
        } else {
            1.0
        };
        self.owed += f64::from(unmarked) * increase / f64::from(window.cwnd.max(1));
    }

    /// Changes the window by a whole segment, if one is owed.
    fn settle(&mut self, window: &mut Window) {
        if self.owed <= -1.0 {
            self.owed += 1.0;
            window.cwnd -= 1;
            if window.cwnd < LEAST {
                window.cwnd = LEAST;
                self.owed = 0.0;
            }
            window.ssthresh = window.cwnd;
        } else if self.owed >= 1.0 {
            self.owed -= 1.0;
            window.cwnd += 1;
        }
    }

    /// Returns alpha, 0 to 1.
    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Ends a round: updates alpha (draft, 2.4.1).
    fn end_round(&mut self, cx: &Step, window: Window, snd_nxt: Seq) {
        if self.seen_marks {
            let share = f64::from(self.marked) / f64::from(self.delivered.max(1));
            self.alpha = (self.alpha + GAIN * (share - self.alpha)).min(1.0);
            self.changed_us = cx.us;
        }
        (self.delivered, self.marked) = (0, 0);
        self.round_end = snd_nxt;
        if !window.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// A mark reduces the window by half of alpha, at most once in a (virtual) round trip (draft,
    /// 2.4.2).
    pub(crate) fn on_mark(&mut self, cx: &Step, window: Window) {
        if self.is_scaled(cx, window) && !self.waited(cx, self.reduced_us) {
            return;
        }
        self.reduced_us = cx.us;
        self.owed -= self.alpha * f64::from(window.cwnd) / 2.0;
    }

    /// A loss halves the window. Returns the threshold.
    pub(crate) fn on_loss(&mut self, window: Window) -> u32 {
        self.owed -= (f64::from(window.cwnd) + self.owed) / 2.0;
        self.repairs = true;
        (window.cwnd / 2).max(LEAST)
    }

    /// A timeout has set the window already.
    pub(crate) fn on_timeout(&mut self) {
        self.owed = 0.0;
        self.repairs = false;
    }

    /// Returns whether enough rounds are over for the virtual round trip.
    fn may_scale(&self, cx: &Step) -> bool {
        cx.scaling.is_on && self.rounds >= cx.scaling.transition
    }

    /// Returns whether a virtual round trip counts.
    fn is_scaled(&self, cx: &Step, window: Window) -> bool {
        self.may_scale(cx) && !window.in_slow_start()
    }

    /// Returns whether a virtual round trip has passed since `us`.
    fn waited(&self, cx: &Step, us: u32) -> bool {
        u64::from(elapsed_us(cx.us, us)) >= cx.scaling.target.as_us()
    }
}

/// g (draft, 2.4.1).
const GAIN: f64 = 1.0 / 16.0;
/// The smallest window, in segments.
const LEAST: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(is_on: bool) -> Scaling {
        Scaling { is_on, transition: 10, ..Scaling::USUAL }
    }

    /// Acknowledges a window a segment at a time, in `rtt_ms`; the first `marked` are marked.
    /// Returns the time after it.
    fn round(
        scaling: Scaling,
        (prague, window): (&mut Prague, &mut Window),
        (from_ms, rtt_ms): (f64, f64),
        marked: u32,
    ) -> f64 {
        let segments = window.cwnd;
        let end = prague.round_end;
        for n in 0..segments {
            let at = from_ms + rtt_ms * f64::from(n + 1) / f64::from(segments);
            let cx = Step { us: (at * 1000.0) as u32, scaling };
            if n == 0 && marked > 0 {
                prague.on_mark(&cx, *window);
            }
            let last = n + 1 == segments;
            let ack = Delivery {
                delivered: 1,
                marked: u32::from(n < marked),
                snd_una: if last { end } else { Seq(end.0.wrapping_sub(1)) },
                snd_nxt: end + 1,
                srtt_us: (rtt_ms * 1000.0) as u32,
                is_limited: true,
                is_open: true,
            };
            prague.on_ack(&cx, window, &ack);
        }
        from_ms + rtt_ms
    }

    fn started(cwnd: u32, ssthresh: u32) -> (Prague, Window) {
        (Prague::new(Seq(1)), Window { cwnd, ssthresh, count: 0 })
    }

    /// Alpha is 1 until a mark is seen, which therefore halves the window and ends slow start.
    #[test]
    fn the_first_mark_halves_the_window() {
        let scaling = scaled(true);
        let (mut prague, mut window) = started(20, u32::MAX);
        let at = round(scaling, (&mut prague, &mut window), (0.0, 10.0), 0);
        assert!(window.cwnd == 40 && prague.alpha >= 1.0 && prague.rounds == 0);
        round(scaling, (&mut prague, &mut window), (at, 10.0), 1);
        assert!((20..=21).contains(&window.cwnd), "{}", window.cwnd);
        assert!(!window.in_slow_start());
        // 15/16 of 1 and 1/16 of one in 40.
        assert!((prague.alpha - (15.0 + 1.0 / 40.0) / 16.0).abs() < 1e-12);
    }

    /// Draft, 2.4.3: a segment in a round trip; marked segments add nothing, the others do, also in
    /// the round trip of a reduction.
    #[test]
    fn unmarked_segments_add_one_in_a_round_trip() {
        let scaling = scaled(false);
        let (mut prague, mut window) = started(50, 50);
        prague.alpha = 0.0;
        let mut at = 0.0;
        for _ in 0..20 {
            at = round(scaling, (&mut prague, &mut window), (at, 10.0), 0);
        }
        assert!((69..=70).contains(&window.cwnd), "{}", window.cwnd);
        let (before, owed) = (window.cwnd, prague.owed);
        round(scaling, (&mut prague, &mut window), (at, 10.0), before / 2);
        let grown = f64::from(window.cwnd) + prague.owed - f64::from(before) - owed;
        assert!((grown - 0.5).abs() < 0.02, "half of them were marked: {grown}");
    }

    /// Draft, 2.4.4: with a round trip of 5 ms and a target of 25 ms, the window grows by 1/25 in a
    /// round trip, alpha changes in every fifth, and marks reduce the window in every fifth. Before
    /// the transition, and without scaling, each round trip counts.
    #[test]
    fn short_round_trips_behave_like_the_target() {
        for (is_on, rounds, grown, reductions) in
            [(true, 10, 2.0, 10), (true, 0, 50.0, 50), (false, 10, 50.0, 50)]
        {
            let mut scaling = scaled(is_on);
            scaling.transition = if rounds == 0 { 1000 } else { 10 };
            let (mut prague, mut window) = started(100, 100);
            (prague.alpha, prague.rounds) = (0.0, rounds);
            let mut at = 1000.0;
            for _ in 0..50 {
                at = round(scaling, (&mut prague, &mut window), (at, 5.0), 0);
            }
            let gain = f64::from(window.cwnd) + prague.owed - 100.0;
            assert!((gain - grown).abs() < 0.06 * grown, "{is_on} {rounds}: {gain}");
            let (mut cuts, mut changes) = (0, 0);
            for _ in 0..50 {
                let (reduced, alpha) = (prague.reduced_us, prague.alpha);
                at = round(scaling, (&mut prague, &mut window), (at, 5.0), 1);
                cuts += u32::from(prague.reduced_us != reduced);
                changes += u32::from((prague.alpha - alpha).abs() > 0.0);
            }
            assert!(cuts.abs_diff(reductions) <= 2, "{is_on} {rounds}: {cuts}");
            assert!(changes.abs_diff(reductions) <= 2, "{is_on} {rounds}: {changes}");
        }
    }

    /// A loss halves the window over the next acknowledgements, in which it does not grow; a timeout
    /// leaves nothing to reduce.
    #[test]
    fn a_loss_halves_the_window() {
        let scaling = scaled(true);
        let (mut prague, mut window) = started(40, 40);
        window.ssthresh = prague.on_loss(window);
        assert_eq!(window.ssthresh, 20);
        let cx = Step { us: 5000, scaling };
        let ack = Delivery {
            delivered: 1,
            marked: 0,
            snd_una: Seq(0),
            snd_nxt: Seq(2),
            srtt_us: 10_000,
            is_limited: true,
            is_open: false,
        };
        for _ in 0..30 {
            prague.on_ack(&cx, &mut window, &ack);
        }
        assert_eq!((window.cwnd, window.ssthresh), (20, 20));
        prague.on_ack(&cx, &mut window, &Delivery { is_open: true, ..ack });
        assert!(prague.owed > 0.0, "it grows again");
        prague.on_loss(window);
        prague.on_timeout();
        assert!(prague.owed.abs() < 1e-12 && !prague.repairs);
        // Two segments at least.
        let (mut prague, mut window) = started(3, 3);
        prague.on_loss(window);
        prague.on_loss(window);
        for _ in 0..5 {
            prague.on_ack(&cx, &mut window, &ack);
        }
        assert_eq!(window.cwnd, 2);
    }
}

//! CoDel's control of one queue, without the queue.
//!
//! Written from RFC 8289, section 5, with its variables. The differences, which are Linux's, are
//! listed at [`super`].

use narrows_units::{Span, Time};

use crate::settings::words;
use crate::stamped::Stamped;
use crate::{Counters, DropReason, Dropped, Packet};

/// The settings of a control.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) target: Span,
    pub(crate) interval: Span,
    /// [`Span::MAX`]: never.
    pub(crate) ce_threshold: Span,
    /// Of the ECN field: the threshold is for packets that have the second value in these bits.
    pub(crate) ce_selector: (u8, u8),
    /// Bytes.
    pub(crate) mtu: u64,
    pub(crate) ecn: bool,
    pub(crate) when_empty: WhenEmpty,
}

words! {
    /// What happens to the time since which packets have waited for more than `target`, once their
    /// queue is empty.
    pub enum WhenEmpty {
        /// It is forgotten: RFC 8289, and Linux since March 2026 (stable: 6.1.191, 6.12.115).
        Forget = "forget",
        /// It stays until a packet has waited for less, or leaves less than an MTU behind: Linux
        /// before.
        Keep = "keep",
    }
}

/// What a control remembers between packets, with the RFC's names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// The drops and marks since the dropping state was entered.
    pub(crate) count: u32,
    /// The value of `count` at that time.
    lastcount: u32,
    dropping: bool,
    /// An estimate of the inverse square root of `count`, in 65536ths.
    inverse_root: u16,
    /// When the sojourn time will have been above the target for an interval; `None`: it is below.
    first_above_time: Option<Time>,
    /// In the dropping state, when the next drop is due; afterwards, when the last one was due.
    /// `None`: the state has never been entered.
    drop_next: Option<Time>,
}

/// The queue under control.
pub(crate) trait Controlled<P> {
    /// Removes the oldest packet.
    fn take(&mut self) -> Option<Stamped<P>>;
    /// Returns the bytes that wait.
    fn backlog(&self) -> u64;
}

/// Where drops and marks are recorded.
pub(crate) struct Books<'a, P> {
    pub(crate) counters: &'a mut Counters,
    pub(crate) dropped: &'a mut Dropped<P>,
}

/// A packet that has left the queue.
struct Head<P> {
    packet: P,
    sojourn: Span,
    /// Whether a standing queue has kept it, so that it may be dropped (`ok_to_drop`).
    standing: bool,
}

impl<P: Packet> Head<P> {
    /// Returns whether `ce_threshold` is for it.
    #[inline]
    fn is_selected(&self, (mask, value): (u8, u8)) -> bool {
        (self.packet.dscp() << 2 | self.packet.ecn() as u8) & mask == value
    }

    /// Marks it and adds to `counter`. Returns false if its transport knows no marks.
    #[inline]
    fn mark(&mut self, counter: &mut u64) -> bool {
        let capable = self.packet.ecn().is_capable();
        if capable {
            self.packet.mark();
            *counter += 1;
        }
        capable
    }
}

impl Control {
    /// Returns the next packet, and drops or marks those whose turn it is (`deque`).
    #[inline]
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        now: Time,
        params: &Params,
        queue: &mut impl Controlled<P>,
        books: &mut Books<'_, P>,
    ) -> Option<P> {
        let Some(first) = queue.take() else {
            self.dropping = false;
            if params.when_empty == WhenEmpty::Forget {
                self.first_above_time = None;
            }
            return None;
        };
        let mut head = self.examine(now, params, first, queue.backlog());
        let mut marked = false;
        if self.dropping {
            // Each turn marks a packet, or drops one, or ends the loop.
            while let Some(due) = self.due(now, head.standing)
                && !marked
            {
                self.count = self.count.wrapping_add(1);
                self.refine_root();
                marked = params.ecn && head.mark(&mut books.counters.marked_early);
                if !marked {
                    head = self.replace(now, params, head, queue, books)?;
                }
                if head.standing {
                    self.drop_next = Some(self.control_law(due, params));
                }
            }
        } else if head.standing {
            self.enter_dropping(now, params);
            marked = params.ecn && head.mark(&mut books.counters.marked_early);
            if !marked {
                head = self.replace(now, params, head, queue, books)?;
            }
        }
        if !marked && head.sojourn > params.ce_threshold && head.is_selected(params.ce_selector) {
            head.mark(&mut books.counters.marked_forced);
        }
        Some(head.packet)
    }

    /// Returns since when a drop has been due. A packet that no standing queue has kept ends the
    /// dropping state.
    #[inline]
    fn due(&mut self, now: Time, standing: bool) -> Option<Time> {
        self.dropping = standing;
        self.drop_next.filter(|&due| standing && due <= now)
    }

    /// Drops a packet, and returns the one behind it.
    #[inline]
    fn replace<P: Packet>(
        &mut self,
        now: Time,
        params: &Params,
        head: Head<P>,
        queue: &mut impl Controlled<P>,
        books: &mut Books<'_, P>,
    ) -> Option<Head<P>> {
        books.drop(head.packet);
        let Some(next) = queue.take() else {
            self.dropping = false;
            self.first_above_time = None;
            return None;
        };
        Some(self.examine(now, params, next, queue.backlog()))
    }

    /// Follows the sojourn time around the target (`dodequeue`). `backlog` is what the packet
    /// leaves behind.
    #[inline]
    fn examine<P>(
        &mut self,
        now: Time,
        params: &Params,
        Stamped { packet, arrived_at }: Stamped<P>,
        backlog: u64,
    ) -> Head<P> {
        let sojourn = now.since(arrived_at);
        let high = sojourn >= params.target && backlog > params.mtu;
        let standing = high && self.first_above_time.is_some_and(|at| at < now);
        self.first_above_time =
            high.then(|| self.first_above_time.unwrap_or_else(|| now + params.interval));
        Head { packet, sojourn, standing }
    }

    /// Starts a dropping state. If a drop was due less than 16 intervals ago, the rate of the last
    /// state is a good guess for this one.
    #[inline]
    fn enter_dropping(&mut self, now: Time, params: &Params) {
        // `drop_next` may lie in the future; then no time has passed since.
        let recent = self.drop_next.is_some_and(|at| now.since(at) < params.interval * 16);
        self.count = match self.count.wrapping_sub(self.lastcount) {
            delta if recent && delta > 1 => delta,
            _ => 1,
        };
        if self.count > 1 {
            self.refine_root();
        } else {
            self.inverse_root = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = Some(self.control_law(now, params));
        self.dropping = true;
    }

    /// Returns `t + interval / sqrt(count)`.
    #[inline]
    fn control_law(&self, t: Time, params: &Params) -> Time {
        let gap = u128::from(params.interval.as_ps()) * u128::from(self.inverse_root) / 65_536;
        t + Span::from_ps(gap as u64)
    }

    /// One step of Newton's method: x (3 - count x^2) / 2 is closer to 1 / sqrt(count) than x.
    #[inline]
    fn refine_root(&mut self) {
        // x has 32 fractional bits, and so has its square. Those of the bracket are two fewer, so
        // that its product with x fits 64 bits. If x is far too large, the bracket is below zero
        // and wraps, as Linux's does.
        let x = u64::from(self.inverse_root) << 16;
        let rest = (3u64 << 32).wrapping_sub(((x * x) >> 32) * u64::from(self.count));
        self.inverse_root = ((rest / 4).wrapping_mul(x) >> 47) as u16;
    }
}

impl<P: Packet> Books<'_, P> {
    #[inline]
    fn drop(&mut self, packet: P) {
        self.counters.on_drop(packet.bytes(), DropReason::Early);
        self.dropped.push((packet, DropReason::Early));
    }
}

#[cfg(test)]
mod tests;

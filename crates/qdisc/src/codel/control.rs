//! CoDel's control of one queue, without the queue: what `codel_dequeue` does.
//!
//! Source: RFC 8289, section 5; Linux 6.1.192, `include/net/codel.h` and
//! `include/net/codel_impl.h`. The differences are listed at [`super`].

use narrows_units::{Span, Time};

use crate::settings::words;
use crate::stamped::Stamped;
use crate::{Counters, DropReason, Dropped, Packet};

/// `struct codel_params`
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) target: Span,
    pub(crate) interval: Span,
    /// [`Span::MAX`]: never (`CODEL_DISABLED_THRESHOLD`).
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

/// `struct codel_vars`
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// The drops and marks since the dropping state was entered.
    pub(crate) count: u32,
    /// The value of `count` at that time.
    lastcount: u32,
    dropping: bool,
    /// The inverse square root of `count`, as a 16-bit fraction.
    rec_inv_sqrt: u16,
    /// When the sojourn time will have been above the target for an interval; `None`: it is below.
    first_above_time: Option<Time>,
    /// In the dropping state, when the next drop is due; afterwards, when the last one was due.
    /// `None`: the state has never been entered.
    drop_next: Option<Time>,
    /// The sojourn time of the packet examined last.
    ldelay: Span,
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

impl Control {
    /// `codel_dequeue`; RFC 8289, section 5.6.
    #[inline]
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        now: Time,
        params: &Params,
        queue: &mut impl Controlled<P>,
        books: &mut Books<'_, P>,
    ) -> Option<P> {
        let mut packet = queue.take();
        if packet.is_none() {
            self.dropping = false;
            if params.when_empty == WhenEmpty::Forget {
                self.first_above_time = None;
            }
            return None;
        }
        let drop = self.should_drop(now, params, packet.as_ref(), queue.backlog());
        let mut marked = false;
        if self.dropping {
            if !drop {
                self.dropping = false;
            }
            // The loop runs at most once for each packet: each turn drops one or ends the loop.
            while let Some(drop_next) = self.drop_next
                && self.dropping
                && now >= drop_next
            {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                marked = params.ecn && mark(&mut packet, &mut books.counters.marked_early);
                if marked {
                    self.drop_next = Some(self.control_law(drop_next, params));
                    break;
                }
                books.drop(packet);
                packet = queue.take();
                if self.should_drop(now, params, packet.as_ref(), queue.backlog()) {
                    self.drop_next = Some(self.control_law(drop_next, params));
                } else {
                    self.dropping = false;
                }
            }
        } else if drop {
            marked = params.ecn && mark(&mut packet, &mut books.counters.marked_early);
            if !marked {
                books.drop(packet);
                packet = queue.take();
                self.should_drop(now, params, packet.as_ref(), queue.backlog());
            }
            self.enter_dropping(now, params);
        }
        if !marked && self.ldelay > params.ce_threshold && selected(&packet, params.ce_selector) {
            mark(&mut packet, &mut books.counters.marked_forced);
        }
        packet.map(|packet| packet.packet)
    }

    /// `codel_should_drop`; the RFC's `dodequeue`. `backlog` is what `packet` leaves behind.
    #[inline]
    fn should_drop<P>(
        &mut self,
        now: Time,
        params: &Params,
        packet: Option<&Stamped<P>>,
        backlog: u64,
    ) -> bool {
        let Some(packet) = packet else {
            self.first_above_time = None;
            return false;
        };
        self.ldelay = now.since(packet.arrived_at);
        if self.ldelay < params.target || backlog <= params.mtu {
            self.first_above_time = None;
            return false;
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + params.interval);
                false
            }
            Some(time) => now > time,
        }
    }

    /// Starts a dropping state, at the rate that controlled the queue last time if that was less
    /// than 16 intervals ago.
    #[inline]
    fn enter_dropping(&mut self, now: Time, params: &Params) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.lastcount);
        // `drop_next` may lie in the future; then no time has passed since.
        let recent = self.drop_next.is_some_and(|at| now.since(at) < params.interval * 16);
        if delta > 1 && recent {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.rec_inv_sqrt = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = Some(self.control_law(now, params));
    }

    /// `codel_control_law`: `t + interval / sqrt(count)`.
    #[inline]
    fn control_law(&self, t: Time, params: &Params) -> Time {
        let product = u128::from(params.interval.as_ps()) * u128::from(self.rec_inv_sqrt);
        t + Span::from_ps((product >> 16) as u64)
    }

    /// `codel_Newton_step`: x (3 - count x^2) / 2 approaches 1 / sqrt(count).
    #[inline]
    fn newton_step(&mut self) {
        let x = u64::from(self.rec_inv_sqrt) << 16;
        let x2 = (x * x) >> 32;
        // It wraps if x is too far off, as in the kernel.
        let bracket = (3u64 << 32).wrapping_sub(u64::from(self.count) * x2) >> 2;
        self.rec_inv_sqrt = (bracket.wrapping_mul(x) >> (31 + 16)) as u16;
    }
}

impl<P> Books<'_, P> {
    #[inline]
    fn drop(&mut self, packet: Option<Stamped<P>>)
    where
        P: Packet,
    {
        let Some(Stamped { packet, .. }) = packet else { return };
        self.counters.on_drop(packet.bytes(), DropReason::Early);
        self.dropped.push((packet, DropReason::Early));
    }
}

/// Returns whether `ce_threshold` is for a packet.
#[inline]
fn selected<P: Packet>(packet: &Option<Stamped<P>>, (mask, value): (u8, u8)) -> bool {
    packet.as_ref().is_some_and(|packet| (packet.dscp() << 2 | packet.ecn() as u8) & mask == value)
}

/// `INET_ECN_set_ce`, with a count.
#[inline]
fn mark<P: Packet>(packet: &mut Option<Stamped<P>>, counter: &mut u64) -> bool {
    match packet {
        Some(packet) if packet.ecn().is_capable() => {
            packet.mark();
            *counter += 1;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;

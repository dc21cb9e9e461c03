//! DualPI2: two queues under one controller. L4S packets wait in a short queue L, all others in a
//! classic queue C, and both kinds of senders get about the same rate.
//!
//! Source: RFC 9332, mainly its appendix A; De Schepper, Albisser, Tilmans and Briscoe, "Dual Queue
//! Coupled AQM", arXiv 2209.01078; tc-dualpi2(8); what Linux 6.17 and 7.3 do (`sch_dualpi2`), as
//! facts: its defaults, and the rules listed here. The controller is in `control`.
//!
//! Differences of Linux from the RFC's pseudocode, followed here:
//!
//! - The delay is the longer of both queues' (the RFC: C's).
//! - The native AQM of L is a step, not a ramp: it marks whatever has waited for longer than
//!   `step_thresh`.
//! - The scheduler is a weighted round robin (`classic_protection`), one of the choices of the
//!   RFC's section 2.5.1.1, not the time-shifted FIFO of its appendix A.
//! - Nothing is dropped or marked by the controller while less than two MTUs wait.
//!
//! Differences from Linux:
//!
//! - Packets are sorted by their ECN field alone. Linux also has filters and priorities, by which
//!   packets that cannot be marked get into L.
//! - Numbers are floating-point. Linux has probabilities of 32 bits, and rounds `alpha` and `beta`
//!   to 256ths: 0.16 is 0.1602 there, and 3.2 is 3.1992.
//! - There is no timer. The next call makes the updates that were due. After a thousand of them the
//!   rest are one step, which is the same unless the probability leaves a bound meanwhile.
//! - `memlimit` counts the packets' lengths, Linux the memory of their buffers.
//! - A packet that the controller has marked is not counted again by the step.
//! - Random numbers come from a seeded PCG, and the MTU is a setting.
//! - There is no `split_gso`: no packet is larger than the MTU.

mod control;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use self::control::Control;
use crate::random::uniform;
use crate::settings::{
    MOST_BYTES, MOST_PACKETS, Settings, any, number, positive, settings, share, size, whole,
};
use crate::stamped::Stamped;
use crate::storage::Storage;
use crate::{
    Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Ecn, Levels, Packet, Qdisc,
    Verdict, assert_possible,
};

settings! {
    /// DualPI2, for L4S beside classic traffic: tc-dualpi2(8), RFC 9332.
    pub struct Config {
        /// Packets that may wait in both queues together.
        limit: u32 = 10_000, whole(1, MOST_PACKETS);
        /// Bytes that may wait in both queues together; by default, `limit` packets of twice the
        /// `mtu`.
        memlimit: Option<Bytes> = None, size(1, MOST_BYTES);
        /// The delay to aim for in the classic queue.
        target: Span = Span::from_ms(15), positive();
        /// Time between updates of the probability.
        tupdate: Span = Span::from_ms(16), positive();
        /// How much the probability rises at each update for each second above the target, in Hz.
        alpha: f64 = 0.16, number(0.0, MOST_GAIN);
        /// How much it rises for each second by which the delay has grown, in Hz.
        beta: f64 = 3.2, number(0.0, MOST_GAIN);
        /// The probability of marks in the L queue, divided by the square root of that of drops in
        /// the classic queue.
        coupling_factor: u32 = 2, whole(1, 255);
        /// Waiting time above which every packet of the L queue is marked.
        step_thresh: Span = Span::from_ms(1), any();
        /// The packets that a packet of the L queue leaves behind there, above which it is marked.
        /// Replaces `step_thresh`; tc accepts either in the same word.
        step_packets: Option<u32> = None, whole(0, MOST_PACKETS);
        /// The step spares packets that found fewer than this many in the L queue.
        min_qlen_step: u32 = 0, whole(0, MOST_PACKETS);
        /// Drops packets of both queues once the L queue would mark all of its packets. Otherwise
        /// the probability stops there, and an overload fills the queue to its limit.
        drop_on_overload: bool = true, any();
        /// Lets the controller drop and mark packets when they come, not when they leave.
        drop_enqueue: bool = false, any();
        /// Sends all ECN-capable packets to the L queue, not only ECT(1) and CE.
        any_ect: bool = false, any();
        /// The share of the line that the classic queue gets at least, while both have packets.
        classic_protection: f64 = 0.1, share();
        /// Whether its turns start anew with the L queue once both queues are empty. In Linux they
        /// do directly above a device, but not below a shaper (`tbf`, `htb`), which never asks an
        /// empty queue for a packet.
        idles: bool = true, any();
        /// The size of the largest packet. The controller spares packets while less than twice this
        /// size waits.
        mtu: Bytes = Bytes::new(1514), size(1, MOST_BYTES);
    }
}

/// `ALPHA_BETA_MAX`, in Hz: 2^32 - 1 in units of 1/256.
const MOST_GAIN: f64 = 16_777_215.0;

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        let above = |key: &str| {
            Err(ConfigError::new(key, "is not below limit, so that the step would never mark")
                .or(format!("at most {}, or a higher limit", self.limit - 1)))
        };
        if self.step_packets.is_some_and(|packets| packets >= self.limit) {
            return above("step_packets");
        }
        if self.min_qlen_step >= self.limit {
            return above("min_qlen_step");
        }
        Ok(())
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "DualPI2";
    const NOTICES_IDLENESS: bool = false;
    type Queue<P> = Dualpi2<P>;

    fn build<P: Packet>(&self, seed: u64) -> Dualpi2<P> {
        Dualpi2::new(self, seed)
    }

    fn levels(&self) -> Levels {
        Levels::target(self.target).in_several_lines()
    }

    fn classes(&self) -> Vec<String> {
        ["l4s", "classic"].map(String::from).into()
    }

    fn class_of<P: Packet>(&self, packet: &P) -> usize {
        usize::from(packet.ecn() as u8 & self.ecn_mask() == 0)
    }
}

impl Config {
    /// The bits of the ECN field of which packets of the L queue have one.
    const fn ecn_mask(&self) -> u8 {
        if self.any_ect { Ecn::Ce as u8 } else { Ecn::Ect1 as u8 }
    }
}

/// DualPI2 over two FIFOs.
#[derive(Clone, Debug)]
pub struct Dualpi2<P> {
    params: Params,
    control: Control,
    /// What the classic queue is owed, in millionths of a byte; it is served while this is above
    /// zero.
    credit: i64,
    random: Pcg32,
    classic: Storage<Stamped<P>>,
    low: Storage<Stamped<InL<P>>>,
    counters: Counters,
}

#[derive(Clone, Debug)]
struct Params {
    limit: usize,
    memory_limit: u64,
    coupling: f64,
    step: Step,
    min_qlen_step: usize,
    drop_enqueue: bool,
    /// A packet belongs to L if one of these bits is set in its ECN field.
    ecn_mask: u8,
    /// What a byte from L adds to the credit, and what a byte from C takes, in millionths.
    add: i64,
    take: i64,
    initial_credit: i64,
    /// Whether the credit starts anew when both queues are empty.
    idles: bool,
    /// The controller spares packets while fewer bytes wait.
    spared: u64,
}

/// What a packet must exceed to be marked by the step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(Span),
    Left(usize),
}

/// A packet in the L queue.
#[derive(Clone, Copy, Debug)]
struct InL<P> {
    packet: P,
    /// Whether the step applies to it.
    step: bool,
    /// Whether it was marked when it came.
    marked: bool,
}

/// What the controller wants for a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop(DropReason),
}

impl<P: Packet> Dualpi2<P> {
    /// Creates empty queues. Their random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config, seed: u64) -> Self {
        assert_possible(config.check());
        let mtu = config.mtu.get();
        let add = libm::round(config.classic_protection * CREDIT) as i64;
        let take = CREDIT as i64 - add;
        let initial_credit = mtu as i64 * (add - take);
        let params = Params {
            limit: config.limit as usize,
            memory_limit: config.memlimit.map_or(2 * mtu * u64::from(config.limit), Bytes::get),
            coupling: f64::from(config.coupling_factor),
            step: match config.step_packets {
                Some(packets) => Step::Left(packets as usize),
                None => Step::Wait(config.step_thresh),
            },
            min_qlen_step: config.min_qlen_step as usize,
            drop_enqueue: config.drop_enqueue,
            ecn_mask: config.ecn_mask(),
            add,
            take,
            initial_credit,
            idles: config.idles,
            spared: 2 * mtu,
        };
        Self {
            params,
            control: Control::new(config),
            credit: initial_credit,
            random: Pcg32::seed_from_u64(seed),
            classic: Storage::new(),
            low: Storage::new(),
            counters: Counters::ZERO,
        }
    }

    /// Returns the controller's probability after the last call: p' in the RFC. C drops with its
    /// square, and L marks with `coupling_factor` times it.
    pub const fn probability(&self) -> f64 {
        self.control.probability
    }

    /// Returns how many bytes the classic queue is owed (below zero: owes) by the round robin.
    pub const fn credit(&self) -> i64 {
        self.credit / CREDIT as i64
    }

    /// Returns what waits in the classic queue, and in the L queue.
    pub fn backlogs(&self) -> [Backlog; 2] {
        [self.classic.backlog(), self.low.backlog()]
    }

    /// Returns the bytes that wait in both queues.
    fn bytes(&self) -> u64 {
        self.classic.bytes() + self.low.bytes()
    }

    /// Updates the probability for each time that this was due by `now`.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        if self.control.is_due(now) {
            let classic = self.classic.head().map(|head| head.arrived_at);
            let low = self.low.head().map(|head| head.arrived_at);
            let oldest = match (classic, low) {
                (Some(classic), Some(low)) => Some(classic.min(low)),
                (classic, low) => classic.or(low),
            };
            self.control.update(now, oldest);
        }
    }

    /// Decides about a packet while `waiting` bytes wait beside it: RFC 9332, figure 6.
    #[inline]
    fn decide(&mut self, ecn: Ecn, is_low: bool, waiting: u64) -> Fate {
        if waiting < self.params.spared {
            return Fate::Pass;
        }
        let coupled = self.params.coupling * self.control.probability;
        let overload = coupled > 1.0;
        if is_low && !overload {
            return if self.draw(coupled) { Fate::Mark } else { Fate::Pass };
        }
        // The square: both draws have to hit.
        let hit = self.draw(self.control.probability) && self.draw(self.control.probability);
        match (hit, is_low) {
            (false, false) => Fate::Pass,
            (false, true) => Fate::Mark,
            (true, _) if !ecn.is_capable() => Fate::Drop(DropReason::Early),
            (true, _) if overload => Fate::Drop(DropReason::Forced),
            (true, _) => Fate::Mark,
        }
    }

    #[inline]
    fn draw(&mut self, probability: f64) -> bool {
        uniform(&mut self.random) < probability
    }

    fn drop(&mut self, packet: P, reason: DropReason, dropped: &mut Dropped<P>) {
        self.counters.on_drop(packet.bytes(), reason);
        dropped.push((packet, reason));
    }

    /// Takes the next packet of L.
    #[inline]
    fn take_low(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        let Stamped { packet: InL { mut packet, step, marked }, arrived_at } = self.low.pop()?;
        let fate = match (self.params.drop_enqueue, marked) {
            (true, true) => Fate::Mark,
            (true, false) => Fate::Pass,
            (false, _) => self.decide(packet.ecn(), true, self.bytes()),
        };
        let above = match self.params.step {
            Step::Wait(most) => now.since(arrived_at) > most,
            Step::Left(most) => self.low.packets() > most,
        };
        match fate {
            Fate::Drop(reason) => {
                self.drop(packet, reason, dropped);
                return None;
            }
            Fate::Mark if !marked => {
                packet.mark();
                self.counters.marked_early += 1;
            }
            Fate::Pass if step && above => {
                packet.mark();
                self.counters.marked_forced += 1;
            }
            Fate::Mark | Fate::Pass => {}
        }
        if self.classic.packets() > 0 {
            self.credit += self.params.add * i64::from(packet.bytes());
        }
        Some(packet)
    }

    /// Takes the next packet of C.
    #[inline]
    fn take_classic(&mut self, dropped: &mut Dropped<P>) -> Option<P> {
        let Stamped { mut packet, .. } = self.classic.pop()?;
        if !self.params.drop_enqueue {
            match self.decide(packet.ecn(), false, self.bytes()) {
                Fate::Drop(reason) => {
                    self.drop(packet, reason, dropped);
                    return None;
                }
                Fate::Mark => {
                    packet.mark();
                    self.counters.marked_early += 1;
                }
                Fate::Pass => {}
            }
        }
        if self.low.packets() > 0 {
            self.credit -= self.params.take * i64::from(packet.bytes());
        }
        Some(packet)
    }
}

impl<P: Packet> Qdisc<P> for Dualpi2<P> {
    /// RFC 9332, figure 3.
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        self.catch_up(now);
        let bytes = packet.bytes();
        self.counters.on_arrival(bytes);
        let (packets, waiting) = (self.classic.packets() + self.low.packets(), self.bytes());
        let full =
            packets >= self.params.limit || waiting + u64::from(bytes) > self.params.memory_limit;
        if full {
            self.drop(packet, DropReason::Overflow, dropped);
            return Verdict::Dropped;
        }
        let ecn = packet.ecn();
        let is_low = ecn as u8 & self.params.ecn_mask != 0;
        let mut marked = false;
        if self.params.drop_enqueue {
            match self.decide(ecn, is_low, waiting) {
                Fate::Drop(reason) => {
                    self.drop(packet, reason, dropped);
                    return Verdict::Dropped;
                }
                Fate::Mark => {
                    packet.mark();
                    self.counters.marked_early += 1;
                    marked = true;
                }
                Fate::Pass => {}
            }
        }
        if is_low {
            let step = self.low.packets() >= self.params.min_qlen_step;
            self.low.push(Stamped { packet: InL { packet, step, marked }, arrived_at: now });
        } else {
            self.classic.push(Stamped { packet, arrived_at: now });
        }
        if marked { Verdict::Marked } else { Verdict::Queued }
    }

    /// RFC 9332, figure 4, with the weighted round robin of Linux.
    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        self.catch_up(now);
        // Each turn takes a packet out.
        loop {
            let (classic, low) = (self.classic.packets() > 0, self.low.packets() > 0);
            let packet = if low && (!classic || self.credit <= 0) {
                self.take_low(now, dropped)
            } else if classic {
                self.take_classic(dropped)
            } else {
                if self.params.idles {
                    self.credit = self.params.initial_credit;
                }
                return None;
            };
            if let Some(packet) = packet {
                self.counters.on_departure(packet.bytes());
                return Some(packet);
            }
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog::sum(self.backlogs().into_iter())
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P: Packet> Packet for InL<P> {
    #[inline]
    fn bytes(&self) -> u32 {
        self.packet.bytes()
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }

    #[inline]
    fn mark(&mut self) {
        self.packet.mark();
    }
}

/// Credit counts in this fraction of a byte.
const CREDIT: f64 = 1e6;

#[cfg(test)]
mod tests;

//! A link for the loop of a test: packets go in, and come out at their time.

use alloc::collections::VecDeque;
use core::fmt;

use narrows_qdisc::{Backlog, ConfigError, DropReason, Ecn, Protocol, mix};
use narrows_units::{MaybeTime, Time};

use crate::transmitter::{self, Gone, Looks, Passage, Released, Seen, Transmitter};
use crate::{Change, Config};

/// One direction of a bottleneck, in virtual time. `T` is whatever the caller wants back with a
/// packet, such as its content.
///
/// # Call order
///
/// ```text
///  push(now, packet)      any number, also several at the same time: they arrive as one burst
///  next_at()              when to call pop, unless a packet is pushed before
///  pop(now)               until it returns None
/// ```
///
/// Time never runs backwards from one call to the next. A packet comes out once: it arrives, or the
/// queue drops it, or the wire loses it.
#[derive(Debug)]
pub struct Link<T> {
    transmitter: Transmitter<Parcel<T>>,
    /// The latest time of a call.
    now: Time,
    /// When the transmitter's queue has to be asked again.
    departs_at: MaybeTime,
    released: Released<Parcel<T>>,
    dropped: alloc::vec::Vec<(transmitter::Slot, DropReason)>,
    /// Packets that have left the queue, by the time at which they come out.
    out: VecDeque<Outcome<T>>,
    reports_losses: bool,
    counters: Counters,
}

/// A packet: what a link and its queue read, and what the caller wants back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<T> {
    /// The length of the IP packet in bytes, 1 to 65,535. Most links have an MTU of 1500, which they
    /// do not check.
    pub bytes: u32,
    /// The flow: any number that its packets share, for disciplines that tell flows apart.
    pub flow: u64,
    /// The ECN field of the IP header. On arrival it is [`Ecn::Ce`] if the queue marked the packet.
    pub ecn: Ecn,
    /// The Differentiated Services code point, 0 to 63. On arrival it is 0 if the queue washed it.
    pub dscp: u8,
    /// The transport protocol, for filters.
    pub protocol: Protocol,
    /// The source and the destination port, for filters; zero if nothing asks.
    pub ports: (u16, u16),
    /// Numbers of the source and the destination host, for disciplines that isolate hosts and for
    /// filters; zero if nothing asks.
    pub hosts: (u32, u32),
    /// The caller's.
    pub payload: T,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// When: a packet arrives with its last byte, is dropped where it waits, or is lost at the end of
    /// its transmission.
    pub at: Time,
    /// When it was pushed. `at` minus this is its one-way delay.
    pub pushed_at: Time,
    /// Its fate. It is [`Fate::Arrived`] unless the caller asked for [`Link::report_losses`].
    pub fate: Fate,
    /// The packet.
    pub packet: Packet<T>,
}

/// How a packet leaves a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is at the other end.
    Arrived,
    /// The queue dropped it.
    Dropped(DropReason),
    /// The wire lost it.
    Lost,
}

/// What has become of the packets so far. Drops and losses count as soon as the link knows of them,
/// which may be before their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were pushed.
    pub pushed: u64,
    /// Packets that [`Link::pop`] has returned as arrived.
    pub arrived: u64,
    /// Of these, those that the queue marked.
    pub marked: u64,
    /// Packets that the queue dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Packets that the wire lost.
    pub lost: u64,
}

/// Why a packet was not taken. The link is as before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The time is before that of an earlier call.
    Past {
        /// The latest time of a call.
        now: Time,
    },
    /// The time is [`Time::MAX`], which means never.
    Never,
    /// The length is not from 1 to 65,535 bytes.
    Length,
    /// The code point is above 63.
    CodePoint,
}

impl<T> Link<T> {
    /// Creates a link that changes at the times of `changes`. Two links with the same settings and
    /// the same `seed` do the same. Give each link of a test its own seed.
    ///
    /// What of the queue's settings depends on the rate, such as RED's `bandwidth`, follows from it.
    ///
    /// # Errors
    ///
    /// Returns the first setting that is out of range.
    pub fn new(config: &Config, changes: &[Change], seed: u64) -> Result<Self, ConfigError> {
        config.check(changes)?;
        let mut settled = config.clone();
        settled.queue = settled.queue.settled(config.rate);
        let mut changes = changes.to_vec();
        for change in &mut changes {
            let rate = change.rate.unwrap_or(config.rate);
            change.queue = change.queue.take().map(|queue| queue.settled(rate));
        }
        let looks = Looks { observed: false, at_head: true };
        Ok(Self {
            transmitter: Transmitter::new(&settled, &changes, seed, "link", looks),
            now: Time::ZERO,
            departs_at: MaybeTime::NONE,
            released: Released::default(),
            dropped: alloc::vec::Vec::new(),
            out: VecDeque::new(),
            reports_losses: false,
            counters: Counters::default(),
        })
    }

    /// Lets [`Link::pop`] also return packets that were dropped or lost. Otherwise these only count.
    #[must_use]
    pub fn report_losses(mut self) -> Self {
        self.reports_losses = true;
        self
    }

    /// Takes in a packet that reaches the queue at `now`.
    ///
    /// # Errors
    ///
    /// Refuses a time before that of an earlier call, and a packet with a length or a code point that
    /// IP has not.
    pub fn push(&mut self, now: Time, packet: Packet<T>) -> Result<(), PushError> {
        self.check(now, &packet)?;
        self.advance(now);
        self.counters.pushed += 1;
        let &Packet { bytes, dscp, ports, hosts, .. } = &packet;
        let bytes = u16::try_from(bytes).expect("it was checked");
        let mut parcel = Parcel { bytes, ecn: packet.ecn, pushed_at: now, washed: false, packet };
        let seen = Seen { ports, hosts, dscp };
        if self.transmitter.is_scheduled() {
            let due_at = self.transmitter.arrive(now, parcel, seen, 0, &mut self.released);
            self.take_released();
            if due_at.is_some() {
                self.departs_at = due_at.into();
            }
        } else {
            let passage = self.transmitter.enqueue(now, &mut parcel, |_| seen, &mut self.dropped);
            let sent_at = self.transmitter.transmitted_at();
            let at = if matches!(passage, Passage::Dropped(_)) { now } else { sent_at };
            self.let_out(parcel, passage, at);
        }
        Ok(())
    }

    /// Checks whether [`Link::push`] would take a packet; its payload does not matter.
    ///
    /// # Errors
    ///
    /// Returns the error of `push`.
    pub fn check<U>(&self, now: Time, packet: &Packet<U>) -> Result<(), PushError> {
        if now < self.now {
            Err(PushError::Past { now: self.now })
        } else if now > LAST {
            Err(PushError::Never)
        } else if !(1..=u32::from(u16::MAX)).contains(&packet.bytes) {
            Err(PushError::Length)
        } else if packet.dscp > 63 {
            Err(PushError::CodePoint)
        } else {
            Ok(())
        }
    }

    /// Returns when to call [`Link::pop`] if no packet is pushed before, or `None` if the link is
    /// empty or stays down. `pop` may return nothing then, and this function a later time.
    pub fn next_at(&self) -> Option<Time> {
        let out_at = self.out.front().map(|out| out.at).filter(|&at| at < Time::MAX);
        self.departs_at.min(out_at.into()).get()
    }

    /// Returns the next packet that has come out by `now`, in order of time, or `None`. With
    /// [`Time::MAX`] it empties the link.
    pub fn pop(&mut self, now: Time) -> Option<Outcome<T>> {
        self.advance(now);
        if self.out.front().is_none_or(|out| out.at > now || out.at == Time::MAX) {
            return None;
        }
        let out = self.out.pop_front()?;
        if out.fate == Fate::Arrived {
            self.counters.arrived += 1;
        }
        Some(out)
    }

    /// Returns what waits in the queue at `now`.
    pub fn backlog(&mut self, now: Time) -> Backlog {
        self.advance(now);
        self.transmitter.backlog(self.now)
    }

    /// Returns what has become of the packets so far. The packets that were pushed, and have not
    /// arrived, been dropped or been lost, are on the link.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Lets the queue release what is due by `now`.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now.min(LAST));
        while let Some(at) = self.departs_at.by(self.now) {
            self.departs_at = self.transmitter.release(at, 0, &mut self.released).into();
            self.take_released();
        }
    }

    fn take_released(&mut self) {
        let mut released = core::mem::take(&mut self.released);
        for Gone { packet, passage, transmitted_at, .. } in released.gone.drain(..) {
            self.let_out(packet, passage, transmitted_at);
        }
        self.released = released;
    }

    /// Notes what becomes of a packet; `at` is when, unless it arrives.
    fn let_out(&mut self, parcel: Parcel<T>, passage: Passage, at: Time) {
        let Parcel { ecn, pushed_at, washed, mut packet, .. } = parcel;
        let (fate, at) = match passage {
            Passage::Arrives(at) => (Fate::Arrived, at),
            Passage::Dropped(reason) => (Fate::Dropped(reason), at),
            Passage::Lost => (Fate::Lost, at),
        };
        match fate {
            Fate::Arrived => self.counters.marked += u64::from(ecn != packet.ecn),
            Fate::Dropped(reason) => self.counters.dropped[reason as usize] += 1,
            Fate::Lost => self.counters.lost += 1,
        }
        if fate != Fate::Arrived && !self.reports_losses {
            return;
        }
        packet.ecn = ecn;
        packet.dscp = if washed { 0 } else { packet.dscp };
        // Only jitter, changes of the delay, and drops put a packet before others.
        let mut place = self.out.len();
        while place > 0 && self.out[place - 1].at > at {
            place -= 1;
        }
        self.out.insert(place, Outcome { at, pushed_at, fate, packet });
    }
}

/// The last moment at which something can happen: [`Time::MAX`] is never.
const LAST: Time = Time::from_ps(u64::MAX - 1);

/// A packet on the link.
#[derive(Clone, Copy, Debug)]
struct Parcel<T> {
    bytes: u16,
    ecn: Ecn,
    pushed_at: Time,
    washed: bool,
    packet: Packet<T>,
}

impl<T> transmitter::Packet for Parcel<T> {
    fn bytes(&self) -> u16 {
        self.bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn wash(&mut self) {
        self.washed = true;
    }

    fn flow_hash(&self) -> u64 {
        mix(self.packet.flow, 0)
    }

    fn protocol(&self) -> Protocol {
        self.packet.protocol
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Past { now } => write!(f, "the time is in the past; an earlier call had {now}"),
            Self::Never => f.write_str("the time is the end of time"),
            Self::Length => f.write_str("a packet has 1 to 65535 bytes"),
            Self::CodePoint => f.write_str("a code point is 0 to 63"),
        }
    }
}

impl core::error::Error for PushError {}

#[cfg(test)]
mod tests;

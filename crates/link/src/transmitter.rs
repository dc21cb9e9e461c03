//! What takes a packet from one end of a link to the other: a queue, the network card's ring below it,
//! a transmitter, and the wire.
//!
//! ```text
//!  enqueue -> [ queue discipline ] -> [ ring ] -> transmitter -> delay, jitter, loss -> arrival
//! ```
//!
//! It runs in one of three modes. They differ in cost, not in results:
//!
//! - The *short form* (`short.rs`): a FIFO that nobody observes, before a wire that only delays.
//!   Most links of most networks are of this form, such as the hosts' own links.
//! - *Clock mode* (`clock.rs`): a discipline that decides everything at enqueue. Departures are
//!   computed and need no events.
//! - *Scheduled mode* (`scheduled.rs`): a discipline that decides at dequeue. There is an event when
//!   the next packet is due.

mod changes;
mod clock;
mod delays;
mod histogram;
mod impairment;
mod jitter;
mod loss;
mod observed;
mod opportunities;
pub(crate) mod packet;
mod ring;
mod scheduled;
mod short;

use alloc::boxed::Box;

use narrows_qdisc::{Backlog, DropReason};
use narrows_units::{Pace, Span, Time};

use self::clock::Clock;
pub use self::clock::Slot;
pub use self::delays::{Delays, Waits};
pub use self::histogram::{Bin, Histogram};
pub use self::observed::{Observed, QueueState, SojournSum};
pub use self::opportunities::{
    BYTES as OPPORTUNITY_BYTES, HIGHEST_BPS, check as check_opportunities,
};
pub use self::packet::Packet;
use self::scheduled::Scheduled;
pub use self::scheduled::{Asks, Gone, Released, Seen, Waiting};
use self::short::ShortQueue;
use crate::{Change, Config};

/// The sending end of a link, and its wire. The fields that every packet touches come first.
#[derive(Debug)]
#[repr(C)]
pub struct Transmitter<P> {
    pace: Pace,
    delay: Span,
    /// When the last packet's transmission ends.
    free_at: Time,
    mode: Mode<P>,
}

/// What a packet has to pass before it is on the wire. Each mode has the lengths, because there they
/// take no room.
#[derive(Debug)]
enum Mode<P> {
    Short(Lengths, Box<ShortQueue>),
    Clock(Lengths, Box<Clock>),
    Scheduled(Lengths, Box<Scheduled<P>>),
}

/// The fields of [`Framing`](crate::Framing) of the same names.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    overhead: u16,
    min: u16,
}

impl Lengths {
    /// Returns an IP packet's length on the wire in bytes.
    #[inline(always)]
    fn framed(self, ip_bytes: u16) -> u32 {
        (u32::from(ip_bytes) + u32::from(self.overhead)).max(u32::from(self.min))
    }
}

/// Who takes part beside the transmitter. What comes out does not depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// Whether packets and times are counted ([`Transmitter::observed`]).
    pub observed: bool,
    /// Whether the caller wants to see each packet at the link's head, so that
    /// [`Transmitter::pass`] never takes one.
    pub at_head: bool,
}

/// What became of a packet at a link.
#[derive(Clone, Copy, Debug)]
pub enum Passage {
    /// It will arrive at the other end at this time.
    Arrives(Time),
    /// The queue dropped it, on arrival or later.
    Dropped(DropReason),
    /// The wire will lose it.
    Lost,
}

impl<P: Packet> Transmitter<P> {
    /// Creates one. Its random streams are derived from `seed` and `name`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config, changes: &[Change], seed: u64, name: &str, looks: Looks) -> Self {
        let Looks { observed, at_head } = looks;
        let varies = !changes.is_empty() || config.opportunities_ms.is_some();
        let new_queue = changes.iter().any(|change| change.queue.is_some());
        let framing = config.framing;
        let octets = |bytes: u32| u16::try_from(bytes).expect("the settings were checked");
        let lengths = Lengths { overhead: octets(framing.overhead), min: octets(framing.min) };
        let mode = match ShortQueue::new(config) {
            Some(queue) if !(observed || at_head || config.scheduled || varies) => {
                Mode::Short(lengths, Box::new(queue))
            }
            _ if config.scheduled || new_queue || !config.queue.decides_at_enqueue() => {
                let scheduled = Scheduled::new(config, changes, seed, name, observed);
                Mode::Scheduled(lengths, Box::new(scheduled))
            }
            _ => Mode::Clock(lengths, Box::new(Clock::new(config, changes, seed, name, observed))),
        };
        Self { pace: config.rate.pace(), delay: config.delay, free_at: Time::ZERO, mode }
    }

    /// Returns the counters, or `None` if nobody looks.
    #[inline]
    pub fn observed(&self) -> Option<&Observed> {
        match &self.mode {
            Mode::Short(..) => None,
            Mode::Clock(_, clock) => clock.observed.as_ref(),
            Mode::Scheduled(_, scheduled) => scheduled.observed.as_ref(),
        }
    }

    /// Returns the counters, to be changed.
    pub fn observed_mut(&mut self) -> Option<&mut Observed> {
        match &mut self.mode {
            Mode::Short(..) => None,
            Mode::Clock(_, clock) => clock.observed.as_mut(),
            Mode::Scheduled(_, scheduled) => scheduled.observed.as_mut(),
        }
    }

    /// Returns when a packet that comes at `at` arrives at the other end, if the link is of the
    /// short form and has room. Otherwise call [`Transmitter::enqueue`].
    ///
    /// Calls must come in order of time.
    #[inline(always)]
    pub fn pass(&mut self, at: Time, ip_bytes: u16) -> Option<Time> {
        let Mode::Short(lengths, queue) = &mut self.mode else { return None };
        // An idle link takes any packet, and none waits there.
        if self.free_at > at && !queue.enqueue(at, self.free_at, ip_bytes) {
            return None;
        }
        let span = self.pace.time_for_frame(lengths.framed(ip_bytes));
        self.free_at = self.free_at.max(at) + span;
        Some(self.free_at + self.delay)
    }

    /// Returns an IP packet's length on the wire in bytes.
    #[inline]
    fn framed(&self, ip_bytes: u16) -> u32 {
        self.lengths().framed(ip_bytes)
    }

    #[inline]
    fn lengths(&self) -> Lengths {
        match &self.mode {
            Mode::Short(lengths, _) | Mode::Clock(lengths, _) | Mode::Scheduled(lengths, _) => {
                *lengths
            }
        }
    }

    /// Returns when the transmission of the most recent packet ends.
    #[inline]
    pub fn transmitted_at(&self) -> Time {
        self.free_at
    }

    /// Returns the state of the queue at `now`, or `None` if nobody looks.
    pub fn queue_state(&mut self, now: Time) -> Option<QueueState> {
        self.drain(now);
        match &self.mode {
            Mode::Short(..) => None,
            Mode::Clock(_, clock) => Some(clock.queue_state()),
            Mode::Scheduled(_, scheduled) => Some(scheduled.queue_state()),
        }
    }

    /// Returns what waits at `now`. In scheduled mode, packets that are due must have been
    /// [released](Self::release).
    pub fn backlog(&mut self, now: Time) -> Backlog {
        self.drain(now);
        match &mut self.mode {
            Mode::Short(_, queue) => queue.backlog(now),
            Mode::Clock(_, clock) => clock.backlog(),
            Mode::Scheduled(_, scheduled) => scheduled.backlog(),
        }
    }

    /// Returns the time spent transmitting up to `now`; zero if nobody looks.
    pub fn busy_until(&self, now: Time) -> Span {
        self.observed().map_or(Span::ZERO, |observed| observed.busy_until(now))
    }

    /// Reads the times of the next call, and changes nothing: for callers that know which calls come
    /// next, because fetching uncached memory takes hardly longer for many links than for one.
    #[inline(always)]
    pub fn read_times(&self) -> u32 {
        self.free_at.as_ps() as u32 ^ u32::from(matches!(self.mode, Mode::Short(..)))
    }

    /// Reads the queue of the short form likewise.
    #[inline(always)]
    pub fn read_queue(&self) -> u32 {
        match &self.mode {
            Mode::Short(_, queue) => queue.read(),
            Mode::Clock(..) | Mode::Scheduled(..) => 0,
        }
    }
}

//! Any of our disciplines, or one of yours, as one type.

use core::fmt;

use narrows_units::Time;

use crate::blue::Blue;
use crate::classes::Classes;
use crate::codel::Codel;
use crate::drr::plain::Drr;
use crate::drr::qsdrr::Qsdrr;
use crate::drr::tdrr::Tdrr;
use crate::fifo::{Bfifo, Pfifo};
use crate::fq_codel::FqCodel;
use crate::pie::Pie;
use crate::prio::Prio;
use crate::red::{classic, linux};
use crate::sfq::Sfq;
use crate::{Backlog, Coming, Counters, Dropped, Packet, Qdisc, Verdict};

/// A discipline that is chosen at run time.
pub enum AnyQdisc<P> {
    /// Tail drop counted in packets.
    Pfifo(Pfifo<P>),
    /// Tail drop counted in bytes.
    Bfifo(Bfifo<P>),
    /// RED as in the Linux kernel.
    Red(Box<linux::Red<P>>),
    /// RED as in the paper of 1993.
    Red1993(Box<classic::Red<P>>),
    /// CoDel.
    Codel(Box<Codel<P>>),
    /// PIE.
    Pie(Box<Pie<P>>),
    /// Blue.
    Blue(Box<Blue<P>>),
    /// Deficit round robin with drops from the longest queue.
    Drr(Box<Drr<P>>),
    /// Deficit round robin with drops from the queue with the highest throughput.
    Tdrr(Box<Tdrr<P>>),
    /// Deficit round robin with drops from the same queue as before.
    Qsdrr(Box<Qsdrr<P>>),
    /// Stochastic fairness queueing.
    Sfq(Box<Sfq<P>>),
    /// FQ-CoDel.
    FqCodel(Box<FqCodel<P>>),
    /// Bands by strict priority.
    Prio(Box<Prio<P>>),
    /// Rate-limited classes.
    Classes(Box<Classes<P>>),
    /// One that is not ours.
    Custom(Box<dyn Qdisc<P> + Send + Sync>),
}

impl<P: Packet> AnyQdisc<P> {
    /// RED's average queue, in its unit; `None` for disciplines that keep none.
    pub fn average(&self) -> Option<f64> {
        match self {
            Self::Red(red) => Some(red.average()),
            Self::Red1993(red) => Some(red.average()),
            _ => None,
        }
    }

    /// The packet that leaves next, left where it is; `None` where none waits, and for disciplines
    /// that choose at dequeue.
    #[inline]
    pub fn head(&self) -> Option<&P> {
        match self {
            Self::Pfifo(queue) => queue.head(),
            Self::Bfifo(queue) => queue.head(),
            Self::Red(queue) => queue.head(),
            Self::Red1993(queue) => queue.head(),
            Self::Blue(queue) => queue.head(),
            Self::Pie(queue) => queue.head(),
            _ => None,
        }
    }
}

/// The same expression for whatever discipline it is.
macro_rules! each {
    ($any:expr, $queue:ident => $result:expr) => {
        match $any {
            AnyQdisc::Pfifo($queue) => $result,
            AnyQdisc::Bfifo($queue) => $result,
            AnyQdisc::Red($queue) => $result,
            AnyQdisc::Red1993($queue) => $result,
            AnyQdisc::Codel($queue) => $result,
            AnyQdisc::Pie($queue) => $result,
            AnyQdisc::Blue($queue) => $result,
            AnyQdisc::Drr($queue) => $result,
            AnyQdisc::Tdrr($queue) => $result,
            AnyQdisc::Qsdrr($queue) => $result,
            AnyQdisc::Sfq($queue) => $result,
            AnyQdisc::FqCodel($queue) => $result,
            AnyQdisc::Prio($queue) => $result,
            AnyQdisc::Classes($queue) => $result,
            AnyQdisc::Custom($queue) => $result,
        }
    };
}

impl<P: Packet> Qdisc<P> for AnyQdisc<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        each!(self, queue => queue.enqueue(now, packet, dropped))
    }

    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        each!(self, queue => queue.dequeue(now, dropped))
    }

    #[inline]
    fn ready_at(&self, now: Time) -> Option<Time> {
        each!(self, queue => queue.ready_at(now))
    }

    fn touch(&self, coming: Coming<'_, P>) {
        each!(self, queue => queue.touch(coming));
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        each!(self, queue => queue.backlog())
    }

    #[inline]
    fn counters(&self) -> Counters {
        each!(self, queue => queue.counters())
    }
}

impl<P: fmt::Debug> fmt::Debug for AnyQdisc<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pfifo(queue) => queue.fmt(f),
            Self::Bfifo(queue) => queue.fmt(f),
            Self::Red(queue) => queue.fmt(f),
            Self::Red1993(queue) => queue.fmt(f),
            Self::Codel(queue) => queue.fmt(f),
            Self::Pie(queue) => queue.fmt(f),
            Self::Blue(queue) => queue.fmt(f),
            Self::Drr(queue) => queue.fmt(f),
            Self::Tdrr(queue) => queue.fmt(f),
            Self::Qsdrr(queue) => queue.fmt(f),
            Self::Sfq(queue) => queue.fmt(f),
            Self::FqCodel(queue) => queue.fmt(f),
            Self::Prio(queue) => queue.fmt(f),
            Self::Classes(queue) => queue.fmt(f),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

macro_rules! from {
    ($queue:ty, $queue_in:ident => $any:expr) => {
        impl<P> From<$queue> for AnyQdisc<P> {
            fn from($queue_in: $queue) -> Self {
                $any
            }
        }
    };
}

from!(Pfifo<P>, queue => Self::Pfifo(queue));
from!(Bfifo<P>, queue => Self::Bfifo(queue));
from!(linux::Red<P>, queue => Self::Red(Box::new(queue)));
from!(classic::Red<P>, queue => Self::Red1993(Box::new(queue)));
from!(Codel<P>, queue => Self::Codel(Box::new(queue)));
from!(Pie<P>, queue => Self::Pie(Box::new(queue)));
from!(Blue<P>, queue => Self::Blue(Box::new(queue)));
from!(Drr<P>, queue => Self::Drr(Box::new(queue)));
from!(Tdrr<P>, queue => Self::Tdrr(Box::new(queue)));
from!(Qsdrr<P>, queue => Self::Qsdrr(Box::new(queue)));
from!(Sfq<P>, queue => Self::Sfq(Box::new(queue)));
from!(FqCodel<P>, queue => Self::FqCodel(Box::new(queue)));
from!(Prio<P>, queue => Self::Prio(Box::new(queue)));
from!(Classes<P>, queue => Self::Classes(Box::new(queue)));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::{BfifoConfig, PfifoConfig};
    use crate::fq_codel;
    use crate::laws;
    use crate::pie;
    use crate::traffic::TestPacket;
    use crate::{blue, codel, drr, sfq};

    #[test]
    fn every_variant_obeys_the_laws() {
        laws::check(|| AnyQdisc::from(Pfifo::new(PfifoConfig { limit: 20 })));
        laws::check(|| AnyQdisc::from(Bfifo::new(BfifoConfig::default())));
        laws::check(|| AnyQdisc::from(linux::Red::new(linux::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(classic::Red::new(classic::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(Codel::new(&codel::Config::default())));
        laws::check(|| AnyQdisc::from(Pie::new(&pie::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(Blue::new(blue::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(Drr::new(drr::plain::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(Tdrr::new(drr::tdrr::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(Qsdrr::new(drr::qsdrr::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(Sfq::new(sfq::Config::default(), 1)));
        laws::check(|| AnyQdisc::from(FqCodel::new(fq_codel::Config::default(), 1)));
        laws::check(|| AnyQdisc::Custom(Box::new(Pfifo::new(PfifoConfig { limit: 20 }))));
    }

    #[test]
    fn only_red_keeps_an_average() {
        let red: AnyQdisc<TestPacket> = linux::Red::new(linux::Config::default(), 1).into();
        let fifo: AnyQdisc<TestPacket> = Pfifo::new(PfifoConfig::default()).into();
        assert_eq!((red.average(), fifo.average()), (Some(0.0), None));
    }
}

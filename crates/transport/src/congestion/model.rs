//! The controls that model the path: the versions of BBR.

use alloc::boxed::Box;

use super::bbr::Bbr;
use super::bbr3::Bbr3;
use super::moment::Moment;
use super::path::Path;
use super::sample::{Lost, RateSample};

/// A model of the path, which sets the pace and the window.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    V1(Box<Bbr>),
    V3(Box<Bbr3>),
}

impl Model {
    /// Creates BBR v1 of a connection with this initial sequence number.
    pub(crate) fn v1(seed: u32) -> Self {
        Self::V1(Box::new(Bbr::new(seed)))
    }

    /// Creates BBR v3 of a connection with this initial sequence number. `quanta`: the bursts for which
    /// the window has room (BBR.offload_budget: 3 over TCP, 1 over QUIC).
    pub(crate) fn v3(seed: u32, quanta: u32) -> Self {
        Self::V3(Box::new(Bbr3::new(seed, quanta)))
    }

    /// Lets what is drawn at random follow from `seed`. Only before the start.
    pub(crate) fn set_seed(&mut self, seed: u32) {
        match self {
            Self::V1(bbr) => **bbr = Bbr::new(seed),
            Self::V3(bbr) => bbr.set_seed(seed),
        }
    }

    /// Begins: the connection is established.
    pub(crate) fn start(&mut self, cx: &Moment, path: &mut Path) {
        match self {
            Self::V1(bbr) => bbr.start(cx, path),
            Self::V3(bbr) => bbr.start(cx, path),
        }
    }

    /// Returns the name of the phase.
    pub(crate) fn phase(&self) -> &'static str {
        match self {
            Self::V1(bbr) => bbr.phase(),
            Self::V3(bbr) => bbr.phase(),
        }
    }

    /// Handles an acknowledgement.
    #[inline]
    pub(crate) fn on_ack(&mut self, cx: &Moment, path: &mut Path, sample: &RateSample) {
        match self {
            Self::V1(bbr) => bbr.on_ack(cx, path, sample),
            Self::V3(bbr) => bbr.on_ack(cx, path, sample),
        }
    }

    /// Handles a segment that was found to be lost.
    pub(crate) fn on_lost(&mut self, cx: &Moment, path: &Path, lost: &Lost) {
        match self {
            Self::V1(_) => {}
            Self::V3(bbr) => bbr.on_lost(cx, path, lost),
        }
    }

    /// Handles the report that segments were marked, at most once in a round trip.
    pub(crate) fn on_mark(&mut self, cx: &Moment, path: &Path) {
        match self {
            Self::V1(_) => {}
            Self::V3(bbr) => bbr.on_mark(cx, path),
        }
    }

    /// Handles the begin of a recovery.
    pub(crate) fn on_recovery(&mut self, cwnd: u32) {
        match self {
            Self::V1(bbr) => bbr.on_loss(cwnd),
            Self::V3(bbr) => bbr.on_recovery(cwnd),
        }
    }

    /// Handles a retransmission timeout.
    pub(crate) fn on_timeout(&mut self, path: &mut Path, delivered_us: u32) {
        match self {
            Self::V1(bbr) => bbr.on_timeout(path, delivered_us),
            Self::V3(bbr) => bbr.on_timeout(path),
        }
    }

    /// Handles a recovery that was needless.
    pub(crate) fn on_undo(&mut self, path: &mut Path) {
        match self {
            Self::V1(bbr) => bbr.on_undo(),
            Self::V3(bbr) => bbr.on_undo(path),
        }
    }

    /// Handles the first segment after an idle time.
    pub(crate) fn on_restart(&mut self, cx: &Moment, path: &mut Path) {
        match self {
            Self::V1(bbr) => bbr.on_restart(cx, path),
            Self::V3(bbr) => bbr.on_restart(cx, path),
        }
    }
}

//! Congestion controls from outside this crate.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use narrows_units::{Span, Time};

use super::window::{Signal, Window};
use crate::tcp::Congestion;

/// A congestion control from outside this crate: how the window grows, and how far it falls.
///
/// From Linux's `struct tcp_congestion_ops` it has `cong_avoid`, `ssthresh`, `pkts_acked`, and the
/// reset at a timeout. It has no pacing (BBR), no undo, and no DCTCP counts of marks. TCP decides
/// when to call it, how to find lost segments, and how fast the window shrinks to the value that it
/// returns. Each object belongs to one end of a connection.
pub trait CongestionControl: fmt::Debug + Send + Sync + CloneControl {
    /// Handles the acknowledgement of `acked` segments. The window limited the sender, so it may
    /// grow (`cong_avoid`).
    fn avoid(&mut self, now: Time, window: &mut Window, acked: u32);

    /// Returns the size to which a window of `cwnd` segments has to fall (`ssthresh`). Less than
    /// two counts as two.
    fn ssthresh(&mut self, now: Time, cwnd: u32, signal: Signal) -> u32;

    /// Handles a round trip that was measured (`pkts_acked`).
    fn on_round_trip(&mut self, _now: Time, _rtt: Span) {}

    /// Handles a retransmission timeout: nothing was acknowledged for so long that the window
    /// restarts from one segment (`set_state` with `TCP_CA_Loss`).
    fn on_timeout(&mut self, _now: Time) {}

    /// Returns the name of the phase that it is in, if it has phases of its own. Samples of flows
    /// show it instead of TCP's state.
    fn phase(&self) -> Option<&'static str> {
        None
    }
}

/// Cloning of boxed congestion controls. Every type with `derive(Clone)` has this.
pub trait CloneControl {
    /// Returns a boxed copy.
    fn clone_control(&self) -> Box<dyn CongestionControl>;
}

impl<T: CongestionControl + Clone + 'static> CloneControl for T {
    fn clone_control(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// How to create a congestion control from outside.
#[derive(Clone)]
pub struct Custom {
    name: Arc<str>,
    make: Arc<Make>,
}

type Make = dyn Fn() -> Box<dyn CongestionControl> + Send + Sync;

impl Congestion {
    /// Creates the setting for a congestion control from outside. `make` is called for each end of
    /// a connection.
    pub fn custom<C: CongestionControl + 'static>(
        name: &str,
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        Self::Custom(Custom { name: name.into(), make: Arc::new(move || Box::new(make())) })
    }
}

impl Custom {
    pub(crate) fn make(&self) -> Box<dyn CongestionControl> {
        (self.make)()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl Eq for Custom {}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({})", self.name)
    }
}

impl Clone for Box<dyn CongestionControl> {
    fn clone(&self) -> Self {
        (**self).clone_control()
    }
}

//! Congestion controls from outside of this crate.

use core::fmt;
use std::sync::Arc;

use narrows_units::{Span, Time};

use super::{Signal, Window};
use crate::transport::tcp::Congestion;

/// A congestion control that is not ours: how the window grows, and how far it falls.
///
/// Of Linux's `struct tcp_congestion_ops` it has `cong_avoid`, `ssthresh`, `pkts_acked`, and the reset at a
/// time-out; not pacing (BBR), undo, or DCTCP's counts of marks. When it is asked, how lost segments
/// are found, and how fast the window shrinks to where it has to go are TCP's business. One object
/// belongs to one end of a connection.
pub trait CongestionControl: fmt::Debug + Send + Sync + CloneControl {
    /// `acked` segments were acknowledged, and the window had limited the sender: it may grow
    /// (`cong_avoid`).
    fn avoid(&mut self, now: Time, window: &mut Window, acked: u32);

    /// Where the window of `cwnd` segments has to go (`ssthresh`). Less than two counts as two.
    fn ssthresh(&mut self, now: Time, cwnd: u32, signal: Signal) -> u32;

    /// A round trip was measured (`pkts_acked`).
    fn on_round_trip(&mut self, _now: Time, _rtt: Span) {}

    /// Nothing was acknowledged for a retransmission time-out: the window starts anew from one
    /// segment (`set_state` with `TCP_CA_Loss`).
    fn on_timeout(&mut self, _now: Time) {}
}

/// What `derive(Clone)` gives every congestion control.
pub trait CloneControl {
    /// The same once more.
    fn clone_control(&self) -> Box<dyn CongestionControl>;
}

impl<T: CongestionControl + Clone + 'static> CloneControl for T {
    fn clone_control(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// How a congestion control from outside is made.
#[derive(Clone)]
pub struct Custom {
    name: Arc<str>,
    make: Arc<Make>,
}

type Make = dyn Fn() -> Box<dyn CongestionControl> + Send + Sync;

impl Congestion {
    /// A congestion control that is not ours; `make` gives one for each end of a connection.
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

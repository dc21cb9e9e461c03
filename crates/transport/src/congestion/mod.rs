//! Congestion controls that both TCP and QUIC have, and what these need: pacing, and samples of how
//! fast the path delivers.
//!
//! They count *segments*: TCP's segments, and QUIC's packets. Sequence numbers mark rounds: TCP's
//! own, and for QUIC the lower bits of packet numbers. A control knows nothing else of a transport.

mod bbr;
mod bbr3;
mod dctcp;
mod filter;
mod hystart_plus_plus;
mod model;
mod moment;
mod pace;
mod path;
mod prague;
mod rate;
pub mod reno;
mod sample;
mod state;
mod window;

pub(crate) use dctcp::Dctcp;
pub(crate) use filter::MaxFilter;
pub use hystart_plus_plus::SlowStart;
pub(crate) use hystart_plus_plus::{HystartPlusPlus, MOST_SEGMENTS};
pub(crate) use model::Model;
pub(crate) use moment::{Moment, elapsed_us};
pub(crate) use pace::{Pace, window_rate};
pub(crate) use path::Path;
pub(crate) use prague::{Prague, Scaling, Step};
pub(crate) use rate::{Delivered, Rates};
pub(crate) use sample::{Delivery, Lost};
pub use state::State;
pub(crate) use window::INFINITE_SSTHRESH;
pub use window::{Signal, Window};

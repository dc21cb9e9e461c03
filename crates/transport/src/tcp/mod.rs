//! TCP as a state machine without I/O that behaves like current Linux (6.1).
//!
//! An [`Endpoint`] takes segments and the time, and returns segments and the next deadline. Each
//! file names what it was written from or the kernel functions whose decisions it makes, and lists
//! the differences.

mod accurate_ecn;
mod clock;
mod config;
mod congestion;
mod counters;
mod endpoint;
mod handshake_ecn;
pub mod laws;
mod profiles;
mod receiver;
mod segment;
mod sender;

pub use crate::congestion::{Signal, SlowStart, State, Window, reno};
pub use crate::seq::Seq;
pub use accurate_ecn::{AccurateEcn, EcnBytes, Order};
pub(crate) use clock::slot;
pub use clock::timestamp;
pub use config::{
    AckPolicy, Config, Congestion, EcnControl, EcnResponse, Recovery, Reduction, RestartAfterIdle,
    TimerRounding, WindowGrowth,
};
pub use congestion::{Acknowledgement, CongestionControl, Custom, DeliveryRate};
pub use counters::Counters;
pub use endpoint::{Adopted, Endpoint};
pub use segment::{FastOpenOption, Flags, Header, SackBlocks, Segment, SynOptions};

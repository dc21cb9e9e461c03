//! TCP as a state machine without I/O.
mod config;
mod segment;
mod seq;

pub use config::{
    AckPolicy, Config, Congestion, EcnResponse, Recovery, Reduction, RestartAfterIdle,
};
pub use segment::{Flags, SackBlocks, Segment, SynOptions};
pub use seq::Seq;

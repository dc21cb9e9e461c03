//! TCP, QUIC and TLS as state machines without I/O: time and segments in, segments and the next
//! deadline out.
#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod closed;
mod congestion;
pub mod flow_sample;
pub mod half_open;
pub mod prefetch;
pub mod quic;
mod seq;
pub mod tcp;
pub mod tls;

pub use self::closed::Closed;
pub use self::flow_sample::FlowSample;

/// A digest of this crate's sources, which `build.rs` makes.
#[doc(hidden)]
pub const SOURCES: &str = env!("NARROWS_SOURCES");

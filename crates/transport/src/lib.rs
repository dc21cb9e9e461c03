//! TCP, QUIC and TLS as state machines without I/O: time and segments in, segments and the next
//! deadline out.
#![doc = include_str!("../README.md")]

mod closed;
pub mod half_open;
pub mod quic;
pub mod tcp;
pub mod tls;
pub mod touch;

pub use self::closed::Closed;

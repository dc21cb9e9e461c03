//! Stateless TCP in front of any DNS server.
//!
//! PROTOCOL.md says what happens on the wire. [`core`] implements that protocol in pure Rust:
//! packets in, packets out, no I/O. `bpf/` implements it in the kernel.

pub mod caveats;
pub mod checked;
pub mod config;
pub mod core;
pub mod ethtool;
pub mod filters;
pub mod interface;
#[cfg(feature = "ebpf")]
pub mod kernel;
pub mod keys;
pub mod log;
pub mod metrics;
mod netlink;
pub mod passing;
pub mod privileges;
pub mod rate_limit;
pub mod routes;
pub mod server;
pub mod signals;
pub mod systemd;
pub mod udp_limit;
pub mod user;

/// The version, and a digest of the sources that this program was built from: two builds have the
/// same one if their sources and features are the same.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NARROWS_BUILD"), ")");

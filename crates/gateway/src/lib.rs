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
pub mod privileges;
pub mod server;
pub mod signals;
pub mod systemd;
pub mod udp_limit;
pub mod user;
pub mod ways;

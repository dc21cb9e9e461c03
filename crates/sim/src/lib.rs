//! A deterministic packet-level simulator of links, queues, TCP and DNS.
//!
//! It takes a [`plan::Plan`] (plain structs in base units) and returns tables of numbers. It uses
//! no clock, file, thread, log or global state: the caller drives it and decides when to stop.

mod agenda;
pub mod captured;
mod engine;
mod flow;
mod host;
mod link;
mod maybe_index;
mod monitor;
mod network;
mod packet;
mod paths;
pub mod plan;
pub mod ports;
mod prefetch;
mod shortcuts;
mod spoken;
mod tables;
mod transport;
mod wakes;

pub use engine::{Simulation, Stopped};
pub use narrows_apps::{self as application, Random, record, table};
pub use narrows_transport::{quic, tcp, tls};
pub use network::{MOST_FLOWS, MOST_PACKETS};
pub use tables::{FlowsRow, heads};

/// Digests of the sources of this crate and of those below it, which each crate's `build.rs` makes.
#[doc(hidden)]
pub const SOURCES: [&str; 6] = [
    narrows_units::SOURCES,
    narrows_qdisc::SOURCES,
    narrows_link::SOURCES,
    narrows_transport::SOURCES,
    narrows_apps::SOURCES,
    env!("NARROWS_SOURCES"),
];

//! A deterministic packet-level simulator of links, queues, TCP and DNS.
//!
//! It takes a [`plan::Plan`] (plain structs in base units) and gives tables of numbers. It has no
//! clock, file, thread, log or global: the caller drives it and decides when to stop.

mod agenda;
pub mod captured;
mod connection;
mod dns;
mod engine;
mod labels;
mod link;
mod monitor;
mod network;
mod packet;
pub mod plan;
pub mod ports;
mod random;
mod source;
pub mod table;
pub mod tcp;
mod topology;

pub use engine::{Simulation, Stopped};

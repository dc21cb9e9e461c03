//! A deterministic packet-level simulator of links, queues, TCP and DNS.
//!
//! It takes a [`plan::Plan`] (plain structs in base units) and gives tables of numbers. It has no
//! clock, file, thread, log or global: the caller drives it and decides when to stop.

pub mod captured;
pub mod plan;
pub mod tcp;

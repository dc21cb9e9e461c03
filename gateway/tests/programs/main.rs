//! The tests of the eBPF programs. They need root, and print SKIP otherwise. They are one program, which
//! is compiled and linked once.

#![cfg(feature = "ebpf")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod differential;
mod several_model;
mod siphash;
mod tc_verdicts;
mod xdp_beside;
mod xdp_cookies;
mod xdp_costs;
mod xdp_entries;
mod xdp_frames;
mod xdp_limits;
mod xdp_several;
mod xdp_verdicts;

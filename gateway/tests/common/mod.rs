//! What the tests of the core share: packets that another library writes and reads, and a client to
//! have conversations with.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros,
    reason = "each test takes what it needs"
)]

pub mod client;
pub mod conversation;
#[cfg(feature = "ebpf")]
pub mod frames;
pub mod packets;
#[cfg(feature = "ebpf")]
pub mod programs;
#[cfg(feature = "ebpf")]
pub mod twin;

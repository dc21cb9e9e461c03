//! Simulated packets as pcapng, for Wireshark, tshark and everything else that reads captures.
//!
//! The simulator says what passed a link and when ([`Captured`]). This crate gives each packet the
//! addresses, headers and checksums that a tap would see at the end of that link's transmission. IP
//! packets have exactly the length that the simulator counted. Payloads are zeros.
//!
//! A capture of a place contains what leaves a node on a link and what arrives there on the link in
//! the other direction, at the time of its arrival, like a tap on the node's interface. Each packet
//! says its direction.
//!
//! What the simulator does not model is filled in as hosts do it ([`address`]): addresses from
//! 10.0.0.0/8, Ethernet from hop to hop, a TTL that falls at every router, ports, and DNS names
//! ([`message`]). Frames have neither padding at their end nor a check sequence, as in captures on
//! the sending host.
//!
//! ```no_run
//! # fn example(plan: &narrows_sim::plan::Plan, packets: &[narrows_sim::captured::Captured], messages: narrows_capture::message::Messages) -> std::io::Result<()> {
//! // The first capture of the plan.
//! let file = narrows_capture::pcapng(plan, &plan.captures[0], packets, messages)?;
//! std::fs::write("bottleneck.pcapng", file)
//! # }
//! ```
//!
//! [`Captured`]: narrows_sim::captured::Captured

pub mod address;
mod blocks;
mod fragment;
pub mod message;
mod writer;

pub use writer::{Writer, pcapng};

//! Simulated packets as pcapng, for Wireshark, tshark and everything else that reads captures.
//!
//! The simulator says what passed a link and when ([`Captured`]); this crate gives each packet
//! addresses, headers and checksums as a tap at the end of that link's transmission would see them.
//! IP packets have exactly the length that the simulator accounted. Payloads are zeros.
//!
//! A capture of a place has what leaves a node on a link and, at the time of its arrival, what comes
//! there on the same link, like a tap on the node's interface. Each packet says its direction.
//!
//! What the simulator does not model is filled in as hosts do it ([`address`]): addresses from
//! 10.0.0.0/8, Ethernet hop by hop, a TTL that falls at every router, ports, DNS names
//! ([`message`]). Frames have no trailing pad and no check sequence, as in captures on the sending
//! host.
//!
//! ```no_run
//! # fn example(plan: &narrows_sim::plan::Plan, packets: &[narrows_sim::captured::Captured], messages: narrows_capture::message::Messages) -> std::io::Result<()> {
//! // The first capture of the plan.
//! std::fs::write("bottleneck.pcapng", narrows_capture::pcapng(plan, &plan.captures[0], packets, messages))
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

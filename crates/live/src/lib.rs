//! The applications of a plan over real sockets: what the simulator plays in its network, played in
//! a real one.
//!
//! ```text
//! Live::new(plan, part)  ->  run()  ->  tables()
//! ```
//! The applications are those of `narrows-apps`, the plan is the simulator's, and the tables are the
//! same. What lies between the sockets is somebody else's: namespaces with links that tc(8) shapes,
//! or real machines. The plan's links say only which node a path leads to.
//!
//! One process plays both ends of an application. It enters the network namespace of a node to make
//! a socket there. Both ends therefore have one clock, and each knows what the other meant: on the
//! wire, a DNS message is a real one of the right length, another datagram begins with the twelve
//! bytes of its meaning, and other streams are zeros. HTTPS encrypts zeros, too: HTTP's frames
//! have the plan's lengths, and nobody else can read them.
//!
//! For runs on several machines, a process plays the ends of one node instead ([`Split`]): bulk
//! traffic and DNS over UDP, TCP and TLS. What the other ends mean then comes from the plan and from
//! the wire (`split.rs`).
//!
//! An application's time stands still during a call, as in the simulator. A timer's call has the
//! time that was asked for, even if the process wakes up later. Rates are therefore kept, and
//! delays count from the time at which a packet was due.
//!
//! What real sockets cannot honour is refused, by the name of its key, before anything starts
//! (`refused.rs`):
//!
//! - TCP is the kernel's. A plan chooses `mss`, `congestion` (also by a name that only the kernel
//!   knows), `pacing` and `nagle`. The other settings must be Linux's, unless sysctls and routes follow the plan (`Part::prepared`).
//! - TLS is rustls'. Sessions are resumed, early data are sent, and servers take their time for a
//!   signature, as the plan says. All flights have the plan's lengths, and are cut into its writes,
//!   unless rustls needs more bytes; an error then states the least. What is in them is rustls'
//!   choice: a signature is always Ed25519's, and other messages make up its length
//!   (`secure/pair.rs`).
//! - QUIC is quinn-proto's. The messages of its handshakes, connection IDs and transport parameters
//!   have the plan's lengths (`quic/session.rs`). A plan chooses `payload`, `search_to`,
//!   `congestion`, `initial_window`, `undecryptable_packets`, `idle_timeout` in milliseconds, `ecn`,
//!   `id`, `parameters`, `waits` and `extras`. Of the congestion controls, it has NewReno and CUBIC.
//!   Only the congestion window and quinn's own pacing hold data back. The table `flows` has no QUIC
//!   connections, as in the simulator.
//!
//! What QUIC does differently from the plan, because quinn-proto cannot do otherwise:
//!
//! - Each end tells the other one more connection ID (RFC 9000, 19.15), in 28 bytes if it has eight
//!   bytes. A server's tickets are as much shorter, if it gives any.
//! - A server gives its tickets when it has the client's Finished, and not before, even if its
//!   sessions allow early data.
//! - A server that takes time to answer a ClientHello (`service`) acknowledges nothing meanwhile.
//! - Of a datagram, an end keeps all packets or none until it has the keys of the first one. Its
//!   acknowledgement leaves out how long it kept them.
//! - Probes are quinn's, whatever `probes` says.
//! - quinn-proto decides which frames share a packet.
//!
//! A flood leaves through raw sockets, from addresses that belong to nobody (`flood.rs`). The process
//! then needs the right to make such sockets (`CAP_NET_RAW`).
//!
//! What the kernel does not tell has no value in a table (`tables.rs`).
//!
//! Nobody reports losses. A DNS query or reply that was lost runs into its timeout. Another datagram
//! is lost if it was sent more than five seconds before the end of the run and has not arrived;
//! nobody knows where.
#![cfg(target_os = "linux")]

mod answers;
mod arrivals;
mod certificate;
mod clock;
mod connection;
mod counters;
mod datagrams;
mod dns;
mod elsewhere;
mod end;
mod flood;
mod flows;
mod host;
mod part;
mod quic;
mod real;
mod refused;
mod run;
mod secure;
mod sockets;
mod split;
mod tables;
mod timeouts;
mod world;

pub use clock::Clock;
pub use part::{Also, Part, Place, Role, Split, Use};
pub use real::{Query, Real};
pub use refused::{name_controls, refusals};
pub use run::{Error, Live, Stopped};

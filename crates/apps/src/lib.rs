//! Applications: what uses the network, and the interface through which it does so.
//!
//! ```text
//!                      opened, received, delivered, closed, datagram, timer
//!                 <------------------------------------------------------------
//!   [ application ]                                                      [ host: transports ]
//!                 ------------------------------------------------------------>
//!                      connect, accept, send, close, abort, datagram, wake
//! ```
//! An application receives notices ([`Application`]) and acts through its [`Host`]. It knows
//! sockets, messages and times, but no packets, links or queues. One object serves a whole traffic
//! group, or one server, and numbers its own connections and timers.
//!
//! A *plan* describes a run: lists of nodes, links, paths, TCP settings and applications. Settings
//! refer to their entries by index. An [`Environment`] is what an application sees of a plan.
//!
//! A *flow* is a connection, or the datagrams between a client and a server. The first of its ends
//! is the client, and in a [`Transfer`] the sender. Flows have numbers, which are used again.
//!
//! To add a kind of traffic, write a file with its settings ([`Settings`]) and its behaviour
//! ([`Application`]), and add a line to the list in `kinds.rs`. A kind from outside this crate goes
//! into a plan by [`Kind::custom`].

mod application;
pub mod bulk;
pub mod connection;
mod custom;
pub mod dns;
mod draw;
mod environment;
pub mod flood;
pub mod flow_samples;
pub mod flow_states;
pub mod goodput;
mod host;
pub mod incast;
mod kinds;
mod message;
pub mod on_off;
pub mod page;
pub mod ping;
pub mod record;
pub mod relay;
pub mod responder;
pub mod secure;
mod socket;
pub mod streams;
pub mod table;
pub mod trace;
pub mod transfer;
pub mod udp;
pub mod voip;

pub(crate) use self::application::is_moment;
pub use self::application::{Application, Settings, all_done, progress};
pub use self::custom::{Custom, Outside};
pub use self::draw::Draw;
pub use self::environment::{
    Environment, IP_HEADER, Path, Protocol, SHORTEST_FRAGMENT, Service, UDP_HEADER, Use,
    check_round_trip,
};
pub use self::host::{Dial, Host, Transfer, View};
pub use self::kinds::Kind;
pub use self::message::{Datagram, LossReason, Lost, Message, Objection, Sent};
pub use self::socket::{Association, Socket};
pub use narrows_qdisc::{Random, stream_seed};
pub use narrows_transport::Closed;

/// A digest of this crate's sources, which `build.rs` makes.
#[doc(hidden)]
pub const SOURCES: &str = env!("NARROWS_SOURCES");

//! DNS over real sockets, timed by the Linux kernel: one question at a time over UDP, TCP, TLS or
//! QUIC, and everything that can be known about how its answer arrived.
//!
//! A [`Client`] asks one server from one address. [`Client::ask`] blocks until the answer has
//! arrived, the time is up, or something has failed. It always returns an [`Exchange`]: whatever a
//! network or a server does is a result here, not an error.
//!
//! Where times come from (kernel files of Linux 6.18):
//!
//! - A query leaves when its packet is handed to the network device (`SO_TIMESTAMPING`, transmit
//!   software stamps). Bytes arrive when the kernel takes their packet from the device (receive
//!   software stamps). Neither time includes the wait until this process runs.
//! - A TCP handshake takes what TCP itself measured: the first sample of the round-trip time
//!   (`tcp_info.tcpi_rtt`), in microseconds. If the SYN was retransmitted, there is no sample, and
//!   the process's clock is used.
//! - An exchange begins with the process's clock just before `connect` or `send`, as it does on
//!   RIPE Atlas, whose `rt` is [`Times::total`].
//! - If a device gives no stamps, or the clock was set meanwhile, the process's clock is used
//!   instead; [`Times::by_kernel`] says so.
//!
//! ```no_run
//! use narrows_client::{Client, Outcome, Query, Server, Transport};
//!
//! let server = Server::new("192.0.2.53:53".parse()?, Transport::Tcp);
//! let mut client = Client::new(server)?;
//! let exchange = client.ask(&Query::new(".", "SOA")?);
//! if exchange.outcome == Outcome::Answered {
//!     println!("{:?}, {:?} of it the handshake", exchange.times.total, exchange.times.connect);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg(target_os = "linux")]

mod client;
mod exchange;
mod failed;
pub mod path;
mod query;
mod quic;
mod schedule;
mod segments;
mod socket;
mod stamps;
mod tcp;
mod tcp_info;
mod tls;
mod udp;

pub use client::{Client, Server, Transport};
pub use exchange::{
    Closer, ConnectionFacts, Ending, Exchange, Outcome, Prefix, Reply, Segments, Stage, Times,
};
pub use query::{Query, QueryError};
pub use schedule::Schedule;
pub use tcp_info::{ControlInfo, TcpInfo};
pub use tls::Anybody;

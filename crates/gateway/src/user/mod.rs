//! The user-space data path, for kernels without XDP: Huston's proxy (Hayes, Rossi, Armitage 2010, section II) done
//! right.
//!
//! ```text
//! client --TCP--> link --packets--> core --queries--> UDP socket --> server
//!                                   core <--answers-- UDP socket
//!                 link <--packets-- core
//!                 link <----------- stream <--bytes--> TCP socket   (what is unusual)
//! ```
//!
//! The core ([`crate::core`]) is what decides; here are its surroundings. Packets of a service address, which the
//! kernel must not hold as its own, come from a TUN device or a packet socket ([`link`]). Queries go to the server
//! over ordinary UDP sockets, so that the server sees the gateway's address. Where the in-kernel path leaves a
//! connection to the server's own listener, here a TCP end of ours goes on with it ([`stream`]) and carries its bytes to
//! a connection to the server.
//!
//! One thread waits with epoll for all of it: the work for a packet is a few microseconds, in which nothing blocks.

pub mod batch;
pub mod link;
mod path;
mod poller;
pub mod proxied;
pub mod publish;
mod random;
mod relay;
pub mod settings;
pub mod stream;
mod upstream;

pub use path::{DataPath, PathCounters, PathSettings, Source};

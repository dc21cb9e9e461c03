//! Transport of messages between applications: connections and datagrams.

mod closed;
pub(crate) mod connection;
mod dialogue;
pub(crate) mod half_open;
pub mod quic;
pub(crate) mod stateless;
pub mod tcp;
pub mod tls;

pub use self::closed::Closed;
pub(crate) use self::connection::Connection;
pub(crate) use self::dialogue::{Dialogue, News};

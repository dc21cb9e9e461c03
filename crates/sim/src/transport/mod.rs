//! Transport of messages between applications: connections and datagrams.

pub(crate) mod connection;
mod dialogue;
pub(crate) mod quic;
pub(crate) mod stateless;

pub(crate) use self::connection::Connection;
pub(crate) use self::dialogue::{ConnectionEvent, Dialogue};

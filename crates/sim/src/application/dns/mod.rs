//! DNS: clients that ask, and the servers that they ask.

pub mod client;
pub mod server;

/// The server's port (RFC 1035, 4.2).
pub const PORT: u16 = 53;

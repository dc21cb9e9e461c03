//! Packet captures and dnstap as rows: each DNS exchange, each connection.
//!
//! A capture shows what Atlas and a client cannot: the segments that brought a reply and how its
//! length was cut, retransmissions, the handshake at either side, and who closed. The reader goes
//! through a file once and holds what is under way: connections, queries that wait, fragments, each
//! with a bound. What it cannot use it counts by kind.
//!
//! Who watches near the server sees the handshake between SYN/ACK and ACK, near the client between
//! SYN and SYN/ACK; both are noted.

mod connection;
mod datagrams;
mod dnstap;
mod file;
mod ip;
mod link;
mod reader;
mod remark;
mod rows;
mod segment;
mod stream;
mod tables;
mod watched;

pub use dnstap::DnstapReader;
pub use file::FileError;
pub use reader::CaptureReader;
pub use remark::Remark;
pub use rows::{CaptureChunk, ConnectionRow, Exchange, Sizes};
pub use tables::CaptureTables;
pub use watched::{Head, Watched};

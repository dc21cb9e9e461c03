//! Packet captures and dnstap as rows: a row for each DNS exchange, and one for each connection.
//!
//! A capture shows what Atlas and a client cannot: the segments that brought a reply and how they
//! cut its length field, retransmissions, the handshake at either side, and who closed. The reader
//! goes through a file once. It holds what is under way (connections, queries that wait,
//! fragments), each with a bound. It counts by kind what it cannot use.
//!
//! A capture taken near the server shows the handshake between SYN/ACK and ACK; one taken near the
//! client shows it between SYN and SYN/ACK. Both are noted.

mod connection;
mod copies;
mod datagrams;
mod dnstap;
mod file;
mod ip;
mod link;
mod merge;
mod names;
mod reader;
mod remark;
mod rows;
mod segment;
mod stream;
mod tables;
mod taps;
mod tunnel;
mod watched;

pub use file::FileError;
pub use merge::{Input, OpenError, Opener};
pub use remark::Remark;
pub use rows::{CaptureChunk, ConnectionRow, Exchange, Sizes};
pub use tables::CaptureTables;
pub use watched::{Notes, Watched};

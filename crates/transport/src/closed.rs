//! How connections end.

/// How one direction, or the whole of a connection, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The other end has sent its last byte and a FIN.
    ByPeer,
    /// Both ends have closed, and everything is acknowledged.
    Done,
    /// Nobody listens: the SYN was answered with a reset.
    Refused,
    /// The other end sent a reset.
    Reset,
    /// Too many retransmissions went unanswered.
    TimedOut,
}

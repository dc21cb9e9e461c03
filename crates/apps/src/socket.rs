//! What applications hold instead of a flow: its ends, and its datagrams.

/// An end of a connection, as applications refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// Twice the flow, plus one for its second end.
    pub end: u32,
    /// Tells apart the flows that had the same number.
    pub generation: u8,
}

impl Socket {
    /// Returns the number of its flow.
    pub const fn flow(self) -> u32 {
        self.end / 2
    }

    /// Returns 0 for the flow's first end, 1 for its second.
    pub const fn side(self) -> usize {
        self.end as usize % 2
    }

    /// Returns the other end of the connection.
    #[must_use]
    pub const fn other(self) -> Self {
        Self { end: self.end ^ 1, generation: self.generation }
    }
}

/// The datagrams between an application's sockets and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association(Socket);

impl From<Socket> for Association {
    fn from(socket: Socket) -> Self {
        Self(socket)
    }
}

impl Association {
    /// Returns twice the number of its flow.
    pub const fn first_end(self) -> u32 {
        self.0.end
    }

    /// Returns the first end of its flow.
    pub const fn socket(self) -> Socket {
        self.0
    }
}

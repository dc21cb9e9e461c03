//! The counters of an endpoint.

/// Counts since the start of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent, of every kind, retransmissions included.
    pub segments_sent: u64,
    /// Segments retransmitted for any reason (tail probes and SYNs included).
    pub segments_retransmitted: u64,
    /// Retransmission timeouts, SYN timeouts included.
    pub timeouts: u32,
    /// Entries into fast recovery.
    pub fast_recoveries: u32,
    /// Reductions of the window because of an ECN echo.
    pub ecn_reductions: u32,
    /// Tail loss probes.
    pub tail_probes: u32,
    /// Reductions undone.
    pub undos: u32,
    /// Timeouts that F-RTO found spurious.
    pub spurious_timeouts: u32,
    /// Segments received with the CE mark.
    pub marks_received: u64,
    /// Packets that the other end reports as marked (`tcpi_delivered_ce`). 0 without Accurate ECN.
    pub marks_reported: u64,
    /// Payload bytes that the other end reports as marked. 0 without Accurate ECN.
    pub marked_bytes_reported: u64,
}

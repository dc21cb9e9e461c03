//! What an acknowledgement tells a congestion control.

use crate::seq::Seq;

/// What an acknowledgement tells Prague.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// The segments that it delivers, and those of them that were marked.
    pub delivered: u32,
    pub marked: u32,
    pub snd_una: Seq,
    pub snd_nxt: Seq,
    /// The smoothed round trip in microseconds; 0 before the first one.
    pub srtt_us: u32,
    /// Whether the window limits the sender.
    pub is_limited: bool,
    /// Whether nothing is being repaired or reduced.
    pub is_open: bool,
}

/// What an acknowledgement says about the path (`struct rate_sample`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    /// The segments that it acknowledges or SACKs.
    pub acked: u32,
    /// The segments that it shows to be lost.
    pub lost: u32,
    /// The segments in flight before it.
    pub prior_in_flight: u32,
    /// The round trip of the newest segment that it acknowledges, in microseconds.
    pub rtt_us: Option<u32>,
    /// When something was last delivered (`delivered_mstamp`).
    pub delivered_us: u32,
    /// How fast the path delivered; `None` if it does not say.
    pub rate: Option<Rate>,
    /// The newest of the segments that it delivers.
    pub newest: Option<Newest>,
}

/// The newest segment that an acknowledgement delivers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    /// The segments delivered since it was sent.
    pub delivered: u32,
    /// The connection's count of delivered segments when it was sent.
    pub prior_delivered: u32,
    pub sent: SentState,
}

/// The connection when a segment was sent, and what was lost since then (draft-ietf-ccwg-bbr-06,
/// 4.1.2.1.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentState {
    /// The segments in flight right after it was sent (P.tx_in_flight).
    pub in_flight: u32,
    /// The segments found lost since then (C.lost - P.lost).
    pub lost: u32,
    /// Whether the application limited the sender then.
    pub is_app_limited: bool,
}

/// A segment that was found to be lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// Where it begins and ends.
    pub begin: Seq,
    pub end: Seq,
    pub sent: SentState,
}

/// A delivery rate (draft-cheng-iccrg-delivery-rate-estimation-00, 3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// The segments delivered in the interval.
    pub delivered: u32,
    pub interval_us: u32,
    /// The connection's count of delivered segments when the newest of them was sent.
    pub prior_delivered: u32,
    /// Whether the application limited the sender then.
    pub is_app_limited: bool,
}

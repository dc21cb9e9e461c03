//! What an end shows of itself: window, round trips and state.

use narrows_units::Rate;

use super::Endpoint;
use crate::FlowSample;

impl Endpoint {
    /// Returns what it knows about its window and its path. If it does not pace, there is no
    /// rate.
    pub fn sample(&self) -> FlowSample {
        let least = self.rtt.least();
        FlowSample {
            cwnd: self.window.bytes,
            ssthresh: self.window.threshold(),
            segment: self.window.datagram() as u32,
            // Before the first measurement, there is only an initial value.
            srtt: least.map(|_| self.rtt.smoothed),
            min_rtt: least,
            pacing_rate: self.window.rate().and_then(|rate| Rate::from_bps(rate.saturating_mul(8))),
            in_flight: self.window.in_flight(),
            retransmissions: self.lost_packets,
            state: self.window.state(),
            alpha: self.window.alpha(),
        }
    }

    /// Returns the bytes of streams that arrived in order.
    pub fn bytes_received(&self) -> u64 {
        let open = self.receiving.values().map(|(receiving, _)| receiving.in_order());
        self.finished_bytes + open.sum::<u64>()
    }
}

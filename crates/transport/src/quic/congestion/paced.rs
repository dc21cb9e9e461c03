//! What the window of an end does with a pace, and with a control that counts packets.
//!
//! Source: RFC 9002, 7.7 and 7.8. All packets in flight are paced; bare acknowledgements and probes
//! are not held back.

use narrows_units::{Span, Time};

use super::Window;
use super::packets::{Acknowledged, Context};
use crate::quic::recovery::RoundTrip;

impl Window {
    /// Begins: the connection is created.
    pub(in crate::quic) fn start(&mut self, now: Time, rtt: &RoundTrip, seed: u32) {
        self.with_packets(now, rtt, |packets, cx| packets.start(cx, seed));
    }

    /// Returns whether it paces.
    pub(in crate::quic) fn paces(&self) -> bool {
        self.pace.is_some()
    }

    /// Returns whether the pace holds the next packet back, and notes until when.
    pub(in crate::quic) fn holds(&mut self, now: Time) -> bool {
        self.pace.as_mut().is_some_and(|pace| pace.holds(now))
    }

    /// Goes on, if only the pace has held the end back until now.
    pub(in crate::quic) fn resume(&mut self, now: Time) {
        if let Some(pace) = &mut self.pace {
            pace.resumes(now);
        }
    }

    /// Returns when it goes on, if only the pace holds it back.
    pub(in crate::quic) fn resumes_at(&self) -> Option<Time> {
        self.pace.as_ref()?.resumes_at.get()
    }

    /// Returns the pacing rate in bytes a second; `None`: it does not pace, or not yet.
    pub(in crate::quic) fn rate(&self) -> Option<u64> {
        self.pace.as_ref()?.rate
    }

    /// Returns the share of packets, 0 to 1, that the control takes to be marked, if it estimates one.
    pub(in crate::quic) fn alpha(&self) -> Option<f64> {
        self.packets.as_ref()?.alpha()
    }

    /// Returns whether its control needs samples of delivery rates.
    pub(in crate::quic) fn samples_rates(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.rates.is_some())
    }

    /// Notes that the application writes something, and that nothing else was left to send.
    pub(in crate::quic) fn limit_by_application(&mut self) {
        if let Some(packets) = &mut self.packets {
            packets.limit_by_application(self.pace.as_deref_mut());
        }
    }

    /// Notes that a packet leaves. `number`: its number, if it has application data.
    pub(in crate::quic) fn note_packet_sent(
        &mut self,
        now: Time,
        rtt: &RoundTrip,
        number: Option<u64>,
        bytes: u32,
    ) {
        self.with_packets(now, rtt, |packets, cx| packets.note_sent(cx, number));
        if let Some(pace) = &mut self.pace {
            pace.note_sent(now, u16::try_from(bytes).unwrap_or(u16::MAX), 1);
        }
    }

    /// Begins with an acknowledgement.
    pub(in crate::quic) fn begin_ack(&mut self) {
        if let Some(gentle) = &mut self.gentle {
            gentle.begin_ack();
        }
        if let Some(packets) = &mut self.packets {
            packets.begin_ack(self.pace.as_deref_mut());
        }
    }

    /// Notes that a packet was delivered that was sent at `sent_at`.
    pub(in crate::quic) fn note_delivered(&mut self, number: Option<u64>, sent_at: Time) {
        if let Some(packets) = &mut self.packets {
            packets.note_acked(self.pace.as_deref_mut(), number, sent_at);
        }
    }

    /// Notes that a packet was lost.
    pub(in crate::quic) fn note_lost(&mut self, now: Time, rtt: &RoundTrip, number: Option<u64>) {
        self.with_packets(now, rtt, |packets, cx| packets.note_lost(cx, number));
    }

    /// Notes that a packet is no longer in flight, which says nothing about the path.
    pub(in crate::quic) fn note_gone(&mut self, number: Option<u64>) {
        if let Some(packets) = &mut self.packets {
            packets.note_gone(self.pace.as_deref_mut(), number, None);
        }
    }

    /// Ends with an acknowledgement, after the losses that it has shown.
    pub(in crate::quic) fn finish_ack(&mut self, now: Time, rtt: &RoundTrip, ack: &Acknowledged) {
        self.with_packets(now, rtt, |packets, cx| packets.finish_ack(cx, ack));
        if self.in_slow_start()
            && let Some(gentle) = &mut self.gentle
            && gentle.finish_ack(ack)
        {
            self.threshold = Some(self.bytes);
        }
        let (bytes, datagram) = (self.bytes, self.datagram);
        let Some(pace) = &mut self.pace else { return };
        if rtt.least().is_none() {
            return;
        }
        let rate = match &self.packets {
            Some(packets) => packets.rate(datagram, rtt.smoothed),
            None => Some(usual_rate(bytes, rtt.smoothed)),
        };
        pace.rate = rate.or(pace.rate);
    }

    /// Handles the report that packets were marked. Controls that count packets hear of them when the
    /// acknowledgement ends.
    pub(in crate::quic) fn reduce_for_mark(&mut self, now: Time, sent_at: Time) {
        if self.packets.is_none() {
            self.reduce(now, sent_at);
        }
    }

    /// Handles a loss of packets of which the newest was sent at `sent_at`.
    pub(in crate::quic) fn reduce_for_loss(&mut self, now: Time, sent_at: Time) {
        match &mut self.packets {
            Some(packets) => packets.on_loss(now, sent_at),
            None => self.reduce(now, sent_at),
        }
        self.follow_packets();
    }

    /// Handles persistent congestion: nothing got through for long (RFC 9002, 7.6.2).
    pub(in crate::quic) fn collapse(&mut self, now: Time, rtt: &RoundTrip) {
        if self.packets.is_none() {
            self.collapse_bytes();
        }
        self.with_packets(now, rtt, |packets, cx| packets.collapse(cx));
    }

    /// Lets `f` use the control that counts packets, if there is one.
    fn with_packets(
        &mut self,
        now: Time,
        rtt: &RoundTrip,
        f: impl FnOnce(&mut super::Packets, &mut Context),
    ) {
        let Some(packets) = &mut self.packets else { return };
        let pace = self.pace.as_deref_mut();
        f(packets, &mut Context { now, rtt, datagram: self.datagram, pace });
        self.follow_packets();
    }

    /// Shows the window in bytes.
    pub(super) fn follow_packets(&mut self) {
        if let Some(packets) = &self.packets {
            self.bytes = u64::from(packets.cwnd()) * self.datagram;
            self.threshold = packets.threshold().map(|packets| u64::from(packets) * self.datagram);
        }
    }
}

/// Returns the pacing rate for a window in bytes, in bytes a second: 1.25 times the window in a round
/// trip (RFC 9002, 7.7).
pub(super) fn usual_rate(window: u64, srtt: Span) -> u64 {
    window * (1_000_000 * 5 / 4) / srtt.as_us().max(1)
}

//! What the client sends: RFC 9293, 3.10.7.4, with the answers of RFC 5681 and 6582 to
//! acknowledgements.

use std::time::Duration;

use super::{ACK, AHEAD, FIN, RECEIVE_BUFFER, RST, Reset, SYN, Segment, Stream, before};

impl Stream {
    /// RFC 9293, 3.10.7.4, for a connection that is established or closing.
    pub fn handle_segment(&mut self, segment: &Segment<'_>, now: Duration) {
        if self.is_closed() {
            return;
        }
        // RFC 7323, 5.3 (R1): an old duplicate.
        if let (Some(ours), Some((value, _))) = (&self.timestamps, segment.timestamps) {
            if before(value, ours.recent) && !segment.has(RST) {
                self.ack_due = true;
                return;
            }
        }
        let length = segment.len() as u32 + u32::from(segment.has(FIN));
        if !self.acceptable(segment.seq, length) {
            self.ack_due |= !segment.has(RST);
            return;
        }
        if segment.has(RST) {
            if segment.seq == self.rcv_nxt {
                self.reset = Some(Reset::Done);
            } else {
                self.ack_due = true; // RFC 5961, 3.2
            }
            return;
        }
        if segment.has(SYN) {
            self.ack_due = true; // RFC 5961, 4.2
            return;
        }
        if !segment.has(ACK) {
            return;
        }
        if let (Some(ours), Some((value, _))) = (&mut self.timestamps, segment.timestamps) {
            // RFC 7323, 4.3 (2). Everything is acknowledged at once, so Last.ACK.sent is RCV.NXT.
            if !before(self.rcv_nxt, segment.seq) {
                ours.recent = value;
            }
        }
        if before(self.snd_max, segment.ack) {
            self.ack_due = true; // it acknowledges what we have not sent yet
            return;
        }
        self.handle_ack(segment, now);
        self.handle_data(segment);
    }

    /// RFC 9293, 3.10.7.4, first step, except for a closed window. Data before RCV.NXT is accepted,
    /// and cut off later.
    fn acceptable(&self, seq: u32, length: u32) -> bool {
        let end = seq.wrapping_add(length);
        // The right edge never moves back: RCV.NXT advances by what enters the buffer.
        let limit = self.rcv_nxt.wrapping_add(self.window());
        if length == 0 {
            return !before(seq, self.rcv_nxt) && !before(limit, seq);
        }
        before(seq, limit) && before(self.rcv_nxt, end) || seq == self.rcv_nxt
    }

    fn handle_ack(&mut self, segment: &Segment<'_>, now: Duration) {
        let window = u32::from(segment.window) << self.scale.unwrap_or(0);
        let grown = window != self.snd_wnd;
        if before(self.snd_una, segment.ack) {
            self.handle_new_ack(segment, now);
        } else if segment.ack == self.snd_una
            && segment.len() == 0
            && !segment.has(FIN)
            && !grown
            && self.flight() > 0
            && self.snd_wnd > 0
        {
            self.handle_duplicate_ack();
        }
        // RFC 9293, 3.10.7.4: SND.WL1 and SND.WL2 keep old segments from setting the window.
        let newer = before(self.snd_wl1, segment.seq)
            || self.snd_wl1 == segment.seq && !before(segment.ack, self.snd_wl2);
        if newer && !before(segment.ack, self.snd_una) {
            let closed = self.snd_wnd == 0;
            self.snd_wnd = window;
            self.snd_wl1 = segment.seq;
            self.snd_wl2 = segment.ack;
            if closed && window > 0 {
                // The byte of a probe is sent again as part of a segment.
                self.snd_nxt = self.snd_una;
                self.rto = self.base_rto();
                self.timer = None;
                self.moved_at = now;
            }
        }
    }

    fn handle_new_ack(&mut self, segment: &Segment<'_>, now: Duration) {
        let acked = segment.ack.wrapping_sub(self.snd_una);
        let data = (acked as usize).min(self.unsent.len());
        self.unsent.drain(..data);
        if acked as usize > data {
            self.fin_acked = true; // what was acknowledged beyond the data is our FIN
        }
        self.snd_una = segment.ack;
        if before(self.snd_nxt, self.snd_una) {
            self.snd_nxt = self.snd_una;
        }
        self.moved_at = now;
        self.measure(segment, now);

        match self.recover {
            Some(recover) if before(segment.ack, recover) => {
                // RFC 6582, 3.2 (3): a partial acknowledgement means that the next segment is lost
                // too.
                self.resend = true;
                self.cwnd = self.cwnd.saturating_sub(acked).max(self.mss);
                if acked >= self.mss {
                    self.cwnd = self.cwnd.saturating_add(self.mss);
                }
            }
            Some(_) => {
                self.recover = None;
                self.duplicates = 0;
                self.cwnd = self.ssthresh.min(self.flight().max(self.mss) + self.mss);
            }
            None => {
                self.duplicates = 0;
                // RFC 5681, 3.1. All acknowledged bytes count, as in Linux (`tcp_slow_start`),
                // because clients that merge segments (GRO) send one ACK for many.
                self.cwnd = if self.cwnd < self.ssthresh {
                    self.cwnd.saturating_add(acked)
                } else {
                    self.cwnd.saturating_add((self.mss * self.mss / self.cwnd).max(1))
                };
            }
        }
        self.rto = self.base_rto();
        // RFC 6298 (5.2), (5.3).
        self.timer = (self.flight() > 0).then(|| now + self.rto);
    }

    fn handle_duplicate_ack(&mut self) {
        self.duplicates += 1;
        if self.recover.is_some() {
            self.cwnd = self.cwnd.saturating_add(self.mss); // RFC 6582, 3.2 (4 of RFC 5681)
        } else if self.duplicates == 3 {
            self.ssthresh = (self.flight() / 2).max(2 * self.mss);
            self.cwnd = self.ssthresh + 3 * self.mss;
            self.recover = Some(self.snd_max);
            self.resend = true;
            self.timed = None;
        }
    }

    fn handle_data(&mut self, segment: &Segment<'_>) {
        if segment.len() == 0 && !segment.has(FIN) {
            return;
        }
        self.ack_due = true;
        if self.client_fin {
            return;
        }
        let bytes = [segment.payload.0, segment.payload.1].concat();
        if before(self.rcv_nxt, segment.seq) {
            let known = self.ahead.iter().any(|(seq, _)| *seq == segment.seq);
            if !known && !bytes.is_empty() && self.ahead.len() < AHEAD {
                self.ahead.push((segment.seq, bytes));
            }
            return;
        }
        let whole = self.receive(segment.seq, &bytes);
        if segment.has(FIN) && whole {
            self.client_fin = true;
            self.ahead.clear();
            self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
            return;
        }
        while let Some(at) = self.ahead.iter().position(|(seq, _)| !before(self.rcv_nxt, *seq)) {
            let (seq, bytes) = self.ahead.swap_remove(at);
            self.receive(seq, &bytes);
        }
    }

    /// Accepts bytes that begin at RCV.NXT or before it, as far as there is room. Returns whether
    /// all of them fit.
    fn receive(&mut self, seq: u32, bytes: &[u8]) -> bool {
        let known = self.rcv_nxt.wrapping_sub(seq) as usize;
        let fresh = bytes.get(known..).unwrap_or_default();
        let taken = fresh.len().min(RECEIVE_BUFFER - self.received.len());
        self.received.extend(&fresh[..taken]);
        self.rcv_nxt = self.rcv_nxt.wrapping_add(taken as u32);
        taken == fresh.len()
    }
}

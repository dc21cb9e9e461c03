//! What goes to the client: data within the windows, acknowledgements, and the FIN or RST.

use std::time::Duration;

use super::{ACK, FIN, OUR_SCALE, PSH, RST, Reset, Segment, Stream, Timestamps, before};

impl Stream {
    /// Passes everything that must be sent now to `send`, in order.
    pub fn transmit(&mut self, now: Duration, mut send: impl FnMut(&Segment<'_>)) {
        match self.reset {
            Some(Reset::Due) => {
                let rst =
                    Segment { payload: (&[], &[]), ..self.header(RST | ACK, self.snd_max, now) };
                send(&rst);
                self.reset = Some(Reset::Done);
                return;
            }
            Some(Reset::Done) => return,
            None => {}
        }
        if self.resend {
            self.resend = false;
            self.send_one(self.snd_una, self.mss, now, &mut send);
            if self.snd_nxt == self.snd_una {
                self.snd_nxt = self.sent_end(self.snd_una, self.mss);
            }
        }
        loop {
            let usable = self.cwnd.min(self.snd_wnd).saturating_sub(self.outstanding());
            let waits = self.end().wrapping_sub(self.snd_nxt);
            if waits == 0 {
                break;
            }
            let room = usable.min(self.mss);
            // RFC 9293, 3.8.6.2.1: no small segments because of the window, except the last one. A
            // FIN needs no window.
            let rest = (self.unsent.len() as u32).saturating_sub(self.outstanding());
            let fits = rest <= room || room == self.mss || room > 0 && self.outstanding() == 0;
            if !fits {
                break;
            }
            let from = self.snd_nxt;
            self.send_one(from, room, now, &mut send);
            self.snd_nxt = self.sent_end(from, room);
        }
        if self.probe {
            self.probe = false;
            if self.snd_wnd == 0 && !self.unsent.is_empty() {
                self.send_one(self.snd_una, 1, now, &mut send);
            }
        }
        if self.ack_due {
            self.ack_due = false;
            send(&self.header(ACK, self.snd_max, now));
        }
        if self.end() == self.snd_una {
            self.timer = None;
        } else if self.timer.is_none() {
            self.timer = Some(now + self.rto); // RFC 6298 (5.1)
            self.moved_at = now;
        }
    }

    /// Returns the end of a segment of at most `room` bytes at `from`, in sequence numbers. It
    /// includes our FIN if it reaches that.
    fn sent_end(&self, from: u32, room: u32) -> u32 {
        let rest = (self.unsent.len() as u32).saturating_sub(from.wrapping_sub(self.snd_una));
        let fin = self.finishing && rest <= room;
        from.wrapping_add(rest.min(room)).wrapping_add(u32::from(fin))
    }

    fn send_one(
        &mut self,
        from: u32,
        room: u32,
        now: Duration,
        send: &mut impl FnMut(&Segment<'_>),
    ) {
        let start = (from.wrapping_sub(self.snd_una) as usize).min(self.unsent.len());
        let end = self.sent_end(from, room);
        let stop = (start + room as usize).min(self.unsent.len());
        let fin = self.finishing && stop == self.unsent.len();
        if stop == start && !fin {
            return;
        }
        let flags =
            ACK | if stop == self.unsent.len() { PSH } else { 0 } | if fin { FIN } else { 0 };
        if before(self.snd_max, end) {
            self.snd_max = end;
            self.timed.get_or_insert((end, now));
        }
        let (first, second) = self.unsent.as_slices();
        let split = first.len();
        let payload = (
            &first[start.min(split)..stop.min(split)],
            &second[start.max(split) - split..stop.max(split) - split],
        );
        send(&Segment { payload, ..self.header(flags, from, now) });
        self.ack_due = false;
    }

    fn header(&self, flags: u8, seq: u32, now: Duration) -> Segment<'static> {
        let shift = if self.scale.is_some() { OUR_SCALE } else { 0 };
        Segment {
            seq,
            ack: self.rcv_nxt,
            flags,
            window: (self.window() >> shift) as u16, // RECEIVE_BUFFER fits without scaling
            timestamps: self.timestamps.map(|ours| (self.timestamp(&ours, now), ours.recent)),
            payload: (&[], &[]),
        }
    }

    fn timestamp(&self, ours: &Timestamps, now: Duration) -> u32 {
        ours.ours.wrapping_add(now.saturating_sub(ours.since).as_millis() as u32)
    }
}

//! What an acknowledgement tells, and who has to know it.
//!
//! Written from RFC 9293 (3.10.7.4), RFC 5681 (2, duplicates; 3.1, 3.2), RFC 7323 (4) and RFC 6298 (3,
//! Karn's algorithm). Differences, which are Linux 6.1's, as replays on a kernel show them:
//!
//! - SACKs, loss recovery, the timer and the window are handled in this order, and each sees what the
//!   earlier ones have changed.
//! - The window field is taken from an acknowledgement that advances, even if the segment is old.
//! - The first segment that an acknowledgement covers, or else SACKs, is the sample of the timeout;
//!   the last one is that of congestion controls and of the shortest round trip. The latter takes no
//!   longer sample whose acknowledgement was probably delayed.

use super::rack::{DEFAULT_REORDERING, sent_after};
use super::scoreboard::{FIN, LOST, RETRANS, RETRANSMITTED, Record, SACKED};
use super::{Sender, State, Timer, todo};
use crate::tcp::clock::{Context, elapsed_us};
use crate::tcp::congestion::Progress;
use crate::tcp::segment::Header;
use crate::tcp::{Flags, Seq};

/// What one acknowledgement has told so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    flags: u16,
    /// The echoed timestamp; 0: none.
    pub(super) echo: u32,
    /// `snd_una` before this acknowledgement.
    pub(super) prior_una: Seq,
    /// When the first and the last of the newly SACKed originals were sent.
    pub(super) first_sacked_us: Option<u32>,
    pub(super) last_sacked_us: u32,
    /// The lowest segment that arrived after later ones.
    pub(super) reordered: Seq,
    pub(super) sack_delivered: u32,
    /// The round trip for congestion controls.
    control_rtt_us: Option<u32>,
    /// The packets that it reports as marked (Accurate ECN).
    pub(super) marked: u32,
    /// The most recently sent of the delivered segments, for the rate sample.
    newest: Option<Record>,
}

/// Flags of an acknowledgement.
pub(super) mod flag {
    /// The segment carries data.
    pub(in crate::tcp) const DATA: u16 = 1;
    pub(in crate::tcp) const NEW_WINDOW: u16 = 2;
    pub(in crate::tcp) const ACKS_DATA: u16 = 4;
    pub(in crate::tcp) const ACKS_REPAIR: u16 = 8;
    pub(in crate::tcp) const SACKS_DATA: u16 = 16;
    pub(in crate::tcp) const ECE: u16 = 32;
    pub(in crate::tcp) const LOST_REPAIR: u16 = 64;
    /// It acknowledges or SACKs a segment that was sent once, from before the recovery point.
    pub(in crate::tcp) const ORIGINAL_ARRIVED: u16 = 128;
    pub(in crate::tcp) const ADVANCED: u16 = 256;
    pub(in crate::tcp) const D_SACK: u16 = 512;
    pub(in crate::tcp) const RESTART_TIMER: u16 = 1024;
    pub(in crate::tcp) const D_SACK_OF_PROBE: u16 = 2048;
    pub(in crate::tcp) const MAYBE_DELAYED: u16 = 4096;

    pub(in crate::tcp) const NO_DUPLICATE: u16 = DATA | NEW_WINDOW | ACKS_DATA;
    pub(in crate::tcp) const UNUSUAL: u16 = SACKS_DATA | ECE | D_SACK;
    pub(in crate::tcp) const DELIVERS: u16 = ACKS_DATA | SACKS_DATA;
}

/// What may be retransmitted after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    Nothing,
    Lost,
    /// New data first, or lost segments if there is none.
    NewFirst,
}

impl Ack {
    pub(super) fn empty(prior_una: Seq) -> Self {
        Self {
            flags: 0,
            echo: 0,
            prior_una,
            first_sacked_us: None,
            last_sacked_us: 0,
            reordered: prior_una,
            sack_delivered: 0,
            control_rtt_us: None,
            marked: 0,
            newest: None,
        }
    }

    /// Returns whether any of `flags` is set.
    #[inline]
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    #[inline]
    pub(super) fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    #[inline]
    pub(super) fn clear(&mut self, flags: u16) {
        self.flags &= !flags;
    }

    /// Returns whether it answers a segment with a timestamp below `stamp`.
    #[inline]
    pub(super) fn echoes_before(&self, stamp: u32) -> bool {
        self.echo != 0 && (self.echo.wrapping_sub(stamp) as i32) < 0
    }

    /// Notes a delivered segment.
    #[inline]
    pub(super) fn note_delivered(&mut self, record: &Record) {
        if self.newest.is_none_or(|newest| sent_after(record, &newest)) {
            self.newest = Some(*record);
        }
    }

    /// Notes that the segment at `seq` arrived after later ones.
    #[inline]
    pub(super) fn note_late(&mut self, seq: Seq) {
        if seq.before(self.reordered) {
            self.reordered = seq;
        }
    }

    /// Returns the segments delivered when the newest delivered one was sent.
    #[inline]
    pub(super) fn prior_delivered(&self) -> Option<u32> {
        self.newest.map(|record| record.delivered)
    }

    /// Returns the round trip for congestion controls, in microseconds.
    pub(super) fn control_rtt_us(&self) -> Option<u32> {
        self.control_rtt_us
    }
}

/// What an acknowledgement has taken off the scoreboard.
struct Covered {
    segments: u32,
    /// When the first and the last of them were sent that were sent once and not SACKed before.
    first_us: Option<u32>,
    last_us: u32,
    /// Where the lowest of these begins, if that is below the highest sequence number SACKed.
    lowest: Seq,
}

impl Covered {
    #[inline]
    fn add_original(&mut self, record: &Record) {
        self.first_us = self.first_us.or(Some(record.sent_us));
        self.last_us = record.sent_us;
        if record.seq.before(self.lowest) {
            self.lowest = record.seq;
        }
    }
}

/// A round trip in microseconds: that of the first segment it was measured by, and of the last one.
#[derive(Clone, Copy)]
struct Sample {
    first_us: u32,
    last_us: u32,
}

impl Sender {
    /// Returns whether an acknowledgement with nothing else is plain: it covers data in flight, and
    /// nothing is lost, SACKed, retransmitted or sent as a probe.
    #[inline(always)]
    pub(crate) fn predicts(&self, header: &Header) -> bool {
        self.state == State::Open
            && self.sacked_out | self.lost_out | self.retrans_out == 0
            && self.probe.is_none()
            && header.ack.after(self.snd_una)
            && !header.ack.after(self.snd_nxt)
    }

    /// Handles an acknowledgement that [`predicts`](Self::predicts) has found plain: it is not
    /// dubious, and nothing has to be retransmitted.
    #[inline(always)]
    pub(crate) fn take_predicted_ack(&mut self, cx: &Context, header: &Header) {
        let mut ack = Ack::empty(self.snd_una);
        ack.set(flag::ADVANCED);
        self.retransmits = 0;
        self.update_window(header, &mut ack);
        self.todo |= todo::NEW;
        if cx.config.is_classic() {
            self.take_new_ack(cx, &ack);
        } else {
            self.take_plain_ack(cx, header, ack);
        }
    }

    /// Does the rest of [`take_predicted_ack`](Self::take_predicted_ack) as Linux does it.
    fn take_plain_ack(&mut self, cx: &Context, header: &Header, mut ack: Ack) {
        ack.echo = header.timestamps.map_or(0, |(_, echo)| echo);
        let (delivered_before, lost_before) = (self.delivered, self.lost);
        self.begin_sample();
        let highest = ack.prior_una;
        self.take_acknowledged(cx, &mut ack, highest);
        self.rack_adapt_window(&ack);
        if ack.has(flag::RESTART_TIMER) && !self.schedule_probe(cx, true) {
            self.rearm_rto(cx);
        }
        let delivered = self.delivered.wrapping_sub(delivered_before);
        self.control(cx, &ack, delivered, self.lost.wrapping_sub(lost_before));
    }

    /// Handles an acknowledgement. Returns false if the segment is not acceptable and its data must
    /// be ignored.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        cx: &Context,
        header: &Header,
        sack: &[(Seq, Seq)],
    ) -> bool {
        if self.is_silent()
            && header.ack == self.snd_una
            && sack.is_empty()
            && !header.flags.contains(Flags::ECE)
        {
            // Header prediction: data for an end that sends none. Only its window can be new.
            self.update_window(header, &mut Ack::empty(self.snd_una));
            return true;
        }
        self.handle_telling_ack(cx, header, sack)
    }

    /// Returns whether nothing is in flight and nothing waits to be sent.
    #[inline]
    fn is_silent(&self) -> bool {
        self.packets_out == 0 && self.probe.is_none() && !self.has_new_data()
    }

    /// Handles an acknowledgement that has something to tell, or after which something may be sent.
    #[inline(never)]
    fn handle_telling_ack(&mut self, cx: &Context, header: &Header, sack: &[(Seq, Seq)]) -> bool {
        let prior_una = self.snd_una;
        if header.ack.before(prior_una) {
            return self.handle_old_ack(cx, header, sack);
        }
        if header.ack.after(self.snd_nxt) {
            return false;
        }
        let (delivered_before, lost_before) = (self.delivered, self.lost);
        let was_in_flight = self.packets_out > 0;
        let sacked = self.sack && self.sacked_out > 0;
        let highest = if sacked { self.highest_sack } else { prior_una };
        self.begin_sample();
        let mut ack = Ack::empty(prior_una);
        ack.echo = header.timestamps.map_or(0, |(_, echo)| echo);
        if header.len > 0 || header.flags.contains(Flags::FIN) {
            ack.set(flag::DATA);
        }
        if header.flags.contains(Flags::ECE) && self.ect.is_capable() && !self.is_accurate() {
            ack.set(flag::ECE);
        }
        if header.ack != prior_una {
            ack.set(flag::ADVANCED);
            self.retransmits = 0;
        }
        self.update_window(header, &mut ack);
        if cx.config.is_classic() {
            self.handle_ack_classic(cx, header, &mut ack);
            return true;
        }
        if !sack.is_empty() && self.uses_sack(cx) {
            self.take_blocks(cx, header.ack, sack, &mut ack);
            self.delivered = self.delivered.wrapping_add(ack.sack_delivered);
        }
        if !was_in_flight {
            self.handle_ack_of_nothing(cx, header, ack);
            return true;
        }
        self.take_acknowledged(cx, &mut ack, highest);
        self.rack_adapt_window(&ack);
        if self.is_accurate() {
            let delivered = self.delivered.wrapping_sub(delivered_before);
            self.take_report(header, &mut ack, delivered);
        }
        if self.control.counts_marks() {
            self.note_marks(&ack, delivered_before);
        }
        self.process_probe_ack(cx, header.ack, &ack);
        let plain =
            self.state == State::Open && ack.has(flag::NO_DUPLICATE) && !ack.has(flag::UNUSUAL);
        let resend = if plain {
            Resend::Nothing
        } else {
            // RFC 5681, 2.
            let duplicate = !ack.has(flag::ADVANCED | flag::NO_DUPLICATE | flag::D_SACK);
            self.handle_dubious_ack(cx, &mut ack, u32::from(duplicate))
        };
        if ack.has(flag::RESTART_TIMER) && !self.schedule_probe(cx, true) {
            self.rearm_rto(cx);
        }
        let delivered = self.delivered.wrapping_sub(delivered_before);
        self.control(cx, &ack, delivered, self.lost.wrapping_sub(lost_before));
        self.resend(resend);
        self.todo |= todo::NEW;
        true
    }

    /// Handles an acknowledgement while nothing is in flight. A D-SACK may come late.
    fn handle_ack_of_nothing(&mut self, cx: &Context, header: &Header, mut ack: Ack) {
        if self.is_accurate() {
            // Only acknowledgements of ours can have been marked.
            self.take_report(header, &mut Ack::empty(ack.prior_una), 0);
        }
        if ack.has(flag::D_SACK) {
            self.handle_dubious_ack(cx, &mut ack, 0);
        }
        self.process_probe_ack(cx, header.ack, &ack);
        self.todo |= todo::NEW;
    }

    /// Handles an acknowledgement below `snd_una`: only its SACK blocks can be new.
    fn handle_old_ack(&mut self, cx: &Context, header: &Header, sack: &[(Seq, Seq)]) -> bool {
        if !sack.is_empty() && self.uses_sack(cx) && !cx.config.is_classic() {
            let mut ack = Ack::empty(self.snd_una);
            ack.echo = header.timestamps.map_or(0, |(_, echo)| echo);
            self.take_blocks(cx, header.ack, sack, &mut ack);
            self.delivered = self.delivered.wrapping_add(ack.sack_delivered);
            let resend = self.handle_dubious_ack(cx, &mut ack, 0);
            self.resend(resend);
            self.todo |= todo::NEW;
        }
        true
    }

    /// Takes the acknowledgement, and the window if it is new.
    #[inline(always)]
    fn update_window(&mut self, header: &Header, ack: &mut Ack) {
        if self.may_update_window(header) {
            ack.set(flag::NEW_WINDOW);
            self.snd_wl1 = header.seq;
            self.snd_wnd = self.window_in(header);
        }
        self.bytes_acked += u64::from(header.ack.distance(self.snd_una));
        self.snd_una = header.ack;
    }

    /// Returns whether the window field is newer than the last one (RFC 9293, 3.10.7.4), or
    /// opens or closes the window.
    #[inline(always)]
    pub(crate) fn may_update_window(&self, header: &Header) -> bool {
        let is_newer = header.ack.after(self.snd_una) || header.seq.after(self.snd_wl1);
        let offer = self.window_in(header);
        let opens_or_closes = offer == 0 || offer > self.snd_wnd;
        is_newer || (opens_or_closes && header.seq == self.snd_wl1)
    }

    #[inline]
    fn window_in(&self, header: &Header) -> u32 {
        u32::from(header.window) << self.peer_scale
    }

    /// Takes what is acknowledged off the scoreboard, and its round trip as a sample. `highest` is
    /// the highest sequence number that was SACKed before.
    #[inline]
    fn take_acknowledged(&mut self, cx: &Context, ack: &mut Ack, highest: Seq) {
        let sacked_before = self.sacked_out;
        let covered = self.clear_scoreboard(cx, ack, highest);
        if covered.segments > 0 {
            ack.set(flag::ACKS_DATA | flag::RESTART_TIMER);
        }
        let sample = self.round_trip(cx, ack, &covered, sacked_before);
        if self.uses_sack(cx) {
            if covered.lowest.before(highest) {
                self.note_reordering(covered.lowest);
            }
        } else if covered.segments > 0 {
            self.remove_duplicates(covered.segments);
            if ack.has(flag::ACKS_REPAIR) {
                ack.clear(flag::ORIGINAL_ARRIVED);
            }
        }
        let Some(sample) = sample else { return };
        self.take_sample(cx, ack, sample);
        if let (0, Some(first_us), Some(head)) =
            (covered.segments, ack.first_sacked_us, self.board.front())
            && elapsed_us(cx.us, first_us) > elapsed_us(cx.us, head.sent_us)
        {
            // The sample comes from data sent before the head was retransmitted, so the head may
            // wait longer.
            ack.set(flag::RESTART_TIMER);
        }
        ack.control_rtt_us = Some(sample.last_us);
        let progress = self.progress();
        self.control.on_delay(cx, &mut self.window, sample.last_us, progress);
    }

    /// Removes the acknowledged segments from the scoreboard.
    #[inline]
    fn clear_scoreboard(&mut self, cx: &Context, ack: &mut Ack, highest: Seq) -> Covered {
        let uses_sack = self.uses_sack(cx);
        let mut covered = Covered { segments: 0, first_us: None, last_us: 0, lowest: highest };
        while let Some(&record) = self.board.front() {
            if record.end().after(self.snd_una) {
                break;
            }
            self.board.pop();
            covered.segments += 1;
            self.packets_out -= 1;
            self.bytes_acked -= u64::from(record.has(FIN));
            self.lost_out -= u32::from(record.has(LOST));
            if record.has(RETRANS) {
                ack.set(flag::ACKS_REPAIR);
                self.retrans_out -= u32::from(record.has(RETRANSMITTED));
            }
            if record.has(SACKED) {
                self.sacked_out -= 1;
            } else {
                if !record.has(RETRANS) {
                    covered.add_original(&record);
                    if !record.end().after(self.high_seq) {
                        ack.set(flag::ORIGINAL_ARRIVED);
                    }
                }
                if uses_sack {
                    self.delivered = self.delivered.wrapping_add(1);
                    let answers_original =
                        record.has(RETRANS) && ack.echoes_before(stamp_of(cx, record.sent_us));
                    if !answers_original {
                        self.rack_note_delivered(cx, &record);
                    }
                }
            }
            ack.note_delivered(&record);
            if let Some(rates) = self.rates() {
                rates.note_delivered(0, record.to_delivered());
                rates.pop();
            }
        }
        covered
    }

    /// Returns the round trip that an acknowledgement measures, if it measures one: by segments that
    /// it covers and that were all sent once, by those that it SACKs, or by its timestamp.
    #[inline]
    fn round_trip(
        &self,
        cx: &Context,
        ack: &mut Ack,
        covered: &Covered,
        sacked_before: u32,
    ) -> Option<Sample> {
        let first_us = covered.first_us.filter(|_| !ack.has(flag::ACKS_REPAIR));
        if first_us.is_some() && sacked_before == 0 && self.looks_delayed(ack, covered) {
            ack.set(flag::MAYBE_DELAYED);
        }
        let first_us = first_us.or(ack.first_sacked_us);
        let Some(first_us) = first_us else { return Self::round_trip_by_stamp(cx, ack) };
        let sacked = ack.first_sacked_us.is_some();
        let last_us = if sacked { ack.last_sacked_us } else { covered.last_us };
        Some(Sample { first_us: elapsed_us(cx.us, first_us), last_us: elapsed_us(cx.us, last_us) })
    }

    /// Returns whether the acknowledgement was probably delayed, because it covers a lone small
    /// segment.
    #[inline]
    fn looks_delayed(&self, ack: &Ack, covered: &Covered) -> bool {
        covered.segments == 1
            && self.snd_una.distance(ack.prior_una) < u32::from(self.mss)
            && ack.prior_delivered().is_some_and(|d| d.wrapping_add(1) == self.delivered)
            && !ack.has(flag::UNUSUAL)
    }

    /// Measures the round trip by the echoed timestamp, in whole milliseconds (RFC 7323, 4).
    fn round_trip_by_stamp(cx: &Context, ack: &Ack) -> Option<Sample> {
        let ms = cx.timestamp().wrapping_sub(ack.echo);
        let is_valid = ack.echo != 0 && ack.has(flag::ACKS_DATA) && ms < i32::MAX as u32 / 1000;
        let us = ms.max(1).wrapping_mul(1000);
        is_valid.then_some(Sample { first_us: us, last_us: us })
    }

    /// Takes a round trip into the shortest one and into the timeout.
    #[inline]
    fn take_sample(&mut self, cx: &Context, ack: &Ack, Sample { first_us, last_us }: Sample) {
        let is_longer = self.rtt.shortest_us().is_some_and(|shortest_us| last_us > shortest_us);
        if !(is_longer && ack.has(flag::MAYBE_DELAYED)) {
            self.rtt.note_shortest(cx, last_us);
        }
        self.estimate_and_set_rto(cx, first_us);
    }

    /// Lets the congestion control change the window.
    #[inline]
    fn control(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if self.pace.is_some() {
            self.control_paced(cx, ack, delivered, lost);
        } else {
            self.control_window(cx, ack, delivered, lost);
        }
    }

    #[inline]
    pub(super) fn control_window(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if self.in_reduction() {
            self.reduce(cx, ack, delivered, lost);
            return;
        }
        // With much reordering, SACKed segments count as well.
        let reorders = self.reordering() > DEFAULT_REORDERING.into();
        let counting = if reorders { flag::DELIVERS } else { flag::ACKS_DATA };
        if ack.has(counting) && self.is_cwnd_limited() {
            self.control.avoid(cx, &mut self.window, delivered);
        }
    }

    /// Returns what congestion controls may know besides the window.
    #[inline]
    pub(super) fn progress(&self) -> Progress {
        Progress {
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt_us: self.rtt.smoothed_us().unwrap_or(0),
            mss: u32::from(self.mss),
        }
    }

    /// Arranges for what has to be sent again.
    #[inline]
    fn resend(&mut self, resend: Resend) {
        match resend {
            Resend::Nothing => {}
            Resend::Lost => self.todo |= todo::RETRANSMIT,
            Resend::NewFirst => self.todo |= todo::NEW_FIRST,
        }
    }

    /// Returns whether the retransmission timer is the pending one.
    #[inline]
    pub(super) fn timer_is(&self, timer: Timer) -> bool {
        self.timer == timer
    }
}

/// Returns the timestamp that a segment sent at `sent_us` carried.
#[inline]
pub(super) fn stamp_of(cx: &Context, sent_us: u32) -> u32 {
    let sent_us = cx.now.as_ps() / 1_000_000 - u64::from(elapsed_us(cx.us, sent_us));
    ((sent_us / 1000) as u32).wrapping_add(1)
}

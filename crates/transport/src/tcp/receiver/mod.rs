//! The receiving half of an endpoint: order, acknowledgements, ECN echo.
//!
//! Written from RFC 9293 (3.10.7.4), RFC 7323 (5, PAWS), RFC 2018 (4), RFC 2883 and RFC 5681 (4.2).
//! What is answered at once is as in Linux 6.1, as replays on a kernel show it. Differences: the
//! application reads at once. Without autotuning, the advertised window is always the whole
//! receive buffer. Answers to RST and SYN have no rate limit of their own (challenge
//! acknowledgements), and RST is never sent.

mod accurate;
mod dctcp;
mod delayed_ack;
mod ecn;
mod feedback;
mod reassembly;
mod reports;
mod window;

use alloc::boxed::Box;

use narrows_units::{MaybeTime, Span};

pub(super) use self::delayed_ack::Decision;
use self::feedback::Feedback;
pub(super) use self::feedback::Said;
use self::reassembly::Reassembly;
use self::window::{Buffer, scale_for};
use super::clock::Context;
use super::segment::Header;
use super::sender::Half;
use super::{Config, Flags, SackBlocks, Seq};
use crate::prefetch::{Prefetch, Step};

/// The receiving half. The most-used fields come first, and memory has them in this order.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Receiver {
    pub rcv_nxt: Seq,
    /// `rcv_nxt` as last acknowledged.
    rcv_wup: Seq,
    pub ts_recent: u32,
    /// `rcv_wnd`: the window in bytes that the last acknowledgement advertised.
    window: u32,
    pub bytes_received: u64,
    /// When a delayed or compressed acknowledgement is sent, if one waits.
    ack_at: MaybeTime,
    /// What most receivers never need.
    more: Option<Box<More>>,
    /// `lrcvtime`: the jiffy of the latest data.
    last_data: u32,
    /// `last_oow_ack_time`: the jiffy of the last answer to an old or foreign segment; 0: none yet.
    answered_at: u32,
    /// `icsk_ack.ato` in jiffies; 0: no data yet.
    ato: u32,
    rcv_mss: u16,
    last_small: u16,
    /// The shift of the window's field.
    scale: u8,
    /// Whether the other end scales windows too.
    pub scaled: bool,
    /// Quick acknowledgements left.
    quick: u8,
    /// `ICSK_ACK_SCHED`: an acknowledgement is owed.
    scheduled: bool,
    /// `ICSK_ACK_NOW`.
    now: bool,
    /// `ICSK_ACK_PUSHED`: the application will have read everything, and answers at once.
    pushed: bool,
    pushed_again: bool,
    /// Whether a bare acknowledgement has to be sent before any data (the handshake's third
    /// segment).
    pub first: bool,
    pingpong: bool,
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    ect_seen: bool,
    /// What each segment reports about ECN: bits of `feedback.rs`.
    echo: u8,
    /// The flags of segments that header prediction takes, besides PSH: none with such feedback,
    /// because every acknowledgement tells something then.
    pub predicted: Flags,
    pub fin_received: bool,
}

/// The state of receivers that have a buffer, or have received data not in order, or whose feedback is
/// not RFC 3168's.
#[derive(Clone, Debug, Default)]
struct More {
    /// Feedback beyond RFC 3168.
    feedback: Option<Feedback>,
    /// `None`: the window does not change.
    buffer: Option<Buffer>,
    /// Allocated when a segment arrives out of order or twice, and kept until everything is in
    /// order and reported.
    trouble: Option<Box<Trouble>>,
}

/// The state that is needed only if the path loses, reorders or duplicates.
#[derive(Clone, Debug, Default)]
struct Trouble {
    queue: Reassembly,
    /// A D-SACK to be reported once (RFC 2883).
    dsack: Option<(Seq, Seq)>,
    /// Where a FIN that arrived out of order ends.
    fin_end: Option<Seq>,
    /// `compressed_ack`: the number of acknowledgements held back.
    compressed: u8,
    /// `dup_ack_counter` for this `rcv_nxt`.
    duplicates: u8,
    compressed_nxt: Option<Seq>,
}

impl Trouble {
    /// Returns whether nothing is out of order and nothing is left to report. The counts for SACK
    /// compression then belong to a hole that is filled.
    fn is_over(&self) -> bool {
        self.queue.is_empty() && self.dsack.is_none()
    }
}

/// Whether an arriving segment is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its acknowledgement and data count.
    Acceptable,
    /// Old or foreign: dropped, with an acknowledgement.
    Dropped,
}

impl Receiver {
    pub(super) fn new(config: &Config) -> Self {
        let scale = scale_for(config);
        let most = u32::from(u16::MAX) << scale;
        let mut receiver = Self {
            rcv_nxt: Seq::default(),
            rcv_wup: Seq::default(),
            ts_recent: 0,
            window: config.receive_buffer.get().min(u64::from(most)) as u32,
            bytes_received: 0,
            ack_at: MaybeTime::NONE,
            more: None,
            last_data: 0,
            answered_at: 0,
            ato: 0,
            rcv_mss: FIRST_RCV_MSS,
            last_small: 0,
            scale,
            scaled: false,
            quick: 0,
            scheduled: false,
            now: false,
            pushed: false,
            pushed_again: false,
            pingpong: false,
            first: false,
            timestamps: false,
            sack: false,
            ecn: false,
            ect_seen: false,
            echo: 0,
            predicted: Flags::ACK,
            fin_received: false,
        };
        receiver.offer_first_window(config, config.mss);
        receiver
    }

    /// Sets the peer's first data byte.
    pub(super) fn start(&mut self, next: Seq, scaled: bool) {
        self.rcv_nxt = next;
        self.rcv_wup = next;
        self.scaled = scaled;
        if !scaled {
            self.scale = 0;
            self.window = self.window.min(u32::from(u16::MAX));
        }
    }

    /// Takes the data of the other end's SYN, which the SYN-ACK will acknowledge
    /// (`tcp_fastopen_add_skb`).
    pub(super) fn take_syn_data(&mut self, len: u16) {
        self.bytes_received += u64::from(len);
        self.rcv_nxt = self.rcv_nxt + u32::from(len);
        self.rcv_wup = self.rcv_nxt;
    }

    /// Returns the shift that a SYN offers.
    pub(super) fn scale(&self) -> u8 {
        self.scale
    }

    /// Returns the window that was last advertised, in bytes.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Returns the window field of the last segment.
    #[inline]
    pub(super) fn window_field(&self) -> u16 {
        ((self.window + (1 << self.scale) - 1) >> self.scale).min(u32::from(u16::MAX)) as u16
    }

    /// Returns the window field of a SYN, which is never scaled.
    pub(super) fn syn_window_field(&self) -> u16 {
        self.window.min(u32::from(u16::MAX)) as u16
    }

    /// Returns whether a segment starts where the last one in order ended, and carries timestamps,
    /// if it should, that are no older than the latest. [`validate`](Self::validate) would accept
    /// it.
    #[inline]
    pub(super) fn expects(&self, header: &Header) -> bool {
        let stamped = match header.timestamps {
            Some((stamp, _)) => self.timestamps && stamp.wrapping_sub(self.ts_recent) as i32 >= 0,
            None => !self.timestamps,
        };
        header.seq == self.rcv_nxt && stamped
    }

    /// `tcp_replace_ts_recent`: takes the timestamp only of a segment that reaches back to the last
    /// acknowledgement.
    #[inline]
    pub(super) fn note_stamp(&mut self, header: &Header) {
        if let Some((stamp, _)) = header.timestamps
            && !header.seq.after(self.rcv_wup)
            && (self.ts_recent.wrapping_sub(stamp) as i32) <= 0
        {
            self.ts_recent = stamp;
        }
    }

    /// `tcp_validate_incoming`: PAWS (RFC 7323, 5) and the sequence number.
    pub(super) fn validate(&mut self, cx: &Context, header: &Header, sender: &Half) -> Verdict {
        if self.timestamps
            && let Some((stamp, _)) = header.timestamps
        {
            let old = self.ts_recent.wrapping_sub(stamp) as i32 > PAWS_WINDOW;
            // `tcp_disordered_ack`: a duplicate acknowledgement that was overtaken is harmless.
            let harmless = header.end() == header.seq
                && header.seq == self.rcv_nxt
                && header.ack == sender.snd_una()
                && !sender.may_update_window(header)
                && self.ts_recent.wrapping_sub(stamp) <= cx.us_in(sender.rto()) / 1000;
            if old && self.ts_recent != 0 && !harmless {
                self.answer_old(cx, header);
                return Verdict::Dropped;
            }
        }
        if header.end().before(self.rcv_wup) || header.seq.after(self.rcv_nxt + self.open_window())
        {
            self.answer_old(cx, header);
            return Verdict::Dropped;
        }
        self.note_stamp(header);
        Verdict::Acceptable
    }

    /// `tcp_send_dupack`.
    #[cold]
    fn answer_old(&mut self, cx: &Context, header: &Header) {
        if header.len == 0 && !header.flags.contains(Flags::SYN) && !self.may_answer(cx) {
            return;
        }
        if header.end() != header.seq && header.seq.before(self.rcv_nxt) {
            self.enter_quick_mode(cx, MOST_QUICK);
            let end = if header.end().after(self.rcv_nxt) { self.rcv_nxt } else { header.end() };
            self.set_dsack(header.seq, end);
        }
        self.acknowledge_now();
    }

    /// `tcp_oow_rate_limited`: returns whether a segment without data that changes nothing may be
    /// answered. Two ends must not answer each other forever.
    pub(super) fn may_answer(&mut self, cx: &Context) -> bool {
        let now = cx.jiffies();
        let early = self.answered_at != 0
            && now.wrapping_sub(self.answered_at) < cx.span_to_jiffies(ANSWERS_APART);
        if !early {
            self.answered_at = now;
        }
        !early
    }

    /// `tcp_data_queue`: takes payload or a FIN.
    pub(super) fn take_data(&mut self, cx: &Context, header: &Header, rto: u32) {
        let (seq, end) = (header.seq, header.end());
        if !end.after(self.rcv_nxt) {
            // A needless retransmission.
            self.set_dsack(seq, end);
            self.enter_quick_mode(cx, MOST_QUICK);
            self.scheduled = true;
            return;
        }
        if !seq.before(self.rcv_nxt + self.open_window()) {
            self.enter_quick_mode(cx, MOST_QUICK);
            self.scheduled = true;
            return;
        }
        if seq.after(self.rcv_nxt) {
            self.check_ce(cx, header);
            self.scheduled = true;
            self.queue_out_of_order(cx, header);
            return;
        }
        if seq.before(self.rcv_nxt) {
            self.set_dsack(seq, self.rcv_nxt);
        }
        self.advance(end);
        if header.len > 0 {
            self.on_data(cx, header, rto);
            self.adjust_buffer(cx, end);
        } else {
            self.scheduled = true;
        }
        let mut fin = header.flags.contains(Flags::FIN);
        if self.has_gap() {
            fin |= self.fill_hole();
        }
        if fin && !self.fin_received {
            self.fin_received = true;
            self.bytes_received -= 1;
            self.pingpong = true;
            self.scheduled = true;
        }
    }

    /// `tcp_queue_rcv`: takes the next data in order, if no data waits behind it.
    #[inline(always)]
    pub(super) fn take_next(&mut self, cx: &Context, header: &Header, rto: u32) {
        self.bytes_received += u64::from(header.len);
        self.rcv_nxt = self.rcv_nxt + u32::from(header.len);
        self.on_data(cx, header, rto);
        self.adjust_buffer(cx, self.rcv_nxt);
    }

    #[inline]
    fn trouble(&self) -> Option<&Trouble> {
        self.more.as_ref()?.trouble.as_deref()
    }

    #[inline]
    fn trouble_mut(&mut self) -> Option<&mut Trouble> {
        self.more.as_mut()?.trouble.as_deref_mut()
    }

    fn new_trouble(&mut self) -> &mut Trouble {
        self.more.get_or_insert_default().trouble.get_or_insert_default()
    }

    /// Forgets trouble that is over.
    #[inline]
    fn calm_down(&mut self) {
        if let Some(more) = &mut self.more
            && let Some(trouble) = &mut more.trouble
        {
            trouble.compressed = 0;
            if trouble.is_over() {
                more.trouble = None;
                if more.buffer.is_none() && more.feedback.is_none() {
                    self.more = None;
                }
            }
        }
    }

    /// Returns whether data waits for a hole to be filled.
    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        self.trouble().is_some_and(|trouble| !trouble.queue.is_empty())
    }

    #[inline]
    fn advance(&mut self, end: Seq) {
        self.bytes_received += u64::from(end.distance(self.rcv_nxt));
        self.rcv_nxt = end;
    }

    /// `tcp_data_queue_ofo`.
    #[cold]
    fn queue_out_of_order(&mut self, cx: &Context, header: &Header) {
        let sack = self.sack;
        let trouble = self.new_trouble();
        let known = trouble.queue.holds(header.seq, header.end());
        if header.flags.contains(Flags::FIN) {
            trouble.fin_end = Some(header.end());
        }
        let crowded = trouble.queue.insert(header.seq, header.end(), &mut trouble.dsack);
        if !sack {
            trouble.dsack = None;
        } else if crowded {
            self.flush_compressed();
        }
        if cx.config.receive_autotuning && !known {
            self.keep_waiting(cx, header);
        }
    }

    /// `tcp_ofo_queue`, `tcp_sack_remove`. Returns whether a FIN is reached.
    #[cold]
    fn fill_hole(&mut self) -> bool {
        let next = self.rcv_nxt;
        let Some(trouble) = self.trouble_mut() else { return false };
        let next = trouble.queue.take_in_order(next);
        let empty = trouble.queue.is_empty();
        let fin = trouble.fin_end == Some(next);
        self.stop_waiting(next.distance(self.rcv_nxt), empty);
        self.advance(next);
        if empty {
            // RFC 5681, 4.2: at once when a gap is filled.
            self.now = true;
        }
        fin
    }

    /// Returns whether [`take_sack_blocks`](Self::take_sack_blocks) would return any.
    #[inline]
    pub(super) fn has_sack_blocks(&self) -> bool {
        self.trouble().is_some_and(|trouble| {
            self.sack && (trouble.dsack.is_some() || !trouble.queue.blocks().is_empty())
        })
    }

    /// Returns the SACK option: a D-SACK, then the latest blocks first (RFC 2018, 4; RFC 2883).
    pub(super) fn take_sack_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if !self.sack {
            return blocks;
        }
        let Some(trouble) = self.trouble_mut() else { return blocks };
        if let Some((start, end)) = trouble.dsack.take() {
            blocks.push(start, end);
        }
        for &(start, end) in trouble.queue.blocks() {
            if !blocks.push(start, end) {
                break;
            }
        }
        blocks
    }

    /// `tcp_dsack_set`.
    #[cold]
    fn set_dsack(&mut self, start: Seq, end: Seq) {
        if self.sack {
            self.new_trouble().dsack = Some((start, end));
        }
    }

    /// Returns the heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        let trouble = self.trouble().map_or(0, |t| t.queue.heap_bytes() + size_of::<Trouble>());
        trouble + self.more.as_ref().map_or(0, |_| size_of::<More>())
    }
}

/// `sysctl_tcp_invalid_ratelimit`.
const ANSWERS_APART: Span = Span::from_ms(500);
/// `TCP_PAWS_WINDOW`.
const PAWS_WINDOW: i32 = 1;
/// `TCP_MAX_QUICKACKS`.
const MOST_QUICK: u32 = 16;
/// `TCP_MSS_DEFAULT`: `rcv_mss` before any data (`tcp_initialize_rcv_mss`).
const FIRST_RCV_MSS: u16 = 536;

/// Reads ahead the first and the last field that a segment needs.
impl Prefetch for Receiver {
    #[inline(always)]
    fn prefetch(&self, (): (), _step: Step) -> u32 {
        self.rcv_nxt.0 ^ u32::from(self.fin_received)
    }
}

#[cfg(test)]
mod tests;

//! The receive window: what is advertised, and how the receive buffer grows.
//!
//! Written from Fisk and Feng, "Dynamic right-sizing in TCP" (2001), RFC 9293 (3.8.6.2.2, silly
//! window syndrome) and RFC 7323 (2), with the numbers and rules of Linux 6.1 as facts. The window
//! starts at 64 KB ("slow start" of the receiver). It grows by two segments for each segment that
//! arrives, up to half of the buffer, and every segment is acknowledged at once meanwhile. The buffer
//! grows to four times what the application has read in a round trip, but not above twice
//! [`receive_buffer`](crate::Config::receive_buffer) (`tcp_rmem[2]`; `tcp_adv_win_scale` is 1).
//!
//! With [`WindowGrowth::Linux73`], the numbers and rules are those of Linux 7.3. The window is as large
//! a part of the buffer as payload is of a full segment (`scaling_ratio`), so it grows from the first
//! segment on. The buffer has no room for 16 segments more. If the round trip is below a millisecond
//! (`tcp_rcvbuf_low_rtt`), it grows less. It also has room for data out of order.
//!
//! Differences: a segment occupies its payload and [`OVERHEAD`] or [`OVERHEAD_73`] bytes of the
//! buffer, as it does behind veth; on a real host, the network card's driver decides that. Neighbours
//! are not merged, and nothing is thrown out of a full buffer: the buffer grows as far as it may, and
//! full segments cannot fill it. With the rules of Linux 6.1, a segment out of order takes its room
//! before the window grows; Linux 6.1 lets the window grow first, as the rules of 7.3 do here. Linux 2.6.30 grew its buffer by other rules, but its profile uses those of 6.1.

use super::Receiver;
use crate::tcp::clock::{Context, elapsed_us};
use crate::tcp::segment::Header;
use crate::tcp::{Config, Seq, WindowGrowth};

/// The receive buffer of an end that has received more than a first window, or any data with the rules
/// of Linux 7.3.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Its size in bytes.
    room: u32,
    /// The window that may be advertised.
    ssthresh: u32,
    /// What `ssthresh` may grow to.
    clamp: u32,
    /// Bytes of the buffer that the application has not read yet.
    unread: u32,
    /// Bytes of the buffer that data out of order occupy, and their payload.
    waiting: u32,
    waiting_payload: u32,
    /// Where data out of order end.
    highest: Seq,
    /// Bytes that the application read in the last round trip, and since when and
    /// from where it is measured.
    space: u32,
    space_us: u32,
    space_seq: Seq,
    /// Eight times the round trip; 0: no sample yet. Without timestamps, a round
    /// trip is the time in which a window arrives.
    rtt_us: u32,
    rtt_from_us: u32,
    rtt_seq: Seq,
    /// The timestamp that was echoed last.
    last_echo: u32,
    /// The payload of the other end's full segments.
    advmss: u16,
    /// `scaling_ratio`: which part of the buffer is window, in 1/256; `None`: half, as in Linux 6.1.
    ratio: Option<u8>,
    /// Whether the application has read since an acknowledgement was sent.
    read_after_ack: bool,
}

impl Buffer {
    /// Returns the buffer of an end whose data began at `first`, a round trip ago.
    fn new(cx: &Context, window: u32, scaled: bool, advmss: u16, first: Seq) -> Self {
        let mss = u32::from(advmss);
        let room = first_room(cx.config);
        let clamp = first_clamp(room, scaled, mss);
        let ssthresh = window.min(clamp);
        let is_newer = cx.config.window_growth == WindowGrowth::Linux73;
        Self {
            room,
            ssthresh,
            clamp,
            unread: 0,
            waiting: 0,
            waiting_payload: 0,
            highest: first,
            space: ssthresh.min(window).min(FIRST_SEGMENTS * mss),
            space_us: cx.us,
            space_seq: first,
            rtt_us: 0,
            rtt_from_us: cx.us,
            rtt_seq: first + window,
            last_echo: 0,
            advmss,
            ratio: is_newer.then_some(HALF),
            read_after_ack: false,
        }
    }

    /// Returns the bytes in use.
    #[inline]
    fn used(&self) -> u32 {
        self.unread.saturating_add(self.waiting)
    }

    /// Returns the window for which there is room now.
    #[inline]
    fn free(&self) -> u32 {
        self.window_of(self.room.saturating_sub(self.used()))
    }

    /// Returns the window of so much of the buffer.
    #[inline]
    fn window_of(&self, room: u32) -> u32 {
        match self.ratio {
            None => window_of(room),
            Some(ratio) => ((u64::from(room) * u64::from(ratio)) >> RATIO_SHIFT) as u32,
        }
    }

    /// Returns what a segment occupies of the buffer.
    #[inline]
    fn occupied(&self, len: u16) -> u32 {
        u32::from(len) + if self.ratio.is_some() { OVERHEAD_73 } else { OVERHEAD }
    }

    /// Learns from a full segment which part of the buffer is payload (`tcp_measure_rcv_mss`).
    #[inline]
    fn learn_ratio(&mut self, len: u16) {
        let Some(before) = self.ratio else { return };
        let ratio = ((u32::from(len) << RATIO_SHIFT) / self.occupied(len)).max(1) as u8;
        if ratio != before {
            self.ratio = Some(ratio);
            self.clamp = self.window_of(self.room);
            self.space = self.space.min(self.clamp);
        }
    }

    /// Takes a round trip into the mean. `by_window`: the sample is the time in which a window arrived.
    #[inline]
    fn update_rtt(&mut self, sample_us: u32, by_window: bool) {
        let scaled = sample_us.saturating_mul(8);
        if self.rtt_us == 0 || scaled < self.rtt_us {
            self.rtt_us = scaled;
        } else if !by_window {
            self.rtt_us = (self.rtt_us - (self.rtt_us >> 3)).saturating_add(sample_us);
        }
    }

    /// Measures the round trip by an echoed timestamp that was not echoed before.
    #[inline]
    fn measure_by_stamps(&mut self, cx: &Context, header: &Header, rcv_mss: u16) {
        let Some((_, echo)) = header.timestamps else { return };
        if echo == self.last_echo {
            return;
        }
        self.last_echo = echo;
        let delta_ms = cx.timestamp().wrapping_sub(echo);
        if delta_ms == 0 && self.ratio.is_some() {
            return;
        }
        if header.len >= rcv_mss && delta_ms < i32::MAX as u32 / 1000 {
            let sample_us = delta_ms.max(1) * 1000;
            if self.rtt_us == 0 {
                // Everything that came before the buffer was needed counts as read in this round
                // trip.
                self.space_us = self.space_us.wrapping_sub(sample_us);
            }
            self.update_rtt(sample_us, false);
        }
    }

    /// Measures the round trip as the time in which a window arrives (Fisk and Feng).
    #[inline]
    fn measure_by_window(&mut self, cx: &Context, next: Seq, window: u32) {
        if next.before(self.rtt_seq) {
            return;
        }
        self.update_rtt(elapsed_us(cx.us, self.rtt_from_us).max(1), true);
        self.rtt_seq = next + window;
        self.rtt_from_us = cx.us;
    }

    /// Lets the window grow after a segment. Returns whether it does.
    #[inline]
    fn grow(&mut self, config: &Config, len: u16, in_order: bool, rcv_mss: u16) -> bool {
        let room = self.clamp.min(self.free());
        room > self.ssthresh && self.grow_to(room, config, len, in_order, rcv_mss)
    }

    fn grow_to(
        &mut self,
        room: u32,
        config: &Config,
        len: u16,
        in_order: bool,
        rcv_mss: u16,
    ) -> bool {
        // What counts of a segment in order is its payload alone.
        let occupied = if in_order { len.into() } else { self.occupied(len) };
        let growth = if self.window_of(occupied) <= len.into() {
            2 * u32::from(self.advmss)
        } else if self.may_grow_by_small(config, occupied, len) {
            2 * u32::from(rcv_mss)
        } else {
            return false;
        };
        if growth > 0 {
            let growth = growth.max(2 * u32::from(len));
            self.ssthresh += growth.min(room - self.ssthresh);
        }
        growth > 0
    }

    /// Returns whether a segment that occupies far more than its payload lets the window grow: the
    /// window is as small a part of the largest one as the payload is of what the segment occupies,
    /// in powers of two.
    fn may_grow_by_small(&self, config: &Config, occupied: u32, len: u16) -> bool {
        let largest = self.window_of(most_room(config));
        (1..u32::BITS)
            .find(|&halvings| self.window_of(occupied) >> halvings <= len.into())
            .is_some_and(|halvings| self.ssthresh <= largest >> halvings)
    }

    /// Notes that the application has read everything up to `copied`. Once in a round trip, that is
    /// compared with what it read in the one before (Fisk and Feng).
    #[inline]
    fn adjust(&mut self, cx: &Context, copied: Seq) {
        let round_trip_us = self.rtt_us >> 3;
        if self.rtt_us == 0 || elapsed_us(cx.us, self.space_us) < round_trip_us {
            return;
        }
        let read = copied.distance(core::mem::replace(&mut self.space_seq, copied));
        self.space_us = cx.us;
        if read > self.space {
            match self.ratio {
                None => self.enlarge(cx.config, read),
                Some(ratio) => self.enlarge_73(cx.config, read, copied, ratio),
            }
            self.space = read;
        }
    }

    /// Makes room for twice what was read, and for a sender that sends faster and faster.
    #[cold]
    fn enlarge(&mut self, config: &Config, read: u32) {
        let (mss, space) = (u32::from(self.advmss), u64::from(self.space));
        let twice = 2 * u64::from(read) + 16 * u64::from(mss);
        let faster = 2 * (twice * (u64::from(read) - space) / space);
        let segments = (twice + faster) / u64::from(mss);
        // Half of what a segment occupies has to be as much as its payload; in steps of 128 bytes.
        let occupied = mss + OVERHEAD;
        let missing = (2 * mss - 1).saturating_sub(occupied).next_multiple_of(128);
        self.make_room(config, segments * u64::from(occupied + missing));
    }

    /// The same as Linux 7.3 does it (`tcp_rcvbuf_grow`), with room for the data above `next` that are
    /// out of order.
    #[cold]
    fn enlarge_73(&mut self, config: &Config, read: u32, next: Seq, ratio: u8) {
        let (twice, space) = (2 * u64::from(read), u64::from(self.space));
        let rtt_us = u64::from(self.rtt_us >> 3);
        let faster = if rtt_us < LOW_RTT_US {
            twice * rtt_us / LOW_RTT_US
        } else {
            (2 * twice).saturating_mul(u64::from(read) - space) / space
        };
        let waits = self.waiting > 0 && self.highest.after(next);
        let beyond = if waits { self.highest.distance(next) } else { 0 };
        let window = twice.saturating_add(faster).saturating_add(beyond.into());
        self.make_room(config, window.saturating_mul(1 << RATIO_SHIFT) / u64::from(ratio));
    }

    /// Lets the buffer have so much room, if that is more and it may.
    fn make_room(&mut self, config: &Config, room: u64) {
        let room = room.min(most_room(config).into()) as u32;
        if room > self.room {
            self.room = room;
            self.clamp = self.window_of(room);
        }
    }
}

impl Receiver {
    /// Chooses the window of a SYN or SYN-ACK, with `mss` bytes of payload in a full segment.
    pub(crate) fn offer_first_window(&mut self, config: &Config, mss: u16) {
        if config.receive_autotuning {
            let mss = u32::from(mss);
            let space = window_of(first_room(config));
            let space = if space > mss { space / mss * mss } else { space };
            self.window = space.min(u16::MAX.into());
        }
    }

    /// Takes the payload of a segment in order into the buffer, and lets the window grow. `longest`: no
    /// segment was as long, since the length of full ones was last learnt.
    #[inline]
    pub(super) fn fill(&mut self, cx: &Context, header: &Header, longest: bool) {
        let next = self.rcv_nxt;
        let (window, rcv_mss) = (self.window, self.rcv_mss);
        self.clamp_window(cx.config);
        let Some(buffer) = self.buffer_of(cx) else { return };
        if longest {
            buffer.learn_ratio(header.len);
        }
        buffer.unread = buffer.unread.saturating_add(buffer.occupied(header.len));
        buffer.measure_by_stamps(cx, header, rcv_mss);
        buffer.measure_by_window(cx, next, window);
        if header.len >= SMALLEST_GROWING && buffer.grow(cx.config, header.len, true, rcv_mss) {
            self.quick |= 1;
        }
    }

    /// Returns the buffer. As in Linux 6.1, it is made when more has arrived than a sender's first
    /// window, because it cannot have changed before that.
    #[inline]
    fn buffer_of(&mut self, cx: &Context) -> Option<&mut Buffer> {
        if self.buffer().is_none() {
            let waits = cx.config.window_growth == WindowGrowth::Linux61;
            let first = u64::from(FIRST_SEGMENTS * u32::from(cx.config.mss));
            if waits && self.bytes_received <= first {
                // The first acknowledgement of data keeps a segment of the first buffer free.
                let mss = u32::from(self.advmss(cx));
                let clamp = first_clamp(first_room(cx.config), self.scaled, mss);
                self.window = self.round_up(self.window.min(clamp));
                return None;
            }
            self.make_buffer(cx);
        }
        self.buffer_mut()
    }

    #[cold]
    fn make_buffer(&mut self, cx: &Context) -> &mut Buffer {
        let first = Seq(self.rcv_nxt.0.wrapping_sub(self.bytes_received as u32));
        let made = Buffer::new(cx, self.window, self.scaled, self.advmss(cx), first);
        self.more.get_or_insert_default().buffer.insert(made)
    }

    fn advmss(&self, cx: &Context) -> u16 {
        cx.config.mss - if self.timestamps { 12 } else { 0 }
    }

    #[inline]
    fn buffer(&self) -> Option<&Buffer> {
        self.more.as_ref()?.buffer.as_ref()
    }

    #[inline]
    fn buffer_mut(&mut self) -> Option<&mut Buffer> {
        self.more.as_mut()?.buffer.as_mut()
    }

    /// Takes the payload of a segment out of order into the buffer.
    pub(super) fn keep_waiting(&mut self, cx: &Context, header: &Header) {
        let (sack, rcv_mss, next) = (self.sack, self.rcv_mss, self.rcv_nxt);
        self.clamp_window(cx.config);
        if self.buffer().is_none() {
            self.make_buffer(cx);
        }
        let Some(buffer) = self.buffer_mut() else { return };
        buffer.measure_by_stamps(cx, header, rcv_mss);
        if buffer.waiting == 0 || header.end().after(buffer.highest) {
            buffer.highest = header.end();
        }
        let waiting = buffer.waiting.saturating_add(buffer.occupied(header.len));
        buffer.waiting_payload = buffer.waiting_payload.saturating_add(header.len.into());
        if buffer.ratio.is_none() {
            buffer.waiting = waiting;
        }
        // Without SACK the window must not change, or an acknowledgement is no duplicate.
        let grows = sack && buffer.grow(cx.config, header.len, false, rcv_mss);
        if let Some(ratio) = buffer.ratio {
            buffer.waiting = waiting;
            buffer.enlarge_73(cx.config, buffer.space, next, ratio);
        }
        if grows {
            self.quick |= 1;
        }
    }

    /// Notes that `bytes` of the data out of order, or all of them, are now in order.
    pub(super) fn stop_waiting(&mut self, bytes: u32, all: bool) {
        if let Some(buffer) = self.buffer_mut() {
            let part = u64::from(buffer.waiting) * u64::from(bytes);
            let moved = match part.checked_div(buffer.waiting_payload.into()) {
                Some(part) if !all => part.min(buffer.waiting.into()) as u32,
                _ => buffer.waiting,
            };
            buffer.waiting -= moved;
            buffer.waiting_payload =
                if all { 0 } else { buffer.waiting_payload.saturating_sub(bytes) };
            buffer.unread = buffer.unread.saturating_add(moved);
        }
    }

    /// Lets the application read everything that is in order.
    #[inline]
    pub(super) fn read(&mut self) {
        if let Some(buffer) = self.buffer_mut() {
            buffer.unread = 0;
        }
    }

    /// Lets the application read everything that is in order, after an acknowledgement was sent.
    #[inline]
    pub(super) fn read_after_ack(&mut self) {
        if let Some(buffer) = self.buffer_mut() {
            buffer.read_after_ack = core::mem::take(&mut buffer.unread) > 0;
        }
    }

    /// Returns whether the application has read since an acknowledgement was sent. Returns true
    /// only once.
    #[inline]
    pub(super) fn has_read_after_ack(&mut self) -> bool {
        self.buffer_mut().is_some_and(|buffer| core::mem::take(&mut buffer.read_after_ack))
    }

    /// Notes that the application reads up to `copied`.
    #[inline]
    pub(super) fn adjust_buffer(&mut self, cx: &Context, copied: Seq) {
        if let Some(buffer) = self.buffer_mut() {
            buffer.adjust(cx, copied);
        }
    }

    /// Returns the bytes that the other end may still send.
    #[inline]
    pub(crate) fn open_window(&self) -> u32 {
        if self.buffer().is_none() {
            return self.window;
        }
        let edge = self.rcv_wup + self.window;
        if edge.before(self.rcv_nxt) { 0 } else { edge.distance(self.rcv_nxt) }
    }

    /// Returns whether reading has opened the window so far that the other end has to know.
    #[inline]
    pub(super) fn has_opened(&mut self) -> bool {
        let open = self.open_window();
        let Some(buffer) = self.buffer() else { return false };
        if 2 * open > buffer.clamp {
            return false;
        }
        let window = self.next_window();
        window > 0 && window >= 2 * open
    }

    /// Returns whether an acknowledgement would advertise at least the window of the last one.
    #[inline]
    pub(super) fn keeps_window(&mut self) -> bool {
        self.buffer().is_none() || self.next_window() >= self.window
    }

    /// Returns the window field of a segment that is sent now.
    #[inline]
    pub(crate) fn advertise(&mut self) -> u16 {
        if self.buffer().is_some() {
            // The window's right edge never moves back.
            let open = self.open_window();
            self.window = self.next_window().max(self.round_up(open));
        }
        self.window_field()
    }

    /// Returns the window that a segment sent now may advertise, apart from what was promised before:
    /// what is free, but no more than `ssthresh`. Without a scale, it changes by whole segments only
    /// (RFC 9293, 3.8.6.2.2).
    fn next_window(&mut self) -> u32 {
        let Some(buffer) = self.buffer() else { return self.window };
        let all = buffer.window_of(buffer.room);
        let full = all.min(buffer.clamp);
        let segment = full.min(self.rcv_mss.into());
        // Before any full segment, `rcv_mss` may be above what the other end sends. A window that
        // waits for so much would stay closed.
        let step = segment.min(buffer.advmss.into());
        let (ssthresh, mut free) = (buffer.ssthresh, buffer.free());
        if free < full / 2 {
            self.quick = 0;
            free = free >> self.scale << self.scale;
            if free < segment.max(all / 16) {
                return 0;
            }
        }
        let offer = free.min(ssthresh);
        if self.scale > 0 {
            return self.round_up(offer);
        }
        match offer.checked_sub(self.window) {
            Some(more) if more < step && step == full && more > full / 2 => offer,
            Some(more) if more < step => self.window,
            _ => offer / step * step,
        }
    }

    /// Rounds a window up to what its field can express.
    #[inline]
    fn round_up(&self, window: u32) -> u32 {
        let below = (1 << self.scale) - 1;
        (window + below) & !below
    }

    /// Makes room if more has arrived than the buffer holds.
    #[inline]
    fn clamp_window(&mut self, config: &Config) {
        let Some(buffer) = self.buffer_mut() else { return };
        let used = buffer.used();
        if used > buffer.room {
            buffer.room = used.min(most_room(config)).max(buffer.room);
            if used > buffer.room {
                buffer.ssthresh = buffer.clamp.min(2 * u32::from(buffer.advmss));
            }
            self.quick = 0;
        }
    }

    /// Returns the round trip in microseconds as the receiver sees it; `None`: not measured.
    #[inline]
    pub(super) fn rtt_us(&self) -> Option<u32> {
        self.buffer().map(|buffer| buffer.rtt_us >> 3)
    }
}

/// Returns the shift that lets the window's field hold the largest window (RFC 7323, 2.3).
pub(super) fn scale_for(config: &Config) -> u8 {
    if !config.window_scaling {
        return 0;
    }
    if !config.receive_autotuning {
        let fits = |shift: &u8| config.receive_buffer.get() >> shift <= u64::from(u16::MAX);
        return (0..14).find(fits).unwrap_or(14);
    }
    let most = most_room(config).max(MOST_BY_SOCKET);
    (most.ilog2() as u8).saturating_sub(15).min(14)
}

/// Returns what the window may grow to in the first buffer.
fn first_clamp(room: u32, scaled: bool, mss: u32) -> u32 {
    let full = window_of(room);
    let most = if scaled { u32::MAX } else { u16::MAX.into() };
    let clamp = full.min(most);
    // One segment is reserved.
    if clamp > 2 * mss && clamp + mss > full {
        (2 * mss).max(full.saturating_sub(mss))
    } else {
        clamp
    }
}

/// Returns the window of a buffer: half of it is overhead (`tcp_adv_win_scale` 1).
#[inline]
fn window_of(room: u32) -> u32 {
    room - room / 2
}

/// `tcp_rmem[1]`, or less if the whole buffer is smaller.
fn first_room(config: &Config) -> u32 {
    most_room(config).min(FIRST_ROOM)
}

/// `tcp_rmem[2]`.
fn most_room(config: &Config) -> u32 {
    config.receive_buffer.get().saturating_mul(2).min(MOST_ROOM) as u32
}

/// The bytes of a buffer that a segment needs besides its payload, on a machine with 64 bits.
const OVERHEAD: u32 = 768;
/// The same with Linux 7.3, as its windows show.
const OVERHEAD_73: u32 = 832;
/// `TCP_RMEM_TO_WIN_SCALE`.
const RATIO_SHIFT: u32 = 8;
/// `TCP_DEFAULT_SCALING_RATIO`.
const HALF: u8 = 128;
/// `sysctl_tcp_rcvbuf_low_rtt`.
const LOW_RTT_US: u64 = 1000;
/// `tcp_rmem[1]`.
const FIRST_ROOM: u32 = 131_072;
/// The kernel counts in `int`.
const MOST_ROOM: u64 = i32::MAX as u64;
/// `sysctl_rmem_max`.
const MOST_BY_SOCKET: u32 = 212_992;
/// `TCP_INIT_CWND`.
const FIRST_SEGMENTS: u32 = 10;
/// Shorter segments leave the window as it is.
const SMALLEST_GROWING: u16 = 128;

#[cfg(test)]
mod tests;

//! The sending half of an end, in as little memory as possible. Most connections carry data in one
//! direction. An end that has sent neither data nor a FIN therefore stores only the state with
//! which it would start.

mod silent;

use alloc::boxed::Box;
use core::num::NonZeroU32;

use narrows_units::{Ecn, MaybeTime, Span, Time};

pub(crate) use self::silent::Silent;
use self::silent::Standing;
use super::rtt::LONGEST_RTT_US;
use super::{Negotiated, Outgoing, Sender, Start};
use crate::FlowSample;
use crate::congestion::Window;
use crate::prefetch::{Prefetch, Step};
use crate::tcp::accurate_ecn::ace_of;
use crate::tcp::clock::Context;
use crate::tcp::segment::Header;
use crate::tcp::{AccurateEcn, Config, Counters, Flags, Seq};

/// A sending half.
#[derive(Debug)]
pub(crate) enum Half {
    /// It has sent nothing but SYNs and acknowledgements.
    Silent(Box<Silent>),
    /// It has or had something to send.
    Active(Box<Sender>),
}

impl Half {
    pub(crate) fn new(config: &Config, first: Seq) -> Self {
        Self::Silent(Box::new(Silent::new(config, first)))
    }

    /// Starts sending: the connection is established.
    pub(crate) fn start(&mut self, cx: &Context, start: Start) {
        let Self::Silent(silent) = self else { return };
        silent.start = start;
        silent.standing = Standing::Established;
        silent.syn_at = MaybeTime::NONE;
        let sender = silent.wake(cx.config);
        silent.rto = sender.rtt.rto;
        if !silent.unsent.is_empty() || silent.fin_queued {
            *self = Self::Active(Box::new(sender));
        }
    }

    /// Starts sending before the SYN-ACK is acknowledged, because data came with the SYN.
    pub(crate) fn start_unconfirmed(&mut self, cx: &Context, start: Start) {
        self.start(cx, start);
        if let Self::Silent(silent) = self {
            silent.standing = Standing::Unconfirmed;
        }
    }

    /// Notes that the SYN-ACK is acknowledged (`tcp_rcv_synrecv_state_fastopen`).
    pub(crate) fn confirm(&mut self, cx: &Context, rtt_us: Option<NonZeroU32>) {
        match self {
            Self::Silent(silent) => {
                let start = Start { rtt_us, ..silent.start };
                self.start(cx, start);
            }
            Self::Active(sender) => sender.confirm(cx, rtt_us),
        }
    }

    /// Sets when to repeat the SYN or SYN-ACK. After data came with the SYN, this timer also serves
    /// the data.
    pub(crate) fn repeat_syn_at(&mut self, at: MaybeTime) {
        match self {
            Self::Silent(silent) => silent.syn_at = at,
            Self::Active(sender) => sender.repeat_syn_at(at),
        }
    }

    /// Notes that the SYN or SYN-ACK was not answered in time.
    pub(crate) fn count_syn_timeout(&mut self) {
        match self {
            Self::Silent(silent) => silent.syn_timeouts += 1,
            Self::Active(sender) => sender.tally().timeouts += 1,
        }
    }

    /// Notes that it was repeated.
    pub(crate) fn count_syn_repeated(&mut self) {
        match self {
            Self::Silent(silent) => silent.syns_repeated = silent.syns_repeated.saturating_add(1),
            Self::Active(sender) => sender.tally().retransmitted += 1,
        }
    }

    /// Replaces a silent half by the full state, and returns that.
    fn awake(&mut self, config: &Config) -> &mut Sender {
        if let Self::Silent(silent) = self {
            *self = Self::Active(Box::new(silent.wake(config)));
        }
        match self {
            Self::Active(sender) => sender,
            Self::Silent(_) => unreachable!("it was woken above"),
        }
    }

    /// Writes `bytes` from the application; `u64::MAX`: without end.
    pub(crate) fn write(&mut self, cx: &Context, bytes: u64) {
        match self {
            Self::Silent(silent) if silent.standing == Standing::Opening => {
                silent.unsent.write(bytes);
            }
            _ => self.awake(cx.config).write(cx, bytes),
        }
    }

    /// Ends data that was written without end.
    pub(crate) fn end_forever(&mut self) {
        match self {
            Self::Silent(silent) => silent.unsent.end_forever(),
            Self::Active(sender) => sender.end_forever(),
        }
    }

    /// Notes that nothing more will be written.
    pub(crate) fn close(&mut self, config: &Config) {
        match self {
            Self::Silent(silent) if silent.standing == Standing::Opening => {
                silent.fin_queued = true;
            }
            _ => self.awake(config).close(),
        }
    }

    /// `tcp_ack`. Returns false if the segment is not acceptable and its data must be ignored.
    #[inline(always)]
    pub(crate) fn handle_ack(
        &mut self,
        cx: &Context,
        header: &Header,
        sack: &[(Seq, Seq)],
    ) -> bool {
        match self {
            Self::Active(sender) => sender.handle_ack(cx, header, sack),
            Self::Silent(silent) if sack.is_empty() && silent.is_acknowledged_by(header) => {
                silent.update_window(header);
                true
            }
            // A foreign segment, or a mark on a bare acknowledgement. The full state handles both.
            Self::Silent(_) => self.awake(cx.config).handle_ack(cx, header, sack),
        }
    }

    /// Returns the next segment, if anything may be sent now.
    #[inline(always)]
    pub(crate) fn poll(&mut self, cx: &Context) -> Option<Outgoing> {
        match self {
            Self::Active(sender) => sender.poll(cx),
            Self::Silent(_) => None,
        }
    }

    /// Takes a segment's report by Accurate ECN, before the segment is handled.
    pub(crate) fn hear_report(&mut self, flags: Flags, option: Option<AccurateEcn>) {
        match self {
            // Only acknowledgements of ours can have been marked: the next report counts from here.
            Self::Silent(silent) => {
                if let Negotiated::Accurate(packets) = &mut silent.start.ecn {
                    *packets = ace_of(flags);
                }
            }
            Self::Active(sender) => {
                if let Some(accurate) = &mut sender.accurate {
                    accurate.hear(flags, option);
                }
            }
        }
    }

    /// Sends no more ECN-capable data, because the path clears ECN fields.
    pub(crate) fn stop_ect(&mut self) {
        match self {
            Self::Silent(silent) => silent.start.ecn = Negotiated::Nothing,
            Self::Active(sender) => sender.ect = Ecn::NotEct,
        }
    }

    pub(crate) fn handle_timeout(&mut self, cx: &Context) {
        if let Self::Active(sender) = self {
            sender.handle_timeout(cx);
        }
    }

    /// Returns the pacing rate in bytes a second, if it paces.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        match self {
            Self::Silent(_) => None,
            Self::Active(sender) => sender.pace.as_ref()?.rate,
        }
    }

    /// Returns the phase of a control that has phases of its own.
    pub(crate) fn control_phase(&self) -> Option<&'static str> {
        match self {
            Self::Silent(_) => None,
            Self::Active(sender) => sender.control.phase(),
        }
    }

    /// Goes on, if only its pace has held it back until now.
    #[inline]
    pub(crate) fn resume(&mut self, now: Time) -> bool {
        match self {
            Self::Silent(_) => false,
            Self::Active(sender) => sender.resume(now),
        }
    }

    /// Returns when it goes on, if only its pace holds it back.
    pub(crate) fn resumes_at(&self) -> MaybeTime {
        match self {
            Self::Silent(_) => MaybeTime::NONE,
            Self::Active(sender) => {
                sender.pace.as_ref().map_or(MaybeTime::NONE, |pace| pace.resumes_at)
            }
        }
    }

    /// Returns the same, but only once.
    #[inline]
    pub(crate) fn take_departure(&mut self) -> Option<Time> {
        match self {
            Self::Silent(_) => None,
            Self::Active(sender) => sender.pace.as_mut()?.take_departure(),
        }
    }

    /// Frees the scoreboard's memory if nothing is in flight.
    pub(crate) fn release_memory(&mut self) {
        if let Self::Active(sender) = self {
            sender.board.release();
        }
    }

    /// Stops sending for good.
    pub(crate) fn fail(&mut self, cx: &Context) {
        match self {
            Self::Active(sender) => sender.fail(cx),
            Self::Silent(silent) => {
                silent.failed = true;
                silent.syn_at = MaybeTime::NONE;
            }
        }
    }

    /// Returns the state of a silent half, which every half is until the handshake is complete.
    pub(crate) fn silent_mut(&mut self) -> Option<&mut Silent> {
        match self {
            Self::Silent(silent) => Some(silent),
            Self::Active(_) => None,
        }
    }
}

/// What can be read from a half.
impl Half {
    #[inline]
    pub(crate) fn snd_una(&self) -> Seq {
        match self {
            Self::Silent(silent) => silent.next,
            Self::Active(sender) => sender.snd_una,
        }
    }

    #[inline]
    pub(crate) fn snd_nxt(&self) -> Seq {
        match self {
            Self::Silent(silent) => silent.next,
            Self::Active(sender) => sender.snd_nxt,
        }
    }

    /// Returns the sequence number of the next byte to be written. For data without end, it is that
    /// of the next byte to be sent.
    pub(crate) fn write_seq(&self) -> Seq {
        let (next, unsent) = match self {
            Self::Silent(silent) => (silent.next, silent.unsent),
            Self::Active(sender) => (sender.snd_nxt, sender.unsent),
        };
        next + unsent.reach()
    }

    /// `tcp_may_update_window`.
    pub(crate) fn may_update_window(&self, header: &Header) -> bool {
        match self {
            Self::Silent(silent) => silent.may_update_window(header),
            Self::Active(sender) => sender.may_update_window(header),
        }
    }

    #[inline]
    pub(crate) fn deadline(&self) -> MaybeTime {
        match self {
            Self::Silent(silent) => silent.syn_at,
            Self::Active(sender) => sender.deadline(),
        }
    }

    /// Returns the retransmission timeout in jiffies.
    #[inline]
    pub(crate) fn rto(&self) -> u32 {
        match self {
            Self::Silent(silent) => silent.rto,
            Self::Active(sender) => sender.rtt.rto,
        }
    }

    /// Returns the smoothed round trip in microseconds.
    #[inline]
    pub(crate) fn srtt_us(&self) -> Option<u32> {
        match self {
            // The only sample is the handshake's.
            Self::Silent(silent) => {
                silent.start.rtt_us.map(|rtt_us| rtt_us.get().min(LONGEST_RTT_US))
            }
            Self::Active(sender) => sender.rtt.smoothed_us(),
        }
    }

    /// Returns the shortest round trip in microseconds.
    pub(crate) fn min_rtt_us(&self) -> Option<u32> {
        match self {
            Self::Silent(silent) => silent.start.rtt_us.map(NonZeroU32::get),
            Self::Active(sender) => sender.rtt.shortest_us(),
        }
    }

    /// Returns how long there was something to send or to be acknowledged, up to `now`.
    pub(crate) fn busy(&self, now: Time) -> Span {
        match self {
            Self::Silent(_) => Span::ZERO,
            Self::Active(sender) => sender.busy(now),
        }
    }

    /// Returns how long nothing but the receiver's window held it back, up to `now`.
    pub(crate) fn rwnd_limited(&self, now: Time) -> Span {
        match self {
            Self::Silent(_) => Span::ZERO,
            Self::Active(sender) => sender.rwnd_limited(now),
        }
    }

    /// Returns the payload bytes that the other end has acknowledged.
    #[inline]
    pub(crate) fn bytes_acked(&self) -> u64 {
        match self {
            Self::Silent(silent) => u64::from(silent.early),
            Self::Active(sender) => sender.bytes_acked,
        }
    }

    /// Returns the congestion window.
    #[inline]
    pub(crate) fn window(&self, config: &Config) -> Window {
        match self {
            Self::Silent(silent) => silent.window(config),
            Self::Active(sender) => sender.window,
        }
    }

    /// Returns what it knows of its window and its path. A half that has sent nothing is as it will
    /// start.
    pub(crate) fn sample(&self, config: &Config) -> FlowSample {
        match self {
            Self::Silent(silent) => silent.wake(config).sample(),
            Self::Active(sender) => sender.sample(),
        }
    }

    /// Returns whether everything written is acknowledged, including the FIN.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Silent(silent) => silent.unsent.is_empty() && !silent.fin_queued,
            Self::Active(sender) => sender.is_done(),
        }
    }

    /// Returns whether our FIN is acknowledged; without FINs, whether everything is acknowledged
    /// after `close`.
    #[inline]
    pub(crate) fn is_fin_acked(&self) -> bool {
        match self {
            Self::Silent(_) => false,
            Self::Active(sender) => sender.is_fin_acked(),
        }
    }

    /// Returns whether our FIN has been sent.
    pub(crate) fn is_fin_sent(&self) -> bool {
        match self {
            Self::Silent(_) => false,
            Self::Active(sender) => sender.is_fin_sent(),
        }
    }

    /// Returns whether the connection was given up.
    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        match self {
            Self::Silent(silent) => silent.failed,
            Self::Active(sender) => sender.failed,
        }
    }

    /// Handles the news that the segment at `seq` was longer than a link takes.
    pub(crate) fn handle_too_big(&mut self, cx: &Context, seq: Seq, mss: u16) {
        match self {
            Self::Silent(_) => {}
            Self::Active(sender) => sender.handle_too_big(cx, seq, mss),
        }
    }

    /// Returns whether this half can only produce acknowledgements.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Silent(_))
    }

    /// Adds this half's counts, including SYNs.
    pub(crate) fn count(&self, counters: &mut Counters) {
        let tally = match self {
            Self::Silent(silent) => silent.tally(),
            Self::Active(sender) => sender.counted(),
        };
        counters.segments_retransmitted = u64::from(tally.retransmitted);
        counters.timeouts = tally.timeouts;
        counters.fast_recoveries = tally.fast_recoveries;
        counters.ecn_reductions = tally.ecn_reductions;
        counters.tail_probes = tally.tail_probes;
        counters.undos = tally.undos;
        counters.spurious_timeouts = tally.spurious_timeouts;
        if let Self::Active(sender) = self
            && let Some(accurate) = &sender.accurate
        {
            counters.marks_reported = accurate.marked;
            counters.marked_bytes_reported = accurate.marked_bytes;
        }
    }

    pub(crate) fn check_invariants(&self) {
        if let Self::Active(sender) = self {
            sender.check_invariants();
        }
    }

    /// Returns the heap bytes used for segments in flight.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Silent(_) => 0,
            Self::Active(sender) => sender.heap_bytes(),
        }
    }
}

impl Prefetch for Half {
    #[inline(always)]
    fn prefetch(&self, (): (), step: Step) -> u32 {
        match (step, self) {
            (Step::Second, Self::Silent(silent)) => silent.next.0 ^ silent.start.window,
            (Step::Second, Self::Active(sender)) => sender.prefetch((), Step::First),
            (Step::Third, Self::Active(sender)) => sender.prefetch((), Step::Second),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;

//! The controls that QUIC shares with TCP ([`crate::congestion`]). They count packets.
//!
//! Written from RFC 9002 (7 and appendix B), RFC 9000 (13.4) and RFC 9331 (4). A packet counts as a
//! segment does in TCP, whatever its length. Losses and marks count once in a recovery period (RFC
//! 9002, 7.3.2), and a loss also during one that a mark has begun. Marks are counted exactly, from
//! the counts of ACK frames, so that neither a receiver's state machine (RFC 8257, 3.2) nor Accurate
//! ECN is necessary.
//!
//! Differences: DCTCP's window falls at once, and not during the round trip. Only packets with
//! application data give rate samples; their numbers also mark the rounds. BBR v1 takes no notice of
//! marks. Losses that a timer finds do not count in the next sample, as in Linux.

use alloc::collections::VecDeque;

use narrows_units::{Span, Time};

use crate::congestion::{
    Dctcp, Delivered, Delivery, INFINITE_SSTHRESH, Lost, Model, Moment, Pace, Path, Prague,
    Scaling, State, Step, Window, reno, window_rate,
};
use crate::flow_sample::{AVOIDANCE, CWR, LOSS, RECOVERY, SLOW_START};
use crate::quic::config::{Config, Congestion};
use crate::quic::recovery::{GRANULARITY, RoundTrip};
use crate::seq::Seq;

/// A control and its window, in packets.
#[derive(Clone, Debug)]
pub(super) struct Packets {
    control: Control,
    window: Window,
    in_flight: u32,
    /// The packets delivered and lost on the whole connection.
    delivered: u32,
    lost: u32,
    /// What had been delivered and lost before the current acknowledgement.
    before: (u32, u32),
    /// The packets with application data under way, in order. Only BBR needs them.
    under_way: VecDeque<UnderWay>,
    state: State,
    /// When the window last fell because of a loss, and because of a mark.
    loss_at: Option<Time>,
    mark_at: Option<Time>,
    /// Whether the window was full before the current acknowledgement.
    was_full: bool,
}

#[derive(Clone, Debug)]
enum Control {
    Bbr(Model),
    Dctcp(Dctcp),
    Prague(Prague),
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    /// The packets delivered when it was sent.
    prior_delivered: u32,
    is_gone: bool,
}

/// The time, the round trips, and what paces.
pub(super) struct Context<'a> {
    pub now: Time,
    pub rtt: &'a RoundTrip,
    /// The bytes of a full datagram.
    pub datagram: u64,
    pub pace: Option<&'a mut Pace>,
}

/// What an acknowledgement says beside the packets that it covers.
#[derive(Clone, Copy, Debug)]
pub(in crate::quic) struct Acknowledged {
    /// The packets that it reports as marked for the first time.
    pub marked: u64,
    /// When the newest packet was sent that it covers for the first time.
    pub newest_at: Time,
    /// The round trip that it measures.
    pub rtt: Option<Span>,
    /// Whether the peer waited with it.
    pub is_delayed: bool,
    /// Whether the window or the pace held the end back.
    pub limited: bool,
    /// The largest packet number with application data that was acknowledged, and the next one.
    pub largest: Option<u64>,
    pub next: u64,
}

impl Context<'_> {
    fn moment(&self) -> Moment {
        Moment { now: self.now, us: us(self.now), tick: GRANULARITY }
    }

    /// Returns the smoothed and the shortest round trip in microseconds, if one was measured.
    fn round_trips_us(&self) -> Option<(u32, u32)> {
        let least = self.rtt.least()?;
        Some((as_us(self.rtt.smoothed), as_us(least)))
    }

    fn step(&self) -> Step {
        Step { us: us(self.now), scaling: Scaling::USUAL }
    }
}

impl Packets {
    /// Creates the control of a connection, if it is one of these.
    pub(super) fn new(config: &Config, cwnd: u32) -> Option<Self> {
        let control = match config.congestion {
            Congestion::NewReno | Congestion::Cubic => return None,
            Congestion::Bbr => Control::Bbr(Model::v1(0)),
            Congestion::BbrV3 => Control::Bbr(Model::v3(0, QUANTA)),
            Congestion::Dctcp => Control::Dctcp(Dctcp::new(Seq(0))),
            Congestion::Prague => Control::Prague(Prague::new(Seq(0))),
        };
        Some(Self {
            control,
            window: Window::new(cwnd, None),
            in_flight: 0,
            delivered: 0,
            lost: 0,
            before: (0, 0),
            under_way: VecDeque::new(),
            state: State::Open,
            loss_at: None,
            mark_at: None,
            was_full: false,
        })
    }

    /// Begins: the connection is created. `seed` decides with which phase BBR's cycle begins.
    pub(super) fn start(&mut self, cx: &mut Context, seed: u32) {
        match &mut self.control {
            Control::Bbr(bbr) => bbr.set_seed(seed),
            Control::Dctcp(dctcp) => dctcp.start(Seq(0)),
            Control::Prague(prague) => prague.start(us(cx.now), Seq(0)),
        }
        self.with_model(cx, false, |bbr, moment, path| bbr.start(moment, path));
    }

    /// Returns the window in packets.
    pub(super) fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    /// Returns where slow start ends, in packets.
    pub(super) fn threshold(&self) -> Option<u32> {
        (self.window.ssthresh < INFINITE_SSTHRESH).then_some(self.window.ssthresh)
    }

    /// Returns whether one more packet may be in flight.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.window.cwnd
    }

    /// Returns what the control does, as a word.
    pub(super) fn state(&self) -> &'static str {
        match (&self.control, self.state) {
            (Control::Bbr(bbr), _) => bbr.phase(),
            (_, State::Cwr) => CWR,
            (_, State::Recovery) => RECOVERY,
            (_, State::Loss) => LOSS,
            (_, State::Open | State::Disorder) if self.window.in_slow_start() => SLOW_START,
            (_, State::Open | State::Disorder) => AVOIDANCE,
        }
    }

    /// Returns the share of packets, 0 to 1, that it takes to be marked, if it estimates one.
    pub(super) fn alpha(&self) -> Option<f64> {
        match &self.control {
            Control::Bbr(_) => None,
            Control::Dctcp(dctcp) => Some(dctcp.alpha()),
            Control::Prague(prague) => Some(prague.alpha()),
        }
    }

    /// Returns the pace of a control that has no model of the path, in bytes a second. Prague counts
    /// headers too, so that its rate exceeds the window and lets it grow.
    pub(super) fn rate(&self, datagram: u64, srtt: Span) -> Option<u64> {
        match self.control {
            Control::Bbr(_) => None,
            Control::Dctcp(_) => {
                Some(super::paced::usual_rate(u64::from(self.window.cwnd) * datagram, srtt))
            }
            Control::Prague(_) => {
                let eighths = u32::try_from(srtt.as_us() * 8).unwrap_or(u32::MAX);
                let bytes = datagram as u16 + HEADERS;
                Some(window_rate(self.window, (100, bytes), self.in_flight, eighths))
            }
        }
    }

    /// Notes that the application has written something, and that nothing else was left to send.
    pub(super) fn limit_by_application(&mut self, pace: Option<&mut Pace>) {
        if self.has_room()
            && let Some(rates) = pace.and_then(|pace| pace.rates.as_mut())
        {
            rates.limit_by_application(self.delivered, self.in_flight);
        }
    }

    /// Notes that a packet leaves. `number`: its number, if it has application data.
    pub(super) fn note_sent(&mut self, cx: &mut Context, number: Option<u64>) {
        if self.in_flight == 0 {
            self.with_model(cx, false, |bbr, moment, path| bbr.on_restart(moment, path));
        }
        self.in_flight += 1;
        let now_us = us(cx.now);
        if let Some(number) = number
            && let Some(rates) = cx.pace.as_mut().and_then(|pace| pace.rates.as_mut())
        {
            let index = self.under_way.len();
            rates.note_sent(index as u32, now_us, index == 0, (self.in_flight, self.lost));
            let prior_delivered = self.delivered;
            self.under_way.push_back(UnderWay { number, prior_delivered, is_gone: false });
        }
    }

    /// Begins with an acknowledgement.
    pub(super) fn begin_ack(&mut self, pace: Option<&mut Pace>) {
        self.before = (self.delivered, self.lost);
        self.was_full = !self.has_room();
        if let Some(rates) = pace.and_then(|pace| pace.rates.as_mut()) {
            rates.begin_ack(self.in_flight);
        }
    }

    /// Notes that a packet was acknowledged that was sent at `sent_at`.
    pub(super) fn note_acked(
        &mut self,
        pace: Option<&mut Pace>,
        number: Option<u64>,
        sent_at: Time,
    ) {
        self.delivered = self.delivered.wrapping_add(1);
        if !self.has_reacted(sent_at, State::Cwr) {
            self.state = State::Open;
        }
        self.note_gone(pace, number, Some(sent_at));
    }

    /// Notes that a packet was lost.
    pub(super) fn note_lost(&mut self, cx: &mut Context, number: Option<u64>) {
        self.lost = self.lost.wrapping_add(1);
        let lost = number.and_then(|number| {
            let index = self.find(number)?;
            let sent = cx.pace.as_ref()?.rates.as_ref()?.sent_state(index as u32, self.lost)?;
            Some(Lost { begin: Seq(number as u32), end: Seq(number as u32 + 1), sent })
        });
        self.note_gone(cx.pace.as_deref_mut(), number, None);
        if let Some(lost) = lost {
            self.with_model(cx, false, |bbr, moment, path| bbr.on_lost(moment, path, &lost));
        }
    }

    /// Returns the place of a packet with application data that is under way.
    fn find(&self, number: u64) -> Option<usize> {
        self.under_way.binary_search_by_key(&number, |packet| packet.number).ok()
    }

    /// Notes that a packet is no longer in flight. `delivered`: when it was sent, if it has arrived.
    pub(super) fn note_gone(
        &mut self,
        pace: Option<&mut Pace>,
        number: Option<u64>,
        delivered: Option<Time>,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(rates) = pace.and_then(|pace| pace.rates.as_mut()) else { return };
        let Some(number) = number else { return };
        let Some(index) = self.find(number) else { return };
        let packet = &mut self.under_way[index];
        packet.is_gone = true;
        if let Some(sent_at) = delivered {
            let prior_delivered = packet.prior_delivered;
            let segment =
                Delivered { end: Seq(number as u32), sent_us: us(sent_at), prior_delivered };
            rates.note_delivered(index as u32, segment);
        }
        while self.under_way.front().is_some_and(|packet| packet.is_gone) {
            self.under_way.pop_front();
            rates.pop();
        }
    }

    /// Ends with an acknowledgement, after the losses that it has shown.
    pub(super) fn finish_ack(&mut self, cx: &mut Context, ack: &Acknowledged) {
        let delivered = self.delivered.wrapping_sub(self.before.0);
        let marked = u32::try_from(ack.marked).unwrap_or(u32::MAX);
        let una = Seq(ack.largest.map_or(0, |largest| largest + 1) as u32);
        let next = Seq(ack.next as u32);
        if let Control::Dctcp(dctcp) = &mut self.control {
            dctcp.on_delivered(delivered, marked, una, next);
        }
        if marked > 0 {
            self.on_mark(cx, ack.newest_at);
        }
        match &mut self.control {
            Control::Bbr(_) => self.follow_model(cx, delivered, ack),
            Control::Dctcp(_) if ack.limited && self.state == State::Open => {
                reno::avoid(&mut self.window, delivered);
            }
            Control::Dctcp(_) => {}
            Control::Prague(prague) => {
                let delivery = Delivery {
                    delivered,
                    marked,
                    snd_una: una,
                    snd_nxt: next,
                    srtt_us: cx.round_trips_us().map_or(0, |(smoothed, _)| smoothed),
                    is_limited: ack.limited,
                    is_open: self.state == State::Open,
                };
                prague.on_ack(&cx.step(), &mut self.window, &delivery);
            }
        }
    }

    fn follow_model(&mut self, cx: &mut Context, delivered: u32, ack: &Acknowledged) {
        let shortest_us = cx.round_trips_us().map_or(u32::MAX, |(_, shortest)| shortest);
        let counts = (delivered, self.delivered);
        let losses = (self.lost.wrapping_sub(self.before.1), self.lost);
        let rtt_us = ack.rtt.map(as_us);
        let now_us = us(cx.now);
        let rates = cx.pace.as_mut().and_then(|pace| pace.rates.as_mut());
        let Some(rates) = rates else { return };
        let sample = rates.sample(now_us, counts, losses, shortest_us, rtt_us);
        self.with_model(cx, ack.is_delayed, |bbr, moment, path| bbr.on_ack(moment, path, &sample));
    }

    /// Returns whether the window has fallen after `sent_at`, because of a loss or, with
    /// [`State::Cwr`], of a mark.
    fn has_reacted(&self, sent_at: Time, least: State) -> bool {
        let after = |at: Option<Time>| at.is_some_and(|at| sent_at <= at);
        after(self.loss_at) || (least == State::Cwr && after(self.mark_at))
    }

    fn on_mark(&mut self, cx: &mut Context, sent_at: Time) {
        let is_deaf = matches!(self.control, Control::Bbr(Model::V1(_)));
        if is_deaf || self.has_reacted(sent_at, State::Cwr) {
            return;
        }
        self.mark_at = Some(cx.now);
        self.state = State::Cwr;
        match &mut self.control {
            Control::Bbr(_) => {
                self.with_model(cx, false, |bbr, moment, path| bbr.on_mark(moment, path));
            }
            Control::Dctcp(dctcp) => {
                let cwnd = dctcp.ssthresh(self.window.cwnd, true);
                fall(&mut self.window, cwnd);
            }
            Control::Prague(prague) => prague.on_mark(&cx.step(), self.window),
        }
    }

    /// Handles a loss of packets of which the newest was sent at `sent_at`.
    pub(super) fn on_loss(&mut self, now: Time, sent_at: Time) {
        if self.has_reacted(sent_at, State::Recovery) {
            return;
        }
        self.loss_at = Some(now);
        self.state = State::Recovery;
        let cwnd = self.window.cwnd;
        match &mut self.control {
            Control::Bbr(bbr) => bbr.on_recovery(cwnd),
            Control::Dctcp(dctcp) => fall(&mut self.window, dctcp.ssthresh(cwnd, false)),
            Control::Prague(prague) => self.window.ssthresh = prague.on_loss(self.window),
        }
    }

    /// Handles persistent congestion (RFC 9002, 7.6.2), which for BBR is a timeout.
    pub(super) fn collapse(&mut self, cx: &mut Context) {
        (self.window.cwnd, self.window.count) = (LEAST, 0);
        (self.loss_at, self.mark_at, self.state) = (None, None, State::Open);
        match &mut self.control {
            Control::Bbr(_) => (self.loss_at, self.state) = (Some(cx.now), State::Loss),
            Control::Dctcp(_) => {}
            Control::Prague(prague) => prague.on_timeout(),
        }
        self.with_model(cx, false, |bbr, moment, path| bbr.on_timeout(path, moment.us));
    }

    fn with_model(
        &mut self,
        cx: &mut Context,
        ack_is_delayed: bool,
        f: impl FnOnce(&mut Model, &Moment, &mut Path),
    ) {
        let (moment, round_trips) = (cx.moment(), cx.round_trips_us());
        let (Control::Bbr(bbr), Some(pace)) = (&mut self.control, cx.pace.as_deref_mut()) else {
            return;
        };
        let mut path = Path {
            window: &mut self.window,
            pace,
            delivered: self.delivered,
            lost: self.lost,
            in_flight: self.in_flight,
            mss: cx.datagram as u32,
            srtt_us: round_trips.map(|(smoothed, _)| smoothed),
            shortest_us: round_trips.map(|(_, shortest)| shortest),
            recovery: self.state,
            is_cwnd_limited: self.was_full,
            has_selective_acks: true,
            ack_is_delayed,
        };
        f(bbr, &moment, &mut path);
    }
}

fn fall(window: &mut Window, cwnd: u32) {
    *window = Window { cwnd, ssthresh: cwnd, count: 0 };
}

/// Returns microseconds since the start, modulo 2^32.
fn us(at: Time) -> u32 {
    (at.as_ps() / 1_000_000) as u32
}

/// Returns a span in microseconds, at most 71 minutes.
fn as_us(span: Span) -> u32 {
    u32::try_from(span.as_us()).unwrap_or(u32::MAX)
}

/// The bursts for which BBR v3's window has room (draft-ietf-ccwg-bbr-06, 5.5.8.2).
const QUANTA: u32 = 1;
/// The least window in packets (RFC 9002, 7.2).
const LEAST: u32 = 2;
/// The length in bytes of the headers of IPv4 and UDP.
const HEADERS: u16 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// A connection with a round trip of 10 ms and a pace.
    struct Connection {
        packets: Packets,
        rtt: RoundTrip,
        pace: Pace,
        next: u64,
    }

    impl Connection {
        fn new(congestion: Congestion, cwnd: u32) -> Self {
            let config = Config { congestion, ..Config::default() };
            let mut rtt = RoundTrip::new();
            rtt.note(at(0), Span::from_ms(10), Span::ZERO);
            let mut packets = Packets::new(&config, cwnd).expect("a control that counts packets");
            let mut pace = Pace::new(congestion.models_path());
            packets.start(
                &mut Context { now: at(0), rtt: &rtt, datagram: 1200, pace: Some(&mut pace) },
                0,
            );
            Self { packets, rtt, pace, next: 0 }
        }

        fn send(&mut self, ms: u64, count: u64) {
            for _ in 0..count {
                let pace = Some(&mut self.pace);
                let mut cx = Context { now: at(ms), rtt: &self.rtt, datagram: 1200, pace };
                self.packets.note_sent(&mut cx, Some(self.next));
                self.next += 1;
            }
        }

        fn lose(&mut self, ms: u64, number: u64) {
            let pace = Some(&mut self.pace);
            let mut cx = Context { now: at(ms), rtt: &self.rtt, datagram: 1200, pace };
            self.packets.note_lost(&mut cx, Some(number));
        }

        /// Acknowledges these packets, which were sent at `sent_ms`.
        fn acknowledge(
            &mut self,
            ms: u64,
            (from, to): (u64, u64),
            sent_ms: u64,
            (marked, limited): (u64, bool),
        ) {
            self.packets.begin_ack(Some(&mut self.pace));
            for number in from..to {
                self.packets.note_acked(Some(&mut self.pace), Some(number), at(sent_ms));
            }
            let ack = Acknowledged {
                marked,
                newest_at: at(sent_ms),
                rtt: Some(Span::from_ms(ms - sent_ms)),
                is_delayed: false,
                limited,
                largest: to.checked_sub(1),
                next: self.next,
            };
            let pace = Some(&mut self.pace);
            let mut cx = Context { now: at(ms), rtt: &self.rtt, datagram: 1200, pace };
            self.packets.finish_ack(&mut cx, &ack);
        }
    }

    /// RFC 9002, 7.3.2: marks on packets that were sent before a reduction cause no other. A loss does,
    /// once. RFC 8257, 3.3: alpha was 1, and is 15/16 and a tenth of 1/16 after the first ten packets.
    #[test]
    fn each_signal_reduces_the_window_once_in_a_period() {
        let mut connection = Connection::new(Congestion::Dctcp, 40);
        connection.send(0, 40);
        connection.acknowledge(10, (0, 10), 0, (1, true));
        assert_eq!((connection.packets.cwnd(), connection.packets.state()), (22, CWR));
        connection.acknowledge(10, (10, 20), 0, (1, true));
        assert_eq!(connection.packets.cwnd(), 22);
        connection.lose(11, 20);
        connection.packets.on_loss(at(11), at(0));
        assert_eq!((connection.packets.cwnd(), connection.packets.state()), (11, RECOVERY));
        connection.packets.on_loss(at(12), at(0));
        connection.acknowledge(13, (21, 40), 0, (5, true));
        assert_eq!(connection.packets.cwnd(), 11);
        // What was sent later ends the period and lets the window grow.
        connection.send(20, 11);
        connection.acknowledge(30, (40, 51), 20, (0, true));
        assert_eq!((connection.packets.cwnd(), connection.packets.state()), (12, AVOIDANCE));
        assert_eq!(connection.packets.in_flight, 0);
    }

    /// RFC 9002, 7.8: a window that was not used tells nothing.
    #[test]
    fn an_unused_window_does_not_grow() {
        for congestion in [Congestion::Dctcp, Congestion::Prague] {
            for (limited, cwnd) in [(false, 10), (true, 20)] {
                let mut connection = Connection::new(congestion, 10);
                connection.send(0, 10);
                connection.acknowledge(10, (0, 10), 0, (0, limited));
                assert_eq!(connection.packets.cwnd(), cwnd, "{congestion:?}");
            }
        }
    }

    /// RFC 8257, 3.3, with the exact counts of ACK frames: g is 1/16.
    #[test]
    fn alpha_follows_the_share_of_marked_packets() {
        let mut connection = Connection::new(Congestion::Dctcp, 64);
        connection.packets.window.ssthresh = 2;
        let mut alpha = 1.0_f64;
        for round in 0..40 {
            let (first, ms) = (connection.next, 100 * round);
            connection.send(ms, 32);
            connection.acknowledge(ms + 10, (first, first + 32), ms, (8, false));
            alpha += (0.25 - alpha) / 16.0;
        }
        let before = connection.packets.cwnd();
        connection.send(5000, 1);
        connection.packets.window.cwnd = 1000;
        connection.acknowledge(5010, (connection.next - 1, connection.next), 5000, (1, false));
        let share = 2.0 * (1000.0 - f64::from(connection.packets.cwnd())) / 1000.0;
        let last = alpha + (1.0 - alpha) / 16.0;
        assert!(before >= 2 && (share - last).abs() < 0.01, "{share} {last}");
    }

    /// draft-cheng-iccrg-delivery-rate-estimation-00, 3.3: packets that are acknowledged out of order,
    /// or lost, leave the samples of the others as they are.
    #[test]
    fn rates_count_packets_in_any_order() {
        let mut connection = Connection::new(Congestion::Bbr, 40);
        connection.send(0, 10);
        connection.acknowledge(10, (4, 6), 0, (0, true));
        connection.lose(10, 0);
        connection.acknowledge(12, (6, 10), 0, (0, true));
        assert_eq!(connection.packets.under_way.len(), 9);
        connection.acknowledge(14, (1, 4), 0, (0, true));
        let rates = connection.pace.rates.as_ref().expect("BBR has samples");
        assert_eq!((connection.packets.under_way.len(), rates.in_flight()), (0, 0));
        assert_eq!((connection.packets.delivered, connection.packets.lost), (9, 1));
        assert_eq!((connection.packets.in_flight, rates.delivered_us), (0, 14_000));
    }
}

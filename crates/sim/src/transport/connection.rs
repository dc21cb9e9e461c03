//! A TCP connection in the network: both ends, and their timers.
//!
//! The ends know nothing of each other except what packets tell them. They are stored together
//! because a packet's flow leads to both.

use std::num::NonZeroU64;
use std::sync::Arc;

use narrows_transport::prefetch::{Prefetch, Step};
use narrows_transport::tcp::{Config, Endpoint, Flags, Header, Segment, Seq};
use narrows_units::{MaybeTime, Time};

use super::Dialogue;
use crate::agenda::Event;
use crate::network::Network;
use crate::packet::{Label, Packet, Stamp};

/// A connection. The most-used fields come first, and memory has them in this order.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Connection {
    label: Label,
    /// Whether the first end sends the SYN.
    first_opens: bool,
    /// The ends that have to send once the applications have finished, one bit each.
    unsent: u8,
    /// The number of acknowledged bytes that the first end's application waits for.
    pub(crate) awaits: Option<NonZeroU64>,
    window: WindowIntegral,
    established_at: MaybeTime,
    ended_at: MaybeTime,
    /// The messages that the applications exchange; `None`: they exchange bytes without meaning.
    pub(crate) dialogue: Option<Box<Dialogue>>,
    pub(crate) ends: [End; 2],
}

// A flow with its sender, rows and events should stay below 1000 bytes.
const _: () = assert!(size_of::<Connection>() <= 312);

/// An end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    /// When the pending timer event is due.
    armed: MaybeTime,
}

/// The time integral of the congestion window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowIntegral {
    segment_seconds: f64,
    last: Time,
}

/// What setting up a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct SetUp {
    /// The settings of each end.
    pub(crate) configs: [Arc<Config>; 2],
    pub(crate) generation: u8,
    pub(crate) foreground: bool,
    /// Whether the first end sends the SYN.
    pub(crate) first_opens: bool,
    /// Initial sequence numbers.
    pub(crate) isns: [u32; 2],
}

impl Connection {
    pub(crate) fn new(set_up: &SetUp, dialogue: Option<Box<Dialogue>>) -> Self {
        let [first, second] = [0, 1].map(|side| {
            let (config, isn) = (set_up.configs[side].clone(), Seq(set_up.isns[side]));
            if set_up.first_opens == (side == 0) {
                Endpoint::client(config, isn)
            } else {
                Endpoint::server(config, isn)
            }
        });
        Self {
            label: Label::new(set_up.generation, set_up.foreground),
            first_opens: set_up.first_opens,
            unsent: 0,
            awaits: None,
            window: WindowIntegral::default(),
            established_at: MaybeTime::NONE,
            ended_at: MaybeTime::NONE,
            dialogue,
            ends: [first, second].map(|endpoint| End { endpoint, armed: MaybeTime::NONE }),
        }
    }

    /// Returns the first end. If the connection carries data one way, this is the sender.
    #[inline]
    pub(crate) fn first(&self) -> &Endpoint {
        &self.ends[0].endpoint
    }

    #[inline]
    pub(crate) fn second(&self) -> &Endpoint {
        &self.ends[1].endpoint
    }

    /// Notes that an end has to send. Returns false if that was already noted.
    pub(crate) fn note_unsent(&mut self, side: usize) -> bool {
        let before = self.unsent;
        self.unsent |= 1 << side;
        self.unsent != before
    }

    /// Notes that an end has sent everything it had to send.
    pub(crate) fn forget_unsent(&mut self, side: usize) {
        self.unsent &= !(1 << side);
    }

    /// Returns the generation, which tells it apart from earlier flows with the same number.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u8 {
        self.label.generation
    }

    /// Returns which end sends the SYN: 0 or 1.
    pub(crate) fn opener(&self) -> u32 {
        u32::from(!self.first_opens)
    }

    /// Lets the opening end send its SYN. The other end waits.
    pub(crate) fn connect(&mut self, now: Time) {
        self.window.last = now;
        self.ends[self.opener() as usize].endpoint.connect(now);
    }

    /// Handles a segment that has reached its host, which then sends what it has to send. Returns
    /// true if the bytes that the first end's application waits for are now acknowledged.
    #[inline(always)]
    pub(crate) fn handle_packet(
        &mut self,
        now: Time,
        packet: Packet,
        network: &mut Network,
    ) -> bool {
        let delivered = self.take_packet(now, packet, network);
        // The end that the packet has reached answers in the opposite direction.
        let stamp = self.stamp(packet.direction ^ 1);
        self.ends[usize::from(!packet.goes_back())].flush(now, stamp, network);
        delivered
    }

    /// Handles a segment as [`handle_packet`](Self::handle_packet) does, for a connection with a
    /// dialogue, and counts the packets.
    pub(crate) fn handle_counted(
        &mut self,
        now: Time,
        packet: Packet,
        network: &mut Network,
    ) -> bool {
        let delivered = self.take_packet(now, packet, network);
        self.flush_counted(now, usize::from(!packet.goes_back()), packet.direction ^ 1, network);
        delivered
    }

    #[inline(always)]
    fn take_packet(&mut self, now: Time, packet: Packet, network: &mut Network) -> bool {
        let side = usize::from(!packet.goes_back());
        // One call for each end lets the compiler inline the whole path.
        if side == 0 {
            self.window.advance(now, self.first().cwnd());
        }
        let end = &mut self.ends[side];
        if packet.is_plain() {
            end.endpoint.handle_plain(now, &packet.header());
        } else {
            end.handle_options(now, packet, network);
        }
        let mut delivered = false;
        if side == 0 {
            self.note_progress(now);
            if let Some(awaits) = self.awaits
                && self.first().bytes_acked() >= awaits.get()
            {
                self.awaits = None;
                delivered = true;
            }
        }
        delivered
    }

    /// Handles the timer of the end that sends in `direction`. Returns false if the event was out
    /// of date.
    pub(crate) fn handle_timer(
        &mut self,
        now: Time,
        direction: u32,
        network: &mut Network,
    ) -> bool {
        let side = direction as usize % 2;
        let End { endpoint, armed } = &mut self.ends[side];
        if !armed.is(now) {
            // A nearer deadline was set in between, and its event replaces this one.
            return false;
        }
        *armed = MaybeTime::NONE;
        match endpoint.next_timer() {
            Some(due) if due <= now => endpoint.handle_timeout(now),
            // Most deadlines move before they expire, so one event serves many acknowledgements.
            Some(_) => {}
            None => return false,
        }
        if side == 0 {
            self.window.advance(now, self.first().cwnd());
        }
        self.flush(now, direction, network);
        true
    }

    /// Lets the end that sends in `direction` send the next segment, if only its pace held that
    /// back.
    #[inline]
    pub(crate) fn handle_pace(&mut self, now: Time, direction: u32, network: &mut Network) {
        let side = direction as usize % 2;
        if !self.ends[side].endpoint.resume(now) {
            return;
        }
        if side == 0 {
            self.window.advance(now, self.first().cwnd());
        }
        self.flush(now, direction, network);
    }

    /// Sends what the end that sends in `direction` has to send.
    #[inline(never)]
    pub(crate) fn flush(&mut self, now: Time, direction: u32, network: &mut Network) {
        let side = direction as usize % 2;
        if self.dialogue.is_some() {
            self.flush_counted(now, side, direction, network);
        } else {
            let stamp = self.stamp(direction);
            self.ends[side].flush(now, stamp, network);
        }
    }

    /// Sends what the end that sends in `direction` has to send, and counts the packets.
    #[inline(never)]
    fn flush_counted(&mut self, now: Time, side: usize, direction: u32, network: &mut Network) {
        let stamp = self.stamp(direction);
        let end = &mut self.ends[side];
        while let Some(segment) = end.endpoint.poll_transmit(now) {
            let packet = Packet::from_segment(stamp, &segment, &mut network.pool);
            if let Some(dialogue) = &mut self.dialogue {
                dialogue.sides[side].packets += 1;
                dialogue.sides[side].ip_bytes += u64::from(packet.bytes);
            }
            network.send_seldom(now, packet);
        }
        end.arm(stamp, network);
    }

    /// Sends what the stateless end has to send in `direction`, and schedules an event for the end
    /// of its idle time.
    pub(crate) fn flush_stateless(&mut self, now: Time, direction: u32, network: &mut Network) {
        let stamp = self.stamp(direction);
        let Some(dialogue) = &mut self.dialogue else { return };
        let Some(stateless) = &mut dialogue.stateless else { return };
        for segment in stateless.take_out() {
            let packet = Packet::from_segment(stamp, &segment, &mut network.pool);
            dialogue.sides[1].packets += 1;
            dialogue.sides[1].ip_bytes += u64::from(packet.bytes);
            network.send_seldom(now, packet);
        }
        if let Some(due) = stateless.next_timeout()
            && self.ends[1].armed.is_after(due)
        {
            self.ends[1].armed = due.into();
            network.agenda.schedule(due, Event::Timer(direction));
        }
    }

    /// Handles the stateless end's timer.
    pub(crate) fn handle_stateless_timer(
        &mut self,
        now: Time,
        direction: u32,
        network: &mut Network,
    ) {
        if !self.ends[1].armed.is(now) {
            return;
        }
        self.ends[1].armed = MaybeTime::NONE;
        if let Some(stateless) = self.dialogue.as_mut().and_then(|d| d.stateless.as_mut()) {
            stateless.handle_timeout(now);
        }
        self.flush_stateless(now, direction, network);
    }

    /// Hands the server's end over to ordinary TCP, starting with this segment. `direction` is the
    /// client's.
    pub(crate) fn adopt(
        &mut self,
        now: Time,
        first: Segment,
        direction: u32,
        network: &mut Network,
    ) {
        let Some(dialogue) = &mut self.dialogue else { return };
        let Some(stateless) = dialogue.stateless.take() else { return };
        let endpoint = &mut self.ends[1].endpoint;
        endpoint.adopt(now, &stateless.adopted(&first), &first);
        endpoint.keep_open();
        let packet = Packet::from_segment(self.stamp(direction), &first, &mut network.pool);
        self.handle_counted(now, packet, network);
    }

    /// Ends the connection at once: sends a reset to the other end, and forgets the connection at
    /// this one.
    pub(crate) fn abort(&mut self, now: Time, direction: u32, network: &mut Network) {
        let stamp = self.stamp(direction);
        let end = &mut self.ends[direction as usize % 2];
        if let Some(reset) = end.endpoint.abort(now) {
            let packet = Packet::from_segment(stamp, &reset, &mut network.pool);
            network.send_seldom(now, packet);
        }
    }

    /// Answers a packet for an end that knows no connection (RFC 9293, 3.10.7.1).
    pub(crate) fn refuse(&self, now: Time, packet: Packet, network: &mut Network) {
        let segment = packet.into_segment(&mut network.pool);
        if segment.flags.contains(Flags::RST) {
            return;
        }
        let stamp = self.stamp(packet.direction ^ 1);
        let packet = Packet::from_segment(stamp, &segment.reset(), &mut network.pool);
        network.send_seldom(now, packet);
    }

    /// Returns when the first end was established.
    pub(crate) fn established_at(&self) -> Option<Time> {
        self.established_at.get()
    }

    /// Returns when the first end was closed.
    pub(crate) fn ended_at(&self) -> Option<Time> {
        self.ended_at.get()
    }

    /// Returns the time-weighted mean of the first end's congestion window in segments, from
    /// opening to `now`; NaN before.
    pub(crate) fn mean_window(&self, now: Time) -> f64 {
        let mut window = self.window;
        window.advance(now, self.first().cwnd());
        window.segment_seconds / now.as_secs_f64()
    }

    pub(crate) fn retransmissions(&self) -> u32 {
        self.first().counters().segments_retransmitted as u32
    }

    /// Returns the fields that all packets of a direction share.
    #[inline(always)]
    fn stamp(&self, direction: u32) -> Stamp {
        self.label.in_direction(direction)
    }

    #[inline]
    fn note_progress(&mut self, now: Time) {
        if self.established_at == MaybeTime::NONE && self.first().is_established() {
            self.established_at = now.into();
        }
        if self.ended_at == MaybeTime::NONE && self.first().is_closed() {
            self.ended_at = now.into();
        }
    }
}

/// Reads ahead the end to which a direction leads.
impl Prefetch<u32> for Connection {
    #[inline(always)]
    fn prefetch(&self, direction: u32, step: Step) -> u32 {
        let end = &self.ends[usize::from(direction.is_multiple_of(2))];
        let own = match step {
            Step::First => {
                u32::from(self.label.generation) ^ u32::from(end.armed == MaybeTime::NONE)
            }
            Step::Second | Step::Third => 0,
        };
        own ^ end.endpoint.prefetch((), step)
    }
}

impl End {
    /// Handles a segment with SACK blocks or the AccECN option, or a SYN.
    #[inline(never)]
    fn handle_options(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let segment = packet.into_segment(&mut network.pool);
        self.endpoint.handle_segment(now, &segment);
    }

    #[inline(always)]
    fn send(
        endpoint: &mut Endpoint,
        now: Time,
        stamp: Stamp,
        header: &Header,
        network: &mut Network,
    ) {
        let mut packet = Packet::from_header(stamp, header);
        if endpoint.has_options(header.len) {
            packet.add_options(endpoint.take_options(header.len), &mut network.pool);
        }
        network.send(now, packet);
    }

    /// Sends what is pending, and schedules an event for the next timer.
    #[inline(always)]
    fn flush(&mut self, now: Time, stamp: Stamp, network: &mut Network) {
        let Self { endpoint, .. } = self;
        if endpoint.is_established() {
            if endpoint.is_silent() {
                while let Some(header) = endpoint.poll_acknowledgement(now) {
                    Self::send(endpoint, now, stamp, &header, network);
                }
            } else {
                while let Some(header) = endpoint.poll_established(now) {
                    Self::send(endpoint, now, stamp, &header, network);
                }
            }
        } else if let Some(segment) = endpoint.poll_transmit(now) {
            let packet = Packet::from_segment(stamp, &segment, &mut network.pool);
            network.send_seldom(now, packet);
        }
        self.arm(stamp, network);
    }

    /// Schedules an event for the next timer.
    #[inline(always)]
    fn arm(&mut self, stamp: Stamp, network: &mut Network) {
        if let Some(due) = self.endpoint.next_timer()
            && self.armed.is_after(due)
        {
            self.armed = due.into();
            network.agenda.schedule(due, Event::Timer(stamp.direction));
        }
        if let Some(due) = self.endpoint.take_departure() {
            network.agenda.schedule(due, Event::Pace(stamp.direction));
        }
    }
}

impl WindowIntegral {
    #[inline]
    fn advance(&mut self, now: Time, window: u32) {
        self.segment_seconds += f64::from(window) * now.since(self.last).as_secs_f64();
        self.last = now;
    }
}

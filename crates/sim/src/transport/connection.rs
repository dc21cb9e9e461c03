//! A TCP connection in the network: both ends, and their timers.
//!
//! The ends know nothing of each other but what packets tell them. They lie side by side because a
//! packet's flow leads to both.

use std::num::NonZeroU64;

use narrows_units::Time;

use super::Dialogue;
use super::tcp::{Config, Context, Endpoint, Flags, Header, Segment, Seq};
use crate::agenda::Event;
use crate::foresight::{Step, Touch};
use crate::maybe_time::MaybeTime;
use crate::network::Network;
use crate::packet::{Label, Packet, Stamp};

/// A connection. Fields are in order of heat, and lie in memory as they stand here.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Connection {
    /// Settings of each end: indices into the plan's `tcp`.
    pub(crate) configs: [u16; 2],
    label: Label,
    /// The first end sends the SYN.
    first_opens: bool,
    /// Ends, a bit each, that are to send when the applications have had their say.
    unsent: u8,
    /// The first end's application wants to know when this many of its bytes are acknowledged.
    pub(crate) awaits: Option<NonZeroU64>,
    window: WindowIntegral,
    established_at: MaybeTime,
    ended_at: MaybeTime,
    /// What the applications say to each other; `None`: they exchange bytes without meaning.
    pub(crate) dialogue: Option<Box<Dialogue>>,
    pub(crate) ends: [End; 2],
}

// A flow with its sender, rows and events is to stay below 1000 bytes.
const _: () = assert!(size_of::<Connection>() <= 392);

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

/// How a connection is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetUp<'a> {
    /// Settings of each end.
    pub(crate) configs: [&'a Config; 2],
    /// The same as indices into the plan's `tcp`.
    pub(crate) config_indices: [u16; 2],
    pub(crate) generation: u8,
    pub(crate) dns: bool,
    /// The first end sends the SYN.
    pub(crate) first_opens: bool,
    /// Initial sequence numbers.
    pub(crate) isns: [u32; 2],
}

impl Connection {
    pub(crate) fn new(set_up: &SetUp<'_>, dialogue: Option<Box<Dialogue>>) -> Self {
        let [first, second] = [0, 1].map(|side| {
            let (config, isn) = (set_up.configs[side], Seq(set_up.isns[side]));
            if set_up.first_opens == (side == 0) {
                Endpoint::client(config, isn)
            } else {
                Endpoint::server(config, isn)
            }
        });
        Self {
            configs: set_up.config_indices,
            label: Label::new(set_up.generation, set_up.dns),
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

    /// The first end: of a connection that carries data one way, its sender.
    #[inline]
    pub(crate) fn first(&self) -> &Endpoint {
        &self.ends[0].endpoint
    }

    #[inline]
    pub(crate) fn second(&self) -> &Endpoint {
        &self.ends[1].endpoint
    }

    /// Remembers that an end is to send; false: it was known.
    pub(crate) fn note_unsent(&mut self, side: usize) -> bool {
        let before = self.unsent;
        self.unsent |= 1 << side;
        self.unsent != before
    }

    /// What an end had to send is sent.
    pub(crate) fn forget_unsent(&mut self, side: usize) {
        self.unsent &= !(1 << side);
    }

    /// Tells it from the flows that had its number before.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u8 {
        self.label.generation
    }

    /// Which end sends the SYN: 0 or 1.
    pub(crate) fn opener(&self) -> u32 {
        u32::from(!self.first_opens)
    }

    /// The end that opens the connection sends its SYN (`config`: its settings); the other one waits.
    pub(crate) fn connect(&mut self, config: &Config, now: Time) {
        self.window.last = now;
        self.ends[self.opener() as usize].endpoint.connect(config, now);
    }

    /// A segment has come to its host, which then sends what it has to send. True: the first end's
    /// application is to be told that its bytes are acknowledged.
    #[inline(always)]
    pub(crate) fn handle_packet(
        &mut self,
        cx: &Context,
        packet: Packet,
        network: &mut Network,
    ) -> bool {
        let delivered = self.take_packet(cx, packet, network);
        // The end that a packet has come to answers on the other way.
        let stamp = self.stamp(packet.way ^ 1);
        self.ends[usize::from(!packet.goes_back())].flush(cx, stamp, network);
        delivered
    }

    /// The same for a connection with a dialogue, whose packets are counted.
    pub(crate) fn handle_counted(
        &mut self,
        cx: &Context,
        packet: Packet,
        network: &mut Network,
    ) -> bool {
        let delivered = self.take_packet(cx, packet, network);
        self.flush_counted(cx, usize::from(!packet.goes_back()), packet.way ^ 1, network);
        delivered
    }

    #[inline(always)]
    fn take_packet(&mut self, cx: &Context, packet: Packet, network: &mut Network) -> bool {
        let side = usize::from(!packet.goes_back());
        // One call for both ends: the compiler then puts the whole path in line.
        if side == 0 {
            self.window.advance(cx.now, self.first().cwnd());
        }
        let end = &mut self.ends[side];
        if packet.is_plain() {
            end.endpoint.handle_plain(cx, &packet.header());
        } else {
            end.handle_options(cx, packet, network);
        }
        let mut delivered = false;
        if side == 0 {
            self.note_progress(cx.now);
            if let Some(awaits) = self.awaits
                && self.first().bytes_acked() >= awaits.get()
            {
                self.awaits = None;
                delivered = true;
            }
        }
        delivered
    }

    /// The timer of an end (`way`: the one on which it sends). False: it was out of date.
    pub(crate) fn handle_timer(&mut self, cx: &Context, way: u32, network: &mut Network) -> bool {
        let side = way as usize % 2;
        let End { endpoint, armed } = &mut self.ends[side];
        if !armed.is(cx.now) {
            // A nearer deadline came in between; its event took over.
            return false;
        }
        *armed = MaybeTime::NONE;
        match endpoint.next_timeout() {
            Some(due) if due <= cx.now => endpoint.handle_timeout(cx.config, cx.now),
            // Most deadlines move on before they come: one event for many acknowledgements.
            Some(_) => {}
            None => return false,
        }
        if side == 0 {
            self.window.advance(cx.now, self.first().cwnd());
        }
        self.flush(cx, way, network);
        true
    }

    /// Sends what an end has to send (`way`: the one on which it sends).
    #[inline(never)]
    pub(crate) fn flush(&mut self, cx: &Context, way: u32, network: &mut Network) {
        let side = way as usize % 2;
        if self.dialogue.is_some() {
            self.flush_counted(cx, side, way, network);
        } else {
            let stamp = self.stamp(way);
            self.ends[side].flush(cx, stamp, network);
        }
    }

    /// The same, and counts the packets.
    #[inline(never)]
    fn flush_counted(&mut self, cx: &Context, side: usize, way: u32, network: &mut Network) {
        let stamp = self.stamp(way);
        let end = &mut self.ends[side];
        while let Some(segment) = end.endpoint.poll_transmit(cx.config, cx.now) {
            let packet = Packet::from_segment(stamp, &segment, &mut network.pool);
            if let Some(dialogue) = &mut self.dialogue {
                dialogue.sides[side].packets += 1;
                dialogue.sides[side].ip_bytes += u64::from(packet.bytes);
            }
            network.send_seldom(cx.now, packet);
        }
        end.arm(stamp, network);
    }

    /// Sends what the stateless end has to send (`way`: the one on which it sends), and makes sure that an
    /// event comes when its idle time is over.
    pub(crate) fn flush_stateless(&mut self, now: Time, way: u32, network: &mut Network) {
        let stamp = self.stamp(way);
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
            network.agenda.schedule(due, Event::TcpTimer(way));
        }
    }

    /// The stateless end's timer.
    pub(crate) fn handle_stateless_timer(&mut self, cx: &Context, way: u32, network: &mut Network) {
        if !self.ends[1].armed.is(cx.now) {
            return;
        }
        self.ends[1].armed = MaybeTime::NONE;
        if let Some(stateless) = self.dialogue.as_mut().and_then(|d| d.stateless.as_mut()) {
            stateless.handle_timeout(cx);
        }
        self.flush_stateless(cx.now, way, network);
    }

    /// Ordinary TCP takes the server's end over, with this segment (`way`: the client's).
    pub(crate) fn adopt(&mut self, cx: &Context, first: Segment, way: u32, network: &mut Network) {
        let Some(dialogue) = &mut self.dialogue else { return };
        let Some(stateless) = dialogue.stateless.take() else { return };
        let endpoint = &mut self.ends[1].endpoint;
        endpoint.adopt(cx, &stateless.adopted(&first), &first);
        endpoint.keep_open();
        let packet = Packet::from_segment(self.stamp(way), &first, &mut network.pool);
        self.handle_counted(cx, packet, network);
    }

    /// Ends the connection at once: a reset goes to the other end, and this one forgets.
    pub(crate) fn abort(&mut self, cx: &Context, way: u32, network: &mut Network) {
        let stamp = self.stamp(way);
        let end = &mut self.ends[way as usize % 2];
        if let Some(reset) = end.endpoint.abort(cx) {
            let packet = Packet::from_segment(stamp, &reset, &mut network.pool);
            network.send_seldom(cx.now, packet);
        }
    }

    /// Answers a packet for an end that knows of no connection (RFC 9293, 3.10.7.1).
    pub(crate) fn refuse(&self, now: Time, packet: Packet, network: &mut Network) {
        let segment = packet.into_segment(&mut network.pool);
        if segment.flags.contains(Flags::RST) {
            return;
        }
        let stamp = self.stamp(packet.way ^ 1);
        let packet = Packet::from_segment(stamp, &segment.reset(), &mut network.pool);
        network.send_seldom(now, packet);
    }

    /// When the first end was established.
    pub(crate) fn established_at(&self) -> Option<Time> {
        self.established_at.get()
    }

    /// When the first end was closed.
    pub(crate) fn ended_at(&self) -> Option<Time> {
        self.ended_at.get()
    }

    /// Time-weighted mean of the first end's congestion window in segments, from opening to `now`;
    /// NaN before.
    pub(crate) fn mean_window(&self, now: Time) -> f64 {
        let mut window = self.window;
        window.advance(now, self.first().cwnd());
        window.segment_seconds / now.as_secs_f64()
    }

    pub(crate) fn retransmissions(&self) -> u32 {
        self.first().counters().segments_retransmitted as u32
    }

    /// What the packets on a way have in common.
    #[inline(always)]
    fn stamp(&self, way: u32) -> Stamp {
        self.label.on_way(way)
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

/// The end to which a way leads.
impl Touch<u32> for Connection {
    #[inline(always)]
    fn touch(&self, way: u32, step: Step) -> u32 {
        let end = &self.ends[usize::from(way.is_multiple_of(2))];
        let own = match step {
            Step::First => u32::from(self.configs[0]) ^ u32::from(end.armed == MaybeTime::NONE),
            Step::Second | Step::Third => 0,
        };
        own ^ end.endpoint.touch((), step)
    }
}

impl End {
    /// A segment with SACK blocks, or a SYN.
    #[inline(never)]
    fn handle_options(&mut self, cx: &Context, packet: Packet, network: &mut Network) {
        let segment = packet.into_segment(&mut network.pool);
        self.endpoint.handle_segment(cx.config, cx.now, &segment);
    }

    #[inline(always)]
    fn send(
        endpoint: &mut Endpoint,
        cx: &Context,
        stamp: Stamp,
        header: &Header,
        network: &mut Network,
    ) {
        let mut packet = Packet::from_header(stamp, header);
        // Data segments are full: SACK blocks do not fit there.
        if header.len == 0 && endpoint.has_sack_blocks() {
            packet.add_sack_blocks(endpoint.take_sack_blocks(), &mut network.pool);
        }
        network.send(cx.now, packet);
    }

    /// Sends what is to be sent, and makes sure that an event comes when the next timer is due.
    #[inline(always)]
    fn flush(&mut self, cx: &Context, stamp: Stamp, network: &mut Network) {
        let Self { endpoint, .. } = self;
        if endpoint.is_established() {
            if endpoint.is_silent() {
                if let Some(header) = endpoint.poll_acknowledgement(cx) {
                    Self::send(endpoint, cx, stamp, &header, network);
                }
            } else {
                while let Some(header) = endpoint.poll_established(cx) {
                    Self::send(endpoint, cx, stamp, &header, network);
                }
            }
        } else if let Some(segment) = endpoint.poll_transmit(cx.config, cx.now) {
            let packet = Packet::from_segment(stamp, &segment, &mut network.pool);
            network.send_seldom(cx.now, packet);
        }
        self.arm(stamp, network);
    }

    /// Makes sure that an event comes when the next timer is due.
    #[inline(always)]
    fn arm(&mut self, stamp: Stamp, network: &mut Network) {
        if let Some(due) = self.endpoint.next_timeout()
            && self.armed.is_after(due)
        {
            self.armed = due.into();
            network.agenda.schedule(due, Event::TcpTimer(stamp.way));
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

//! TCP connections in the network: both ends, their timers, and the application that sends.

use std::hint::black_box;

use narrows_units::Time;

use crate::agenda::Event;
use crate::network::{Network, kind};
use crate::packet::Packet;
use crate::plan::{Connection as ConnectionPlan, Opener, Plan};
use crate::random::Random;
use crate::source::Source;
use crate::tcp::{Config, Context, Endpoint, Header, Seq, tick_us};

/// All connections of a run.
#[derive(Debug)]
pub(crate) struct Connections {
    connections: Vec<Connection>,
    /// With the microseconds in a jiffy.
    configs: Vec<(Config, u32)>,
    sources: Vec<Source>,
    pub(crate) bursts: Vec<BurstRow>,
}

/// A connection: the data's sender, its receiver, and what the application does. Fields are in
/// order of heat, and lie in memory as they stand here.
#[derive(Debug)]
#[repr(C)]
struct Connection {
    config: u32,
    /// Bursts begun.
    bursts: u32,
    /// The application waits for this many bytes to be acknowledged; `u64::MAX`: for nothing.
    awaits: u64,
    window: WindowIntegral,
    established_at: Time,
    ended_at: Time,
    /// The sender, then the receiver.
    ends: [End; 2],
    burst_started: Time,
    burst_retransmitted: u32,
    application: Application,
}

// Seven cache lines: a flow with its sender, rows and events is to stay below 1000 bytes.
const _: () = assert!(size_of::<Connection>() <= 448);

/// An end of a connection.
#[derive(Debug)]
struct End {
    endpoint: Endpoint,
    /// When the pending timer event is due; `Time::MAX` where there is none.
    armed: Time,
}

/// The time integral of the congestion window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowIntegral {
    segment_seconds: f64,
    last: Time,
}

/// The application at the sender.
#[derive(Debug)]
struct Application {
    random: Random,
    /// Bytes of the current burst.
    burst_bytes: u64,
    /// An index into `Connections::sources`.
    source: u32,
    /// Nothing more is written.
    stopped: bool,
}

/// A burst: a row of the table `bursts`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstRow {
    pub(crate) connection: u32,
    pub(crate) burst: u32,
    pub(crate) start: Time,
    /// `Time::MAX`: it is still going on.
    pub(crate) end: Time,
    pub(crate) bytes: u64,
    pub(crate) retransmitted: u32,
}

/// What the table `flows` says of a connection beyond its plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowFacts<'a> {
    pub(crate) sender: &'a Endpoint,
    pub(crate) receiver: &'a Endpoint,
    pub(crate) established_at: Time,
    pub(crate) ended_at: Time,
    pub(crate) mean_window: f64,
}

impl Connections {
    pub(crate) fn new(plan: &Plan, network: &mut Network) -> Self {
        let mut connections = Vec::with_capacity(plan.connections.len());
        for (index, connection) in plan.connections.iter().enumerate() {
            network.agenda.schedule(connection.start, Event::new(kind::SOURCE, index as u32));
            if let Some(stop) = connection.stop {
                network.agenda.schedule(stop, Event::new(kind::STOP, index as u32));
            }
            connections.push(Connection::new(connection, plan));
        }
        Self {
            connections,
            configs: plan.tcp.iter().map(|config| (config.clone(), tick_us(config))).collect(),
            sources: plan.sources.clone(),
            bursts: Vec::new(),
        }
    }

    /// The application's event: the connection opens, or an idle time ends.
    pub(crate) fn handle_source(&mut self, now: Time, index: u32, network: &mut Network) {
        let connection = &mut self.connections[index as usize];
        if connection.application.stopped {
            return;
        }
        let (config, _) = &self.configs[connection.config as usize];
        if connection.bursts == 0 {
            connection.window.last = now;
            // The end that waits for a SYN ignores this.
            for end in &mut connection.ends {
                end.endpoint.connect(config, now);
            }
        }
        let turn = connection.bursts;
        connection.bursts += 1;
        connection.burst_started = now;
        connection.burst_retransmitted = connection.retransmissions();
        let sender = &mut connection.ends[0].endpoint;
        let application = &mut connection.application;
        match &self.sources[application.source as usize] {
            Source::Bulk => sender.write_forever(config, now),
            Source::OnOff { burst, bursts, .. } => {
                let bytes = burst.next(&mut application.random, turn);
                application.burst_bytes = bytes;
                sender.write(config, now, bytes);
                if *bursts == Some(turn + 1) {
                    sender.close(config, now);
                    application.stopped = true;
                }
                connection.awaits = sender.bytes_acked() + bytes;
            }
        }
        self.flush(now, 2 * index + 1, network);
        self.flush(now, 2 * index, network);
    }

    /// The application stops: what it has written goes out, and then a FIN.
    pub(crate) fn handle_stop(&mut self, now: Time, index: u32, network: &mut Network) {
        let connection = &mut self.connections[index as usize];
        connection.application.stopped = true;
        let (config, _) = &self.configs[connection.config as usize];
        let sender = &mut connection.ends[0].endpoint;
        sender.end_forever();
        sender.close(config, now);
        self.flush(now, 2 * index, network);
    }

    /// A segment has come to its host.
    #[inline]
    pub(crate) fn handle_packet(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let index = packet.route / 2;
        let to_receiver = packet.route.is_multiple_of(2);
        let connection = &mut self.connections[index as usize];
        let (config, tick_us) = &self.configs[connection.config as usize];
        let cx = Context::with_tick(config, *tick_us, now);
        // One call for both ends: the compiler then puts the whole path in line.
        if !to_receiver {
            connection.window.advance(now, connection.sender().cwnd());
        }
        let end = &mut connection.ends[usize::from(to_receiver)];
        if packet.is_plain() {
            end.endpoint.handle_plain(&cx, &packet.header());
        } else {
            end.handle_options(&cx, packet, network);
        }
        if !to_receiver {
            connection.note_progress(now);
            if connection.sender().bytes_acked() >= connection.awaits {
                self.bursts.push(connection.end_burst(now, index, &self.sources, network));
            }
        }
        // The end that a packet has come to answers on the other route.
        connection.ends[usize::from(to_receiver)].flush(&cx, packet.route ^ 1, network);
    }

    /// Reads what [`handle_packet`](Self::handle_packet) will need for packets on these routes.
    pub(crate) fn foresee(&self, routes: &[u32]) {
        for &route in routes {
            let connection = &self.connections[(route / 2) as usize];
            let end = connection.end_of(route);
            black_box((connection.config, end.armed, end.endpoint.touch()));
        }
        for &route in routes {
            let end = self.connections[(route / 2) as usize].end_of(route);
            black_box(end.endpoint.touch_sender());
        }
        for &route in routes {
            let end = self.connections[(route / 2) as usize].end_of(route);
            black_box(end.endpoint.touch_scoreboard());
        }
    }

    /// A timer's event (`index`: twice the connection, plus one for the receiver).
    pub(crate) fn handle_timer(&mut self, now: Time, index: u32, network: &mut Network) {
        let connection = &mut self.connections[(index / 2) as usize];
        let (config, _) = &self.configs[connection.config as usize];
        let End { endpoint, armed } = &mut connection.ends[index as usize % 2];
        if *armed != now {
            // A nearer deadline came in between; its event took over.
            return;
        }
        *armed = Time::MAX;
        match endpoint.next_timeout() {
            Some(due) if due <= now => endpoint.handle_timeout(config, now),
            // Most deadlines move on before they come: one event for many acknowledgements.
            Some(_) => {}
            None => return,
        }
        if index.is_multiple_of(2) {
            connection.window.advance(now, connection.sender().cwnd());
        }
        self.flush(now, index, network);
    }

    /// Rows of bursts that are still going on.
    pub(crate) fn unfinished_bursts(&self) -> impl Iterator<Item = BurstRow> {
        self.connections.iter().enumerate().filter(|(_, c)| c.awaits != u64::MAX).map(
            |(index, connection)| BurstRow {
                connection: index as u32,
                burst: connection.bursts - 1,
                start: connection.burst_started,
                end: Time::MAX,
                bytes: connection.application.burst_bytes,
                retransmitted: connection.burst_retransmissions(),
            },
        )
    }

    /// What the flows table says of each connection, in the plan's order.
    pub(crate) fn facts(&self, now: Time) -> impl Iterator<Item = FlowFacts<'_>> {
        self.connections.iter().map(move |connection| FlowFacts {
            sender: connection.sender(),
            receiver: connection.receiver(),
            established_at: connection.established_at,
            ended_at: connection.ended_at,
            mean_window: connection.mean_window(now),
        })
    }

    /// Sends what an end has to send (`index`: twice the connection, plus one for the receiver).
    #[inline(never)]
    fn flush(&mut self, now: Time, index: u32, network: &mut Network) {
        let connection = &mut self.connections[(index / 2) as usize];
        let (config, tick_us) = &self.configs[connection.config as usize];
        let cx = Context::with_tick(config, *tick_us, now);
        connection.ends[index as usize % 2].flush(&cx, index, network);
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
        index: u32,
        header: &Header,
        network: &mut Network,
    ) {
        let mut packet = Packet::from_header(index, header);
        // Data segments are full: SACK blocks do not fit there.
        if header.len == 0 && endpoint.has_sack_blocks() {
            packet.add_sack_blocks(endpoint.take_sack_blocks(), &mut network.pool);
        }
        network.send(cx.now, packet);
    }

    /// Sends what is to be sent on the route `index`, and makes sure that an event comes when the
    /// next timer is due.
    #[inline(always)]
    fn flush(&mut self, cx: &Context, index: u32, network: &mut Network) {
        let Self { endpoint, armed } = self;
        // Data and acknowledgements have routes with the same numbers as the ends.
        if endpoint.is_established() {
            if endpoint.is_silent() {
                if let Some(header) = endpoint.poll_acknowledgement(cx) {
                    Self::send(endpoint, cx, index, &header, network);
                }
            } else {
                while let Some(header) = endpoint.poll_established(cx) {
                    Self::send(endpoint, cx, index, &header, network);
                }
            }
        } else if let Some(segment) = endpoint.poll_transmit(cx.config, cx.now) {
            let packet = Packet::from_segment(index, &segment, &mut network.pool);
            network.send_first(cx.now, packet);
        }
        if let Some(due) = endpoint.next_timeout()
            && due < *armed
        {
            *armed = due;
            network.agenda.schedule(due, Event::new(kind::TIMER, index));
        }
    }
}

impl Connection {
    fn new(connection: &ConnectionPlan, plan: &Plan) -> Self {
        let mut random = Random::new(plan.seed, &connection.name);
        let config = &plan.tcp[connection.tcp];
        let (sender_isn, receiver_isn) = (Seq(random.bits()), Seq(random.bits()));
        let (sender, receiver) = match connection.opener {
            Opener::Sender => {
                (Endpoint::client(config, sender_isn), Endpoint::server(config, receiver_isn))
            }
            Opener::Receiver => {
                (Endpoint::server(config, sender_isn), Endpoint::client(config, receiver_isn))
            }
        };
        Self {
            ends: [sender, receiver].map(|endpoint| End { endpoint, armed: Time::MAX }),
            config: connection.tcp as u32,
            bursts: 0,
            awaits: u64::MAX,
            burst_started: Time::ZERO,
            burst_retransmitted: 0,
            established_at: Time::MAX,
            ended_at: Time::MAX,
            application: Application {
                random,
                burst_bytes: 0,
                source: connection.source as u32,
                stopped: false,
            },
            window: WindowIntegral::default(),
        }
    }

    /// The end to which a route leads.
    #[inline(always)]
    fn end_of(&self, route: u32) -> &End {
        &self.ends[usize::from(route.is_multiple_of(2))]
    }

    #[inline]
    fn sender(&self) -> &Endpoint {
        &self.ends[0].endpoint
    }

    #[inline]
    fn receiver(&self) -> &Endpoint {
        &self.ends[1].endpoint
    }

    /// The burst's last byte is acknowledged.
    #[inline(never)]
    fn end_burst(
        &mut self,
        now: Time,
        index: u32,
        sources: &[Source],
        network: &mut Network,
    ) -> BurstRow {
        let application = &mut self.application;
        if let Source::OnOff { idle, .. } = &sources[application.source as usize]
            && !application.stopped
        {
            let next = now + idle.next(&mut application.random, self.bursts - 1);
            // An idle time beyond the end of all times has no end.
            if next < Time::MAX {
                network.agenda.schedule(next, Event::new(kind::SOURCE, index));
            }
        }
        self.awaits = u64::MAX;
        self.ends[0].endpoint.release_memory();
        BurstRow {
            connection: index,
            burst: self.bursts - 1,
            start: self.burst_started,
            end: now,
            bytes: self.application.burst_bytes,
            retransmitted: self.burst_retransmissions(),
        }
    }

    #[inline]
    fn note_progress(&mut self, now: Time) {
        if self.established_at == Time::MAX && self.sender().is_established() {
            self.established_at = now;
        }
        if self.ended_at == Time::MAX && self.sender().is_closed() {
            self.ended_at = now;
        }
    }

    fn retransmissions(&self) -> u32 {
        self.sender().counters().segments_retransmitted as u32
    }

    fn burst_retransmissions(&self) -> u32 {
        self.retransmissions().wrapping_sub(self.burst_retransmitted)
    }

    /// Time-weighted mean of the congestion window in segments, from opening to `now`; NaN before.
    fn mean_window(&self, now: Time) -> f64 {
        let mut window = self.window;
        window.advance(now, self.sender().cwnd());
        window.segment_seconds / now.as_secs_f64()
    }
}

impl WindowIntegral {
    #[inline]
    fn advance(&mut self, now: Time, window: u32) {
        self.segment_seconds += f64::from(window) * now.since(self.last).as_secs_f64();
        self.last = now;
    }
}

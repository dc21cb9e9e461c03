//! Listening servers: which connections they admit, and which wait to be accepted.

use std::collections::VecDeque;

use narrows_apps::Socket;
use narrows_transport::half_open::{Admission, Counts, HalfOpen, HalfOpenLimits};
use narrows_transport::tcp::{Config, Flags, Segment, Seq, SynOptions};
use narrows_transport::{quic, tls};
use narrows_units::Time;

use super::{Flow, Flows};
use crate::agenda::Event;
use crate::network::Network;
use crate::packet::Packet;

/// A listening server's settings and queues.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) application: u32,
    /// The TCP settings of its ends: an index into the plan's `tcp`.
    pub(super) config: u16,
    /// How many connections may wait to be accepted.
    pub(super) backlog: u32,
    /// Connections that wait to be accepted, the oldest first.
    pub(super) queue: VecDeque<Socket>,
    pub(super) half_open: HalfOpen,
    /// Whether queries are taken without a connection wherever possible.
    pub(super) stateless: bool,
    /// TLS settings; `None`: it has no TLS.
    pub(super) tls: Option<tls::Server>,
    /// Ports with other TCP and TLS settings.
    ports: Vec<(u16, (u16, tls::Server))>,
    /// QUIC settings, used with the TLS above; `None`: it has no QUIC.
    pub(super) quic: Option<quic::Config>,
}

impl Flows {
    /// Lets an application listen for connections.
    pub(crate) fn listen(
        &mut self,
        application: u32,
        config: u16,
        backlog: u32,
        limits: HalfOpenLimits,
    ) {
        let half_open =
            HalfOpen::new(backlog, limits, self.configs[usize::from(config)].timer_granularity);
        let queue = VecDeque::new();
        self.listeners.push(Listener {
            application,
            config,
            backlog,
            queue,
            half_open,
            stateless: false,
            tls: None,
            ports: Vec::new(),
            quic: None,
        });
    }

    /// Lets an application's listener use TLS with clients that do.
    pub(crate) fn serve_securely(&mut self, application: u32, tls: tls::Server) {
        if let Some(listener) = self.listener(application) {
            listener.tls = Some(tls);
        }
    }

    /// Sets other TCP settings (an index into the plan's `tcp`) and TLS settings for one port.
    pub(crate) fn serve_securely_at(
        &mut self,
        application: u32,
        port: u16,
        settings: (u16, tls::Server),
    ) {
        if let Some(listener) = self.listener(application) {
            listener.ports.push((port, settings));
        }
    }

    /// Lets an application's listener keep no state before a query.
    pub(crate) fn serve_without_state(&mut self, application: u32) {
        if let Some(listener) = self.listener(application) {
            listener.stateless = true;
        }
    }

    /// Returns what an application's listener has done about SYNs, or `None` if it does not listen.
    pub(crate) fn half_open(&self, application: u32) -> Option<Counts> {
        let listener = self.listeners.iter().find(|l| l.application == application)?;
        Some(listener.half_open.counts())
    }

    /// Returns the next connection that waits for an application, if any.
    pub(crate) fn accept(&mut self, now: Time, application: u32) -> Option<Socket> {
        let listener = self.listener(application)?;
        let socket = listener.queue.pop_front()?;
        if let Some(connection) = self.connection_of(socket)
            && let Some(dialogue) = &mut connection.dialogue
        {
            dialogue.sides[socket.side()].accept();
        }
        if let Some(connection) = self.quic_of(socket) {
            let side = &mut connection.sides[socket.side()];
            (side.attached, side.queued) = (true, false);
        }
        self.collect_news(now, socket.end);
        Some(socket)
    }

    /// Handles a segment that belongs to no connection: a SYN with a forged source address, or an
    /// answer to it.
    #[cold]
    pub(super) fn handle_stray(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let flow = packet.flow();
        let Flow::Udp(label) = self.table[flow as usize] else {
            packet.discard(&mut network.pool);
            return;
        };
        if label.generation != packet.generation || !packet.is_syn() {
            packet.discard(&mut network.pool);
            return;
        }
        let syn = packet.into_segment(&mut network.pool);
        let application = self.owners[flow as usize].applications[1];
        let place = self.listeners.iter().position(|l| l.application == application);
        let Some(place) = place else {
            let stamp = label.in_direction(2 * flow + 1);
            let reset = Packet::from_segment(stamp, &syn.reset(), &mut network.pool);
            network.send_seldom(now, reset);
            return;
        };
        let listener = &mut self.listeners[place];
        let admission = listener.admit();
        if admission == Admission::Entry {
            listener.half_open.enter_request(now, flow, syn.seq.0);
            if let Some(due) = listener.half_open.arm() {
                network.agenda.schedule(due, Event::HalfOpen(place as u32));
            }
        }
        if admission != Admission::Dropped {
            let answer = syn_ack(&self.configs[usize::from(listener.config)], syn.seq);
            let stamp = label.in_direction(2 * flow + 1);
            let packet = Packet::from_segment(stamp, &answer, &mut network.pool);
            network.send_seldom(now, packet);
        }
    }

    /// Repeats a listener's SYN-ACKs that are due, unless the event is out of date.
    #[cold]
    pub(crate) fn repeat_syn_acks(&mut self, now: Time, place: u32, network: &mut Network) {
        let Self { listeners, table, configs, .. } = self;
        let Listener { half_open, config, .. } = &mut listeners[place as usize];
        if !half_open.disarm(now) {
            return;
        }
        let config = &configs[usize::from(*config)];
        half_open.handle_timeouts(now, |request| {
            if let Flow::Udp(label) = table[request.flow as usize] {
                let stamp = label.in_direction(2 * request.flow + 1);
                let answer = syn_ack(config, Seq(request.seq));
                let packet = Packet::from_segment(stamp, &answer, &mut network.pool);
                network.send_seldom(now, packet);
            }
        });
        if let Some(due) = half_open.arm() {
            network.agenda.schedule(due, Event::HalfOpen(place));
        }
    }

    pub(super) fn listener(&mut self, application: u32) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| listener.application == application)
    }
}

impl Listener {
    /// Returns the TCP settings (an index into the plan's `tcp`) and TLS settings for a port.
    pub(super) fn settings(&self, port: Option<u16>) -> (u16, Option<tls::Server>) {
        let other = self.ports.iter().find(|&&(other, _)| port == Some(other));
        other.map_or((self.config, self.tls), |&(_, (config, tls))| (config, Some(tls)))
    }

    /// Decides what happens to a SYN; `sk_acceptq_is_full` drops it.
    pub(super) fn admit(&mut self) -> Admission {
        self.half_open.admit(self.queue.len() <= self.backlog as usize)
    }
}

/// Returns the answer to a SYN with all options.
fn syn_ack(config: &Config, seq: Seq) -> Segment {
    Segment {
        ack: seq + 1,
        window: u16::MAX,
        flags: Flags::SYN.with(Flags::ACK),
        timestamps: config.timestamps.then_some((0, 0)),
        syn: Some(SynOptions {
            mss: config.mss,
            window_scale: config.window_scaling.then_some(7),
            sack_permitted: config.sack,
            fast_open: None,
        }),
        ..Segment::default()
    }
}

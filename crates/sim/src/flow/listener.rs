//! Servers that listen: who may come in, and who waits to be accepted.

use std::collections::VecDeque;

use narrows_units::Time;

use super::{Flow, Flows};
use crate::agenda::Event;
use crate::application::Socket;
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::half_open::{Admission, Counts, HalfOpen, Limits};
use crate::transport::tcp::{Config, Flags, Segment, Seq, SynOptions};
use crate::transport::{quic, tls};

/// Where a server waits for connections.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) application: u32,
    /// Settings of its ends: an index into the plan's `tcp`.
    pub(super) config: u16,
    /// Connections that may wait to be accepted.
    pub(super) backlog: u32,
    /// Those that do, the first one first.
    pub(super) queue: VecDeque<Socket>,
    pub(super) half_open: HalfOpen,
    /// Queries come without a connection, as far as that can be.
    pub(super) stateless: bool,
    /// How it speaks TLS; `None`: it does not.
    pub(super) tls: Option<tls::Server>,
    /// How it speaks QUIC, with that TLS; `None`: it does not.
    pub(super) quic: Option<quic::Config>,
}

impl Flows {
    /// An application waits for connections.
    pub(crate) fn listen(&mut self, application: u32, config: u16, backlog: u32, limits: Limits) {
        let half_open = HalfOpen::new(backlog, limits);
        let queue = VecDeque::new();
        self.listeners.push(Listener {
            application,
            config,
            backlog,
            queue,
            half_open,
            stateless: false,
            tls: None,
            quic: None,
        });
    }

    /// An application's listener speaks TLS with clients that do.
    pub(crate) fn serve_securely(&mut self, application: u32, tls: tls::Server) {
        if let Some(listener) = self.listener(application) {
            listener.tls = Some(tls);
        }
    }

    /// From now on an application's listener keeps nothing before a query.
    pub(crate) fn serve_without_state(&mut self, application: u32) {
        if let Some(listener) = self.listener(application) {
            listener.stateless = true;
        }
    }

    /// What an application's listener has done about SYNs; `None`: it does not listen.
    pub(crate) fn half_open(&self, application: u32) -> Option<Counts> {
        let listener = self.listeners.iter().find(|l| l.application == application)?;
        Some(listener.half_open.counts())
    }

    /// The next connection that waits for an application, if any.
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

    /// A segment has come that is of no connection: a SYN whose sender nobody will find, or an answer
    /// to it.
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
            let stamp = label.on_way(2 * flow + 1);
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
            let answer = syn_ack(&self.configs[usize::from(listener.config)].0, syn.seq);
            let stamp = label.on_way(2 * flow + 1);
            let packet = Packet::from_segment(stamp, &answer, &mut network.pool);
            network.send_seldom(now, packet);
        }
    }

    /// SYN-ACKs of a listener have to be repeated, unless the event is out of date.
    #[cold]
    pub(crate) fn repeat_syn_acks(&mut self, now: Time, place: u32, network: &mut Network) {
        let Self { listeners, table, configs, .. } = self;
        let Listener { half_open, config, .. } = &mut listeners[place as usize];
        if !half_open.disarm(now) {
            return;
        }
        let config = &configs[usize::from(*config)].0;
        half_open.handle_timeouts(now, |request| {
            if let Flow::Udp(label) = table[request.flow as usize] {
                let stamp = label.on_way(2 * request.flow + 1);
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
    /// What happens to a SYN; `sk_acceptq_is_full` drops it.
    pub(super) fn admit(&mut self) -> Admission {
        self.half_open.admit(self.queue.len() <= self.backlog as usize)
    }
}

/// The answer to a SYN that has all options.
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

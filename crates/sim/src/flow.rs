//! One table of all flows: who owns their ends, which way their packets go, and their transport.
//!
//! A flow is what two hosts exchange under one pair of addresses: a TCP connection, or the
//! datagrams of an application's sockets with one server. Packets carry its number. Flows are opened
//! and closed while the run goes on, and a number that is free is used again; a *generation* of one
//! byte, in packets and [`Socket`]s, tells the flows apart that had it, so that late packets find
//! nobody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narrows_units::Time;

use crate::agenda::Event;
use crate::application::{Application, Closed, Datagram, Lost, Message, Socket, dns};
use crate::foresight::{Step, Touch};
use crate::network::Network;
use crate::packet::{Label, Packet, Stamp};
use crate::plan::NeighbourPair;
use crate::spoken::Spoken;
use crate::transport::connection::SetUp;
use crate::transport::half_open::{Admission, Counts, HalfOpen, Limits};
use crate::transport::stateless::{self, Answer, Stateless, Told};
use crate::transport::tcp::{Config, Context, Flags, Segment, Seq, SynOptions, tick_us};
use crate::transport::tls::{self, Flight, Tls};
use crate::transport::{Connection, Dialogue, News};

/// All flows of a run.
#[derive(Debug)]
pub(crate) struct Flows {
    table: Vec<Flow>,
    owners: Vec<Owners>,
    /// Numbers to be used again, the longest free one first.
    free: VecDeque<u32>,
    /// With the microseconds in a jiffy.
    configs: Vec<(Config, u32)>,
    listeners: Vec<Listener>,
    /// Connections with a row in the table `flows`.
    listed: Vec<Listed>,
    /// Their names, one after the other.
    names: String,
    /// What applications are to be told, in order.
    news: Vec<Notice>,
    /// Ends whose applications have written, opened or closed, and whose segments are not yet sent.
    unsent: Vec<u32>,
    /// Flows that both ends have done with.
    ending: Vec<u32>,
    /// Sockets for datagrams that were given out.
    sockets: u32,
    /// Fast Open cookies: a host, and the server that gave it one.
    cookies: BTreeSet<(u32, u32)>,
    /// What DNS connections carry in clear, for captures; `None`: nobody wants to know.
    spoken: Option<Box<Spoken>>,
    /// Tickets of TLS: of an application, from a server, how many.
    tickets: BTreeMap<[u32; 2], u32>,
}

/// What carries a flow. Almost all are connections, and a packet is to find one without a detour.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be one cache miss more a packet")]
enum Flow {
    Tcp(Connection),
    /// The datagrams of an application's sockets.
    Udp(Label),
    /// Nobody has the number; the next flow has this generation.
    Free(u8),
}

/// Who owns a flow.
#[derive(Clone, Copy, Debug)]
struct Owners {
    /// The applications at its ends; of a connection that carries data one way, both the same.
    applications: [u32; 2],
    /// What the applications at its ends call the flow.
    numbers: [u32; 2],
    /// The way there: an index into the plan's paths.
    there: u32,
}

/// A connection that the table `flows` lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    flow: u32,
    /// Where its name ends in `names`.
    name_end: u32,
    pub(crate) start: Time,
}

/// Where a server waits for connections.
#[derive(Debug)]
struct Listener {
    application: u32,
    /// Settings of its ends: an index into the plan's `tcp`.
    config: u16,
    /// Connections that may wait to be accepted.
    backlog: u32,
    /// Those that do, the first one first.
    queue: VecDeque<Socket>,
    half_open: HalfOpen,
    /// Queries come without a connection, as far as that can be.
    stateless: bool,
    /// How it speaks TLS; `None`: it does not.
    tls: Option<tls::Server>,
}

/// Something that an application is to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Opened(Socket),
    /// A whole message, and when its first byte had come.
    Received(Socket, Message, Time),
    Delivered(Socket),
    Closed(Socket, Closed),
    /// Of TLS; the application does not hear of it.
    Flight(Socket, Flight),
    /// An application has a connection to accept.
    Arrived(u32),
    Datagram(Datagram),
    Lost(Datagram, Lost),
}

impl Flows {
    pub(crate) fn new(configs: &[Config]) -> Self {
        Self {
            table: Vec::new(),
            owners: Vec::new(),
            free: VecDeque::new(),
            configs: configs.iter().map(|config| (config.clone(), tick_us(config))).collect(),
            listeners: Vec::new(),
            listed: Vec::new(),
            names: String::new(),
            news: Vec::new(),
            unsent: Vec::new(),
            ending: Vec::new(),
            sockets: 0,
            cookies: BTreeSet::new(),
            spoken: None,
            tickets: BTreeMap::new(),
        }
    }

    /// From now on the messages of DNS connections are noted.
    pub(crate) fn note_messages(&mut self) {
        self.spoken = Some(Box::default());
    }

    /// The messages of DNS connections, where they are noted.
    pub(crate) fn spoken(&self) -> Option<&Spoken> {
        self.spoken.as_deref()
    }

    /// The same, for writing.
    pub(crate) fn spoken_mut(&mut self) -> Option<&mut Spoken> {
        self.spoken.as_deref_mut()
    }

    /// How many numbers are in use, or were.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Makes room for so many more flows, with names of so many bytes in all.
    pub(crate) fn reserve(&mut self, flows: usize, name_bytes: usize) {
        self.table.reserve_exact(flows);
        self.owners.reserve_exact(flows);
        self.listed.reserve_exact(flows);
        self.names.reserve_exact(name_bytes);
    }

    /// Sets up a connection between two applications, or within one.
    pub(crate) fn add_connection(
        &mut self,
        now: Time,
        new: &NewConnection,
        network: &mut Network,
    ) -> Socket {
        let (flow, generation) = self.next_number();
        let dialogue = new.dialogue.then(|| Box::new(Dialogue::new()));
        let server = new.applications[1];
        let of_server = self.listeners.iter().find(|l| new.dialogue && l.application == server);
        let config_indices = [new.config, of_server.map_or(new.config, |l| l.config)];
        let stateless = of_server.is_some_and(|listener| listener.stateless);
        let of_server = of_server.and_then(|listener| listener.tls);
        let most = [new.there, new.back].map(|path| network.longest_segment(now, path));
        let config_indices = [0, 1].map(|end| self.config_within(config_indices[end], most[end]));
        let set_up = SetUp {
            configs: config_indices.map(|index| &self.configs[usize::from(index)].0),
            config_indices,
            generation,
            dns: new.dns,
            first_opens: new.first_opens,
            isns: new.isns,
        };
        let mut connection = Connection::new(&set_up, dialogue);
        if new.dialogue {
            for end in &mut connection.ends {
                end.endpoint.keep_open();
            }
            if let (Some(client), Some(server)) = (new.tls, of_server) {
                let tickets = self.tickets.entry(new.applications).or_default();
                let tls = Tls::new(client, server, *tickets > 0);
                if tls.is_resumed() {
                    *tickets -= 1;
                }
                if let Some(dialogue) = &mut connection.dialogue {
                    dialogue.tls = Some(tls);
                }
            }
            if stateless && let Some(dialogue) = &mut connection.dialogue {
                let scale = connection.ends[1].endpoint.window_scale();
                let end = Stateless::new(set_up.configs[1], Seq(new.isns[1]), scale);
                dialogue.stateless = Some(Box::new(end));
            }
            if set_up.configs[0].fast_open {
                let host = network.paths.nodes(new.there)[0];
                let cookie = self.cookies.contains(&(host, server));
                connection.ends[0].endpoint.use_fast_open(cookie);
            }
        }
        self.put(flow, Flow::Tcp(connection), new.owners());
        network.paths.assign(flow, new.there, new.back);
        network.set_ports(flow, new.ports(flow));
        let socket = Socket { end: 2 * flow, generation };
        if new.dns
            && new.tls.is_none()
            && let Some(spoken) = &mut self.spoken
        {
            spoken.begin(now, socket, new.isns);
        }
        socket
    }

    /// Sets up a flow of datagrams; gives its number.
    pub(crate) fn add_datagrams(&mut self, new: &NewConnection, network: &mut Network) -> Socket {
        let (flow, generation) = self.next_number();
        self.put(flow, Flow::Udp(Label::new(generation, new.dns)), new.owners());
        network.paths.assign(flow, new.there, new.back);
        network.set_ports(flow, new.ports(flow));
        Socket { end: 2 * flow, generation }
    }

    /// Sets up the flow of neighbours that resolve each other's addresses; gives its number. No
    /// application hears of it.
    pub(crate) fn add_neighbours(&mut self, pair: &NeighbourPair, network: &mut Network) -> u32 {
        let (flow, generation) = self.next_number();
        let (there, back) = (pair.there as u32, pair.back as u32);
        let owners = Owners { applications: [0; 2], numbers: [0; 2], there };
        self.put(flow, Flow::Udp(Label::new(generation, false)), owners);
        network.paths.assign(flow, there, back);
        network.set_ports(flow, [0; 2]);
        flow
    }

    /// Gives a connection a row in the table `flows`; the row's number.
    pub(crate) fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32 {
        self.names.push_str(name);
        // Names of 100 bytes for 2^28 flows would need 25 GB.
        let name_end = self.names.len() as u32;
        self.listed.push(Listed { flow: socket.flow(), name_end, start });
        self.listed.len() as u32 - 1
    }

    /// The first of so many sockets for datagrams, which nobody else has.
    pub(crate) fn take_sockets(&mut self, count: u32) -> u32 {
        let first = self.sockets;
        self.sockets = self.sockets.wrapping_add(count);
        first
    }

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
        self.collect_news(now, socket.end);
        Some(socket)
    }

    /// A segment has come to its host.
    #[inline]
    pub(crate) fn handle_segment(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let flow = packet.flow();
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else {
            self.handle_stray(now, packet, network);
            return;
        };
        let side = usize::from(!packet.goes_back());
        let (config, tick_us) = &self.configs[usize::from(connection.configs[side])];
        let cx = Context::with_tick(config, *tick_us, now);
        if connection.dialogue.is_some() {
            self.handle_dialogue(now, packet, network);
        } else if connection.handle_packet(&cx, packet, network) {
            let generation = connection.generation();
            self.news.push(Notice::Delivered(Socket { end: 2 * flow, generation }));
        }
    }

    /// The same for a connection whose applications exchange messages.
    #[inline(never)]
    fn handle_dialogue(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let flow = packet.flow();
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else { return };
        let side = usize::from(!packet.goes_back());
        let (config, tick_us) = &self.configs[usize::from(connection.configs[side])];
        let mut cx = Context::with_tick(config, *tick_us, now);
        if connection.generation() != packet.generation {
            // The connection it belongs to is gone; another one has its number.
            packet.discard(&mut network.pool);
            return;
        }
        if side == 1 && connection.dialogue.as_ref().is_some_and(|d| d.stateless.is_some()) {
            self.handle_stateless(now, packet, network);
            return;
        }
        let endpoint = &connection.ends[side].endpoint;
        if endpoint.is_failed() {
            connection.refuse(now, packet, network);
            return;
        }
        let mut admission = None;
        let without_fast_open;
        if endpoint.is_listening() {
            let application = self.owners[flow as usize].applications[side];
            let Some(listener) = self.listeners.iter_mut().find(|l| l.application == application)
            else {
                connection.refuse(now, packet, network);
                return;
            };
            if packet.is_syn() {
                admission = Some(listener.admit());
            }
            if admission == Some(Admission::Dropped) {
                // The client sends it again.
                packet.discard(&mut network.pool);
                return;
            }
            if admission == Some(Admission::Entry) {
                listener.half_open.enter();
            }
            if admission == Some(Admission::Cookie) {
                // `tcp_try_fastopen` is not called.
                without_fast_open = Config { fast_open: false, ..config.clone() };
                cx = Context::with_tick(&without_fast_open, *tick_us, now);
            }
        }
        let was_open = endpoint.is_open();
        if connection.handle_counted(&cx, packet, network) {
            let generation = connection.generation();
            self.news.push(Notice::Delivered(Socket { end: 2 * flow, generation }));
        }
        if let Some(dialogue) = &mut connection.dialogue {
            let this = &mut dialogue.sides[side];
            this.half_open |= admission == Some(Admission::Entry);
            if admission == Some(Admission::Cookie) {
                this.by_cookie = true;
                connection.ends[side].endpoint.forget_handshake();
            }
        }
        let end = 2 * flow + side as u32;
        let attached = connection.dialogue.as_ref().is_none_or(|d| d.sides[side].attached);
        if connection.ends[side].endpoint.take_cookie() {
            let owners = &self.owners[flow as usize];
            let host = network.paths.nodes(owners.there)[0];
            self.cookies.insert((host, owners.applications[1]));
        }
        if !was_open && connection.ends[side].endpoint.is_open() && !attached {
            let socket = Socket { end, generation: connection.generation() };
            let application = self.owners[flow as usize].applications[side];
            if let Some(dialogue) = &mut connection.dialogue {
                dialogue.sides[side].queued = true;
            }
            if let Some(listener) = self.listener(application) {
                listener.queue.push_back(socket);
                self.news.push(Notice::Arrived(application));
            }
        }
        self.collect_news(now, end);
    }

    /// TLS has a flight at an end, and answers.
    pub(crate) fn take_flight(
        &mut self,
        now: Time,
        socket: Socket,
        flight: Flight,
        network: &mut Network,
    ) {
        let side = socket.side();
        let owners = self.owners[socket.flow() as usize].applications;
        let Some(connection) = self.connection_of(socket) else { return };
        let Some(dialogue) = &mut connection.dialogue else { return };
        dialogue.sides[side].in_handshake = false;
        let Some(tls) = &mut dialogue.tls else { return };
        let mut writes = tls.answer(flight);
        if dialogue.sides[side].closing {
            writes.clear();
        }
        if let Flight::Tickets(count) = flight {
            *self.tickets.entry(owners).or_default() += count;
        }
        // Even without any the application may have something to be told.
        self.change(now, socket, |_, _| {});
        for write in writes {
            self.change(now, socket, |connection, cx| {
                if let Some(dialogue) = &mut connection.dialogue {
                    dialogue.write_flight(side, write);
                }
                let endpoint = &mut connection.ends[side].endpoint;
                endpoint.write(cx.config, cx.now, u64::from(write.bytes));
            });
            self.flush(now, socket.end, network);
        }
    }

    /// The same where the server's end keeps nothing before the query.
    fn handle_stateless(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let (flow, generation) = (packet.flow(), packet.generation);
        let segment = packet.into_segment(&mut network.pool);
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else { return };
        let (config, tick_us) = &self.configs[usize::from(connection.configs[1])];
        let cx = Context::with_tick(config, *tick_us, now);
        let Some(dialogue) = &mut connection.dialogue else { return };
        let query = dialogue.next_query();
        let whole = query.filter(|(_, message)| !dns::is_transfer(message));
        let whole =
            whole.map(|(end, _)| end as u32).filter(|&end| end <= stateless::LONGEST.into());
        let Some(end) = &mut dialogue.stateless else { return };
        let told = end.handle(&cx, &segment, whole);
        if told == Told::Ask {
            // The same again, where the reply was lost.
            let first = query.zip(whole).map(|((_, message), whole)| Message {
                bytes: whole - dns::LENGTH,
                notes: dns::exchange::Wanted::of(&message).taking(stateless::ASKED_SIZE).notes(),
                ..message
            });
            end.asked = end.asked.or(first);
            let association = Socket { end: 2 * flow, generation }.into();
            let (socket, goes_back) = (0, false);
            self.news.extend(end.asked.map(|message| {
                Notice::Datagram(Datagram { association, socket, goes_back, message })
            }));
        }
        connection.flush_stateless(now, 2 * flow + 1, network);
        if let Told::Adopt(first) = told {
            self.adopt(now, flow, first, network);
        }
    }

    /// A server's reply to a query that came without a connection.
    pub(crate) fn answer_stateless(
        &mut self,
        now: Time,
        socket: Socket,
        reply: &Message,
        network: &mut Network,
    ) {
        let flow = socket.flow();
        let Some(Flow::Tcp(connection)) = self.table.get_mut(flow as usize) else { return };
        if connection.generation() != socket.generation {
            return;
        }
        let (config, tick_us) = &self.configs[usize::from(connection.configs[1])];
        let cx = Context::with_tick(config, *tick_us, now);
        let Some(dialogue) = &mut connection.dialogue else { return };
        let Some(end) = &mut dialogue.stateless else { return };
        let bytes = (!dns::is_truncated(reply)).then_some(reply.bytes);
        match end.reply(&cx, bytes) {
            Answer::Sent => {
                let reply = Message { bytes: dns::LENGTH + reply.bytes, ..*reply };
                dialogue.answer_query(reply);
                if let Some(spoken) = &mut self.spoken {
                    spoken.write(socket, &reply);
                }
            }
            Answer::Repeated | Answer::Dropped => {}
            Answer::Adopt(query) => {
                self.adopt(now, flow, query, network);
                return;
            }
        }
        connection.flush_stateless(now, 2 * flow + 1, network);
    }

    /// Ordinary TCP takes a connection over that a server had without state.
    fn adopt(&mut self, now: Time, flow: u32, first: Segment, network: &mut Network) {
        let end = 2 * flow + 1;
        let application = self.owner(end);
        let listener = self.listener(application);
        // `sk_acceptq_is_full`: the segment is dropped, and the client sends it again.
        if listener.is_none_or(|listener| listener.queue.len() > listener.backlog as usize) {
            return;
        }
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else { return };
        let (config, tick_us) = &self.configs[usize::from(connection.configs[1])];
        let cx = Context::with_tick(config, *tick_us, now);
        connection.adopt(&cx, first, 2 * flow, network);
        let socket = Socket { end, generation: connection.generation() };
        if let Some(dialogue) = &mut connection.dialogue {
            dialogue.sides[1].queued = true;
        }
        if let Some(listener) = self.listener(application) {
            listener.queue.push_back(socket);
        }
        self.news.push(Notice::Arrived(application));
        self.collect_news(now, end);
    }

    /// A datagram, a fragment or an ICMP message has reached its host.
    #[inline(never)]
    pub(crate) fn handle_no_segment(&mut self, now: Time, packet: &Packet, network: &mut Network) {
        if packet.is_too_big() {
            self.handle_too_big(now, packet, network);
        } else if packet.is_fragment() {
            if let Some(whole) = network.assemble(now, packet) {
                self.handle_datagram(&whole);
            }
        } else {
            self.handle_datagram(packet);
        }
    }

    /// A router says that a segment was too long for a link.
    fn handle_too_big(&mut self, now: Time, packet: &Packet, network: &mut Network) {
        let way = packet.way ^ 1;
        let Flow::Tcp(connection) = &mut self.table[packet.flow() as usize] else { return };
        if connection.generation() != packet.generation {
            return;
        }
        network.learn_mtu(now, way, packet.mtu());
        let config = connection.configs[way as usize % 2];
        let (config, tick_us) = &self.configs[usize::from(config)];
        let cx = Context::with_tick(config, *tick_us, now);
        let endpoint = &mut connection.ends[way as usize % 2].endpoint;
        endpoint.handle_too_big(&cx, packet.quoted().seq, packet.mtu());
        connection.flush(&cx, way, network);
    }

    /// The settings of an end whose segments may not be longer than this, without options.
    fn config_within(&mut self, config: u16, most: u16) -> u16 {
        let (full, tick_us) = &self.configs[usize::from(config)];
        if full.mss <= most {
            return config;
        }
        let limited = Config { mss: most, ..full.clone() };
        if let Some(known) = self.configs.iter().position(|(config, _)| *config == limited) {
            return known as u16;
        }
        let tick_us = *tick_us;
        let Ok(next) = u16::try_from(self.configs.len()) else { return config };
        self.configs.push((limited, tick_us));
        next
    }

    /// A segment has come that is of no connection: a SYN whose sender nobody will find, or an answer
    /// to it.
    #[cold]
    fn handle_stray(&mut self, now: Time, packet: Packet, network: &mut Network) {
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

    /// A datagram has come to its host.
    pub(crate) fn handle_datagram(&mut self, packet: &Packet) {
        if let Some(datagram) = self.datagram(packet) {
            self.news.push(Notice::Datagram(datagram));
        }
    }

    /// A datagram was lost.
    pub(crate) fn note_loss(&mut self, packet: &Packet, lost: Lost) {
        if let Some(datagram) = self.datagram(packet) {
            self.news.push(Notice::Lost(datagram, lost));
        }
    }

    /// A timer's event (`end`: twice the flow, plus one for the second end).
    pub(crate) fn handle_timer(&mut self, now: Time, end: u32, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else { return };
        let config = connection.configs[end as usize % 2];
        let (config, tick_us) = &self.configs[usize::from(config)];
        let cx = Context::with_tick(config, *tick_us, now);
        let stateless = connection.dialogue.as_ref().is_some_and(|d| d.stateless.is_some());
        if stateless && !end.is_multiple_of(2) {
            connection.handle_stateless_timer(&cx, end, network);
            return;
        }
        if connection.handle_timer(&cx, end, network) && connection.dialogue.is_some() {
            self.collect_news(now, end);
        }
    }

    /// What applications are to be told; empty afterwards.
    pub(crate) fn take_news(&mut self, into: &mut Vec<Notice>) {
        std::mem::swap(&mut self.news, into);
    }

    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The application at an end.
    pub(crate) fn owner(&self, end: u32) -> u32 {
        self.owners[end as usize / 2].applications[end as usize % 2]
    }

    /// What the application at an end calls the flow.
    pub(crate) fn number(&self, socket: Socket) -> u32 {
        self.owners[socket.flow() as usize].numbers[socket.side()]
    }

    /// The application at an end will call the flow so.
    pub(crate) fn set_number(&mut self, socket: Socket, number: u32) {
        self.owners[socket.flow() as usize].numbers[socket.side()] = number;
    }

    /// The path from the first end to the second: an index into the plan's paths.
    pub(crate) fn there(&self, socket: Socket) -> u32 {
        self.owners[socket.flow() as usize].there
    }

    /// A socket's connection; `None`: it is gone.
    pub(crate) fn connection(&self, socket: Socket) -> Option<&Connection> {
        match self.table.get(socket.flow() as usize) {
            Some(Flow::Tcp(connection)) if connection.generation() == socket.generation => {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Lets `change` act on a socket's connection, and remembers that it may have to send. Does
    /// nothing where the connection is gone.
    pub(crate) fn change(
        &mut self,
        now: Time,
        socket: Socket,
        change: impl FnOnce(&mut Connection, &Context),
    ) {
        let Flow::Tcp(connection) = &mut self.table[socket.flow() as usize] else { return };
        if connection.generation() != socket.generation {
            return;
        }
        let config = connection.configs[socket.side()];
        let (config, tick_us) = &self.configs[usize::from(config)];
        change(connection, &Context::with_tick(config, *tick_us, now));
        if !self.unsent.contains(&socket.end) {
            self.unsent.push(socket.end);
        }
    }

    /// Sends what a socket's end has to send now, rather than when the application has had its say.
    pub(crate) fn flush(&mut self, now: Time, end: u32, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else { return };
        let config = connection.configs[end as usize % 2];
        let (config, tick_us) = &self.configs[usize::from(config)];
        connection.flush(&Context::with_tick(config, *tick_us, now), end, network);
    }

    /// Sends what applications have written, opened or closed.
    pub(crate) fn flush_all(&mut self, now: Time, network: &mut Network) {
        let mut next = 0;
        while let Some(&end) = self.unsent.get(next) {
            next += 1;
            self.flush(now, end, network);
            self.collect_news(now, end);
        }
        self.unsent.clear();
    }

    /// Ends a connection at once, and tells the other end if it may know of it.
    pub(crate) fn abort(&mut self, now: Time, socket: Socket, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[socket.flow() as usize] else { return };
        if connection.generation() != socket.generation {
            return;
        }
        let config = connection.configs[socket.side()];
        let (config, tick_us) = &self.configs[usize::from(config)];
        connection.abort(&Context::with_tick(config, *tick_us, now), socket.end, network);
        if let Some(dialogue) = &mut connection.dialogue {
            dialogue.sides[socket.side()].over = true;
        }
        self.collect_news(now, socket.end);
    }

    /// A datagram's label; `None` where the flow is gone.
    pub(crate) fn stamp(&self, socket: Socket) -> Option<Stamp> {
        match self.table.get(socket.flow() as usize) {
            Some(Flow::Udp(label)) => Some(label.on_way(socket.end)),
            _ => None,
        }
    }

    /// The rows of the table `flows`, each with its name, owner, first path and connection.
    pub(crate) fn listed(&self) -> impl Iterator<Item = Row<'_>> {
        let mut name_start = 0;
        self.listed.iter().map(move |listed| {
            let name = &self.names[name_start..listed.name_end as usize];
            name_start = listed.name_end as usize;
            let owners = &self.owners[listed.flow as usize];
            let Flow::Tcp(connection) = &self.table[listed.flow as usize] else {
                unreachable!("a listed flow is a connection, and is never freed")
            };
            Row {
                name,
                application: owners.applications[0],
                there: owners.there,
                start: listed.start,
                connection,
            }
        })
    }

    fn listener(&mut self, application: u32) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| listener.application == application)
    }

    fn connection_of(&mut self, socket: Socket) -> Option<&mut Connection> {
        match self.table.get_mut(socket.flow() as usize) {
            Some(Flow::Tcp(connection)) if connection.generation() == socket.generation => {
                Some(connection)
            }
            _ => None,
        }
    }

    fn datagram(&self, packet: &Packet) -> Option<Datagram> {
        let Flow::Udp(label) = &self.table[packet.flow() as usize] else { return None };
        (label.generation == packet.generation).then(|| Datagram {
            association: Socket { end: 2 * packet.flow(), generation: packet.generation }.into(),
            socket: packet.socket(),
            goes_back: packet.goes_back(),
            message: packet.message(),
        })
    }

    /// A number for a new flow, and its generation.
    fn next_number(&mut self) -> (u32, u8) {
        let Some(flow) = self.free.pop_front() else {
            // Checked against the largest number by the plan, and by `Host::open`.
            return (self.table.len() as u32, 0);
        };
        match self.table[flow as usize] {
            Flow::Free(generation) => (flow, generation),
            Flow::Tcp(_) | Flow::Udp(_) => unreachable!("only free numbers are on the list"),
        }
    }

    fn put(&mut self, flow: u32, state: Flow, owners: Owners) {
        if flow as usize == self.table.len() {
            self.table.push(state);
            self.owners.push(owners);
        } else {
            self.table[flow as usize] = state;
            self.owners[flow as usize] = owners;
        }
    }

    /// Finds out what an end's application does not know yet, and whether both ends have done with
    /// the flow.
    fn collect_news(&mut self, now: Time, end: u32) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else { return };
        let socket = Socket { end, generation: connection.generation() };
        let Connection { dialogue: Some(dialogue), ends, .. } = connection else { return };
        let endpoint = &ends[socket.side()].endpoint;
        let this = &mut dialogue.sides[socket.side()];
        // One that a Fast Open cookie opened never had an entry (`tcp_conn_request`).
        if this.half_open && (endpoint.is_open() || endpoint.is_failed()) {
            this.half_open = false;
            let application = self.owners[end as usize / 2].applications[socket.side()];
            if let Some(listener) = self.listeners.iter_mut().find(|l| l.application == application)
            {
                listener.half_open.leave();
            }
        }
        while let Some(news) = dialogue.next_news(now, socket.side(), endpoint) {
            self.news.push(match news {
                News::Opened => Notice::Opened(socket),
                News::Flight(flight) => Notice::Flight(socket, flight),
                News::Received(message, begun) => Notice::Received(socket, message, begun),
                News::Closed(how) => Notice::Closed(socket, how),
            });
        }
        let is_over = |side: usize| {
            let endpoint = &ends[side].endpoint;
            dialogue.sides[side].over
                || (!dialogue.sides[side].attached
                    && !dialogue.sides[side].queued
                    && (endpoint.is_listening()
                        || endpoint.is_failed()
                        || (dialogue.sides[side].by_cookie && !endpoint.is_established())))
        };
        if is_over(0) && is_over(1) && !dialogue.ending {
            dialogue.ending = true;
            self.ending.push(end / 2);
        }
    }

    /// Frees the numbers of flows that both ends have done with, once their applications know.
    pub(crate) fn free_ended(&mut self) {
        for flow in self.ending.drain(..) {
            if let Flow::Tcp(connection) = &self.table[flow as usize] {
                self.table[flow as usize] = Flow::Free(connection.generation().wrapping_add(1));
                self.free.push_back(flow);
            }
        }
    }
}

/// The connection to whose end a way leads.
impl Touch<u32> for Flows {
    #[inline(always)]
    fn touch(&self, way: u32, step: Step) -> u32 {
        match &self.table[way as usize / 2] {
            Flow::Tcp(connection) => connection.touch(way, step),
            Flow::Udp(_) | Flow::Free(_) => 0,
        }
    }
}

/// What a new flow is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewConnection {
    /// The applications at its ends.
    pub(crate) applications: [u32; 2],
    /// What the application at the first end calls it.
    pub(crate) number: u32,
    /// Indices into the plan's paths.
    pub(crate) there: u32,
    pub(crate) back: u32,
    /// Settings of the first end, and of the second unless it listens with its own: an index into
    /// the plan's `tcp`.
    pub(crate) config: u16,
    pub(crate) first_opens: bool,
    pub(crate) isns: [u32; 2],
    pub(crate) dns: bool,
    /// The applications exchange messages.
    pub(crate) dialogue: bool,
    /// They encrypt them, where the server does, too.
    pub(crate) tls: Option<tls::Client>,
    /// The port of the second end; `None`: ports follow from the flow's number.
    pub(crate) port: Option<u16>,
}

impl Listener {
    /// What happens to a SYN; `sk_acceptq_is_full` drops it.
    fn admit(&mut self) -> Admission {
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

impl NewConnection {
    fn owners(&self) -> Owners {
        Owners { applications: self.applications, numbers: [self.number, 0], there: self.there }
    }

    fn ports(&self, flow: u32) -> [u16; 2] {
        match self.port {
            Some(port) => [crate::ports::socket(flow), port],
            None => crate::ports::tcp(flow).into(),
        }
    }
}

/// A row of the table `flows`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    /// Whose connection it is.
    pub(crate) application: u32,
    /// The way of its data: an index into the plan's paths.
    pub(crate) there: u32,
    pub(crate) start: Time,
    pub(crate) connection: &'a Connection,
}

/// The application that a notice is for.
impl Notice {
    pub(crate) fn application(&self, flows: &Flows) -> u32 {
        match *self {
            Self::Opened(socket)
            | Self::Received(socket, ..)
            | Self::Delivered(socket)
            | Self::Flight(socket, _)
            | Self::Closed(socket, _) => flows.owner(socket.end),
            Self::Arrived(application) => application,
            Self::Datagram(datagram) => {
                let first = datagram.association.first_end();
                flows.owner(first + u32::from(!datagram.goes_back))
            }
            // Who lost it: the client keeps the record of both ways.
            Self::Lost(datagram, _) => flows.owner(datagram.association.first_end()),
        }
    }

    /// Tells an application.
    pub(crate) fn tell(
        self,
        application: &mut dyn Application,
        host: &mut crate::application::Host<'_>,
    ) {
        match self {
            Self::Opened(socket) => application.opened(host, socket),
            Self::Received(socket, message, first_byte_at) => {
                host.first_byte_at = first_byte_at;
                application.received(host, socket, message);
            }
            Self::Delivered(socket) => application.delivered(host, socket),
            Self::Closed(socket, how) => application.closed(host, socket, how),
            Self::Flight(socket, flight) => {
                host.flows.take_flight(host.now, socket, flight, host.network);
            }
            Self::Arrived(_) => application.arrived(host),
            Self::Datagram(datagram) => application.datagram(host, datagram),
            Self::Lost(datagram, lost) => application.lost(host, datagram, lost),
        }
    }
}

//! The engine: takes the next event and hands it to its recipient.

use narrows_apps::flow_samples::FlowSamples;
use narrows_apps::flow_states::FlowStates;
use narrows_apps::goodput::Goodput;
use narrows_apps::record::{MOST_QUERIES, Records};
use narrows_apps::table::Table;
use narrows_apps::{self as application, Application, Lost, Settings, Socket};
use narrows_transport::tcp::{Flags, Segment, Seq};
use narrows_units::{Span, Time};

use crate::agenda::Event;
use crate::captured::{Captured, Frame, Part, Said};
use crate::flow::{self, Flows, SocketEvent};
use crate::host::SimulatedHost;
use crate::monitor::Monitors;
use crate::network::{Loss, Network, Taken};
use crate::packet::{Arp, Packet, PacketKind};
use crate::plan::{Capture, Plan, PlanError};
use crate::prefetch::Prefetcher;
use crate::shortcuts::neighbour_uses;
use crate::spoken::Carried;
use crate::tables;
use crate::wakes::{Wake, Wakes};

/// A run in progress.
///
/// ```text
/// Simulation::new(plan)  ->  advance() until it says so  ->  tables()
/// ```
#[derive(Debug)]
pub struct Simulation {
    /// The plan without its applications and paths, which move to structures of their own.
    plan: Plan,
    now: Time,
    events: u64,
    stopped: Stopped,
    network: Network,
    flows: Flows,
    prefetcher: Prefetcher,
    applications: Vec<Box<dyn Application>>,
    /// The applications' names.
    names: Vec<String>,
    wakes: Wakes,
    records: Records,
    monitors: Monitors,
    goodput: Goodput,
    flow_samples: FlowSamples,
    flow_states: FlowStates,
    /// The run's end, or the time before it at which TCP is sampled or a packet is lost next.
    halt: Time,
    /// Events for applications, not yet delivered.
    socket_events: Vec<SocketEvent>,
    /// The number of queries in the plan, all applications together.
    queries: u64,
}

/// Whether a run is still going, or why it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The run is still going.
    Running,
    /// The plan's end was reached, or nothing more can happen.
    End,
    /// Every application is done, and the plan ends when they are.
    Done,
    /// The plan's limit of events was reached; the run is partial.
    EventLimit,
    /// More queries were asked than can be recorded ([`MOST_QUERIES`]); the run is partial.
    QueryLimit,
    /// More packets or flows were measured than can be recorded ([`MOST_PACKETS`],
    /// [`MOST_FLOWS`]); the run is partial.
    ///
    /// [`MOST_PACKETS`]: crate::MOST_PACKETS
    /// [`MOST_FLOWS`]: crate::MOST_FLOWS
    DelayLimit,
    /// [`Simulation::interrupt`] was called; the run is partial.
    Interrupted,
}

impl Stopped {
    /// Returns the reason as run.json spells it: `running`, `end`, `dns-done`, `event-limit`,
    /// `query-limit`, `delay-limit` or `interrupted`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::End => "end",
            Self::Done => "dns-done",
            Self::EventLimit => "event-limit",
            Self::QueryLimit => "query-limit",
            Self::DelayLimit => "delay-limit",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Simulation {
    /// Creates a run of `plan` at time zero.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan contradicts itself; see [`Plan::check`].
    pub fn new(mut plan: Plan) -> Result<Self, PlanError> {
        plan.check()?;
        for link in &mut plan.links {
            link.queue = link.queue.clone().settled(link.rate);
        }
        let environment = plan.environment();
        let mut uses: Vec<_> = plan
            .applications
            .iter()
            .flat_map(|application| application.kind.uses(&environment))
            .collect();
        uses.extend(neighbour_uses(&plan.topology()));
        uses.sort_unstable();
        uses.dedup();
        let network = Network::new(&plan.topology(), &uses);
        let groups = plan.applications.iter().map(|one| (&*one.name, &one.kind));
        let goodput = Goodput::new(plan.goodput_interval, groups);
        let flow_samples = FlowSamples::new(plan.flow_samples.clone());
        let groups = plan.applications.iter().map(|one| &*one.name);
        let flow_states = FlowStates::new(plan.flow_monitor.as_ref(), groups);
        let neighbours = std::mem::take(&mut plan.neighbours);
        plan.paths = Vec::new();
        let queries = plan.queries();
        let planned = std::mem::take(&mut plan.applications);
        let names = planned.iter().map(|application| application.name.clone()).collect();
        let applications =
            planned.into_iter().map(|planned| planned.kind.build(&planned.name)).collect();
        let mut simulation = Self {
            flows: Flows::new(&plan.tcp),
            now: Time::ZERO,
            events: 0,
            stopped: Stopped::Running,
            network,
            prefetcher: Prefetcher::off(),
            applications,
            names,
            wakes: Wakes::default(),
            records: Records::default(),
            monitors: Monitors::default(),
            goodput,
            flow_samples,
            flow_states,
            halt: Time::ZERO,
            socket_events: Vec::new(),
            queries,
            plan,
        };
        if !simulation.plan.captures.is_empty() {
            simulation.flows.note_messages();
        }
        for (pair, neighbours) in neighbours.iter().enumerate() {
            let flow = simulation.flows.add_neighbours(neighbours, &mut simulation.network);
            simulation.network.neighbours.set_flow(pair, flow);
        }
        for number in 0..simulation.applications.len() {
            simulation.tell(number as u32, |application, host| application.start(host));
        }
        simulation.monitors = Monitors::new(&simulation.plan, &mut simulation.network);
        let Self { flows, network, goodput, .. } = &mut simulation;
        let nodes = |row: flow::Row<'_>| (row.application, network.paths.nodes(row.there));
        goodput.note_rows(flows.listed().map(nodes));
        simulation.set_prefetching(Prefetcher::pays_for(simulation.flows.len()));
        Ok(simulation)
    }

    /// Sets whether to read ahead in memory what the next events will need. By default this is on
    /// if the run has a few thousand flows or more, where it saves time. The results are the same.
    pub fn set_prefetching(&mut self, on: bool) {
        self.prefetcher = if on { Prefetcher::on() } else { Prefetcher::off() };
    }

    /// Handles up to `most` events. Returns true once the run has stopped.
    pub fn advance(&mut self, most: u64) -> bool {
        let most = most.min(self.plan.event_limit - self.events);
        let mut handled = 0;
        while self.stopped == Stopped::Running {
            if handled == most {
                if self.events + handled == self.plan.event_limit {
                    self.stopped = Stopped::EventLimit;
                }
                break;
            }
            handled += 1;
            if self.prefetcher.is_due(self.now) {
                self.prefetcher.prefetch(&self.network, &self.flows);
            }
            self.step();
        }
        self.events += handled;
        self.stopped != Stopped::Running
    }

    /// Stops the run at the current event.
    pub fn interrupt(&mut self) {
        if self.stopped == Stopped::Running {
            self.stopped = Stopped::Interrupted;
        }
    }

    /// Returns the simulated time so far.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns why the run stopped, or that it is still running.
    pub fn stopped(&self) -> Stopped {
        self.stopped
    }

    /// Returns how far the run has come, from 0 to 1: by time, or by what its applications have
    /// done if that is further.
    pub fn progress(&self) -> f64 {
        let by_time = self.now.as_secs_f64() / self.plan.end.as_secs_f64();
        if self.plan.end_when_done {
            by_time.max(application::progress(&self.applications))
        } else {
            by_time
        }
    }

    /// Returns the plan without its applications and paths.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the largest number of flows that existed at once.
    pub fn most_flows(&self) -> usize {
        self.flows.len()
    }

    /// Returns the number of queries in the plan; a run never asks more.
    pub fn planned_queries(&self) -> u64 {
        self.queries
    }

    fn step(&mut self) {
        let Some((at, event)) = self.network.agenda.pop() else {
            self.stopped = Stopped::End;
            self.note_losses(self.plan.end + Span::from_ps(1));
            return;
        };
        if at > self.halt && !self.go_beyond_halt(at) {
            return;
        }
        self.now = at;
        let network = &mut self.network;
        match event {
            Event::Landing(link) => {
                if let Some(packet) = network.land(at, link) {
                    match packet.kind() {
                        PacketKind::Tcp => self.flows.handle_segment(at, packet, network),
                        PacketKind::Arp(arp) => network.handle_arp(at, &packet, arp),
                        _ => self.flows.handle_no_segment(at, &packet, network),
                    }
                }
            }
            Event::Departure(link) => {
                self.prefetcher.prefetch_behind_queue(link, network);
                network.release(at, link);
            }
            Event::Timer(end) => self.flows.handle_timer(at, end, network),
            Event::Pace(end) => self.flows.handle_pace(at, end, network),
            Event::Wake(place) => {
                let Wake { application, token } = self.wakes.take(place);
                self.tell(application, |application, host| application.timer(host, token));
            }
            Event::QueueSample(monitor) => self.monitors.sample_queue(at, monitor, network),
            Event::LinkSample(monitor) => self.monitors.sample_link(at, monitor, network),
            Event::Neighbour(entry) => network.handle_neighbour_timer(at, entry),
            Event::Handshake(end) => self.flows.end_handshake_service(at, end, network),
            Event::HalfOpen(listener) => self.flows.repeat_syn_acks(at, listener, network),
        }
        if let Some(due) = self.network.losses.due().by(self.halt) {
            self.halt = due;
        }
        if self.flows.has_events() {
            self.tell_events();
        }
        if self.plan.end_when_done && application::all_done(&self.applications) {
            self.stopped = Stopped::Done;
        }
    }

    /// Takes the samples and notes the losses that are due before `at`, or stops at the run's end.
    /// Returns whether the run goes on to `at`.
    #[cold]
    fn go_beyond_halt(&mut self, at: Time) -> bool {
        if self.network.one_way.as_ref().is_some_and(|one_way| one_way.is_full()) {
            self.stopped = Stopped::DelayLimit;
            return false;
        }
        let end = self.plan.end;
        self.goodput.catch_up(at.min(end), &self.flows);
        self.flow_samples.catch_up(at.min(end), &self.flows);
        let beyond = at.min(end + Span::from_ps(1));
        self.flow_states.catch_up(beyond, &self.flows);
        self.note_losses(beyond);
        let samples = self.goodput.due().min(self.flow_samples.due()).min(self.flow_states.due());
        let due = samples.min(self.network.losses.due());
        self.halt = due.by(end).unwrap_or(end);
        if at > end {
            self.now = end;
            self.stopped = Stopped::End;
        }
        at <= end
    }

    /// Lets an application act, and sends what it produces.
    fn tell(
        &mut self,
        number: u32,
        tell: impl FnOnce(&mut dyn Application, &mut SimulatedHost<'_>),
    ) {
        let mut host = SimulatedHost {
            now: self.now,
            first_byte_at: self.now,
            seed: self.plan.seed,
            application: number,
            network: &mut self.network,
            flows: &mut self.flows,
            wakes: &mut self.wakes,
            records: &mut self.records,
        };
        tell(&mut *self.applications[number as usize], &mut host);
        self.flows.flush_all(self.now, &mut self.network);
        if self.records.queries.len() as u64 > MOST_QUERIES {
            self.stopped = Stopped::QueryLimit;
        }
    }

    /// Delivers events to applications, including those that their reactions cause.
    #[inline(never)]
    fn tell_events(&mut self) {
        let mut events = std::mem::take(&mut self.socket_events);
        while self.flows.has_events() {
            self.flows.take_events(&mut events);
            for event in events.drain(..) {
                let application = event.application(&self.flows);
                self.tell(application, |application, host| host.tell(application, event));
            }
        }
        self.socket_events = events;
        self.flows.free_ended();
    }

    /// Tells applications what was lost before `until`.
    fn note_losses(&mut self, until: Time) {
        while let Some((at, Loss { packet, link, reason })) = self.network.next_loss(until) {
            self.now = at;
            if let Some((application, datagram)) = self.flows.note_loss(&packet) {
                let lost = Some(Lost { link, reason });
                self.applications[application as usize].lost(&mut self.records, datagram, lost);
            }
        }
        self.flows.free_ended();
    }
}

/// Results.
impl Simulation {
    /// Returns the tables as they are now: `flows`, `bursts`, `queries`, `attempts`, `queues`,
    /// `links`, `goodput`, `flow_samples`, `flow_states`, and those of the applications.
    pub fn tables(&self) -> Vec<Table> {
        let mut records = self.records.clone();
        for application in &self.applications {
            application.add_unfinished(&self.flows, &mut records);
        }
        let (plan, names) = (&self.plan, &self.names);
        let environment = plan.environment();
        let mut all = vec![tables::flows(&self.flows, &self.network.paths, plan, names, self.now)];
        all.extend(records.tables(names, &environment));
        all.extend([
            tables::queues(&self.monitors, plan),
            tables::links(&self.monitors, plan),
            self.goodput.table(self.now, &self.flows),
            self.flow_samples.table(self.now, &self.flows),
            self.flow_states.table(),
        ]);
        if !plan.delay_monitors.is_empty() {
            all.extend(tables::queue_delays(&self.network, plan));
        }
        if let Some(one_way) = &self.network.one_way {
            all.extend(tables::one_way(one_way, &self.flows, self.now));
        }
        if self.network.neighbours.has_entries() {
            all.push(tables::neighbours(&self.network.neighbours, plan));
        }
        for table in self.applications.iter().flat_map(|each| each.tables(&environment)) {
            match all.iter_mut().find(|other| other.name == table.name) {
                Some(other) => other.append(table),
                None => all.push(table),
            }
        }
        all
    }

    /// Returns the packets that a captured link has transmitted, in order of time.
    pub fn captured(&self, link: usize) -> Vec<Captured> {
        self.captured_by(&Capture::of(link, ""))
    }

    /// Returns the packets that a capture has seen, in order of time.
    pub fn captured_by(&self, capture: &Capture) -> Vec<Captured> {
        let mut seen: Vec<(Time, bool, &Taken)> = Vec::new();
        for taken in &self.network.captured {
            let link = Some(taken.link as usize);
            if link == Some(capture.link) {
                seen.push((taken.at, false, taken));
            } else if link == capture.back
                && let Some(arrives_at) = taken.arrives_at
            {
                seen.push((arrives_at, true, taken));
            }
        }
        seen.retain(|&(at, ..)| at <= self.now);
        // Packets may overtake others on the wire.
        seen.sort_by_key(|&(at, ..)| at);
        seen.into_iter()
            .map(|(at, inbound, taken)| Captured { at, inbound, ..self.capture(taken) })
            .collect()
    }

    fn capture(&self, taken: &Taken) -> Captured {
        let &Taken { at, link, first, last, ports, dscp, ref packet, ref whole, segment, .. } =
            taken;
        let frame = match (segment, packet.kind()) {
            (Some(segment), _) => Frame::Tcp(segment),
            (None, PacketKind::Arp(arp)) => Frame::Arp {
                reply: arp == Arp::Reply,
                broadcast: arp == Arp::Request { broadcast: true },
            },
            (None, PacketKind::TooBig) => Frame::TooBig {
                ip_bytes: packet.bytes,
                router: packet.router(),
                mtu: packet.mtu(),
                quoted: packet.quoted(),
            },
            (None, _) => {
                let datagram = whole.as_ref().unwrap_or(packet);
                let (offset, more) = packet.offset();
                Frame::Udp {
                    ip_bytes: datagram.bytes,
                    ecn: packet.ecn() as u8,
                    content: (datagram.is_foreground() && !datagram.is_quic())
                        .then(|| self.records.content_of(&datagram.message(), datagram.goes_back()))
                        .flatten(),
                    part: whole.map(|_| Part {
                        number: packet.datagram_number() as u16,
                        ip_bytes: packet.bytes,
                        offset,
                        more,
                    }),
                }
            }
        };
        let (from, to) =
            (self.plan.links[first as usize].from as u32, self.plan.links[last as usize].to as u32);
        let mut routers = packet.hop;
        if let Frame::TooBig { router, .. } = frame {
            // The packet's path begins at this link.
            let direction = self.network.paths.links_of(packet.direction);
            let before = direction
                .take_while(|&link| self.plan.links[link as usize].from != router as usize);
            routers = routers.saturating_sub(before.count() as u8);
        }
        let said = segment.map_or_else(Vec::new, |segment| self.said(at, packet, &segment));
        Captured { at, inbound: false, link, from, to, ports, dscp, routers, frame, said }
    }

    /// Returns the messages that a segment carries.
    fn said(&self, at: Time, packet: &Packet, segment: &Segment) -> Vec<Said> {
        let Some(spoken) = self.flows.spoken().filter(|_| segment.len > 0) else {
            return Vec::new();
        };
        let reply = packet.goes_back();
        let (from, first) = sent(packet, segment);
        let pieces = spoken.pieces(&Carried { from, at, first, bytes: segment.len });
        pieces
            .filter_map(|piece| {
                let content = self.records.content(piece.tag, reply)?;
                Some(Said { content, at: piece.at, bytes: piece.bytes })
            })
            .collect()
    }
}

/// Returns the end that sends a segment, and the sequence number of the first byte it carries.
fn sent(packet: &Packet, segment: &Segment) -> (Socket, Seq) {
    let end = 2 * packet.flow() + u32::from(packet.goes_back());
    let from = Socket { end, generation: packet.generation };
    (from, segment.seq + u32::from(segment.flags.contains(Flags::SYN)))
}

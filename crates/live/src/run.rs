//! A run: the loop that calls the applications.

use std::cmp::Reverse;
use std::fmt;
use std::os::fd::AsFd;

use narrows_apps::flow_samples::FlowSamples;
use narrows_apps::flow_states::FlowStates;
use narrows_apps::goodput::Goodput;
use narrows_apps::table::Table;
use narrows_apps::{self as application, Application, Environment, Settings};
use narrows_sim::plan::Plan;
use narrows_units::{MaybeTime, Span, Time};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::Clock;
use crate::flood;
use crate::host::LiveHost;
use crate::part::{Part, Role};
use crate::real::Asking;
use crate::refused::refused;
use crate::sockets::{Places, control_missing};
use crate::split::Ends;
use crate::tables;
use crate::world::{Watched, World};

/// A run of a part of a plan.
#[derive(Debug)]
pub struct Live {
    plan: Plan,
    /// `None`: another process plays it.
    applications: Vec<Option<Box<dyn Application>>>,
    names: Vec<String>,
    world: World,
    goodput: Goodput,
    samples: FlowSamples,
    states: FlowStates,
    timer: TimerFd,
    now: Time,
}

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The plan's end was reached.
    End,
    /// Every resolver worker of this part is done, and the plan ends when they are.
    Done,
    /// Something asked it to end ([`Live::end_when_readable`]).
    Interrupted,
}

impl Stopped {
    /// Returns the reason as run.json spells it: `end`, `dns-done` or `interrupted`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Done => "dns-done",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why a plan cannot be played, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Live {
    /// Prepares a part of a plan: makes the sockets that wait, and sets the first timers.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan contradicts itself ([`Plan::check`]), if real sockets cannot
    /// honour it, or if a socket cannot be made.
    pub fn new(mut plan: Plan, part: &Part) -> Result<Self, Error> {
        plan.check().map_err(|why| Error(why.to_string()))?;
        // Others do not know when the workers are done.
        plan.end_when_done &= part.split.as_ref().is_none_or(|split| split.role == Role::Resolve);
        let played = part.played(&plan).map_err(Error)?;
        if let Some(first) = refused(&plan, &played, part).into_iter().next() {
            return Err(Error(first));
        }
        for (number, config) in plan.tcp.iter().enumerate() {
            if let Some(why) = control_missing(config.congestion.name()) {
                return Err(Error(format!("tcp[{number}]: congestion: {why}")));
            }
        }
        let places = plan.nodes.iter().map(|node| part.places.get(node).cloned()).collect();
        let places = Places::open(places, plan.codepoints.clone()).map_err(Error)?;
        let floods = flood::open(&plan, &played, part, &places).map_err(Error)?;
        let system = |why: Errno| Error(format!("epoll: {}", why.desc()));
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK);
        let timer = timer.map_err(system)?;
        let mtus = plan.links.iter().map(|link| link.mtu).collect();
        let mut world =
            World::new(plan.seed, places, plan.paths.clone(), mtus, plan.tcp.clone(), epoll);
        world.watch(&timer, Watched::Timer, 0, false);
        world.add_floods(floods);
        world.ends = Ends::of(&plan, part.split.as_ref());
        world.real = Asking::new(part.real.clone());
        if world.ends.are_split() {
            world.real.ask_elsewhere(&plan);
        }
        let build = |(one, played): (&narrows_sim::plan::Application, bool)| {
            played.then(|| one.kind.clone().build(&one.name))
        };
        let applications = plan.applications.iter().zip(played).map(build).collect();
        let names = plan.applications.iter().map(|one| one.name.clone()).collect();
        let groups = plan.applications.iter().map(|one| (&*one.name, &one.kind));
        let goodput = Goodput::new(plan.goodput_interval, groups);
        let samples = FlowSamples::new(plan.flow_samples.clone());
        let groups = plan.applications.iter().map(|one| &*one.name);
        let states = FlowStates::new(plan.flow_monitor.as_ref(), groups);
        let now = Time::ZERO;
        let mut live =
            Self { plan, applications, names, world, goodput, samples, states, timer, now };
        for number in 0..live.applications.len() {
            live.tell(number as u32, |application, host| application.start(host));
        }
        live.world.datagrams.end_start();
        live.world.serve_clients_elsewhere(&live.plan);
        live.world.listen_to_floods();
        let flows = &live.world.flows;
        live.goodput.note_rows(flows.listed.iter().map(|listed| {
            let flow = flows.get(listed.flow);
            (flow.owners[0], flow.nodes.map(|node| node as u32))
        }));
        live.failure()?;
        Ok(live)
    }

    /// Makes the run end early when something can be read from `file`, such as a signal.
    pub fn end_when_readable(&mut self, file: &impl AsFd) {
        self.world.watch(file, Watched::Stop, 0, false);
    }

    /// Plays the part. It waits for the clock's start first.
    ///
    /// # Errors
    ///
    /// Returns an error if a socket cannot be made or watched.
    pub fn run(&mut self, clock: Clock) -> Result<Stopped, Error> {
        let stopped = match self.wait(clock)? {
            Some(stopped) => stopped,
            None => self.play(clock)?,
        };
        self.sample(self.now);
        let known = Time::ZERO + self.now.since(Time::ZERO + LOST_AFTER);
        for (number, datagram) in self.world.flows.missing(known) {
            if let Some(application) = &mut self.applications[number as usize] {
                application.lost(&mut self.world.records, datagram, None);
            }
        }
        Ok(stopped)
    }

    /// Waits for the start, unless something ends the run before. A sleep would last up to 50 us
    /// longer (prctl(2), PR_SET_TIMERSLACK); a timer does not.
    fn wait(&self, clock: Clock) -> Result<Option<Stopped>, Error> {
        self.set_timer(clock, Time::ZERO);
        let mut events = [EpollEvent::empty(); 1];
        while !clock.has_started() {
            match self.world.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(_) if Watched::of(events[0].data()) == Watched::Stop => {
                    return Ok(Some(Stopped::Interrupted));
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(why) => return Err(Error(format!("epoll: {}", why.desc()))),
            }
        }
        Ok(None)
    }

    fn play(&mut self, clock: Clock) -> Result<Stopped, Error> {
        let mut events = [EpollEvent::empty(); 256];
        loop {
            self.fire(clock.now());
            self.failure()?;
            if self.is_done() {
                return Ok(Stopped::Done);
            }
            if clock.now() >= self.plan.end {
                self.now = self.plan.end;
                return Ok(Stopped::End);
            }
            self.arm(clock);
            let count = match self.world.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                Err(why) => return Err(Error(format!("epoll: {}", why.desc()))),
            };
            for event in &events[..count] {
                // Time never goes back, so timers that were due before this come first.
                let now = clock.now();
                self.fire(now);
                self.sample(now.min(self.plan.end));
                if now >= self.plan.end || self.is_done() {
                    break;
                }
                self.now = now;
                if Watched::of(event.data()) == Watched::Stop {
                    return Ok(Stopped::Interrupted);
                }
                self.world.handle(now, *event);
                self.tell_news();
            }
            self.world.free_ended();
        }
    }

    /// Returns the tables as they are now: `flows`, `bursts`, `queries`, `attempts`, `goodput`,
    /// `flow_samples`, `flow_states`, and those of the applications. Rows count from zero in each part
    /// of a plan.
    pub fn tables(&self) -> Vec<Table> {
        let mut records = self.world.records.clone();
        for application in self.applications.iter().flatten() {
            application.add_unfinished(&self.world, &mut records);
        }
        let environment =
            Environment { paths: &[], applications: Vec::new(), ..self.plan.environment() };
        let mut all = vec![tables::flows(&self.world.flows, &self.plan.nodes, &self.names)];
        all.extend(records.tables(&self.names, &environment));
        all.push(self.goodput.table(self.now, &self.world.flows));
        all.push(self.samples.table(self.now, &self.world.flows));
        all.push(self.states.table());
        let own = self.applications.iter().flatten().flat_map(|one| one.tables(&environment));
        for table in own {
            match all.iter_mut().find(|other| other.name == table.name) {
                Some(other) => other.append(table),
                None => all.push(table),
            }
        }
        all
    }

    /// Returns the time of the run so far.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Takes the samples that are due before `at`.
    fn sample(&mut self, at: Time) {
        self.goodput.catch_up(at, &self.world.flows);
        self.samples.catch_up(at, &self.world.flows);
        self.states.catch_up(at, &self.world.flows);
    }

    /// Calls the timers that are due at `now`, each at its own time.
    fn fire(&mut self, now: Time) {
        let now = now.min(self.plan.end);
        while let Some(&Reverse((at, _, application, token))) = self.world.wakes.peek() {
            if at > now || self.is_done() {
                return;
            }
            self.world.wakes.pop();
            self.sample(at);
            self.now = self.now.max(at);
            let Some(application) = application else {
                self.world.answer(at, token);
                self.tell_news();
                continue;
            };
            for datagram in self.world.newly_lost(at, application) {
                if let Some(application) = &mut self.applications[application as usize] {
                    application.lost(&mut self.world.records, datagram, None);
                }
            }
            self.tell(application, |application, host| application.timer(host, token));
            self.tell_news();
        }
    }

    /// Lets an application act, and writes what it wants to write.
    fn tell(&mut self, number: u32, tell: impl FnOnce(&mut dyn Application, &mut LiveHost<'_>)) {
        let Some(application) = &mut self.applications[number as usize] else { return };
        let world = &mut self.world;
        let mut host =
            LiveHost { now: self.now, first_byte_at: self.now, application: number, world };
        tell(&mut **application, &mut host);
        for socket in std::mem::take(&mut self.world.dirty) {
            self.world.flush(socket);
        }
    }

    fn tell_news(&mut self) {
        while let Some(event) = self.world.events.pop_front() {
            if let Some(application) = event.application(&self.world.flows) {
                self.tell(application, |application, host| host.tell(application, event));
            }
        }
    }

    /// Sets the alarm for the next timer or sample, or for the end of the run.
    fn arm(&self, clock: Clock) {
        let next = self.world.wakes.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
        let samples = [self.goodput.due(), self.samples.due(), self.states.due()];
        let samples = samples.into_iter().filter_map(MaybeTime::get);
        let at = samples.fold(next.min(self.plan.end), Time::min);
        self.set_timer(clock, at);
    }

    fn set_timer(&self, clock: Clock, at: Time) {
        let at = clock.absolute(at);
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        self.timer.set(Expiration::OneShot(at), flags).expect("the time is valid");
    }

    fn is_done(&self) -> bool {
        let mut played = self.applications.iter().flatten();
        self.plan.end_when_done && played.all(|one| application::Application::is_done(&**one))
    }

    fn failure(&self) -> Result<(), Error> {
        self.world.failure.clone().map_or(Ok(()), |why| Err(Error(why)))
    }
}

/// At the end of the run, a datagram that was sent longer ago than this and has not arrived is
/// lost.
const LOST_AFTER: Span = Span::from_secs(5);

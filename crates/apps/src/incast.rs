//! Incast: a client asks many servers at once, and each answers with a block over its own TCP
//! connection. A round ends with the last block, and each round is a row of the table `rounds`.
//!
//! This is the pattern of cluster storage and of web search, where many machines answer a request
//! and it waits for the slowest. The blocks meet at the client's switch port. If its buffer is too
//! small for them, whole windows are lost, and the round waits for a retransmission timeout: at
//! least 200 ms in Linux, for a few milliseconds of work (Phanishayee et al., "Measurement and
//! analysis of TCP throughput collapse in cluster-based storage systems", FAST 2008).
//!
//! As in that paper, the client starts the next round after a pause once it has the last block of
//! the current one.

use narrows_transport::Closed;
use narrows_transport::tcp::Counters;
use narrows_units::settings::{any, entries, size, whole};
use narrows_units::{Bytes, Span, Time, keys};

use crate::responder::{LONGEST, length, request};
use crate::table::{Head, Table, rows};
use crate::{
    Application, Dial, Draw, Environment, Host, Message, Protocol, Random, Settings, Socket, Use,
    is_moment,
};

keys! {
    /// The settings of a group: one client and its servers.
    pub struct Incast {
        /// The application that answers: an index into the plan's applications.
        responder: usize = 0, any();
        /// The paths to each server and back, once for each connection.
        servers: Vec<RoundTrip> = Vec::new(), entries(1, u32::MAX as u64);
        /// The settings of the client's ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// When the first round starts, or its connections are opened.
        start: Time = Time::ZERO, any();
        /// Rounds, one after the other.
        rounds: u32 = 1, whole(1, MOST_ROUNDS);
        /// The time from the end of a round to the next.
        pause: Draw<Span> = Draw::Constant(Span::ZERO), any();
        /// Bytes of a request.
        request: u32 = 300, size(1, 1_000_000);
        /// The bytes of a block.
        block: Draw<Bytes> = Draw::Constant(Bytes::new(1)), size(1, LONGEST);
        /// Whether all rounds use the same connections, opened before the first round. Otherwise
        /// each round opens and closes its own.
        reuse: bool = false, any();
    }
}

keys! {
    #[derive(Copy, Eq)]
    /// The paths to a server and back.
    pub struct RoundTrip {
        /// From the client to the server: an index into the plan's paths.
        there: usize = 0, any();
        /// From the server to the client: an index into the plan's paths.
        back: usize = 0, any();
    }
}

impl RoundTrip {
    /// Returns both paths. The shortest packet is a SYN-ACK or an acknowledgement without options.
    pub(crate) fn uses(self) -> [Use; 2] {
        const SHORTEST: u16 = 20 + 20;
        [self.there, self.back].map(|path| Use { path, bytes: SHORTEST, dns: false })
    }
}

impl Settings for Incast {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.server(self.responder, Protocol::Bytes)?;
        for round_trip in &self.servers {
            environment.check_round_trip(round_trip.there, round_trip.back)?;
        }
        environment.check_tcp(self.tcp)?;
        if !is_moment(self.start) {
            return Err("start: is too late".into());
        }
        // The connections of the previous round may still be closing.
        Ok(if self.reuse { self.servers.len() } else { 2 * self.servers.len() })
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        self.servers.iter().flat_map(|round_trip| round_trip.uses()).collect()
    }

    fn heads() -> &'static [Head] {
        &[RoundsRow::HEAD]
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Asking {
            name: name.to_owned(),
            random: None,
            slots: self.servers.iter().map(|&round_trip| Slot::new(round_trip)).collect(),
            settings: self,
            awaited: 0,
            warming: false,
            rounds: Vec::new(),
        })
    }
}

rows! {
    /// A round of `incast`: all servers are asked, and all answer.
    pub(crate) struct RoundsRow as "rounds" {
        /// The traffic group that it belongs to.
        group: String [""];
        /// Number of the round in its group, from 0.
        round: u32 [""];
        /// When the servers were asked.
        start_s: f64 ["s"];
        /// When the first block had arrived.
        first_s: f64 ["s", null];
        /// When the last block had arrived; null: not by the end of the run, or one failed.
        end_s: f64 ["s", null];
        /// Blocks that were asked for.
        blocks: u32 ["blocks"];
        /// Blocks whose connection failed.
        failed: u32 ["blocks"];
        /// Bytes of the blocks that arrived.
        bytes: u64 ["bytes"];
        /// Segments that servers sent again.
        segments_retransmitted: u64 ["segments"];
        /// Retransmission timeouts of the servers.
        timeouts: u32 [""];
    }
}

#[derive(Debug)]
struct Asking {
    name: String,
    settings: Incast,
    /// Random streams of connections, blocks and pauses.
    random: Option<[Random; 3]>,
    slots: Vec<Slot>,
    /// Blocks that have not arrived, or connections that are not yet open.
    awaited: u32,
    /// Whether connections are being opened for the first round.
    warming: bool,
    rounds: Vec<Round>,
}

/// A connection to a server, or the place for one.
#[derive(Debug)]
struct Slot {
    round_trip: RoundTrip,
    socket: Option<Socket>,
    established: bool,
    /// The bytes of the block that it waits for.
    block: Option<u32>,
    /// The server end's counters at the previous count.
    before: (u64, u32),
}

/// A row of the table `rounds`.
#[derive(Clone, Copy, Debug)]
struct Round {
    start: Time,
    first: Option<Time>,
    end: Option<Time>,
    bytes: u64,
    failed: u32,
    retransmitted: u64,
    timeouts: u32,
}

impl Application for Asking {
    fn start(&mut self, host: &mut dyn Host) {
        self.random = Some(
            ["connections", "block", "pause"]
                .map(|what| host.random(&format!("{}/{what}", self.name))),
        );
        host.wake(self.settings.start, 0);
    }

    fn timer(&mut self, host: &mut dyn Host, _token: u32) {
        if self.settings.reuse && self.rounds.is_empty() && !self.warming {
            self.warming = true;
            self.awaited = self.slots.len() as u32;
            for number in 0..self.slots.len() {
                self.open(host, number);
            }
        } else {
            self.begin(host);
        }
    }

    fn opened(&mut self, host: &mut dyn Host, socket: Socket) {
        let bytes = self.settings.request;
        let Some((number, slot)) = self.slot(host, socket) else { return };
        slot.established = true;
        match slot.block {
            Some(block) => host.send(socket, request(bytes, block, number)),
            None => self.settle(host),
        }
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, answer: Message) {
        let reuse = self.settings.reuse;
        let Some((_, slot)) = self.slot(host, socket) else { return };
        slot.block = None;
        let counted = slot.count(host);
        if !reuse {
            slot.socket = None;
            host.close(socket);
        }
        let now = host.now();
        let Some(round) = self.rounds.last_mut() else { return };
        round.add(counted);
        round.first = round.first.or(Some(now));
        round.bytes += u64::from(answer.bytes);
        self.settle(host);
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, _how: Closed) {
        let Some((_, slot)) = self.slot(host, socket) else { return };
        // The responder never closes first, so the connection failed.
        let counted = slot.count(host);
        let was_opening = !slot.established;
        slot.socket = None;
        slot.established = false;
        if slot.block.take().is_some() {
            if let Some(round) = self.rounds.last_mut() {
                round.add(counted);
                round.failed += 1;
            }
            self.settle(host);
        } else if was_opening {
            self.settle(host);
        }
    }

    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        let seconds = |at: Option<Time>| at.map_or(f64::NAN, Time::as_secs_f64);
        let rows = self.rounds.iter().enumerate().map(|(number, row)| RoundsRow {
            group: self.name.clone(),
            round: number as u32,
            start_s: row.start.as_secs_f64(),
            first_s: seconds(row.first),
            end_s: seconds(row.end),
            blocks: self.slots.len() as u32,
            failed: row.failed,
            bytes: row.bytes,
            segments_retransmitted: row.retransmitted,
            timeouts: row.timeouts,
        });
        vec![RoundsRow::table(rows)]
    }
}

impl Asking {
    /// Asks all servers, on open connections or on new ones.
    fn begin(&mut self, host: &mut dyn Host) {
        let turn = (self.rounds.len() as u32).wrapping_mul(self.slots.len() as u32);
        self.rounds.push(Round::new(host.now()));
        self.awaited = self.slots.len() as u32;
        for number in 0..self.slots.len() {
            let Some([_, of_block, _]) = &mut self.random else { return };
            let block =
                length(self.settings.block.next(of_block, turn.wrapping_add(number as u32)));
            let slot = &mut self.slots[number];
            slot.block = Some(block);
            match slot.socket {
                Some(socket) => {
                    host.send(socket, request(self.settings.request, block, number as u32));
                }
                None => self.open(host, number),
            }
        }
    }

    fn open(&mut self, host: &mut dyn Host, number: usize) {
        let Some([of_connection, ..]) = &mut self.random else { return };
        let slot = &mut self.slots[number];
        let dial = Dial {
            there: slot.round_trip.there,
            back: slot.round_trip.back,
            server: self.settings.responder,
            port: PORT,
            tcp: self.settings.tcp,
            number: number as u32,
            dns: false,
        };
        slot.socket = Some(host.open(&dial, of_connection));
        (slot.established, slot.before) = (false, (0, 0));
    }

    /// Counts a block that has arrived or never will, or a connection that is open. The last one
    /// ends the round.
    fn settle(&mut self, host: &mut dyn Host) {
        self.awaited -= 1;
        if self.awaited > 0 {
            return;
        }
        let now = host.now();
        let Some(round) = self.rounds.last_mut() else {
            // All connections are open.
            self.begin(host);
            return;
        };
        if round.failed == 0 {
            round.end = Some(now);
        }
        let over = self.rounds.len() as u32;
        if over == self.settings.rounds {
            for slot in &mut self.slots {
                if let Some(socket) = slot.socket.take() {
                    host.close(socket);
                }
            }
        } else if let Some([.., of_pause]) = &mut self.random {
            let next = now + self.settings.pause.next(of_pause, over - 1);
            if is_moment(next) {
                host.wake(next, 0);
            }
        }
    }

    /// Returns the connection of a socket, with its number, or `None` if this end has closed it.
    fn slot(&mut self, host: &dyn Host, socket: Socket) -> Option<(u32, &mut Slot)> {
        let number = host.number(socket);
        let slot = self.slots.get_mut(number as usize)?;
        (slot.socket == Some(socket)).then_some((number, slot))
    }
}

impl Slot {
    const fn new(round_trip: RoundTrip) -> Self {
        Self { round_trip, socket: None, established: false, block: None, before: (0, 0) }
    }

    /// Returns the segments that the server has retransmitted, and its timeouts, since the last
    /// call.
    fn count(&mut self, host: &dyn Host) -> (u64, u32) {
        let server = self.socket.and_then(|socket| host.counters(socket.other()));
        let Some(Counters { segments_retransmitted, timeouts, .. }) = server else {
            return (0, 0);
        };
        let before = std::mem::replace(&mut self.before, (segments_retransmitted, timeouts));
        (segments_retransmitted - before.0, timeouts - before.1)
    }
}

impl Round {
    const fn new(start: Time) -> Self {
        let (first, end) = (None, None);
        Self { start, first, end, bytes: 0, failed: 0, retransmitted: 0, timeouts: 0 }
    }

    fn add(&mut self, (retransmitted, timeouts): (u64, u32)) {
        self.retransmitted += retransmitted;
        self.timeouts += timeouts;
    }
}

/// The most rounds that the scenario language allows for a group.
const MOST_ROUNDS: u64 = 1_000_000;

/// The servers' port: HTTP's.
const PORT: u16 = 80;

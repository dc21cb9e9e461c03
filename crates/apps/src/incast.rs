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
use narrows_units::{Bytes, Span, Time};

use crate::responder::{length, request};
use crate::table::{Table, columns};
use crate::{
    Application, Dial, Draw, Environment, Host, Message, Protocol, Random, Settings, Socket, Use,
    is_moment,
};

/// The settings of a group: one client and its servers.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incast {
    /// The application that answers: an index into the plan's applications.
    pub responder: usize,
    /// The paths to each server and back, once for each connection.
    pub servers: Vec<Way>,
    /// The settings of the client's ends: an index into the plan's `tcp`.
    pub tcp: usize,
    /// When the first round starts, or its connections are opened.
    pub start: Time,
    /// The number of rounds, one after the other.
    pub rounds: u32,
    /// The time from the end of a round to the next.
    pub pause: Draw<Span>,
    /// The bytes of a request.
    pub request: u32,
    /// The bytes of a block.
    pub block: Draw<Bytes>,
    /// Whether all rounds use the same connections, opened before the first round. Otherwise each
    /// round opens and closes its own.
    pub kept: bool,
}

/// The paths to a server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Way {
    /// From the client to the server: an index into the plan's paths.
    pub there: usize,
    /// From the server to the client: an index into the plan's paths.
    pub back: usize,
}

impl Way {
    /// Returns both paths. The shortest packet is a SYN-ACK or an acknowledgement without options.
    pub(crate) fn uses(self) -> [Use; 2] {
        const SHORTEST: u16 = 20 + 20;
        [self.there, self.back].map(|path| Use { path, bytes: SHORTEST, dns: false })
    }
}

impl Settings for Incast {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.server(self.responder, Protocol::Bytes)?;
        for way in &self.servers {
            environment.check_round_trip(way.there, way.back)?;
        }
        if self.servers.is_empty() {
            return Err("servers: needs one at least".into());
        }
        environment.check_tcp(self.tcp)?;
        if !is_moment(self.start) {
            return Err("start: is too late".into());
        }
        if self.rounds == 0 || self.rounds > MOST_ROUNDS {
            return Err(format!("rounds: must be 1 to {MOST_ROUNDS}"));
        }
        if self.request == 0 {
            return Err("request: must be at least a byte".into());
        }
        self.pause.check().map_err(|why| format!("pause: {why}"))?;
        self.block.check().map_err(|why| format!("block: {why}"))?;
        // The connections of the previous round may still be closing.
        Ok(if self.kept { self.servers.len() } else { 2 * self.servers.len() })
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        self.servers.iter().flat_map(|way| way.uses()).collect()
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Asking {
            name: name.to_owned(),
            random: None,
            slots: self.servers.iter().map(|&way| Slot::new(way)).collect(),
            settings: self,
            awaited: 0,
            warming: false,
            rounds: Vec::new(),
        })
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
    way: Way,
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
        if self.settings.kept && self.rounds.is_empty() && !self.warming {
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
        let kept = self.settings.kept;
        let Some((_, slot)) = self.slot(host, socket) else { return };
        slot.block = None;
        let counted = slot.count(host);
        if !kept {
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
        let rows: Vec<_> = self.rounds.iter().enumerate().collect();
        let seconds = |at: Option<Time>| at.map_or(f64::NAN, Time::as_secs_f64);
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "round": U32 = |(number, _)| *number as u32,
            "start_s": F64 = |(_, row)| row.start.as_secs_f64(),
            "first_s": F64 = |(_, row)| seconds(row.first),
            "end_s": F64 = |(_, row)| seconds(row.end),
            "blocks": U32 = |_| self.slots.len() as u32,
            "failed": U32 = |(_, row)| row.failed,
            "bytes": U64 = |(_, row)| row.bytes,
            "segments_retransmitted": U64 = |(_, row)| row.retransmitted,
            "timeouts": U32 = |(_, row)| row.timeouts,
        );
        vec![Table { name: "rounds", columns }]
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
            there: slot.way.there,
            back: slot.way.back,
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
    const fn new(way: Way) -> Self {
        Self { way, socket: None, established: false, block: None, before: (0, 0) }
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
const MOST_ROUNDS: u32 = 1_000_000;

/// The servers' port: HTTP's.
const PORT: u16 = 80;

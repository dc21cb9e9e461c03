//! Zone transfers: secondaries that fetch a zone from a DNS server over TCP (AXFR, RFC 5936). Each
//! transfer is a row of the table `transfers`.
//!
//! A secondary opens a connection, asks for the zone, and closes when the last message has arrived.
//! The zone comes in DNS messages of at most 65,535 bytes, each preceded by its length (RFC 1035,
//! 4.2.2); the first repeats the question (RFC 5936, 2.2). The server is a `dns-server`, whose
//! limits, timeouts and service time also hold for transfers. If it keeps no state before a query,
//! ordinary TCP handles transfers, as behind narrows-gateway.
//!
//! A secondary fetches one zone at a time: a transfer that is due while another is going on waits
//! for that to end. A transfer that failed is not repeated before the next one is due.
//!
//! Not modelled: the query for the SOA record before a transfer, IXFR, several zones over one
//! connection, TSIG. The server writes the whole zone at once, and its idle time begins then. A
//! server that is full and closes the connection that has been idle longest may therefore cut a
//! transfer short.

use narrows_transport::Closed;
use narrows_units::settings::{any, entries, size, whole};
use narrows_units::{Span, Time, keys};

use crate::dns::{HEADER, LENGTH, PORT, TRANSFER};
use crate::table::{Head, Table, rows};
use crate::{
    Application, Dial, Environment, Host, Message, Protocol, Random, Settings, Socket, Use,
    is_moment,
};

keys! {
    /// The settings of a group of secondaries.
    pub struct Transfer {
        /// The server that has the zone: an index into the plan's applications.
        server: usize = 0, any();
        /// Who fetches it.
        secondaries: Vec<Secondary> = Vec::new(), entries(1, u32::MAX as u64);
        /// The settings of the secondaries' ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// When transfers are due, in order.
        at: Vec<Time> = Vec::new(), any();
        /// Each transfer begins at a random time, at most this long after its time in `at`.
        spread: Span = Span::ZERO, any();
        /// The bytes of the query, a DNS message.
        query: u32 = 29, size(HEADER as u64 + 5, 512);
        /// The bytes of all DNS messages of the zone, not counting the question in the first.
        zone: u32 = 1, whole(1, MOST_BYTES);
        /// The bytes of each of these messages except the last, counted the same way.
        message: u32 = 20_480, size(HEADER as u64 + 1, LONGEST);
    }
}

keys! {
    #[derive(Copy)]
    /// A secondary.
    pub struct Secondary {
        /// Its node: an index into the plan's nodes.
        node: usize = 0, any();
        /// The path to the server: an index into the plan's paths.
        there: usize = 0, any();
        /// The path back: an index into the plan's paths.
        back: usize = 0, any();
    }
}

impl Transfer {
    /// Returns the bytes of the question, which the first message repeats.
    const fn question(&self) -> u32 {
        self.query - HEADER
    }

    const fn messages(&self) -> u32 {
        self.zone.div_ceil(self.message)
    }
}

rows! {
    /// A zone transfer of `transfer`: a secondary fetches the zone.
    pub(crate) struct TransfersRow as "transfers" {
        /// The traffic group that it belongs to.
        group: String [""];
        /// The node that fetches the zone.
        secondary: String [""];
        /// Number of the transfer of its secondary, from 0.
        transfer: u32 [""];
        /// When its connection began to open.
        start_s: f64 ["s"];
        /// When the connection was open, and the zone was asked for; null: never.
        established_s: f64 ["s", null];
        /// When the first message had arrived.
        first_s: f64 ["s", null];
        /// When the last message had arrived; null: not by the end of the run, or it failed.
        end_s: f64 ["s", null];
        /// `whole`, `unfinished` at the end of the run, or how the connection ended: `refused`,
        /// `reset`, `timed-out`, `closed` by the server.
        fate: String [""];
        /// DNS messages that arrived.
        messages: u32 ["messages"];
        /// Bytes of these messages, each with its two-byte length.
        bytes: u64 ["bytes"];
        /// Segments that the server sent again.
        segments_retransmitted: u64 ["segments"];
        /// Retransmission timeouts of the server.
        timeouts: u32 [""];
    }
}

/// Returns the messages with which a server answers a query for a zone.
pub(crate) fn messages(query: Message) -> impl Iterator<Item = Message> {
    let (zone, full) = (query.notes[0], query.notes[1] & !TRANSFER);
    let question = query.bytes.saturating_sub(LENGTH + HEADER);
    let from = (0..zone).step_by(full.max(1) as usize);
    from.map(move |from| {
        let whole = full.min(zone - from) + if from == 0 { question } else { 0 };
        Message { bytes: LENGTH + whole, notes: [whole, TRANSFER], ..query }
    })
}

impl Settings for Transfer {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.server(self.server, Protocol::Dns)?;
        for secondary in &self.secondaries {
            environment.check_round_trip(secondary.there, secondary.back)?;
            if secondary.node != environment.paths[secondary.there].from {
                return Err("secondaries: the way there does not start at the node".into());
            }
        }
        environment.check_tcp(self.tcp)?;
        if !self.at.is_sorted() || !self.at.iter().all(|&at| is_moment(at)) {
            return Err("at: must be in order, and not too late".into());
        }
        if u64::from(self.message + self.question()) > LONGEST {
            return Err(format!("message: must be at most {LONGEST} with the question"));
        }
        if self.messages() > MOST_MESSAGES {
            return Err(format!("zone: must be at most {MOST_MESSAGES} messages"));
        }
        // The connection of the previous transfer may still be closing.
        Ok(2 * self.secondaries.len())
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        let paths = self.secondaries.iter().flat_map(|secondary| [secondary.there, secondary.back]);
        paths.map(|path| Use { path, bytes: Use::ACK, dns: true }).collect()
    }

    fn heads() -> &'static [Head] {
        &[TransfersRow::HEAD]
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Fetching {
            name: name.to_owned(),
            random: None,
            slots: self.secondaries.iter().map(|_| Slot::default()).collect(),
            over: 0,
            rows: Vec::new(),
            settings: self,
        })
    }
}

#[derive(Debug)]
struct Fetching {
    name: String,
    settings: Transfer,
    /// Random streams of connections and of times.
    random: Option<[Random; 2]>,
    slots: Vec<Slot>,
    /// The number of transfers that have ended, complete or not.
    over: usize,
    rows: Vec<Row>,
}

/// The state of a secondary.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The number of transfers due so far, and of those among them that wait for another to end.
    due: usize,
    waiting: usize,
    /// The connection of the current transfer, and its row.
    current: Option<(Socket, usize)>,
}

/// A row of the table `transfers`.
#[derive(Clone, Copy, Debug)]
struct Row {
    secondary: usize,
    number: usize,
    start: Time,
    established: Option<Time>,
    first: Option<Time>,
    end: Option<Time>,
    fate: &'static str,
    messages: u32,
    bytes: u64,
    retransmitted: u64,
    timeouts: u32,
}

impl Application for Fetching {
    fn start(&mut self, host: &mut dyn Host) {
        self.random = Some(
            ["connections", "spread"].map(|what| host.random(&format!("{}/{what}", self.name))),
        );
        for secondary in 0..self.slots.len() {
            self.wait(host, secondary);
        }
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let secondary = token as usize;
        self.slots[secondary].due += 1;
        self.wait(host, secondary);
        if self.slots[secondary].current.is_some() {
            self.slots[secondary].waiting += 1;
        } else {
            self.begin(host, secondary);
        }
    }

    fn opened(&mut self, host: &mut dyn Host, socket: Socket) {
        let Some((_, row)) = self.current(host, socket) else { return };
        let row = &mut self.rows[row];
        row.established = Some(host.now());
        let Transfer { query, zone, message, .. } = self.settings;
        let notes = [zone, TRANSFER | message];
        host.send(socket, Message { bytes: LENGTH + query, tag: NO_ATTEMPT, notes });
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, message: Message) {
        let Some((secondary, number)) = self.current(host, socket) else { return };
        let row = &mut self.rows[number];
        row.first = row.first.or(Some(host.now()));
        row.messages += 1;
        row.bytes += u64::from(message.bytes);
        if row.messages == self.settings.messages() {
            self.end(host, secondary, WHOLE);
            host.close(socket);
        }
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, how: Closed) {
        let Some((secondary, _)) = self.current(host, socket) else { return };
        let fate = match how {
            Closed::ByPeer | Closed::Done => "closed",
            Closed::Refused => "refused",
            Closed::Reset => "reset",
            Closed::TimedOut => "timed-out",
        };
        self.end(host, secondary, fate);
        if how == Closed::ByPeer {
            host.close(socket);
        }
    }

    fn is_done(&self) -> bool {
        self.over == self.planned()
    }

    fn progress(&self) -> Option<f64> {
        Some(self.over as f64 / self.planned().max(1) as f64)
    }

    fn tables(&self, environment: &Environment<'_>) -> Vec<Table> {
        let seconds = |at: Option<Time>| at.map_or(f64::NAN, Time::as_secs_f64);
        let node =
            |row: &Row| environment.nodes[self.settings.secondaries[row.secondary].node].clone();
        let rows = self.rows.iter().map(|row| TransfersRow {
            group: self.name.clone(),
            secondary: node(row),
            transfer: row.number as u32,
            start_s: row.start.as_secs_f64(),
            established_s: seconds(row.established),
            first_s: seconds(row.first),
            end_s: seconds(row.end),
            fate: row.fate.to_owned(),
            messages: row.messages,
            bytes: row.bytes,
            segments_retransmitted: row.retransmitted,
            timeouts: row.timeouts,
        });
        vec![TransfersRow::table(rows)]
    }
}

impl Fetching {
    /// Returns the number of transfers of all secondaries.
    fn planned(&self) -> usize {
        self.slots.len() * self.settings.at.len()
    }

    /// Sets the timer for a secondary's next transfer.
    fn wait(&mut self, host: &mut dyn Host, secondary: usize) {
        let Some(&at) = self.settings.at.get(self.slots[secondary].due) else { return };
        let Some([_, of_time]) = &mut self.random else { return };
        let spread = self.settings.spread.as_secs_f64() * of_time.uniform();
        let at = at + Span::from_secs_f64(spread);
        host.wake(at.max(host.now()), secondary as u32);
    }

    fn begin(&mut self, host: &mut dyn Host, secondary: usize) {
        let Some([of_connection, _]) = &mut self.random else { return };
        let Secondary { there, back, .. } = self.settings.secondaries[secondary];
        let dial = Dial {
            there,
            back,
            server: self.settings.server,
            port: PORT,
            tcp: self.settings.tcp,
            number: secondary as u32,
            dns: true,
        };
        let socket = host.open(&dial, of_connection);
        let slot = &mut self.slots[secondary];
        slot.current = Some((socket, self.rows.len()));
        let number = slot.due - slot.waiting - 1;
        self.rows.push(Row::new(secondary, number, host.now()));
    }

    /// Ends a transfer, and starts the one that waited for it.
    fn end(&mut self, host: &mut dyn Host, secondary: usize, fate: &'static str) {
        let slot = &mut self.slots[secondary];
        let Some((socket, row)) = slot.current.take() else { return };
        let row = &mut self.rows[row];
        row.fate = fate;
        if fate == WHOLE {
            row.end = Some(host.now());
        }
        if let Some(counters) = host.counters(socket.other()) {
            (row.retransmitted, row.timeouts) =
                (counters.segments_retransmitted, counters.timeouts);
        }
        self.over += 1;
        if slot.waiting > 0 {
            slot.waiting -= 1;
            self.begin(host, secondary);
        }
    }

    /// Returns the secondary to which a socket belongs, and its transfer's row, or `None` if this
    /// end has closed it.
    fn current(&self, host: &dyn Host, socket: Socket) -> Option<(usize, usize)> {
        let secondary = host.number(socket) as usize;
        let (current, row) = self.slots.get(secondary)?.current?;
        (current == socket).then_some((secondary, row))
    }
}

impl Row {
    const fn new(secondary: usize, number: usize, start: Time) -> Self {
        Self {
            secondary,
            number,
            start,
            established: None,
            first: None,
            end: None,
            fate: "unfinished",
            messages: 0,
            bytes: 0,
            retransmitted: 0,
            timeouts: 0,
        }
    }
}

/// A tag that is no row of the table `attempts`. Captures show the segments without the messages in
/// them.
const NO_ATTEMPT: u32 = u32::MAX;

/// The fate of a transfer that is complete.
const WHOLE: &str = "whole";

/// The longest DNS message (RFC 1035, 4.2.2).
const LONGEST: u64 = 65_535;

/// The most bytes of a zone.
const MOST_BYTES: u64 = 1_000_000_000;

/// The most messages of a transfer: they are kept until the secondary has them.
const MOST_MESSAGES: u32 = 1_000_000;

//! A flood: SYNs, or DNS queries over UDP, from forged addresses against a DNS server.
//!
//! The addresses belong to nobody, so nothing answers what the server sends to them. Half-open
//! connections stay until the server gives them up (RFC 4987), and replies are traffic for others
//! (RFC 5358). Existing hosts would answer a SYN-ACK with a reset and so free the entry; addresses
//! without hosts are the better choice for an attacker.
//!
//! The table `floods` shows the effect on the server, a row for each period. Tables of ordinary
//! clients show the effect on them. A flood does not remember what it has sent: a million SYNs take
//! as much memory as one, and the server's queue as much as its limits allow.

use narrows_transport::half_open::Counts;
use narrows_units::settings::{any, positive, size, whole};
use narrows_units::{ConfigError, Span, Time, choice, keys};

use crate::dns::PORT;
use crate::record::Records;
use crate::streams::{HEADERS, MOST_ROWS};
use crate::table::{Head, Table, rows};
use crate::udp::Spacing;
use crate::{
    Application, Association, Datagram, Dial, Environment, Host, Lost, Message, Protocol, Random,
    Settings, Use, is_moment,
};

keys! {
    /// The settings of a flood.
    pub struct Flood {
        /// Its target: an index into the plan's applications.
        server: usize = 0, any();
        /// The path to the server: an index into the plan's paths.
        there: usize = 0, any();
        /// The path of answers: an index into the plan's paths.
        back: usize = 0, any();
        /// What it sends.
        of: Of = Of::Syns, any();
        /// The time between packets, or its mean.
        interval: Span = Span::from_ms(1), positive();
        /// Time between packets: always the same, or exponentially distributed.
        spacing: Spacing = Spacing::Poisson, any();
        /// Number of forged addresses, which take turns. Fair queues treat each as a flow.
        addresses: u32 = 1000, whole(1, MOST_ADDRESSES);
        /// When it starts.
        start: Time = Time::ZERO, any();
        /// When it stops; `None`: at the end of the run.
        stop: Option<Time> = None, any();
        /// The time that each row of the table `floods` covers.
        period: Span = Span::from_secs(1), positive();
    }
}

choice! {
    #[derive(Copy, Eq)]
    /// The packets of a flood.
    pub enum Of {
        /// TCP connections that are never completed.
        Syns,
        /// DNS queries over UDP.
        Queries(Queries),
    }
    with Queries
}

keys! {
    #[derive(Copy, Eq)]
    /// The queries of a flood.
    pub struct Queries as "FloodQueries" {
        /// Length of a query's DNS message, with `of = "queries"`; `"40 B"` by default.
        query: u16 = 40, size(super::dns::HEADER as u64, LONGEST);
        /// Length of the whole reply; `"1000 B"` by default.
        reply: u16 = 1000, size(super::dns::HEADER as u64, LONGEST);
        /// The longest reply that queries ask for (EDNS); `"1232 B"` by default. A longer one is
        /// truncated.
        // RFC 6891, 6.2.3.
        payload: u16 = 1232, size(512, LONGEST);
    }
}

/// The longest message in an IPv4 packet, after its headers.
const LONGEST: u64 = (u16::MAX - HEADERS) as u64;

impl Of {
    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Syns => Ok(()),
            Self::Queries(queries) => queries.check(),
        }
    }
}

impl Settings for Flood {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.check_round_trip(self.there, self.back)?;
        environment.server(self.server, Protocol::Dns)?;
        if !is_moment(self.start) || self.stop.is_some_and(|stop| stop <= self.start) {
            return Err("stop: must be after start".into());
        }
        let lasts =
            self.stop.map_or(environment.end, |stop| stop.min(environment.end)).since(self.start);
        let rows = lasts.as_ps() / self.period.as_ps();
        if rows > MOST_ROWS {
            return Err(format!("period: {rows} rows are more than the limit of {MOST_ROWS}"));
        }
        Ok(self.flows() as usize)
    }

    fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
        match self.of {
            Of::Syns => {
                // The shortest packets: a SYN and a SYN-ACK with options, or a reset without.
                let using = |path, bytes| Use { path, bytes, dns: true };
                vec![using(self.there, SYN), using(self.back, RESET)]
            }
            Of::Queries(Queries { query, reply, .. }) => {
                // A truncated reply is as long as its query.
                let [query, reply] = [query, reply].map(|bytes| HEADERS.saturating_add(bytes));
                let using = |path, lengths| environment.datagrams(path, lengths, true);
                vec![
                    using(self.there, (query, query)),
                    using(self.back, (reply.min(query), reply.max(query))),
                ]
            }
        }
    }

    fn heads() -> &'static [Head] {
        &[FloodsRow::HEAD]
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Flooding {
            name: name.to_owned(),
            settings: self,
            random: None,
            associations: Vec::new(),
            first_socket: 0,
            sent: 0,
            now: Row::default(),
            before: Row::default(),
            rows: Vec::new(),
        })
    }
}

impl Flood {
    /// Returns the number of flows that it takes. Queues tell the addresses of SYNs apart by flow,
    /// and those of datagrams by socket.
    fn flows(&self) -> u32 {
        match self.of {
            Of::Syns => self.addresses,
            Of::Queries(_) => 1,
        }
    }
}

rows! {
    /// A period of a flood, and what its target did in it.
    pub(crate) struct FloodsRow as "floods" {
        /// The traffic group that it belongs to.
        group: String [""];
        /// When the period begins.
        from_s: f64 ["s"];
        /// When it ends.
        t_s: f64 ["s"];
        /// Packets that the flood sent.
        sent: u64 ["packets"];
        /// Its queries that were lost on the way.
        lost: u64 ["packets"];
        /// Replies to forged addresses.
        replies: u64 ["packets"];
        /// Total length of their IP packets.
        reply_bytes: u64 ["bytes"];
        /// Half-open connections at the server when the period ends.
        half_open: u32 [""];
        /// SYNs that reached the server, from any sender.
        syns: u64 ["SYNs"];
        /// SYNs that the server dropped.
        dropped: u64 ["SYNs"];
        /// SYNs that the server answered with a cookie.
        cookies: u64 ["SYNs"];
        /// SYN-ACKs repeated to forged addresses.
        repeated: u64 ["segments"];
        /// Half-open connections that the server gave up.
        expired: u64 [""];
    }
}

#[derive(Debug)]
struct Flooding {
    name: String,
    settings: Flood,
    random: Option<Random>,
    associations: Vec<Association>,
    first_socket: u32,
    sent: u32,
    /// The counts so far, and those at the end of the previous period.
    now: Row,
    before: Row,
    rows: Vec<Row>,
}

/// What a flood and its server have done.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    from: Time,
    at: Time,
    sent: u64,
    lost: u64,
    replies: u64,
    reply_bytes: u64,
    server: Counts,
}

impl Application for Flooding {
    fn start(&mut self, host: &mut dyn Host) {
        self.random = Some(host.random(&self.name));
        let Flood { server, there, back, .. } = self.settings;
        let dial = Dial { there, back, server, port: PORT, tcp: 0, number: 0, dns: true };
        self.first_socket = host.take_sockets(self.settings.addresses);
        for number in 0..self.settings.flows() {
            let association = host.associate(&Dial { number, ..dial });
            host.forge_addresses(association);
            self.associations.push(association);
        }
        let start = self.settings.start;
        self.before.at = start;
        host.wake(start, SEND);
        let first = start + self.settings.period;
        if is_moment(first) {
            host.wake(first, SAMPLE);
        }
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        if token == SAMPLE {
            self.sample(host);
        } else {
            self.send(host);
        }
    }

    fn datagram(&mut self, _host: &mut dyn Host, reply: Datagram) {
        self.now.replies += 1;
        self.now.reply_bytes += u64::from(HEADERS) + u64::from(reply.message.bytes);
    }

    fn lost(&mut self, _records: &mut Records, datagram: Datagram, _lost: Option<Lost>) {
        self.now.lost += u64::from(!datagram.goes_back);
    }

    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        let rows = self.rows.iter().map(|row| FloodsRow {
            group: self.name.clone(),
            from_s: row.from.as_secs_f64(),
            t_s: row.at.as_secs_f64(),
            sent: row.sent,
            lost: row.lost,
            replies: row.replies,
            reply_bytes: row.reply_bytes,
            half_open: row.server.entries,
            syns: row.server.syns,
            dropped: row.server.dropped,
            cookies: row.server.cookies,
            repeated: row.server.repeated,
            expired: row.server.expired,
        });
        vec![FloodsRow::table(rows)]
    }
}

impl Flooding {
    fn send(&mut self, host: &mut dyn Host) {
        let Some(random) = &mut self.random else { return };
        let turn = self.sent % self.settings.addresses;
        match self.settings.of {
            Of::Syns => {
                host.send_forged_syn(self.associations[turn as usize], random.bits());
            }
            Of::Queries(Queries { query, reply, payload }) => {
                let message = Message {
                    bytes: u32::from(query),
                    // Its queries have no row in the table `attempts`.
                    tag: u32::MAX,
                    notes: [u32::from(reply), u32::from(payload)],
                };
                let socket = self.first_socket + turn;
                host.send_datagram(self.associations[0], socket, false, &message);
            }
        }
        self.sent = self.sent.wrapping_add(1);
        self.now.sent += 1;
        let gap = match self.settings.spacing {
            Spacing::Even => self.settings.interval,
            Spacing::Poisson => random.exponential(self.settings.interval),
        };
        let next = host.now() + gap;
        if is_moment(next) && self.settings.stop.is_none_or(|stop| next < stop) {
            host.wake(next, SEND);
        }
    }

    /// Records a period. Periods go on after the flood, because entries outlive it.
    fn sample(&mut self, host: &mut dyn Host) {
        self.now.at = host.now();
        self.now.server = host.half_open(self.settings.server).unwrap_or_default();
        self.rows.push(self.now.since(&self.before));
        self.before = self.now;
        let next = host.now() + self.settings.period;
        if is_moment(next) {
            host.wake(next, SAMPLE);
        }
    }
}

impl Row {
    /// Returns what has been added since `before`. Entries are the current ones.
    fn since(&self, before: &Self) -> Self {
        let (server, then) = (self.server, before.server);
        Self {
            from: before.at,
            at: self.at,
            sent: self.sent - before.sent,
            lost: self.lost - before.lost,
            replies: self.replies - before.replies,
            reply_bytes: self.reply_bytes - before.reply_bytes,
            server: Counts {
                entries: server.entries,
                syns: server.syns - then.syns,
                dropped: server.dropped - then.dropped,
                cookies: server.cookies - then.cookies,
                repeated: server.repeated - then.repeated,
                expired: server.expired - then.expired,
            },
        }
    }
}

/// Timers.
const SEND: u32 = 0;
const SAMPLE: u32 = 1;

/// The lengths of a SYN with the options of Linux, and of a reset.
const SYN: u16 = 60;
const RESET: u16 = 40;

/// The most addresses: each takes a flow.
const MOST_ADDRESSES: u64 = 65_536;

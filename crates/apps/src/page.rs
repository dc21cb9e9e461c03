//! Web pages: browsers that fetch the objects of a page, some of which become known only when
//! others have arrived. Each load of a page is a row of the table `pages`, and each of its objects
//! a row of `objects`.
//!
//! A browser asks for an object some time after everything that it depends on has arrived; it needs
//! that time for parsing. The connections to each server and the concurrent requests on each
//! connection are limited: usually six and one for HTTP/1.1, one and a hundred for HTTP/2 (RFC
//! 9113, 6.5.2). Requests that find no room wait in order, and each uses the connection that is
//! free first. A new connection is opened if a request waits and the limit allows. Each load starts
//! without connections and closes its own, as on a first visit.
//!
//! With a resolver, a browser needs the name of each server before it connects. It asks for a name
//! when it first wants an object there, once in a load, and all objects there wait for the same
//! answer. Some names it knows already. Each name of a load is a row of the table `lookups`.
//!
//! Not modelled: priorities (objects are requested in the page's order), and caches of objects. A
//! connection that fails fails the page, and so does a name without an answer.

mod names;
mod tables;

use std::collections::VecDeque;

use narrows_transport::{Closed, quic};
use narrows_units::settings::{any, entries, size, whole};
use narrows_units::{Bytes, MaybeTime, Span, Time, keys};

pub use self::names::Resolver;
use self::names::{LookupRow, Names};
use self::tables::{LookupsRow, ObjectRow, ObjectsRow, PageRow, PagesRow};
use crate::dns::client::on_demand::Resolved;
use crate::dns::slab::Slab;
use crate::incast::RoundTrip;
use crate::responder::{LONGEST, length, request};
use crate::secure::SecureClient;
use crate::streams::MOST_ROWS;
use crate::table::{Head, Table};
use crate::{
    Application, Dial, Draw, Environment, Host, Message, Protocol, Random, Settings, Socket, Use,
    is_moment,
};

keys! {
    /// The settings of a group of browsers.
    pub struct Page {
        /// The application that answers: an index into the plan's applications.
        responder: usize = 0, any();
        /// The paths to each server of the page, and back.
        servers: Vec<RoundTrip> = Vec::new(), any();
        /// The settings of the browsers' ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// Browsers at the client.
        browsers: u32 = 1, whole(1, 100_000);
        /// When the first browser starts.
        start: Time = Time::ZERO, any();
        /// Browsers start at random times within this time after `start`.
        spread: Span = Span::ZERO, any();
        /// Loads of each browser, one after the other.
        loads: u32 = 1, whole(1, 1_000_000);
        /// The time from the end of a load to the next.
        pause: Draw<Span> = Draw::Constant(Span::ZERO), any();
        /// The number of concurrent connections to each server.
        connections: u32 = 1, whole(1, u32::MAX as u64);
        /// The number of concurrent requests on a connection.
        streams: u32 = 1, whole(1, u32::MAX as u64);
        /// Bytes of a request.
        request: u32 = 300, size(1, 1_000_000);
        /// The objects of the page. The first is the page itself.
        objects: Vec<Object> = Vec::new(), entries(1, 10_000);
        /// How the browsers encrypt, over TCP or QUIC; `None`: they do not.
        secure: Option<SecureClient> = None, any();
        /// How the browsers find the addresses of servers; `None`: they know all.
        resolver: Option<Resolver> = None, any();
    }
}

keys! {
    /// An object of a page.
    pub struct Object as "PageObject" {
        /// Its name in the table.
        name: String = String::new(), any();
        /// The index of the page's server that has it.
        server: usize = 0, any();
        /// Its length. A list has one entry for each load.
        bytes: Draw<Bytes> = Draw::Constant(Bytes::new(1)), size(1, LONGEST);
        /// Objects that must have arrived before it is requested: earlier ones of the page.
        after: Vec<usize> = Vec::new(), any();
        /// Time from the arrival of the last of these to the request: for parsing, or running a
        /// script.
        wait: Span = Span::ZERO, any();
    }
}

impl Settings for Page {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        let server = environment.server(self.responder, Protocol::Bytes)?;
        for round_trip in &self.servers {
            environment.check_round_trip(round_trip.there, round_trip.back)?;
        }
        environment.check_tcp(self.tcp)?;
        if let Some(secure) = &self.secure {
            let paths =
                self.servers.iter().flat_map(|round_trip| [round_trip.there, round_trip.back]);
            secure
                .check_paths(environment, server, paths)
                .map_err(|why| format!("secure: {why}"))?;
        }
        if let Some(resolver) = &self.resolver {
            environment
                .server(resolver.client, Protocol::Names)
                .map_err(|why| format!("resolver: {why}"))?;
        }
        for (number, object) in self.objects.iter().enumerate() {
            let Object { name, server, after, .. } = object;
            if *server >= self.servers.len() {
                return Err(format!("{name}: server: no such server"));
            }
            if after.iter().any(|&other| other >= number) {
                return Err(format!("{name}: after: must be earlier objects"));
            }
        }
        let rows = [self.browsers, self.loads].map(u64::from);
        let rows = rows.into_iter().fold(self.objects.len() as u64, u64::saturating_mul);
        if rows > MOST_ROWS {
            return Err(format!("loads: {rows} objects are more than the limit of {MOST_ROWS}"));
        }
        if u64::from(self.browsers) * (self.objects.len() as u64 + 1) > u64::from(u32::MAX) {
            return Err("browsers: too many for this many objects".into());
        }
        // The connections of the previous load may still be closing.
        let each = 2 * (self.connections as usize).min(self.objects.len()) * self.servers.len();
        Ok(each.saturating_mul(self.browsers as usize))
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        self.servers.iter().flat_map(|round_trip| round_trip.uses()).collect()
    }

    fn quic(&self) -> Option<&quic::Config> {
        self.secure.as_ref()?.quic.as_ref()
    }

    fn heads() -> &'static [Head] {
        &[PagesRow::HEAD, ObjectsRow::HEAD, LookupsRow::HEAD]
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        let mut needed_by = vec![Vec::new(); self.objects.len()];
        for (number, object) in self.objects.iter().enumerate() {
            for &other in &object.after {
                needed_by[other].push(number as u32);
            }
        }
        Box::new(Browsers {
            name: name.to_owned(),
            settings: self,
            needed_by,
            browsers: Vec::new(),
            connections: Slab::default(),
            pages: Vec::new(),
            objects: Vec::new(),
            lookups: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct Browsers {
    name: String,
    settings: Page,
    /// For each object: those that depend on it.
    needed_by: Vec<Vec<u32>>,
    browsers: Vec<Browser>,
    connections: Slab<Connection>,
    pages: Vec<PageRow>,
    /// The objects of all pages, page by page.
    objects: Vec<ObjectRow>,
    lookups: Vec<LookupRow>,
}

#[derive(Debug)]
struct Browser {
    random: Random,
    /// The loads begun.
    begun: u32,
    /// The row of the current load.
    page: Option<u32>,
    /// The number of objects that have not arrived.
    missing: u32,
    /// For each object: how many of those that it depends on have not arrived.
    blocked: Vec<u32>,
    servers: Vec<Pool>,
    /// `None`: it knows all names.
    names: Option<Names>,
}

/// A browser's connections to one server.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Requests that wait for room.
    waiting: VecDeque<u32>,
    /// The numbers of its connections.
    connections: Vec<u32>,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    browser: u32,
    server: u32,
    /// Whether requests may be written: the connection is established, or they leave as early data.
    established: bool,
    /// The number of unanswered requests.
    asked: u32,
}

impl Application for Browsers {
    fn start(&mut self, host: &mut dyn Host) {
        let settings = &self.settings;
        for number in 0..settings.browsers {
            let mut random = host.random(&format!("{}/browser {number}", self.name));
            let offset = Span::from_secs_f64(settings.spread.as_secs_f64() * random.uniform());
            self.browsers.push(Browser {
                random,
                begun: 0,
                page: None,
                missing: 0,
                blocked: Vec::new(),
                servers: vec![Pool::default(); settings.servers.len()],
                names: settings.resolver.map(|resolver| {
                    let random = host.random(&format!("{}/names {number}", self.name));
                    Names::new(resolver, random, settings.servers.len())
                }),
            });
            let at = settings.start + offset;
            if is_moment(at) {
                host.wake(at, self.token(number, None));
            }
        }
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let each = self.settings.objects.len() as u32 + 1;
        let (number, what) = (token / each, token % each);
        match what.checked_sub(1) {
            None => self.begin(host, number),
            Some(object) => {
                // A timer of a load that has failed does not concern this one.
                let row = self.row(number, object);
                if row.is_some_and(|row| {
                    let row = &self.objects[row];
                    row.ready.is(host.now()) && row.asked == MaybeTime::NONE
                }) {
                    self.find(host, number, object);
                }
            }
        }
    }

    fn opened(&mut self, host: &mut dyn Host, socket: Socket) {
        let Some((number, connection)) = self.connection(host, socket) else { return };
        connection.established = true;
        self.fill(host, number);
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, answer: Message) {
        let Some((number, connection)) = self.connection(host, socket) else { return };
        connection.asked -= 1;
        let browser = connection.browser;
        self.take(host, browser, answer);
        self.fill(host, number);
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, _how: Closed) {
        let Some((number, connection)) = self.connection(host, socket) else { return };
        // The responder never closes first, so the connection failed, and the page with it.
        let browser = connection.browser;
        self.connections.take(number);
        self.fail(host, browser);
    }

    fn notified(&mut self, host: &mut dyn Host, _from: u32, notes: [u32; 2]) {
        self.resolved(host, Resolved::of(notes));
    }

    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        let lookups = self.settings.resolver.map(|_| self.lookup_table());
        [self.page_table(), self.object_table()].into_iter().chain(lookups).collect()
    }
}

impl Browsers {
    /// Starts a load: the browser wants all objects that depend on nothing.
    fn begin(&mut self, host: &mut dyn Host, number: u32) {
        let settings = &self.settings;
        let browser = &mut self.browsers[number as usize];
        let page = self.pages.len() as u32;
        let load = browser.begun;
        self.pages.push(PageRow {
            browser: number,
            load,
            start: host.now(),
            first: MaybeTime::NONE,
            end: MaybeTime::NONE,
            bytes: 0,
            connections: 0,
            failed: false,
        });
        browser.begun += 1;
        browser.page = Some(page);
        browser.missing = settings.objects.len() as u32;
        browser.blocked.clear();
        browser.names.iter_mut().for_each(Names::forget);
        self.objects.reserve(settings.objects.len());
        for object in &settings.objects {
            let bytes = length(object.bytes.next(&mut browser.random, load));
            let none = MaybeTime::NONE;
            self.objects.push(ObjectRow { page, bytes, ready: none, asked: none, end: none });
            browser.blocked.push(object.after.len() as u32);
        }
        for object in 0..self.settings.objects.len() as u32 {
            if self.settings.objects[object as usize].after.is_empty() {
                self.free(host, number, object);
            }
        }
    }

    /// Asks for an object after its wait, because everything that it depends on has arrived.
    fn free(&mut self, host: &mut dyn Host, number: u32, object: u32) {
        let at = host.now() + self.settings.objects[object as usize].wait;
        let Some(row) = self.row(number, object) else { return };
        self.objects[row].ready = at.into();
        if at == host.now() {
            self.find(host, number, object);
        } else if is_moment(at) {
            host.wake(at, self.token(number, Some(object)));
        }
    }

    /// Sends a request on a connection that has room, or queues it.
    fn want(&mut self, host: &mut dyn Host, number: u32, object: u32) {
        let settings = &self.settings;
        let server = settings.objects[object as usize].server;
        let browser = &mut self.browsers[number as usize];
        let pool = &mut browser.servers[server];
        pool.waiting.push_back(object);
        let mut opening = 0;
        for &connection in &pool.connections {
            let Some(connection) = self.connections.get_mut(connection) else { continue };
            opening += u32::from(!connection.established);
        }
        let room = |connections: &mut Slab<Connection>, connection: u32| {
            let found = connections.get_mut(connection);
            found.is_some_and(|c| c.established && c.asked < settings.streams)
        };
        let free = pool.connections.iter().copied().find(|&c| room(&mut self.connections, c));
        if let Some(connection) = free {
            self.fill(host, connection);
            return;
        }
        let expected = u64::from(opening) * u64::from(settings.streams);
        if pool.connections.len() < settings.connections as usize
            && (pool.waiting.len() as u64) > expected
        {
            let connection = self.connections.next_number();
            let dial = Dial {
                there: settings.servers[server].there,
                back: settings.servers[server].back,
                server: settings.responder,
                port: if settings.secure.is_some() { SECURE_PORT } else { PORT },
                tcp: settings.tcp,
                number: connection,
                dns: false,
            };
            // Each browser has its own sessions with each server.
            let jar =
                number.wrapping_mul(settings.servers.len() as u32).wrapping_add(server as u32);
            let random = &mut browser.random;
            let socket = match &settings.secure {
                Some(secure) => secure.open(host, &dial, jar, random),
                None => host.open(&dial, random),
            };
            let early = settings.secure.is_some() && host.takes_early_data(socket);
            pool.connections.push(connection);
            self.connections.put(Connection {
                socket,
                browser: number,
                server: server as u32,
                established: early,
                asked: 0,
            });
            if let Some(page) = browser.page {
                self.pages[page as usize].connections += 1;
            }
            if early {
                self.fill(host, connection);
            }
        }
    }

    /// Sends waiting requests, as many as a connection has room for.
    fn fill(&mut self, host: &mut dyn Host, number: u32) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let browser = &mut self.browsers[connection.browser as usize];
        let Some(page) = browser.page else { return };
        let pool = &mut browser.servers[connection.server as usize];
        while connection.asked < self.settings.streams
            && let Some(object) = pool.waiting.pop_front()
        {
            connection.asked += 1;
            let row = page as usize * self.settings.objects.len() + object as usize;
            let row = &mut self.objects[row];
            row.asked = host.now().into();
            let asked = request(self.settings.request, row.bytes, object);
            host.send(connection.socket, asked);
        }
    }

    /// Takes an object that has arrived.
    fn take(&mut self, host: &mut dyn Host, number: u32, answer: Message) {
        let object = answer.tag;
        let Some(row) = self.row(number, object) else { return };
        let now = host.now();
        self.objects[row].end = now.into();
        let browser = &mut self.browsers[number as usize];
        let Some(page) = browser.page else { return };
        let page = &mut self.pages[page as usize];
        page.bytes += u64::from(answer.bytes);
        if object == 0 {
            page.first = now.into();
        }
        browser.missing -= 1;
        if browser.missing == 0 {
            page.end = now.into();
            self.end(host, number);
            return;
        }
        for at in 0..self.needed_by[object as usize].len() {
            let other = self.needed_by[object as usize][at];
            let blocked = &mut self.browsers[number as usize].blocked[other as usize];
            *blocked -= 1;
            if *blocked == 0 {
                self.free(host, number, other);
            }
        }
    }

    /// Ends a load that has failed, if there is one.
    fn fail(&mut self, host: &mut dyn Host, number: u32) {
        if let Some(page) = self.browsers[number as usize].page {
            self.pages[page as usize].failed = true;
            self.end(host, number);
        }
    }

    /// Ends a load, successful or not.
    fn end(&mut self, host: &mut dyn Host, number: u32) {
        let browser = &mut self.browsers[number as usize];
        browser.page = None;
        for pool in &mut browser.servers {
            pool.waiting.clear();
            for connection in pool.connections.drain(..) {
                let Some(connection) = self.connections.take(connection) else { continue };
                if connection.asked == 0 && connection.established {
                    host.close(connection.socket);
                } else {
                    host.abort(connection.socket);
                }
            }
        }
        if browser.begun < self.settings.loads {
            let pause = self.settings.pause.next(&mut browser.random, browser.begun - 1);
            let next = host.now() + pause;
            if is_moment(next) {
                host.wake(next, self.token(number, None));
            }
        }
    }

    /// Returns the connection of a socket, with its number, or `None` if this end has closed it.
    fn connection(&mut self, host: &dyn Host, socket: Socket) -> Option<(u32, &mut Connection)> {
        let number = host.number(socket);
        let connection = self.connections.get_mut(number)?;
        (connection.socket == socket).then_some((number, connection))
    }

    /// Returns the row of an object in a browser's current load.
    fn row(&self, number: u32, object: u32) -> Option<usize> {
        let page = self.browsers[number as usize].page?;
        Some(page as usize * self.settings.objects.len() + object as usize)
    }

    /// Returns the number of a browser's timer: for its next load, or for an object.
    fn token(&self, number: u32, object: Option<u32>) -> u32 {
        let each = self.settings.objects.len() as u32 + 1;
        number * each + object.map_or(0, |object| object + 1)
    }
}

/// The servers' port: HTTP's.
const PORT: u16 = 80;
/// The servers' port with TLS, over TCP or QUIC.
const SECURE_PORT: u16 = 443;

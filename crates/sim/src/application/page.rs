//! Web pages: browsers that fetch the objects of a page, some of which are known only when others
//! have come. A load of a page is a row of the table `pages`, an object of it one of `objects`.
//!
//! A browser asks for an object when all that it depends on have come, and some time for parsing
//! them has passed. It has so many connections to each server, and so many requests at a time on
//! each: six and one as HTTP/1.1 is used, one and a hundred for HTTP/2 (RFC 9113, 6.5.2). Requests
//! that find no room wait in order, and each goes out on the connection that is free first. A
//! connection is opened when a request waits and there may be one more. A load begins without
//! connections and closes its own: nobody has visited the page before.
//!
//! Left out: the look-up of the server's address, TLS (its round trips delay the first request of
//! each connection), priorities (objects are asked for in the page's order), and caches. A
//! connection that fails fails the page.

use std::collections::VecDeque;

use narrows_units::{Bytes, Span, Time};

use super::dns::slab::Slab;
use super::incast::Way;
use super::responder::{length, request};
use super::streams::MOST_ROWS;
use super::{Application, Closed, Dial, Draw, Host, Message, Settings, Socket, Use, is_moment};
use crate::maybe_time::MaybeTime;
use crate::plan::{Kind, Plan};
use crate::random::Random;
use crate::table::{Table, columns};

/// Settings of a group of browsers.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Page {
    /// Who answers: an index into the plan's applications.
    pub responder: usize,
    /// The way to each server of the page, and back.
    pub servers: Vec<Way>,
    /// Settings of the browsers' ends: an index into the plan's `tcp`.
    pub tcp: usize,
    /// Browsers, each of which loads the page again and again.
    pub browsers: u32,
    /// When the first browser starts.
    pub start: Time,
    /// Browsers start at random times within this span after `start`.
    pub spread: Span,
    /// Loads of each browser.
    pub loads: u32,
    /// Time from the end of a load to the next.
    pub pause: Draw<Span>,
    /// Connections to each server at a time.
    pub connections: u32,
    /// Requests at a time on a connection.
    pub streams: u32,
    /// Bytes of a request.
    pub request: u32,
    /// What the page consists of; the first is the page itself.
    pub objects: Vec<Object>,
}

/// An object of a page.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Object {
    /// Its name, for the table.
    pub name: String,
    /// Which of the page's servers has it.
    pub server: usize,
    /// Its length; a list gives one for each load.
    pub bytes: Draw<Bytes>,
    /// Objects that must have come before it is asked for: earlier ones of the page.
    pub after: Vec<usize>,
    /// Time from the last of them to the request.
    pub wait: Span,
}

impl Settings for Page {
    fn check(&self, plan: &Plan) -> Result<usize, String> {
        plan.check_server(self.responder, |kind| matches!(kind, Kind::Responder(_)))?;
        for way in &self.servers {
            plan.check_round_trip(way.there, way.back)?;
        }
        if self.tcp >= plan.tcp.len() {
            return Err("tcp: no such settings".into());
        }
        if self.connections == 0 || self.streams == 0 || self.request == 0 {
            return Err("connections, streams, request: must be at least one".into());
        }
        if self.loads == 0 || self.objects.is_empty() {
            return Err("loads, objects: needs one at least".into());
        }
        self.pause.check().map_err(|why| format!("pause: {why}"))?;
        for (number, object) in self.objects.iter().enumerate() {
            let Object { name, server, bytes, after, .. } = object;
            if *server >= self.servers.len() {
                return Err(format!("{name}: server: no such server"));
            }
            if after.iter().any(|&other| other >= number) {
                return Err(format!("{name}: after: must be earlier objects"));
            }
            bytes.check().map_err(|why| format!("{name}: bytes: {why}"))?;
        }
        let rows = [self.browsers, self.loads].map(u64::from);
        let rows = rows.into_iter().fold(self.objects.len() as u64, u64::saturating_mul);
        if rows > MOST_ROWS {
            return Err(format!("loads: {rows} objects are more than the limit of {MOST_ROWS}"));
        }
        if u64::from(self.browsers) * (self.objects.len() as u64 + 1) > u64::from(u32::MAX) {
            return Err("browsers: too many for so many objects".into());
        }
        // Those of the load before may still be closing.
        let each = 2 * (self.connections as usize).min(self.objects.len()) * self.servers.len();
        Ok(each.saturating_mul(self.browsers as usize))
    }

    fn uses(&self, _plan: &Plan) -> Vec<Use> {
        self.servers.iter().flat_map(|way| way.uses()).collect()
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
        })
    }
}

#[derive(Debug)]
struct Browsers {
    name: String,
    settings: Page,
    /// For each object, those that depend on it.
    needed_by: Vec<Vec<u32>>,
    browsers: Vec<Browser>,
    connections: Slab<Connection>,
    pages: Vec<PageRow>,
    /// Of all pages, one page's after the other's.
    objects: Vec<ObjectRow>,
}

#[derive(Debug)]
struct Browser {
    random: Random,
    /// Loads begun.
    begun: u32,
    /// The row of the load that is going on.
    page: Option<u32>,
    /// Objects that have not come.
    missing: u32,
    /// For each object, how many of those that it depends on have not come.
    blocked: Vec<u32>,
    servers: Vec<Pool>,
}

/// What a browser has of a server.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Requests that found no room.
    waiting: VecDeque<u32>,
    /// Numbers of connections.
    connections: Vec<u32>,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    browser: u32,
    server: u32,
    established: bool,
    /// Requests without an answer.
    asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct PageRow {
    browser: u32,
    load: u32,
    start: Time,
    /// When its first object had come.
    first: MaybeTime,
    end: MaybeTime,
    bytes: u64,
    connections: u32,
    failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct ObjectRow {
    page: u32,
    bytes: u32,
    /// When it was known and its wait was over.
    ready: MaybeTime,
    asked: MaybeTime,
    end: MaybeTime,
}

impl Application for Browsers {
    fn start(&mut self, host: &mut Host<'_>) {
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
            });
            let at = settings.start + offset;
            if is_moment(at) {
                host.wake(at, self.token(number, None));
            }
        }
    }

    fn timer(&mut self, host: &mut Host<'_>, token: u32) {
        let each = self.settings.objects.len() as u32 + 1;
        let (number, what) = (token / each, token % each);
        match what.checked_sub(1) {
            None => self.begin(host, number),
            Some(object) => {
                // A timer of a load that has failed is nothing to this one.
                let row = self.row(number, object);
                if row.is_some_and(|row| {
                    let row = &self.objects[row];
                    row.ready.is(host.now()) && row.asked == MaybeTime::NONE
                }) {
                    self.want(host, number, object);
                }
            }
        }
    }

    fn opened(&mut self, host: &mut Host<'_>, socket: Socket) {
        let Some((number, connection)) = self.connection(host, socket) else { return };
        connection.established = true;
        self.fill(host, number);
    }

    fn received(&mut self, host: &mut Host<'_>, socket: Socket, answer: Message) {
        let Some((number, connection)) = self.connection(host, socket) else { return };
        connection.asked -= 1;
        let browser = connection.browser;
        self.take(host, browser, answer);
        self.fill(host, number);
    }

    fn closed(&mut self, host: &mut Host<'_>, socket: Socket, _how: Closed) {
        let Some((number, connection)) = self.connection(host, socket) else { return };
        // The responder never closes first: it failed, and the page with it.
        let browser = connection.browser;
        self.connections.take(number);
        if let Some(page) = self.browsers[browser as usize].page {
            self.pages[page as usize].failed = true;
            self.end(host, browser);
        }
    }

    fn tables(&self, _plan: &Plan) -> Vec<Table> {
        vec![self.page_table(), self.object_table()]
    }
}

impl Browsers {
    /// A browser begins a load: it wants whatever depends on nothing.
    fn begin(&mut self, host: &mut Host<'_>, number: u32) {
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

    /// All that an object depends on have come: it is asked for after its wait.
    fn free(&mut self, host: &mut Host<'_>, number: u32, object: u32) {
        let at = host.now() + self.settings.objects[object as usize].wait;
        let Some(row) = self.row(number, object) else { return };
        self.objects[row].ready = at.into();
        if at == host.now() {
            self.want(host, number, object);
        } else if is_moment(at) {
            host.wake(at, self.token(number, Some(object)));
        }
    }

    /// A request goes out on a connection that has room, or waits for one.
    fn want(&mut self, host: &mut Host<'_>, number: u32, object: u32) {
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
                port: PORT,
                tcp: settings.tcp,
                number: connection,
                dns: false,
            };
            let socket = host.open(&dial, &mut browser.random);
            pool.connections.push(connection);
            self.connections.put(Connection {
                socket,
                browser: number,
                server: server as u32,
                established: false,
                asked: 0,
            });
            if let Some(page) = browser.page {
                self.pages[page as usize].connections += 1;
            }
        }
    }

    /// Sends requests that wait, as many as a connection has room for.
    fn fill(&mut self, host: &mut Host<'_>, number: u32) {
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

    /// An object has come.
    fn take(&mut self, host: &mut Host<'_>, number: u32, answer: Message) {
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

    /// A load is over, one way or the other.
    fn end(&mut self, host: &mut Host<'_>, number: u32) {
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

    /// The connection of a socket, with its number; `None`: it was closed here before.
    fn connection(&mut self, host: &Host<'_>, socket: Socket) -> Option<(u32, &mut Connection)> {
        let number = host.number(socket);
        let connection = self.connections.get_mut(number)?;
        (connection.socket == socket).then_some((number, connection))
    }

    /// The row of an object in the load that a browser is at.
    fn row(&self, number: u32, object: u32) -> Option<usize> {
        let page = self.browsers[number as usize].page?;
        Some(page as usize * self.settings.objects.len() + object as usize)
    }

    /// The number of a browser's timer: for its next load, or for an object.
    fn token(&self, number: u32, object: Option<u32>) -> u32 {
        let each = self.settings.objects.len() as u32 + 1;
        number * each + object.map_or(0, |object| object + 1)
    }

    fn page_table(&self) -> Table {
        let rows = &self.pages;
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "browser": U32 = |row| row.browser,
            "load": U32 = |row| row.load,
            "start_s": F64 = |row| row.start.as_secs_f64(),
            "first_s": F64 = |row| seconds(row.first),
            "end_s": F64 = |row| seconds(row.end),
            "failed": Bool = |row| row.failed,
            "bytes": U64 = |row| row.bytes,
            "connections": U32 = |row| row.connections,
        );
        Table { name: "pages", columns }
    }

    fn object_table(&self) -> Table {
        let objects = &self.settings.objects;
        let rows: Vec<_> = self.objects.iter().zip(objects.iter().cycle()).collect();
        let page = |row: &ObjectRow| &self.pages[row.page as usize];
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "browser": U32 = |(row, _)| page(row).browser,
            "load": U32 = |(row, _)| page(row).load,
            "object": Text = |(_, object)| object.name.clone(),
            "bytes": U64 = |(row, _)| u64::from(row.bytes),
            "ready_s": F64 = |(row, _)| seconds(row.ready),
            "asked_s": F64 = |(row, _)| seconds(row.asked),
            "end_s": F64 = |(row, _)| seconds(row.end),
        );
        Table { name: "objects", columns }
    }
}

/// Seconds, NaN for "never".
fn seconds(at: MaybeTime) -> f64 {
    at.get().map_or(f64::NAN, Time::as_secs_f64)
}

/// The servers' port: HTTP's.
const PORT: u16 = 80;

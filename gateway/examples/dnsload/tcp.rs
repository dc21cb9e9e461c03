//! A connection for each query, closed by the client after the answer; connections without a query;
//! connections that serve one query after the other; or connections that only stay open.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    sendto, socket_with, sockopt,
};

use crate::options::{Options, Transport};
use crate::report::Report;
use crate::{Arrivals, Questions, is_answer};

struct Connection {
    socket: OwnedFd,
    /// Distinguishes it from an earlier one in the same place.
    generation: u32,
    id: u16,
    /// The number of its query, while it waits for the answer.
    waits_for: Option<u64>,
    /// When the query's turn came: at this time the connection was opened, or was idle.
    began_at: Instant,
    asked: bool,
    /// The number of bytes of the answer so far, and the first of them.
    got: usize,
    head: [u8; 14],
}

enum Outcome {
    Open,
    Answered,
    Failed,
}

/// Begins queries (or connections, for `connect`) at the requested rate, and waits for the last
/// answers.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let mut client = Client::new(options)?;
    let mut questions = Questions::new(options);
    let mut report = Report::new();
    let mut pending: VecDeque<(u64, usize)> = VecDeque::new();
    let started_at = Instant::now();
    let mut arrivals = Arrivals::new(options, started_at);
    loop {
        let now = Instant::now();
        for _ in 0..arrivals.due(now, &mut report) {
            if client.open - client.idle.len() >= options.most_open {
                report.unsent += 1;
                continue;
            }
            match client.begin(&mut questions) {
                Ok(place) => pending.push_back((client.queries, place)),
                Err(_) => report.failed += 1,
            }
        }
        let wait = if arrivals.is_over() {
            DRAINING
        } else {
            arrivals.next_at.saturating_duration_since(Instant::now())
        };
        client.poll(wait, |client, place| {
            if client.is_idle(place) {
                client.look_at_idle(place);
                return;
            }
            let outcome = match options.transport {
                Transport::Connect => client.connected(place),
                _ => client.step(place, &mut questions),
            };
            match outcome {
                Outcome::Open => return,
                Outcome::Answered => {
                    let connection = client.places[place].as_ref().expect("it was just stepped");
                    report.answered += 1;
                    report.latency.add(connection.began_at.elapsed().as_nanos() as u64);
                    if options.transport == Transport::Kept {
                        client.keep(place);
                        return;
                    }
                }
                Outcome::Failed => report.failed += 1,
            }
            client.close(place);
        })?;
        while let Some(&(query, place)) = pending.front() {
            let open = client.places[place].as_ref();
            if let Some(connection) = open.filter(|open| open.waits_for == Some(query)) {
                if connection.began_at.elapsed() < options.timeout {
                    break;
                }
                report.lost += 1;
                client.close(place);
            }
            pending.pop_front();
        }
        if arrivals.is_over() {
            if report.took.is_zero() {
                report.took = started_at.elapsed();
                report.answered_in_time = report.answered;
            }
            if pending.is_empty() {
                return Ok(report);
            }
        }
    }
}

/// Opens `count` connections, prints that, and keeps them until standard input ends.
pub(crate) fn hold(options: &Options) -> io::Result<Report> {
    let mut client = Client::new(options)?;
    let mut questions = Questions::new(options);
    let mut report = Report::new();
    let mut last_at = Instant::now();
    while (report.offered as usize) < options.count || last_at.elapsed() < options.timeout {
        // A few at a time: the listener's backlog is not part of the measurement.
        let unfinished = client.open - report.open as usize;
        if (report.offered as usize) < options.count && unfinished < 64 {
            report.offered += 1;
            last_at = Instant::now();
            if client.begin(&mut questions).is_err() {
                report.failed += 1;
            }
            continue;
        }
        client.poll(Duration::from_millis(1), |client, place| {
            if !options.asked {
                match client.connected(place) {
                    Outcome::Open => {}
                    Outcome::Answered => report.open += 1,
                    Outcome::Failed => {
                        report.failed += 1;
                        client.close(place);
                    }
                }
                return;
            }
            match client.step(place, &mut questions) {
                Outcome::Open => {}
                Outcome::Answered => {
                    report.answered += 1;
                    report.open += 1;
                }
                Outcome::Failed => {
                    report.failed += 1;
                    client.close(place);
                }
            }
        })?;
        if client.open == report.open as usize && report.offered as usize >= options.count {
            break;
        }
    }
    report.lost = (client.open - report.open as usize) as u64;
    println!("{}", serde_json::json!({"open": report.open, "failed": report.failed}));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(report)
}

/// How long one wait for the last answers may take.
const DRAINING: Duration = Duration::from_millis(20);
/// `MSG_FASTOPEN` (include/linux/socket.h of Linux 6.18): connects, with the data in the SYN.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000).union(SendFlags::NOSIGNAL);
/// Other programs use the ports below these.
const FIRST_PORT: u16 = 1024;

struct Client {
    server: SocketAddr,
    /// The client's addresses, each with its next port.
    sources: Vec<SocketAddr>,
    turn: usize,
    /// Whether SYNs carry the query (RFC 7413).
    fast_open: bool,
    epoll: OwnedFd,
    places: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Places of open connections that wait for nothing, the one used last at the end.
    idle: Vec<usize>,
    open: usize,
    generation: u32,
    /// How many queries have begun.
    queries: u64,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl Client {
    fn new(options: &Options) -> io::Result<Self> {
        // The first port differs from run to run, so that no old connection is met again.
        let first = FIRST_PORT + (std::process::id().wrapping_mul(7919) % 60_000) as u16;
        Ok(Self {
            server: options.server,
            sources: options.sources.iter().map(|ip| SocketAddr::new(*ip, first)).collect(),
            turn: 0,
            fast_open: options.fast_open,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            places: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            open: 0,
            generation: 0,
            queries: 0,
            events: Vec::with_capacity(512),
            buffer: vec![0; 1 << 17],
        })
    }

    /// Begins a query, on an idle connection or on a new one; returns the connection's place.
    ///
    /// # Errors
    ///
    /// The connection cannot be opened, or the idle one is broken.
    fn begin(&mut self, questions: &mut Questions) -> io::Result<usize> {
        self.queries += 1;
        let Some(place) = self.idle.pop() else { return self.open(questions) };
        let connection = self.places[place].as_mut().expect("idle connections are open");
        connection.waits_for = Some(self.queries);
        connection.began_at = Instant::now();
        (connection.asked, connection.got) = (false, 0);
        if matches!(self.step(place, questions), Outcome::Failed) {
            self.close(place);
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(place)
    }

    /// Leaves a connection open for a later query.
    fn keep(&mut self, place: usize) {
        self.places[place].as_mut().expect("it has just answered").waits_for = None;
        self.idle.push(place);
    }

    fn is_idle(&self, place: usize) -> bool {
        self.places[place].as_ref().is_some_and(|connection| connection.waits_for.is_none())
    }

    /// Closes an idle connection that the server has closed, or on which it says something.
    fn look_at_idle(&mut self, place: usize) {
        let connection = self.places[place].as_ref().expect("events are of open places");
        let got = recv(&connection.socket, &mut self.buffer[..], RecvFlags::empty());
        if got.is_err_and(|error| error == Errno::AGAIN) {
            return;
        }
        self.idle.retain(|idle| *idle != place);
        self.close(place);
    }

    /// Sends the SYN of a new connection; returns its place.
    fn open(&mut self, questions: &mut Questions) -> io::Result<usize> {
        let family = if self.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let began_at = Instant::now();
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        let mut attempts = 0;
        let id = loop {
            let index = self.turn % self.sources.len();
            self.turn += 1;
            let source = &mut self.sources[index];
            source.set_port(source.port().checked_add(1).unwrap_or(FIRST_PORT));
            attempts += 1;
            match bind(&socket, &*source) {
                Ok(()) => break source.port(),
                Err(Errno::ADDRINUSE) if attempts < 8 => {}
                Err(error) => return Err(error.into()),
            }
        };
        let begun = if self.fast_open {
            sendto(&socket, questions.next(id), FAST_OPEN, &self.server).map(drop)
        } else {
            connect(&socket, &self.server)
        };
        // With Fast Open: the client has no cookie yet, so the SYN asks for one without the query.
        let in_progress = begun == Err(Errno::INPROGRESS);
        if !in_progress {
            begun?;
        }
        self.generation = self.generation.wrapping_add(1);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let key = u64::from(self.generation) << 32 | place as u64;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(key), interest)?;
        let generation = self.generation;
        self.places[place] = Some(Connection {
            socket,
            generation,
            id,
            waits_for: Some(self.queries),
            began_at,
            asked: self.fast_open && !in_progress,
            got: 0,
            head: [0; 14],
        });
        self.open += 1;
        Ok(place)
    }

    fn close(&mut self, place: usize) {
        if self.places[place].take().is_some() {
            self.free.push(place);
            self.open -= 1;
        }
    }

    /// Waits at most this long for events, and passes the place of each to `on_event`.
    fn poll(
        &mut self,
        wait: Duration,
        mut on_event: impl FnMut(&mut Self, usize),
    ) -> io::Result<()> {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for index in 0..self.events.len() {
            let key = self.events[index].data.u64();
            let (generation, place) = ((key >> 32) as u32, (key & 0xffff_ffff) as usize);
            let open = self.places[place].as_ref();
            if open.is_some_and(|open| open.generation == generation) {
                on_event(self, place);
            }
        }
        Ok(())
    }

    /// Whether a connection is established; its first event says so.
    fn connected(&mut self, place: usize) -> Outcome {
        let connection = self.places[place].as_mut().expect("events are of open places");
        if sockopt::socket_error(&connection.socket) != Ok(Ok(())) {
            return Outcome::Failed;
        }
        if std::mem::replace(&mut connection.asked, true) {
            return Outcome::Open;
        }
        Outcome::Answered
    }

    /// Does what a connection is ready for: asks or reads.
    fn step(&mut self, place: usize, questions: &mut Questions) -> Outcome {
        let connection = self.places[place].as_mut().expect("events are of open places");
        if !connection.asked {
            let query = questions.next(connection.id);
            match send(&connection.socket, query, SendFlags::NOSIGNAL) {
                Ok(length) if length == query.len() => connection.asked = true,
                Err(Errno::AGAIN) => return Outcome::Open,
                // The kernel accepts a query of some dozen bytes as a whole or not at all.
                Ok(_) | Err(_) => return Outcome::Failed,
            }
            // The answer cannot be there yet; its event follows.
            return Outcome::Open;
        }
        loop {
            match recv(&connection.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return Outcome::Failed,
                Ok((length, _)) => {
                    let from = connection.got.min(connection.head.len());
                    let kept = length.min(connection.head.len() - from);
                    connection.head[from..from + kept].copy_from_slice(&self.buffer[..kept]);
                    connection.got += length;
                }
                Err(Errno::AGAIN) => return Outcome::Open,
                Err(_) => return Outcome::Failed,
            }
            if connection.got >= connection.head.len() {
                let length = u16::from_be_bytes([connection.head[0], connection.head[1]]);
                if connection.got >= usize::from(length) + 2 {
                    let whole = connection.got == usize::from(length) + 2;
                    let right = whole && is_answer(&connection.head[2..], connection.id);
                    return if right { Outcome::Answered } else { Outcome::Failed };
                }
            }
        }
    }
}

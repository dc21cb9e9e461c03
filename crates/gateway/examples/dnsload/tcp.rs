//! A connection for each query, closed by the client after the answer; or connections that stay open.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with, sockopt,
};

use crate::options::Options;
use crate::report::Report;
use crate::{Arrivals, Questions, is_answer};

struct Connection {
    socket: OwnedFd,
    opened_at: Instant,
    /// Distinguishes it from an earlier one in the same place.
    generation: u32,
    id: u16,
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

/// Opens connections at the requested rate, and waits for the last answers.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let mut client = Client::new(options)?;
    let mut questions = Questions::new(options);
    let mut report = Report::new();
    let mut pending: VecDeque<(u32, usize)> = VecDeque::new();
    let started_at = Instant::now();
    let mut arrivals = Arrivals::new(options, started_at);
    loop {
        let now = Instant::now();
        for _ in 0..arrivals.due(now, &mut report) {
            if client.open >= options.most_open {
                report.unsent += 1;
                continue;
            }
            match client.open() {
                Ok(place) => pending.push_back((client.generation, place)),
                Err(_) => report.failed += 1,
            }
        }
        let wait = if arrivals.is_over() {
            DRAINING
        } else {
            arrivals.next_at.saturating_duration_since(Instant::now())
        };
        client.poll(wait, |client, place| {
            match client.step(place, &mut questions) {
                Outcome::Open => return,
                Outcome::Answered => {
                    let connection = client.places[place].as_ref().expect("it was just stepped");
                    report.answered += 1;
                    report.latency.add(connection.opened_at.elapsed().as_nanos() as u64);
                }
                Outcome::Failed => report.failed += 1,
            }
            client.close(place);
        })?;
        while let Some(&(generation, place)) = pending.front() {
            let open = client.places[place].as_ref();
            if let Some(connection) = open.filter(|open| open.generation == generation) {
                if connection.opened_at.elapsed() < options.timeout {
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
            if client.open().is_err() {
                report.failed += 1;
            }
            continue;
        }
        client.poll(Duration::from_millis(1), |client, place| {
            if !options.asked {
                // A connection's first event says that it is established or has failed.
                let connection = client.places[place].as_mut().expect("events are of open places");
                let failed = sockopt::socket_error(&connection.socket) != Ok(Ok(()));
                if failed {
                    report.failed += 1;
                    client.close(place);
                } else if !std::mem::replace(&mut connection.asked, true) {
                    report.open += 1;
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
/// Other programs use the ports below these.
const FIRST_PORT: u16 = 1024;

struct Client {
    server: SocketAddr,
    /// The client's addresses, each with its next port.
    sources: Vec<SocketAddr>,
    turn: usize,
    epoll: OwnedFd,
    places: Vec<Option<Connection>>,
    free: Vec<usize>,
    open: usize,
    generation: u32,
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
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            places: Vec::new(),
            free: Vec::new(),
            open: 0,
            generation: 0,
            events: Vec::with_capacity(512),
            buffer: vec![0; 1 << 17],
        })
    }

    /// Sends the SYN of a new connection; returns its place.
    fn open(&mut self) -> io::Result<usize> {
        let family = if self.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let opened_at = Instant::now();
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
        match connect(&socket, &self.server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
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
            opened_at,
            generation,
            id,
            asked: false,
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

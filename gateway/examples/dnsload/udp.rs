//! Queries as datagrams from a few connected sockets, distinguished by their message ID.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::options::Options;
use crate::report::Report;
use crate::{Arrivals, Questions, is_answer};

/// How many sockets each client address has.
const SOCKETS: usize = 2;

struct Pending {
    id: u16,
    sent_at: Instant,
    /// Index of the socket.
    socket: usize,
}

/// Sends at the requested rate, and waits for the last answers.
pub(crate) fn run(options: &Options) -> io::Result<Report> {
    let mut sockets = Vec::new();
    for source in options.sources.iter().flat_map(|source| [*source; SOCKETS]) {
        let socket = UdpSocket::bind(SocketAddr::new(source, 0))?;
        socket.connect(options.server)?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    let mut waiting = vec![vec![None::<Instant>; 1 << 16]; sockets.len()];
    let mut pending: VecDeque<Pending> = VecDeque::new();
    let mut questions = Questions::new(options);
    let mut report = Report::new();
    let mut buffer = vec![0; 1 << 16];
    let mut turn = 0usize;
    let started_at = Instant::now();
    let mut arrivals = Arrivals::new(options, started_at);
    loop {
        let now = Instant::now();
        for _ in 0..arrivals.due(now, &mut report) {
            let (socket, id) = (turn % sockets.len(), (turn / sockets.len()) as u16);
            turn += 1;
            let sent_at = Instant::now();
            match sockets[socket].send(&questions.next(id)[2..]) {
                Ok(_) => {
                    waiting[socket][usize::from(id)] = Some(sent_at);
                    pending.push_back(Pending { id, sent_at, socket });
                }
                Err(_) => report.failed += 1,
            }
        }
        for (socket, waiting) in sockets.iter().zip(&mut waiting) {
            while let Ok(length) = socket.recv(&mut buffer) {
                let head = &buffer[..length];
                let Some(id) = head.first_chunk() else { continue };
                let id = u16::from_be_bytes(*id);
                // Nobody waits for a second or late answer.
                let Some(sent_at) = waiting[usize::from(id)].take() else { continue };
                if is_answer(head, id) {
                    report.answered += 1;
                    report.latency.add(sent_at.elapsed().as_nanos() as u64);
                } else {
                    report.failed += 1;
                }
            }
        }
        while let Some(first) = pending.front() {
            let slot = &mut waiting[first.socket][usize::from(first.id)];
            let is_open = *slot == Some(first.sent_at);
            if is_open && first.sent_at.elapsed() < options.timeout {
                break;
            }
            if is_open {
                *slot = None;
                report.lost += 1;
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
        sleep(&sockets, &arrivals)?;
    }
}

fn sleep(sockets: &[UdpSocket], arrivals: &Arrivals) -> io::Result<()> {
    let now = Instant::now();
    let wait = if arrivals.is_over() {
        Duration::from_millis(20)
    } else {
        arrivals.next_at.saturating_duration_since(now)
    };
    if wait.is_zero() {
        return Ok(());
    }
    let mut polled: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
        .collect();
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    match poll(&mut polled, Some(&wait)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

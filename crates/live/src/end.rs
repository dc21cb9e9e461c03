//! One end of a TCP connection: its socket, and what waits to be written.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use narrows_client::{ControlInfo, TcpInfo};
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, Shutdown, SockaddrIn, recv, recvmsg, send, setsockopt, shutdown,
    sockopt,
};

use crate::sockets::{Reports, pending_error, report_acks};

/// An end of a connection.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// `None`: it waits to be connected or accepted.
    socket: Option<OwnedFd>,
    /// What waits to be written.
    out: VecDeque<Chunk>,
    /// Whether zeros without end follow it.
    forever: bool,
    /// Whether the connection is established.
    pub(crate) established: bool,
    /// Whether the kernel waits for data, because the SYN can carry them (RFC 7413).
    pub(crate) deferred: bool,
    /// Whether nothing more is written after `out`.
    pub(crate) closing: bool,
    /// Whether the FIN is written.
    pub(crate) shut: bool,
    /// Whether the other end's FIN was read.
    pub(crate) ended: bool,
    /// The bytes that were put into `out`, and those that the kernel has taken.
    written: u64,
    taken: u64,
    /// The number of written bytes whose acknowledgement is awaited.
    awaits: Option<u64>,
    reports: Option<Reports>,
    /// What epoll watches.
    pub(crate) watched: Option<EpollFlags>,
}

/// A part of what is written.
#[derive(Debug)]
enum Chunk {
    /// The bytes after this many, which the kernel has taken.
    Bytes(Vec<u8>, usize),
    Zeros(u64),
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Some(usize),
    /// Nothing is there yet.
    Nothing,
    /// The other end writes no more.
    End,
}

impl End {
    /// Gives it a socket.
    pub(crate) fn attach(&mut self, socket: OwnedFd, established: bool) {
        self.socket = Some(socket);
        self.established = established;
    }

    /// Returns its socket.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn write(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        self.written += bytes.len() as u64;
        match self.out.back_mut() {
            Some(Chunk::Bytes(before, _)) => before.extend(bytes),
            _ => self.out.push_back(Chunk::Bytes(bytes, 0)),
        }
    }

    pub(crate) fn write_zeros(&mut self, bytes: u64) {
        self.written += bytes;
        match self.out.back_mut() {
            Some(Chunk::Zeros(before)) => *before += bytes,
            _ => self.out.push_back(Chunk::Zeros(bytes)),
        }
    }

    pub(crate) fn set_forever(&mut self, forever: bool) {
        self.forever = forever;
    }

    /// Asks to be told when `bytes` more bytes than now are acknowledged.
    pub(crate) fn await_delivery(&mut self, bytes: u64) {
        self.awaits = Some(self.written + bytes);
    }

    /// Prepares an established connection for [`await_delivery`](Self::await_delivery).
    pub(crate) fn prepare_reports(&mut self) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Ok(()) };
        report_acks(socket, Reports::Off)?;
        self.reports = Some(Reports::Off);
        Ok(())
    }

    /// Writes what the kernel takes. A FIN follows the last byte in the same segment.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        let begins = std::mem::take(&mut self.deferred);
        let may_write = (self.established || begins) && !self.shut;
        let Some(socket) = self.socket.as_ref().filter(|_| may_write) else {
            return Ok(());
        };
        let socket = socket.as_raw_fd();
        if begins && self.out.is_empty() {
            // A SYN without data.
            return match send(socket, &[], MsgFlags::MSG_NOSIGNAL) {
                Ok(_) | Err(Errno::EINPROGRESS) => Ok(()),
                Err(why) => Err(why),
            };
        }
        let mut budget = MOST_AT_ONCE;
        while budget > 0 {
            let (slice, is_last) = match self.out.front() {
                Some(Chunk::Bytes(bytes, taken)) => (&bytes[*taken..], self.out.len() == 1),
                Some(&Chunk::Zeros(zeros)) => {
                    let some = zeros.min(ZEROS.len() as u64) as usize;
                    (&ZEROS[..some], self.out.len() == 1 && some as u64 == zeros)
                }
                None if self.forever => (&ZEROS[..], false),
                None => break,
            };
            let is_last = is_last && !self.forever;
            let mut flags = MsgFlags::MSG_NOSIGNAL;
            flags.set(MORE, is_last && self.closing);
            let reports = match self.awaits {
                Some(target) if self.taken + slice.len() as u64 >= target => Reports::On,
                _ => Reports::Off,
            };
            if self.reports.is_some_and(|now| now != reports) {
                report_acks(self.socket.as_ref().expect("it was found above"), reports)?;
                self.reports = Some(reports);
            }
            match send(socket, slice, flags) {
                Ok(count) => {
                    budget = budget.saturating_sub(count);
                    let endless = self.out.is_empty();
                    self.take(count);
                    if endless {
                        // Epoll asks for more when half of what may wait in the socket has left.
                        // What waits when the sender stops leaves later than in the simulator.
                        return Ok(());
                    }
                }
                Err(Errno::EINTR) => {}
                // A SYN takes no more, and the rest waits until the connection is established.
                Err(Errno::EAGAIN | Errno::EINPROGRESS) => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        if self.established && self.closing && self.out.is_empty() && !self.forever {
            self.shut = true;
            shutdown(socket, Shutdown::Write)?;
        }
        Ok(())
    }

    /// Reads some bytes, whose content does not matter.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<Read, Errno> {
        let Some(socket) = &self.socket else { return Ok(Read::Nothing) };
        match recv(socket.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(0) => {
                self.ended = true;
                Ok(Read::End)
            }
            Ok(count) => Ok(Read::Some(count)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Read::Nothing),
            Err(why) => Err(why),
        }
    }

    /// Reads the kernel's reports. Returns whether what was awaited is acknowledged.
    pub(crate) fn is_delivered(&mut self) -> bool {
        let mut delivered = false;
        let Some(socket) = self.socket.as_ref().filter(|_| self.reports.is_some()) else {
            return false;
        };
        loop {
            let mut control = [0_u8; CONTROL_BYTES];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let found =
                recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut [], Some(&mut control), flags);
            let Ok(message) = found else { break };
            for control in message.cmsgs().into_iter().flatten() {
                let ControlMessageOwned::Ipv4RecvErr(report, _) = control else { continue };
                // `ee_data` is the number of the last byte, modulo 2^32.
                let count = report.ee_data.wrapping_add(1);
                let is_ack = report.ee_origin == ORIGIN_TIMESTAMPING && report.ee_info == ACKED;
                delivered |= is_ack && self.awaits.is_some_and(|target| target as u32 == count);
            }
        }
        if delivered {
            self.awaits = None;
        }
        delivered
    }

    /// Returns what epoll should watch.
    pub(crate) fn wanted(&self) -> EpollFlags {
        let mut wanted = EpollFlags::empty();
        wanted.set(EpollFlags::EPOLLIN, self.established && !self.ended);
        let has_more = !self.out.is_empty() || self.forever;
        let waits = if self.established { has_more && !self.shut } else { !self.deferred };
        wanted.set(EpollFlags::EPOLLOUT, waits);
        wanted
    }

    /// Makes closing the socket reset the connection.
    pub(crate) fn reset(&self) {
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        // If it fails, the connection is gone already.
        let _ = self.socket.as_ref().map(|socket| setsockopt(socket, sockopt::Linger, &linger));
    }

    /// Returns the pending error of the socket.
    pub(crate) fn pending_error(&self) -> Option<Errno> {
        pending_error(self.socket.as_ref()?)
    }

    pub(crate) fn info(&self) -> TcpInfo {
        self.socket.as_ref().map_or_else(TcpInfo::default, TcpInfo::of)
    }

    pub(crate) fn control(&self) -> ControlInfo {
        self.socket.as_ref().map_or_else(ControlInfo::default, ControlInfo::of)
    }

    fn take(&mut self, count: usize) {
        self.taken += count as u64;
        match self.out.front_mut() {
            Some(Chunk::Bytes(bytes, taken)) if bytes.len() > *taken + count => *taken += count,
            Some(Chunk::Zeros(zeros)) if *zeros > count as u64 => *zeros -= count as u64,
            Some(_) => drop(self.out.pop_front()),
            None => self.written += count as u64,
        }
    }
}

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// `MSG_MORE`, which nix does not name: the segment waits for what follows, here a FIN.
const MORE: MsgFlags = MsgFlags::from_bits_retain(nix::libc::MSG_MORE);

/// The most bytes that an end writes before others have their turn.
const MOST_AT_ONCE: usize = 1 << 18;

/// Room for an extended error with its address, and a stamp.
const CONTROL_BYTES: usize = 512;

/// `SO_EE_ORIGIN_TIMESTAMPING` and `SCM_TSTAMP_ACK` of include/uapi/linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
const ACKED: u32 = 2;

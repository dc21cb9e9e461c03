//! A path between two network namespaces with chosen delay and loss, in user space: for
//! measurements on kernels without netem.
//!
//! It consists of two TUN devices (Documentation/networking/tuntap.rst), one moved into each
//! namespace. A packet that leaves one device is written to the other after the delay of the first
//! [`Rule`] that matches. Packets with the same delay keep their order. The rate is not limited.
//!
//! A packet's delay begins when it is read. Reading and writing late adds about ten microseconds
//! each way on an idle machine.

mod tun;

use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use tun::Tun;

/// The treatment of some packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// The protocol, 6 for TCP or 17 for UDP; `None`: any.
    pub protocol: Option<u8>,
    /// An address on the left that they come from or go to; `None`: any.
    pub left: Option<IpAddr>,
    /// An address on the right that they come from or go to; `None`: any.
    pub right: Option<IpAddr>,
    /// Their one-way delay.
    pub delay: Duration,
    /// The share that is lost, from 0 to 1.
    pub loss: f64,
}

/// Two devices and the path between them.
#[derive(Debug)]
pub struct Path {
    left: Tun,
    right: Tun,
    rules: Vec<Rule>,
    seed: u64,
    stop: EventFd,
    passed: AtomicU64,
    lost: AtomicU64,
}

impl Path {
    /// Creates the devices in the namespace of the caller. They exist as long as this value.
    /// Packets that no rule matches are passed on at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the devices cannot be created: CAP_NET_ADMIN or /dev/net/tun is missing,
    /// or the names are taken.
    pub fn new(left: &str, right: &str, rules: Vec<Rule>, seed: u64) -> io::Result<Self> {
        let stop = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self {
            left: Tun::open(left)?,
            right: Tun::open(right)?,
            rules,
            seed,
            stop,
            passed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    /// Carries packets until [`Path::stop`] is called.
    ///
    /// # Errors
    ///
    /// Returns an error if a device is gone.
    pub fn run(&self) -> io::Result<()> {
        // Timers of this thread may otherwise be 50 microseconds late (prctl(2)). If this fails,
        // they are.
        let _ = set_timerslack(1);
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut under_way = BinaryHeap::new();
        let mut buffer = vec![0; 1 << 16];
        let mut number = 0;
        loop {
            for to_right in [true, false] {
                let from = if to_right { &self.left } else { &self.right };
                while let Some(length) = from.read(&mut buffer)? {
                    let packet = &buffer[..length];
                    let rule = self.rules.iter().find(|rule| rule.fits(packet, to_right));
                    let Rule { delay, loss, .. } = rule.copied().unwrap_or_default();
                    if loss > 0.0 && f64::from(random.next_u32()) < loss * TWO_TO_32 {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    number += 1;
                    let due = Instant::now() + delay;
                    under_way.push(Flying { due, number, to_right, packet: packet.to_vec() });
                }
            }
            let mut now = Instant::now();
            while under_way.peek().is_some_and(|next: &Flying| next.due <= now) {
                if let Some(arrived) = under_way.pop() {
                    let to = if arrived.to_right { &self.right } else { &self.left };
                    to.write(&arrived.packet);
                    self.passed.fetch_add(1, Ordering::Relaxed);
                }
                now = Instant::now();
            }
            let wait = under_way.peek().map(|next| next.due.saturating_duration_since(now));
            if self.sleep(wait)? {
                return Ok(());
            }
        }
    }

    /// Ends [`Path::run`], whichever thread it runs in.
    pub fn stop(&self) {
        // This fails only after 2^64 calls.
        let _ = self.stop.write(1);
    }

    /// Returns how many packets have arrived and how many were lost so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.passed.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }

    /// Waits for a packet or for this long. Returns true if the path has to stop.
    fn sleep(&self, wait: Option<Duration>) -> io::Result<bool> {
        let read = PollFlags::POLLIN;
        let mut waiting = [
            PollFd::new(self.left.as_fd(), read),
            PollFd::new(self.right.as_fd(), read),
            PollFd::new(self.stop.as_fd(), read),
        ];
        match ppoll(&mut waiting, wait.map(TimeSpec::from), None::<SigSet>) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(waiting[2].any().unwrap_or(false))
    }
}

impl Rule {
    fn fits(&self, packet: &[u8], to_right: bool) -> bool {
        let Some((protocol, from, to)) = addresses(packet) else { return false };
        let (left, right) = if to_right { (from, to) } else { (to, from) };
        self.protocol.is_none_or(|wanted| wanted == protocol)
            && self.left.is_none_or(|wanted| wanted == left)
            && self.right.is_none_or(|wanted| wanted == right)
    }
}

/// Returns protocol, source and destination (RFC 791, section 3.1; RFC 8200, section 3, without
/// looking behind extension headers).
fn addresses(packet: &[u8]) -> Option<(u8, IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let at = |from: usize| <[u8; 4]>::try_from(packet.get(from..from + 4)?).ok();
            Some((*packet.get(9)?, at(12)?.into(), at(16)?.into()))
        }
        6 => {
            let at = |from: usize| <[u8; 16]>::try_from(packet.get(from..from + 16)?).ok();
            Some((*packet.get(6)?, at(8)?.into(), at(24)?.into()))
        }
        _ => None,
    }
}

/// A packet under way. The greatest is the next to arrive.
#[derive(Debug, PartialEq, Eq)]
struct Flying {
    due: Instant,
    number: u64,
    to_right: bool,
    packet: Vec<u8>,
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Tun {
    /// Reads the next packet. Returns its length, or `None` if none waits.
    fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            // EIO: the device is down, as it is until somebody brings it up.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a packet. A device that is down, or whose queue is full, loses it.
    fn write(&self, packet: &[u8]) {
        let _ = (&self.file).write(packet);
    }
}

const TWO_TO_32: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from);
        packet.extend(to);
        packet
    }

    #[test]
    fn a_rule_fits_both_directions_of_a_pair() {
        let client = [10, 9, 0, 40];
        let rule = Rule { left: Some(client.into()), protocol: Some(6), ..Rule::default() };
        let query = ipv4(6, client, [10, 8, 0, 1]);
        let reply = ipv4(6, [10, 8, 0, 1], client);
        assert!(rule.fits(&query, true) && rule.fits(&reply, false));
        assert!(!rule.fits(&query, false) && !rule.fits(&reply, true));
        assert!(!rule.fits(&ipv4(17, client, [10, 8, 0, 1]), true));
        assert!(!rule.fits(&query[..15], true), "cut short");
        assert!(!Rule::default().fits(&[], true));
    }

    #[test]
    fn what_is_due_first_arrives_first_and_ties_keep_their_order() {
        let now = Instant::now();
        let mut heap = BinaryHeap::new();
        for (number, millis) in [(1, 5), (2, 3), (3, 5), (4, 3)] {
            let due = now + Duration::from_millis(millis);
            heap.push(Flying { due, number, to_right: true, packet: Vec::new() });
        }
        let order: Vec<u64> = std::iter::from_fn(|| heap.pop()).map(|next| next.number).collect();
        assert_eq!(order, [2, 4, 1, 3]);
    }
}

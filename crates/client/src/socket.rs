//! Sockets: how to create, bind and connect them, and how to wait for them.

use std::io::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, connect, getsockname,
    getsockopt, socket, sockopt,
};

use crate::stamps;

/// Creates a socket towards a server: non-blocking, with the kernel's stamps, from a chosen
/// address.
pub(crate) fn towards(
    server: SocketAddr,
    source: Option<IpAddr>,
    kind: SockType,
    protocol: Option<SockProtocol>,
) -> Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(family, kind, flags, protocol)?;
    if let Some(source) = source {
        bind(made.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    }
    stamps::enable(&made)?;
    Ok(made)
}

/// Starts to connect. Returns true if the connection is already established.
pub(crate) fn start_connect(made: &OwnedFd, server: SocketAddr) -> Result<bool> {
    match connect(made.as_raw_fd(), &SockaddrStorage::from(server)) {
        Ok(()) => Ok(true),
        Err(Errno::EINPROGRESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the port that a socket is bound to.
pub(crate) fn local_port(made: &OwnedFd) -> Option<u16> {
    let address: SockaddrStorage = getsockname(made.as_raw_fd()).ok()?;
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(four), _) => Some(four.port()),
        (_, Some(six)) => Some(six.port()),
        _ => None,
    }
}

/// Returns the pending error of a socket, if any.
pub(crate) fn pending_error(made: &OwnedFd) -> Option<Error> {
    match getsockopt(made, sockopt::SocketError) {
        Ok(0) => None,
        Ok(number) => Some(Error::from_raw_os_error(number)),
        Err(error) => Some(error.into()),
    }
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The socket can be read (or has ended, or has an error).
    Ready,
    /// The kernel has a report on the error queue, and nothing else.
    Report,
    /// The time is up.
    Late,
}

/// Waits until a socket can be read.
pub(crate) fn readable(made: &impl AsFd, until: Instant) -> Result<Woken> {
    wait(made, PollFlags::POLLIN, until)
}

/// Waits until a socket can be written.
pub(crate) fn writable(made: &impl AsFd, until: Instant) -> Result<Woken> {
    wait(made, PollFlags::POLLOUT, until)
}

fn wait(made: &impl AsFd, what: PollFlags, until: Instant) -> Result<Woken> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Woken::Late);
        }
        // Rounded up, so that the last poll does not end just before its time again and again.
        let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        let mut sockets = [PollFd::new(made.as_fd(), what)];
        match poll(&mut sockets, PollTimeout::from(millis)) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let seen = sockets[0].revents().unwrap_or(PollFlags::empty());
                if seen.intersects(what | PollFlags::POLLHUP) {
                    return Ok(Woken::Ready);
                }
                if seen.contains(PollFlags::POLLERR) {
                    return Ok(Woken::Report);
                }
            }
        }
    }
}

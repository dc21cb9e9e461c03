//! Waiting for many descriptors at once (epoll(7), level-triggered).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// What a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The link's, by its index in [`super::link::Link::descriptors`].
    Link(u32),
    /// The socket of [`super::upstream::Upstream`] with this index.
    Upstream(u32),
    /// The server's side of the connection of [`super::relay::Relay`] with this index.
    Relay(u32),
    /// The one passed to [`super::DataPath::watch`].
    Watched,
}

impl Token {
    fn number(self) -> u64 {
        match self {
            Self::Link(at) => u64::from(at),
            Self::Upstream(at) => 1 << 32 | u64::from(at),
            Self::Relay(at) => 2 << 32 | u64::from(at),
            Self::Watched => 3 << 32,
        }
    }

    fn from_number(number: u64) -> Self {
        match number >> 32 {
            0 => Self::Link(number as u32),
            1 => Self::Upstream(number as u32),
            2 => Self::Relay(number as u32),
            _ => Self::Watched,
        }
    }
}

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Interest {
    /// Data to read, or the end of the stream.
    pub(super) const READABLE: Self = Self { readable: true, writable: false };

    fn is_none(self) -> bool {
        self == Self::default()
    }

    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.readable);
        flags.set(EpollFlags::EPOLLOUT, self.writable);
        flags
    }
}

/// The descriptors to wait for.
#[derive(Debug)]
pub(super) struct Poller(Epoll);

impl Poller {
    /// Waits for nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Starts waiting until a descriptor is readable. A closed descriptor is forgotten
    /// automatically.
    pub(super) fn add(&self, descriptor: impl AsFd, token: Token) -> io::Result<()> {
        self.change(descriptor, token, Interest::default(), Interest::READABLE)
    }

    /// Changes what to wait for. If that is nothing, the descriptor is removed, because epoll would
    /// go on reporting that its peer is gone.
    pub(super) fn change(
        &self,
        descriptor: impl AsFd,
        token: Token,
        before: Interest,
        after: Interest,
    ) -> io::Result<()> {
        if before == after {
            return Ok(());
        }
        let mut event = EpollEvent::new(after.flags(), token.number());
        if after.is_none() {
            self.0.delete(descriptor)?;
        } else if before.is_none() {
            self.0.add(descriptor, event)?;
        } else {
            self.0.modify(descriptor, &mut event)?;
        }
        Ok(())
    }

    /// Waits at most `timeout`, and writes to `tokens` what is ready.
    pub(super) fn wait(&self, timeout: Duration, tokens: &mut Vec<Token>) -> io::Result<()> {
        // Rounded up, so that everything due by then is due.
        let milliseconds = timeout.as_micros().div_ceil(1000).min(60_000) as u16;
        let mut events = [EpollEvent::empty(); 256];
        let ready = match self.0.wait(&mut events, EpollTimeout::from(milliseconds)) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0, // a signal; the caller looks
            Err(error) => return Err(error.into()),
        };
        tokens.clear();
        tokens.extend(events[..ready].iter().map(|event| Token::from_number(event.data())));
        Ok(())
    }
}

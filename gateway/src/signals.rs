//! Signals as descriptors instead of handlers, so that the daemon can wait for them and for its
//! next tick in one place.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What the daemon is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// SIGTERM or SIGINT: end, as the setting `on_exit` says.
    End,
    /// SIGUSR1: serve open connections to their end, then detach and end.
    Drain,
    /// SIGUSR2: end, and leave everything attached for the next run.
    HandOver,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// Waits for signals.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Takes over the signals. Call this before starting any thread, because threads inherit the
    /// blocked signals.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn new() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in
            [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP]
        {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self {
            descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
        })
    }

    /// Returns the next request, or `None` after `wait`.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn wait(&self, wait: Duration) -> io::Result<Option<Request>> {
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        let mut waited = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waited, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(signal) = self.descriptor.read_signal()? else { return Ok(None) };
        Ok(match Signal::try_from(signal.ssi_signo.cast_signed()) {
            Ok(Signal::SIGTERM | Signal::SIGINT) => Some(Request::End),
            Ok(Signal::SIGUSR1) => Some(Request::Drain),
            Ok(Signal::SIGUSR2) => Some(Request::HandOver),
            Ok(Signal::SIGHUP) => Some(Request::Reload),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::raise;

    #[test]
    fn signals_become_requests() {
        let signals = Signals::new().expect("the system has them");
        assert_eq!(signals.wait(Duration::from_millis(1)).expect("no fault"), None);
        raise(Signal::SIGHUP).expect("it is blocked");
        assert_eq!(signals.wait(Duration::from_secs(1)).expect("no fault"), Some(Request::Reload));
        raise(Signal::SIGUSR1).expect("it is blocked");
        assert_eq!(signals.wait(Duration::from_secs(1)).expect("no fault"), Some(Request::Drain));
        raise(Signal::SIGUSR2).expect("it is blocked");
        assert_eq!(
            signals.wait(Duration::from_secs(1)).expect("no fault"),
            Some(Request::HandOver)
        );
        raise(Signal::SIGTERM).expect("it is blocked");
        assert_eq!(signals.wait(Duration::from_secs(1)).expect("no fault"), Some(Request::End));
    }
}

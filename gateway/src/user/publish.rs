//! What a running gateway tells `status` and `top`: one JSON object for each connection, which then
//! ends.
//!
//! They meet at a Unix socket in the abstract namespace (unix(7)), `narrows-gateway/<interface>`.
//! Like the interface, this name belongs to the network namespace, and like a TUN device it
//! disappears with the process. So there is no stale file, and no second gateway for the interface.
//! Such a name has no permissions: anyone may take it or connect. So each side asks the kernel who
//! the other is (SO_PEERCRED), and trusts only root and its own user.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::unistd::Uid;
use serde_json::Value;

/// Where a gateway is asked for its state.
#[derive(Debug)]
pub struct Publisher(UnixListener);

/// Why nothing can be published or read.
#[derive(Debug)]
pub enum PublishError {
    /// A gateway in user space already serves the interface.
    Running {
        /// The interface.
        interface: String,
        /// Its process.
        pid: i32,
    },
    /// The process of another user, who is not root, has the name.
    Taken {
        /// The interface.
        interface: String,
        /// The process.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// The gateway only answers root and its own user.
    Denied {
        /// The interface.
        interface: String,
    },
    /// The system refuses, or the answer made no sense.
    System {
        /// The interface.
        interface: String,
        /// The system's message.
        error: io::Error,
    },
}

impl Publisher {
    /// Takes the interface's name.
    ///
    /// # Errors
    ///
    /// Returns an error if another process has it, or the system refuses.
    pub fn bind(interface: &str) -> Result<Self, PublishError> {
        let refused = |error| PublishError::System { interface: interface.into(), error };
        let listener = match UnixListener::bind_addr(&name(interface).map_err(refused)?) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(match connect(interface) {
                    Ok(Some((_, pid))) => {
                        PublishError::Running { interface: interface.into(), pid }
                    }
                    Ok(None) => refused(error),
                    Err(taken) => taken,
                });
            }
            other => other.map_err(refused)?,
        };
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self(listener))
    }

    /// Answers those who have connected, a limited number at a time, without waiting for any.
    /// `text` is only called if somebody has connected.
    pub fn answer(&self, mut text: impl FnMut() -> String) {
        for _ in 0..AT_ONCE {
            let Ok((mut stream, _)) = self.0.accept() else { return };
            if !peer(&stream).is_ok_and(|(uid, _)| trusted(uid)) {
                continue;
            }
            let text = text();
            // The buffer has room for the whole text, so that a slow reader does not hold the
            // gateway up.
            let _ = setsockopt(&stream, sockopt::SndBuf, &(2 * text.len() + 65_536));
            let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(text.as_bytes()));
        }
    }
}

impl AsFd for Publisher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns what the user-space gateway of this interface tells; `None` if there is none.
///
/// # Errors
///
/// Returns an error if it does not answer this user, does not answer at all, or belongs to another
/// user.
pub fn read(interface: &str) -> Result<Option<Value>, PublishError> {
    let refused = |error| PublishError::System { interface: interface.into(), error };
    let Some((mut stream, _)) = connect(interface)? else { return Ok(None) };
    stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        // The gateway has just ended.
        Err(error) if error.kind() == ErrorKind::ConnectionReset && text.is_empty() => Ok(None),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(refused(io::Error::new(
            ErrorKind::TimedOut,
            format!("does not answer within {} s", PATIENCE.as_secs()),
        ))),
        Err(error) => Err(refused(error)),
        Ok(0) => Err(PublishError::Denied { interface: interface.into() }),
        Ok(_) => match serde_json::from_slice(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(refused(error.into())),
        },
    }
}

/// Returns the process of the user-space gateway that serves this interface.
pub fn running(interface: &str) -> Option<i32> {
    connect(interface).ok().flatten().map(|(_, pid)| pid)
}

/// Returns a connection to the name's owner, if it can be trusted, and its process.
fn connect(interface: &str) -> Result<Option<(UnixStream, i32)>, PublishError> {
    let refused = |error| PublishError::System { interface: interface.into(), error };
    let stream = match UnixStream::connect_addr(&name(interface).map_err(refused)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(None),
        other => other.map_err(refused)?,
    };
    let (uid, pid) = peer(&stream).map_err(refused)?;
    if !trusted(uid) {
        return Err(PublishError::Taken { interface: interface.into(), pid, uid });
    }
    Ok(Some((stream, pid)))
}

fn name(interface: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("narrows-gateway/{interface}"))
}

/// Returns the user and the process at the other end, at the time when they began to listen or
/// connected.
fn peer(stream: &UnixStream) -> io::Result<(u32, i32)> {
    let peer = getsockopt(stream, sockopt::PeerCredentials)?;
    Ok((peer.uid(), peer.pid()))
}

fn trusted(uid: u32) -> bool {
    uid == 0 || uid == Uid::effective().as_raw()
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { interface, pid } => write!(
                f,
                "narrows-gateway {pid} serves {interface} in user space; hint: kill {pid} ends it and leaves nothing behind"
            ),
            Self::Taken { interface, pid, uid } => write!(
                f,
                "process {pid} of user {uid} has the socket @narrows-gateway/{interface}; hint: end it"
            ),
            Self::Denied { interface } => write!(
                f,
                "the gateway of {interface} tells its own user and root alone; hint: run as root"
            ),
            Self::System { interface, error } => {
                write!(f, "asking the gateway of {interface}: {error}; hint: see its log")
            }
        }
    }
}

impl std::error::Error for PublishError {}

/// How many are answered before packets have their turn again.
const AT_ONCE: usize = 4;
/// How long an answer may take, because the gateway visits each of its connections.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a name that only this process uses.
    fn interface(of: &str) -> String {
        format!("test-{of}-{}", std::process::id())
    }

    #[test]
    fn who_asks_is_told_and_nobody_is_there_afterwards() {
        let interface = interface("answers");
        assert!(read(&interface).expect("nobody").is_none());
        let publisher = Publisher::bind(&interface).expect("a free name");
        // More than a socket buffers by default.
        let text = serde_json::json!({ "a": "x".repeat(300_000) }).to_string();
        let asker = {
            let interface = interface.clone();
            std::thread::spawn(move || read(&interface).expect("an answer"))
        };
        let mut answers = 0;
        for _ in 0..500 {
            publisher.answer(|| {
                answers += 1;
                text.clone()
            });
            if answers > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let value = asker.join().expect("no panic").expect("it runs");
        assert_eq!(value["a"].as_str().map(str::len), Some(300_000));
        drop(publisher);
        assert!(read(&interface).expect("nobody").is_none());
    }

    #[test]
    fn a_second_one_is_refused_and_a_silent_one_is_not_waited_for() {
        let interface = interface("second");
        let publisher = Publisher::bind(&interface).expect("a free name");
        let error = Publisher::bind(&interface).expect_err("it is taken");
        assert!(
            matches!(error, PublishError::Running { pid, .. } if pid == std::process::id() as i32)
        );
        // The reader has gone.
        publisher.answer(String::new);
        // There is nobody to answer, and the call returns.
        publisher.answer(|| panic!("nobody asked"));
        let silent = connect(&interface).expect("it listens").expect("it runs");
        publisher.answer(|| "{}".repeat(1 << 20));
        drop(silent);
    }
}

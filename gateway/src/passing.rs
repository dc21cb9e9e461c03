//! Which errors may pass without anybody changing the settings or the machine.
//!
//! A start that fails with such an error ends with exit code 1, and systemd tries again. All other
//! errors end with exit code 2, after which the unit is not restarted
//! (`RestartPreventExitStatus=2`), because the next start would fail in the same way.
//!
//! An interface, an address or a server that is missing may appear a moment later: at the boot,
//! when a link is made again, when a router takes an address over, when the server restarts. A name
//! that was mistyped looks the same, so it is tried again, too, and each attempt logs the reason.

use std::io;

use nix::libc;

use crate::config::ConfigError;
use crate::interface::InterfaceError;
use crate::keys::SecretError;
use crate::server::ServerError;
use crate::user::link::LinkError;
use crate::user::publish::PublishError;

/// An error that may pass by itself, or not.
pub trait Passing {
    /// Returns whether a later attempt may succeed although nobody has changed anything.
    fn passes(&self) -> bool;
}

/// Numbers of errors (errno(3)) that pass: too little of something, or a thing that is busy, not
/// there yet, or just being removed.
const NUMBERS: [i32; 15] = [
    libc::EINTR,
    libc::EIO,
    libc::ENXIO,
    libc::EAGAIN,
    libc::ENOMEM,
    libc::EBUSY,
    libc::ENODEV,
    libc::ENFILE,
    libc::EMFILE,
    libc::ENOSPC,
    libc::EADDRINUSE,
    libc::EADDRNOTAVAIL,
    libc::ENETDOWN,
    libc::ENOBUFS,
    libc::ETIMEDOUT,
];

/// Returns whether a system's error may pass.
pub fn error(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| NUMBERS.contains(&number))
}

/// Returns whether an error may pass, from its text. libbpf-rs keeps the number only there: "... (os
/// error 12)".
pub fn text(text: &str) -> bool {
    text.split("(os error ").skip(1).any(|rest| {
        let number = rest.split(')').next().and_then(|number| number.parse().ok());
        number.is_some_and(|number: i32| NUMBERS.contains(&number))
    })
}

impl Passing for io::Error {
    fn passes(&self) -> bool {
        error(self)
    }
}

impl Passing for InterfaceError {
    fn passes(&self) -> bool {
        match self {
            // Both happen while a link is made or removed.
            Self::Unknown { .. } | Self::Unreadable { .. } => true,
        }
    }
}

impl Passing for ServerError {
    fn passes(&self) -> bool {
        match self {
            Self::NotHere { .. } | Self::Silent { .. } => true,
        }
    }
}

impl Passing for ConfigError {
    fn passes(&self) -> bool {
        match self {
            Self::Unreadable { passes, .. } => *passes,
            Self::Syntax { .. }
            | Self::Unknown { .. }
            | Self::Value { .. }
            | Self::Missing { .. } => false,
        }
    }
}

impl Passing for SecretError {
    fn passes(&self) -> bool {
        match self {
            Self::Unreadable(_, why) | Self::NoRandom(why) => text(why),
            Self::Open(_) | Self::Foreign(..) | Self::Malformed(_) => false,
        }
    }
}

impl Passing for LinkError {
    fn passes(&self) -> bool {
        match self {
            Self::NoInterface { .. } => true,
            Self::System { error: why, .. } => error(why),
            Self::Exists { .. }
            | Self::Local { .. }
            | Self::Permission { .. }
            | Self::NoTun
            | Self::Routed { .. } => false,
        }
    }
}

impl Passing for PublishError {
    fn passes(&self) -> bool {
        match self {
            Self::Running { .. } => true,
            Self::System { error: why, .. } => error(why),
            Self::Taken { .. } | Self::Denied { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_decide() {
        let of = |number| error(&io::Error::from_raw_os_error(number));
        assert!(of(libc::ENOMEM) && of(libc::ENODEV) && of(libc::EBUSY));
        assert!(!of(libc::EPERM) && !of(libc::EINVAL) && !of(libc::ENOENT));
        assert!(!error(&io::Error::other("no number")));
    }

    #[test]
    fn numbers_are_found_in_texts() {
        assert!(text("Cannot allocate memory (os error 12) (libbpf: map 'ring': -ENOMEM)"));
        assert!(text(
            "Permission denied (os error 13)\nCaused by:\n  Too many open files (os error 24)"
        ));
        assert!(
            !text("Invalid argument (os error 22)")
                && !text("out of memory")
                && !text("(os error x)")
        );
    }

    #[test]
    fn a_secret_that_is_missing_stays_missing() {
        let of = |why: &str| SecretError::Unreadable("x".into(), why.into());
        assert!(!of("No such file or directory (os error 2)").passes());
        assert!(of("Input/output error (os error 5)").passes());
    }
}

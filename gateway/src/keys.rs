//! Cookie keys. They are made from a secret and the time, so machines that share the secret need no
//! further communication.
//!
//! An *epoch* is the wall clock's seconds since 1970 divided by the setting `rotation`, rounded
//! down. Its key is two words,
//!
//! ```text
//! k_i = SipHash-2-4(secret,
//!                   "narrows-gateway cookie key" | epoch, 8 bytes, big-endian | i, 1 byte),
//! i = 0, 1
//! ```
//!
//! The secret's 16 bytes are SipHash's key (the first 8 are its k0, the next 8 its k1,
//! little-endian). The key of the present epoch makes cookies. The key of the epoch before is still
//! accepted for [`previous_until_s`].

use std::fmt;
use std::fs;
use std::hash::Hasher;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use narrows_units::Span;
use nix::time::{ClockId, clock_gettime};
use siphasher::sip::SipHasher24;

use crate::core::CookieKey;

/// What keys are made from. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 16]);

/// Why there is no usable secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// The file cannot be read.
    Unreadable(PathBuf, String),
    /// Users other than its owner can read or write it.
    Open(PathBuf),
    /// It belongs to a user other than root and the reader.
    Foreign(PathBuf, u32),
    /// It does not hold 32 hexadecimal digits.
    Malformed(PathBuf),
    /// The kernel provides no random bytes.
    NoRandom(String),
}

/// How many bytes of the file are read: 32 digits, and room for white space.
const SECRET_FILE_MAX: u64 = 4096;

impl Secret {
    /// Reads a file of 32 hexadecimal digits; white space is ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read, if other users can read it, or if it holds something
    /// else.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let unreadable =
            |error: &std::io::Error| SecretError::Unreadable(path.into(), error.to_string());
        let about = fs::metadata(path).map_err(|error| unreadable(&error))?;
        if !about.is_file() {
            // Before its mode: nobody should be told to chmod a directory or a device.
            return Err(SecretError::Unreadable(path.into(), "is not a regular file".into()));
        }
        let mode = about.permissions().mode();
        let owner = about.uid();
        if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
            return Err(SecretError::Foreign(path.into(), owner));
        }
        if mode & 0o077 != 0 {
            return Err(SecretError::Open(path.into()));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(SECRET_FILE_MAX).read_to_end(&mut bytes))
            .map_err(|error| unreadable(&error))?;
        Self::parse(&bytes).ok_or_else(|| SecretError::Malformed(path.into()))
    }

    /// A new secret for this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if `/dev/urandom` cannot be read.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = [0; 16];
        fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(|error| SecretError::NoRandom(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// A secret that was stored.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to be stored where only root can read them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the key of an epoch.
    pub fn key(&self, epoch: u64) -> CookieKey {
        let word = |which: u8| {
            let mut hash = SipHasher24::new_with_key(&self.0);
            hash.write(b"narrows-gateway cookie key");
            hash.write(&epoch.to_be_bytes());
            hash.write(&[which]);
            hash.finish()
        };
        CookieKey { k0: word(0), k1: word(1) }
    }

    /// Returns the keys at a time: the one that makes cookies, and the one before.
    pub fn keys(&self, unix_s: u64, rotation: Span) -> [CookieKey; 2] {
        let epoch = unix_s / seconds(rotation);
        [self.key(epoch), self.key(epoch.wrapping_sub(1))]
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let digits: Vec<u8> =
            bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let mut secret = [0; 16];
        if digits.len() != 2 * secret.len() {
            return None;
        }
        for (to, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16);
            *to = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Self(secret))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, why) => {
                let why = why.split(" (os error").next().unwrap_or(why).to_lowercase();
                write!(f, "secret: {}: {why}; hint: openssl rand -hex 16 makes one", path.display())
            }
            Self::Open(path) => write!(
                f,
                "secret: {}: others than its owner may read or write it; hint: chmod 600 {}",
                path.display(),
                path.display()
            ),
            Self::Foreign(path, owner) => write!(
                f,
                "secret: {}: it belongs to user {owner}, who can change it; hint: chown root {}",
                path.display(),
                path.display()
            ),
            Self::Malformed(path) => write!(
                f,
                "secret: {}: does not hold 32 hexadecimal digits; hint: openssl rand -hex 16 makes them",
                path.display()
            ),
            Self::NoRandom(why) => {
                write!(f, "no random bytes: {why}; hint: is /dev/urandom there?")
            }
        }
    }
}

impl std::error::Error for SecretError {}

/// Returns until when the previous epoch's key is accepted, in seconds since 1970: for the lifetime
/// of a cookie after the change, plus half as much for clocks that differ.
pub fn previous_until_s(unix_s: u64, rotation: Span) -> u64 {
    unix_s / seconds(rotation) * seconds(rotation) + 96
}

/// Returns the wall clock, in whole seconds since 1970.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the wall clock minus the boot clock, in nanoseconds. It lets machines agree on a
/// cookie's slot.
pub fn wall_offset_ns() -> u64 {
    let ns = |clock| {
        clock_gettime(clock).map_or(0, |at| {
            at.tv_sec().unsigned_abs() * 1_000_000_000 + at.tv_nsec().unsigned_abs()
        })
    };
    // The difference is negative if the wall clock is earlier than 1970 plus the uptime. It then
    // wraps, and so does the sum in which it is used.
    ns(ClockId::CLOCK_REALTIME).wrapping_sub(ns(ClockId::CLOCK_BOOTTIME))
}

/// Returns the boot clock in nanoseconds, as from `bpf_ktime_get_boot_ns`.
pub fn boot_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0, |at| at.tv_sec().unsigned_abs() * 1_000_000_000 + at.tv_nsec().unsigned_abs())
}

fn seconds(span: Span) -> u64 {
    (span.as_ps() / 1_000_000_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::parse(b"000102030405060708090a0b0c0d0e0f\n").expect("32 digits")
    }

    #[test]
    fn the_hash_is_the_authors() {
        // Aumasson, Bernstein, "SipHash: a fast short-input PRF" (2012), appendix A: key 00..0f,
        // message 00..0e.
        let mut hash = SipHasher24::new_with_key(secret().as_bytes());
        hash.write(&(0..15).collect::<Vec<u8>>());
        assert_eq!(hash.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn keys_differ_by_epoch_secret_and_word() {
        let (a, b) = (secret().key(1), secret().key(2));
        assert_ne!(a, b);
        assert_ne!(a.k0, a.k1);
        assert_ne!(a, Secret([7; 16]).key(1));
        assert_eq!(a, secret().key(1));
    }

    #[test]
    fn a_rotation_keeps_the_key_before() {
        let hour = Span::from_secs(3600);
        let [before, _] = secret().keys(7199, hour);
        let [now, accepted] = secret().keys(7200, hour);
        assert_eq!(accepted, before);
        assert_ne!(now, before);
        assert_eq!(secret().keys(3600, hour), secret().keys(7199, hour));
    }

    #[test]
    fn only_32_digits_are_a_secret() {
        assert!(Secret::parse(b"00010203 04050607\t08090A0B0C0D0E0F").is_some());
        for bad in [
            "",
            "00",
            "000102030405060708090a0b0c0d0e",
            "000102030405060708090a0b0c0d0e0g",
            "000102030405060708090a0b0c0d0e0f0",
        ] {
            assert!(Secret::parse(bad.as_bytes()).is_none(), "{bad}");
        }
        assert_eq!(format!("{:?}", secret()), "Secret(..)");
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, "000102030405060708090a0b0c0d0e0f").expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
        assert_eq!(Secret::read(&path), Err(SecretError::Open(path.clone())));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        assert_eq!(Secret::read(&path), Ok(secret()));
        fs::remove_file(&path).expect("it is ours");
        assert!(matches!(Secret::read(&path), Err(SecretError::Unreadable(..))));
    }

    #[test]
    fn the_offset_leads_from_boot_clock_to_wall_clock() {
        let there = boot_ns().wrapping_add(wall_offset_ns()) / 1_000_000_000;
        assert!(there.abs_diff(unix_s()) <= 1);
    }
}

//! A TUN device: a network interface whose packets a program reads and writes.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// An open device. It is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Tun {
    pub(super) file: File,
}

impl Tun {
    /// Creates a device of this name that carries IP packets without any header before them.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        // The part of an ifreq that TUNSETIFF reads: a name of 16 bytes, the last of them zero, and
        // flags.
        let mut request = [0_u8; IFREQ_BYTES];
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        request[..name.len()].copy_from_slice(name.as_bytes());
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as u16;
        request[libc::IFNAMSIZ..libc::IFNAMSIZ + 2].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: the kernel reads and writes one ifreq, which is as long as `request`; any bytes
        // are valid in it.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { file }) }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The size of `struct ifreq` of include/uapi/linux/if.h: at most the name and a union.
const IFREQ_BYTES: usize = size_of::<libc::ifreq>();

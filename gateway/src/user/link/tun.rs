//! A TUN device that the gateway makes. It exists as long as the gateway, and the service's
//! addresses are routed into it.
//!
//! Packets come from the kernel's routing, so clients may be anywhere, even on this machine.
//! Answers go back through the device and are routed; for clients elsewhere the kernel must forward
//! (`net.ipv4.ip_forward`, `net.ipv6.conf.all.forwarding`). The device is not persistent: the
//! kernel removes it and its routes when the process ends in any way. Source:
//! `Documentation/networking/tuntap.rst`, Linux 6.1.

#![allow(unsafe_code, reason = "the ioctl that makes the device")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use super::{Link, LinkError, gone};
use crate::netlink::Netlink;
use crate::user::batch::Inbox;
use crate::user::peer::Peer;

/// How many packets wait in the device while this process does not run. The kernel's default of 500
/// is enough for some hundred clients at once, and a client that loses a SYN waits a second.
const QUEUE: u32 = 4000;

/// The device.
#[derive(Debug)]
pub struct TunLink {
    device: File,
    name: String,
    index: u32,
    mtu: u16,
    unsent: u64,
    netlink: Netlink,
    /// Addresses whose packets the kernel routed into the device at the start.
    routed: Vec<IpAddr>,
}

impl TunLink {
    /// Makes the device `name`, sets it up and routes `addresses` into it.
    ///
    /// # Errors
    ///
    /// Returns a [`LinkError`] if an address is local or already routed, the name is taken, or
    /// CAP_NET_ADMIN or `/dev/net/tun` is missing. Nothing is left behind then.
    pub fn open(name: &str, addresses: &[IpAddr]) -> Result<Self, LinkError> {
        const NEEDS: &str = "CAP_NET_ADMIN";
        let make = "TUN device";
        let mut netlink = Netlink::open().map_err(|e| LinkError::of(e, "rtnetlink", NEEDS))?;
        for &address in addresses {
            let local = netlink.is_local(address);
            if local.map_err(|error| LinkError::of(error, "rtnetlink", NEEDS))? {
                return Err(LinkError::Local { address });
            }
        }
        let taken = netlink.interface(name);
        if taken.map_err(|error| LinkError::of(error, "rtnetlink", NEEDS))?.is_some() {
            return Err(LinkError::Exists { name: name.into() });
        }
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => LinkError::NoTun,
                _ => LinkError::of(error, "/dev/net/tun", NEEDS),
            })?;
        make_tun(&device, name).map_err(|error| LinkError::of(error, make, NEEDS))?;
        let interface = netlink
            .interface(name)
            .map_err(|error| LinkError::of(error, "rtnetlink", NEEDS))?
            .ok_or_else(|| LinkError::NoInterface { name: name.into() })?;
        netlink
            .set_up(interface.index, QUEUE)
            .map_err(|error| LinkError::of(error, "TUN device", NEEDS))?;
        for &address in addresses {
            netlink.add_route(address, interface.index).map_err(|error| {
                match error.raw_os_error() {
                    Some(libc::EEXIST) => LinkError::Routed { address },
                    _ => LinkError::of(error, "route into the TUN device", NEEDS),
                }
            })?;
        }
        let mut into =
            |address: &IpAddr| netlink.route_to(*address).ok() == Some(Some(interface.index));
        let routed = addresses.iter().copied().filter(|address| into(address)).collect();
        Ok(Self {
            device,
            name: name.into(),
            index: interface.index,
            mtu: interface.mtu.min(65_535) as u16,
            unsent: 0,
            netlink,
            routed,
        })
    }
}

/// `TUNSETIFF`, without a header before each packet.
fn make_tun(device: &File, name: &str) -> io::Result<()> {
    // SAFETY: ifreq is plain bytes, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and TUNSETIFF takes a pointer to an ifreq, which outlives the
    // call.
    match unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Link for TunLink {
    fn receive(&mut self, _: usize, inbox: &mut Inbox) -> io::Result<bool> {
        inbox.fill(|buffer| match self.device.read(buffer) {
            Ok(length) => Ok(Some((length, Peer::default()))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // Somebody removed it.
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Err(gone(&self.name)),
            Err(error) => Err(error),
        })
    }

    fn send(&mut self, packet: Vec<u8>, _: Peer) -> io::Result<()> {
        match self.device.write(&packet) {
            // EIO: the device was set down; it may come up again.
            Err(error) if lost(&error) || error.raw_os_error() == Some(libc::EIO) => {
                self.unsent += 1;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// A device that is set down loses its routes. Setting it up does not restore them, and adding
    /// them needs privileges.
    fn check(&mut self) -> io::Result<()> {
        let Self { netlink, routed, .. } = self;
        for &address in routed.iter() {
            if netlink.route_to(address)? != Some(self.index) {
                return Err(io::Error::other(format!(
                    "server {address} is not routed into {} any more, which was set down or got another route beside; \
                     hint: run again, which makes both anew",
                    self.name
                )));
            }
        }
        Ok(())
    }

    fn unsent(&self) -> u64 {
        self.unsent
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.device.as_fd()]
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }
}

/// Returns whether an error means that a packet was refused or found no room, and that the device
/// is fine.
pub(super) fn lost(error: &io::Error) -> bool {
    let codes =
        [libc::EAGAIN, libc::ENOBUFS, libc::ENOMEM, libc::EMSGSIZE, libc::EINVAL, libc::EPERM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

//! Where packets come from and go to: a TUN device, a packet socket, or memory (in tests).
//!
//! Packets are whole IP packets, from the network header on. Either link provides packets for an
//! address that does not belong to the kernel, because the kernel's TCP would also answer
//! otherwise.

mod filter;
mod neighbour;
mod packet;
mod tun;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

pub use packet::PacketLink;
pub use tun::TunLink;

use super::batch::Inbox;
use super::peer::Peer;

/// Packets in and out, many at a time.
pub trait Link {
    /// Reads waiting packets into `inbox`, each with its sender, from the descriptor with this
    /// index in [`Link::descriptors`]. Returns whether more may be waiting there.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the device is gone.
    fn receive(&mut self, from: usize, inbox: &mut Inbox) -> io::Result<bool>;

    /// Sends a packet, by [`Link::flush`] at the latest. What the device has no room for is lost,
    /// as on any wire.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the device is gone.
    fn send(&mut self, packet: Vec<u8>, to: Peer) -> io::Result<()>;

    /// Sends what is queued.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Link::send`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Checks whether packets can still arrive, because no packet would show that they cannot. The
    /// data path calls this about once a second.
    ///
    /// # Errors
    ///
    /// Returns what happened to the device, and what to do about it.
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Packets that the device had no room for or refused.
    fn unsent(&self) -> u64 {
        0
    }

    /// Returns what to wait for; nothing in tests.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns the largest IP packet that can be sent, in bytes.
    fn mtu(&self) -> u16;
}

/// Either kind of link to the network.
#[derive(Debug)]
pub enum NetworkLink {
    /// A TUN device.
    Tun(TunLink),
    /// Packet sockets.
    Packet(PacketLink),
}

impl NetworkLink {
    fn link(&self) -> &dyn Link {
        match self {
            Self::Tun(link) => link,
            Self::Packet(link) => link,
        }
    }

    fn link_mut(&mut self) -> &mut dyn Link {
        match self {
            Self::Tun(link) => link,
            Self::Packet(link) => link,
        }
    }
}

impl Link for NetworkLink {
    fn receive(&mut self, from: usize, inbox: &mut Inbox) -> io::Result<bool> {
        self.link_mut().receive(from, inbox)
    }

    fn send(&mut self, packet: Vec<u8>, to: Peer) -> io::Result<()> {
        self.link_mut().send(packet, to)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.link_mut().flush()
    }

    fn check(&mut self) -> io::Result<()> {
        self.link_mut().check()
    }

    fn unsent(&self) -> u64 {
        self.link().unsent()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.link().descriptors()
    }

    fn mtu(&self) -> u16 {
        self.link().mtu()
    }
}

/// The error for a device that no longer exists.
fn gone(name: &str) -> io::Error {
    io::Error::other(format!("interface {name} is gone; hint: run again, once it is there"))
}

/// Why a link cannot be opened. Displays as one line with what to do.
#[derive(Debug)]
pub enum LinkError {
    /// There is no such interface.
    NoInterface {
        /// Its name.
        name: String,
    },
    /// The gateway would make the TUN device, but a device with that name exists.
    Exists {
        /// Its name.
        name: String,
    },
    /// The kernel's own TCP would answer at a service address.
    Local {
        /// The address.
        address: IpAddr,
    },
    /// The process lacks a capability.
    Permission {
        /// What it tried.
        what: &'static str,
        /// What it needs for that.
        capability: &'static str,
    },
    /// The kernel has no TUN devices, or the file that makes them is missing.
    NoTun,
    /// The address already has a route, which would compete with the TUN device's.
    Routed {
        /// The address.
        address: IpAddr,
    },
    /// Another error of the system.
    System {
        /// What was tried.
        what: String,
        /// The system's message.
        error: io::Error,
    },
}

impl LinkError {
    /// The error of a system call. If permission is missing, it names the capability.
    fn of(error: io::Error, what: &'static str, capability: &'static str) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { what, capability },
            _ => Self::System { what: what.into(), error },
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface { name } => {
                write!(f, "interface {name}: does not exist; hint: see ip link")
            }
            Self::Exists { name } => write!(
                f,
                "interface {name}: exists already, and the gateway makes its own TUN device; hint: --interface \
                 with another name, or --user-link packet to serve clients on {name}"
            ),
            Self::Local { address } => write!(
                f,
                "server {address}: is an address of this machine, so that the kernel's TCP would answer too; \
                 hint: give the service an address that no interface has, and name the server's own with --user-upstream"
            ),
            Self::Permission { what, capability } => {
                write!(f, "{what}: not permitted; hint: run as root or with {capability}")
            }
            Self::NoTun => {
                write!(f, "/dev/net/tun: does not exist; hint: modprobe tun, or --user-link packet")
            }
            Self::Routed { address } => write!(
                f,
                "server {address}: has a route of its own already; hint: remove it (ip route show {address}), \
                 or is another gateway running?"
            ),
            Self::System { what, error } => write!(f, "{what}: {error}; hint: see dmesg"),
        }
    }
}

impl std::error::Error for LinkError {}

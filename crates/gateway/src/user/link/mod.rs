//! Where packets come from and go to: a TUN device, a packet socket, or memory (in tests).
//!
//! Packets are whole IP packets, from the network header on. Both ways give the gateway packets of an address that
//! the kernel does not hold as its own, since otherwise the kernel's TCP would answer too.

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

/// The largest IP packet.
pub const PACKET_MAX: usize = 65_535 + 40;

/// Who sent a frame, so that the answer goes back the same way. TUN devices have no such thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The hardware address, as long as `length` says.
    address: [u8; 8],
    length: u8,
}

/// Packets in, packets out, many at a time.
pub trait Link {
    /// Puts packets that wait into `inbox`, each with who sent it, from the descriptor of this place in
    /// [`Link::descriptors`]. Says whether more may wait there.
    ///
    /// # Errors
    ///
    /// The system's, where the device is gone.
    fn receive(&mut self, from: usize, inbox: &mut Inbox) -> io::Result<bool>;

    /// Sends a packet, at the latest with [`Link::flush`]. What the device has no room for is lost, as on any wire.
    ///
    /// # Errors
    ///
    /// The system's, where the device is gone.
    fn send(&mut self, packet: Vec<u8>, to: Peer) -> io::Result<()>;

    /// Sends what waits to be sent.
    ///
    /// # Errors
    ///
    /// As for [`Link::send`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Looks whether packets can still come, which no packet would tell. Called about once a second.
    ///
    /// # Errors
    ///
    /// What has become of the device, and the mend.
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Packets that the device had no room for, or refused.
    fn unsent(&self) -> u64 {
        0
    }

    /// What to wait for; none in tests.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// The largest IP packet that can be sent, in bytes.
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

/// The device is not there any more.
fn gone(name: &str) -> io::Error {
    io::Error::other(format!("interface {name} is gone; hint: run again, once it is there"))
}

/// Why a link cannot be had. Displays as one line that names the mend.
#[derive(Debug)]
pub enum LinkError {
    /// There is no such interface.
    NoInterface {
        /// Its name.
        name: String,
    },
    /// The TUN device is to be made, and there is one of that name already.
    Exists {
        /// Its name.
        name: String,
    },
    /// The kernel's own TCP would answer at a service address.
    Local {
        /// The address.
        address: IpAddr,
    },
    /// The process may not do this.
    Permission {
        /// What it tried.
        what: &'static str,
        /// What it needs for that.
        capability: &'static str,
    },
    /// The kernel has no TUN devices, or the file that makes them is not there.
    NoTun,
    /// The address has a route already, which the TUN device's would be beside.
    Routed {
        /// The address.
        address: IpAddr,
    },
    /// Anything else that the system refuses.
    System {
        /// What was tried.
        what: String,
        /// The system's words.
        error: io::Error,
    },
}

impl LinkError {
    /// The error of a system call: one of permission names the capability.
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

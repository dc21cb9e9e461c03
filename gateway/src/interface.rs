//! The interface that clients are on, and this machine's addresses, in the network namespace of the
//! process. (sysfs would show the namespace in which it was mounted.)

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::net::if_::{if_nameindex, if_nametoindex};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrLike, socket};

use crate::ethtool;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its hardware's kind (`ARPHRD_*`, linux/if_arp.h).
    pub hardware: u16,
    /// Whether it is up.
    pub up: bool,
}

/// Why the interface cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceError {
    /// No interface has this name. Has the nearest name, if one is near.
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The nearest, if it may be a slip of the name.
        nearest: Option<String>,
    },
    /// The system does not tell the interface's properties.
    Unreadable {
        /// Its name.
        name: String,
        /// The system's message.
        why: String,
    },
}

impl Interface {
    /// The interface of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none. The error names an interface whose name is similar.
    #[allow(unsafe_code, reason = "the members of netdevice(7)'s union")]
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let Ok(index) = if_nametoindex(name) else {
            return Err(InterfaceError::Unknown { name: name.into(), nearest: nearest(name) });
        };
        let unreadable = |why: nix::Error| InterfaceError::Unreadable {
            name: name.into(),
            why: why.desc().to_lowercase(),
        };
        let mtu = ask(name, libc::SIOCGIFMTU).map_err(unreadable)?;
        let hardware = ask(name, libc::SIOCGIFHWADDR).map_err(unreadable)?;
        let flags = ask(name, libc::SIOCGIFFLAGS).map_err(unreadable)?;
        // SAFETY: the kernel filled the union's member that belongs to the request, Linux
        // net/core/dev_ioctl.c.
        let (mtu, hardware, flags) = unsafe {
            (
                mtu.ifr_ifru.ifru_mtu,
                hardware.ifr_ifru.ifru_hwaddr.sa_family,
                flags.ifr_ifru.ifru_flags,
            )
        };
        let up = i32::from(flags) & libc::IFF_UP != 0;
        Ok(Self { name: name.into(), index, mtu: mtu.unsigned_abs(), hardware, up })
    }

    /// Returns whether it is one end of a veth pair.
    pub fn is_veth(&self) -> bool {
        ethtool::driver(&self.name).as_deref() == Some("veth")
    }

    /// Returns whether its frames have Ethernet headers, which the in-kernel data path needs.
    pub fn is_ethernet(&self) -> bool {
        self.hardware == libc::ARPHRD_ETHER || self.hardware == libc::ARPHRD_LOOPBACK
    }

    /// Returns the largest TCP payload of one packet without options, for IPv4 and IPv6.
    pub fn mss(&self) -> (u16, u16) {
        // An IP packet's length field has 16 bits.
        let mtu = self.mtu.min(65_535);
        (mtu.saturating_sub(40) as u16, mtu.saturating_sub(60) as u16)
    }
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest: Some(nearest) } => {
                write!(f, "there is no interface {name:?}; hint: the nearest is {nearest:?}")
            }
            Self::Unknown { name, nearest: None } => {
                write!(f, "there is no interface {name:?}; hint: ip link shows those that exist")
            }
            Self::Unreadable { name, why } => {
                write!(f, "interface {name:?} cannot be read: {why}; hint: is it being removed?")
            }
        }
    }
}

impl std::error::Error for InterfaceError {}

/// Returns all addresses of this machine, in this network namespace.
///
/// # Errors
///
/// Returns an error if the system does not tell.
pub fn local_addresses() -> Result<Vec<IpAddr>, std::io::Error> {
    let mut all = Vec::new();
    for entry in getifaddrs()? {
        let Some(address) = entry.address else { continue };
        if let Some(v4) = address.as_sockaddr_in() {
            all.push(IpAddr::V4(v4.ip()));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            all.push(IpAddr::V6(v6.ip()));
        } else {
            debug_assert!(address.family() != Some(AddressFamily::Inet));
        }
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// Returns the number of this process's network namespace, unique since the machine started; 1 is
/// the machine's own. `None` on kernels before 5.14, which have no such numbers.
#[allow(unsafe_code, reason = "nix has no SO_NETNS_COOKIE")]
pub fn namespace() -> Option<u64> {
    let socket =
        socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let (mut cookie, mut size) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: the room has the stated size and outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &mut size,
        )
    };
    (result == 0).then_some(cookie)
}

/// Returns the interface that `name` may be a slip of: at most a third of the letters are others.
fn nearest(name: &str) -> Option<String> {
    let all = if_nameindex().ok()?;
    all.iter()
        .filter_map(|interface| interface.name().to_str().ok().map(str::to_owned))
        .map(|other| (strsim::damerau_levenshtein(&other, name), other))
        .filter(|(slips, _)| *slips <= name.chars().count().div_ceil(3))
        .min()
        .map(|(_, other)| other)
}

/// Reads one property of an interface in the old way, without netlink: netdevice(7).
#[allow(unsafe_code, reason = "std and nix have no form of these requests")]
fn ask(name: &str, request: libc::c_ulong) -> Result<libc::ifreq, nix::Error> {
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut what = ethtool::request(name);
    // SAFETY: the request takes an ifreq, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &mut what) };
    nix::errno::Errno::result(result).map(|_| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found() {
        let lo = Interface::find("lo").expect("each network namespace has it");
        assert_eq!(lo.hardware, libc::ARPHRD_LOOPBACK);
        assert!(lo.mtu > 0 && lo.index > 0);
    }

    #[test]
    fn an_unknown_interface_names_the_nearest() {
        let error = Interface::find("lp").expect_err("there is none");
        assert!(
            error.to_string().starts_with("there is no interface \"lp\"; hint: the nearest is"),
            "{error}"
        );
    }

    #[test]
    fn no_interface_is_guessed_that_is_not_near() {
        let error = Interface::find("quite-another").expect_err("there is none");
        assert_eq!(
            error.to_string(),
            "there is no interface \"quite-another\"; hint: ip link shows those that exist"
        );
    }

    #[test]
    fn the_largest_payload_fits_the_mtu() {
        let mut of = Interface { name: "x".into(), index: 1, mtu: 1500, hardware: 1, up: true };
        assert_eq!(of.mss(), (1460, 1440));
        of.mtu = 65_536;
        assert_eq!(of.mss(), (65_495, 65_475));
        of.mtu = 0;
        assert_eq!(of.mss(), (0, 0));
    }
}

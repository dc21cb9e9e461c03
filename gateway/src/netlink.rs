//! What the gateway asks and tells the kernel's routing over rtnetlink(7): interfaces, whether an
//! address belongs to the machine, a route into the TUN device.
//!
//! The crate rtnetlink is asynchronous and would bring 29 more crates, tokio among them.
//!
//! Numbers are those of `linux/netlink.h`, `linux/rtnetlink.h` and `linux/if_link.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send,
    socket,
};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    /// The hardware address; empty where it has none.
    pub(crate) address: Vec<u8>,
}

/// A socket to the kernel's routing subsystem.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens one.
    pub(crate) fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkRoute;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?; // 0: the kernel
        Ok(Self { socket, sequence: 0 })
    }

    /// Returns the interface of this name.
    pub(crate) fn interface(&mut self, name: &str) -> io::Result<Option<Interface>> {
        let mut request = vec![0; IFINFOMSG];
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        attribute(&mut request, IFLA_IFNAME, &text);
        let reply = match self.ask(RTM_GETLINK, 0, &request) {
            Ok(reply) => reply,
            Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => return Ok(None),
            Err(error) => return Err(error),
        };
        let short = || io::Error::other("a short answer of rtnetlink");
        let body = reply.ok_or_else(short)?;
        let index = body.get(4..8).and_then(word).ok_or_else(short)?;
        let attributes = body.get(IFINFOMSG..).ok_or_else(short)?;
        let mtu = find(attributes, IFLA_MTU).and_then(word).unwrap_or(1500);
        let address = find(attributes, IFLA_ADDRESS).unwrap_or_default().to_vec();
        Ok(Some(Interface { index, mtu, address }))
    }

    /// Sets an interface up, with room for this many waiting packets.
    pub(crate) fn set_up(&mut self, index: u32, queue: u32) -> io::Result<()> {
        let mut request = vec![0; IFINFOMSG];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        request[8..12].copy_from_slice(&IFF_UP.to_ne_bytes());
        request[12..16].copy_from_slice(&IFF_UP.to_ne_bytes()); // which flags change
        attribute(&mut request, IFLA_TXQLEN, &queue.to_ne_bytes());
        self.ask(RTM_NEWLINK, NLM_F_ACK, &request).map(drop)
    }

    /// Returns whether packets for `address` would be delivered to this machine itself. Without any
    /// route they would not.
    pub(crate) fn is_local(&mut self, address: IpAddr) -> io::Result<bool> {
        Ok(self.route(address)?.and_then(|body| body.get(7).copied()) == Some(RTN_LOCAL))
    }

    /// Returns the interface through which this machine's packets for `address` leave; `None` if
    /// they go nowhere.
    pub(crate) fn route_to(&mut self, address: IpAddr) -> io::Result<Option<u32>> {
        let route = self.route(address)?;
        let attributes = route.as_ref().and_then(|body| body.get(RTMSG..)).unwrap_or_default();
        Ok(find(attributes, RTA_OIF).and_then(word))
    }

    /// Returns the interface through which a datagram between these two would leave; `None` if it
    /// goes nowhere.
    pub(crate) fn route_of_datagram(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
    ) -> io::Result<Option<u32>> {
        let mut request = route_request(to.ip());
        let (_, source) = family(from.ip());
        request[2] = source.len() as u8 * 8;
        attribute(&mut request, RTA_SRC, &source);
        // These may select one of several paths of the same weight (fib_multipath_hash_policy).
        attribute(&mut request, RTA_IP_PROTO, &[IPPROTO_UDP]);
        attribute(&mut request, RTA_SPORT, &from.port().to_be_bytes());
        attribute(&mut request, RTA_DPORT, &to.port().to_be_bytes());
        let route = self.get_route(&request)?;
        let attributes = route.as_ref().and_then(|body| body.get(RTMSG..)).unwrap_or_default();
        Ok(find(attributes, RTA_OIF).and_then(word))
    }

    /// Returns the route that the kernel would take.
    fn route(&mut self, address: IpAddr) -> io::Result<Option<Vec<u8>>> {
        self.get_route(&route_request(address))
    }

    fn get_route(&mut self, request: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self.ask(RTM_GETROUTE, 0, request) {
            Err(error) => match error.raw_os_error() {
                Some(
                    nix::libc::ENETUNREACH
                    | nix::libc::EHOSTUNREACH
                    | nix::libc::EACCES
                    | nix::libc::EINVAL,
                ) => Ok(None),
                _ => Err(error),
            },
            route => route,
        }
    }

    /// Adds a route for this one address to an interface. The error `EEXIST` means that there
    /// already is one.
    pub(crate) fn add_route(&mut self, address: IpAddr, interface: u32) -> io::Result<()> {
        let (family, bytes) = family(address);
        let mut request = vec![0; RTMSG];
        request[0] = family;
        request[1] = bytes.len() as u8 * 8;
        request[4] = RT_TABLE_MAIN;
        request[5] = RTPROT_STATIC;
        request[6] = if address.is_ipv4() { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
        request[7] = RTN_UNICAST;
        attribute(&mut request, RTA_DST, &bytes);
        attribute(&mut request, RTA_OIF, &interface.to_ne_bytes());
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RTM_NEWROUTE, flags, &request).map(drop)
    }

    fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let mut message = Vec::with_capacity(NLMSGHDR + body.len());
        message.extend(((NLMSGHDR + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        Ok(())
    }

    /// Sends a request and returns the body of the answer; `None` for a mere acknowledgement.
    fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.request(kind, flags, body)?;
        let mut buffer = vec![0; 32 << 10];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut rest = &buffer[..length];
            while let Some(message) = next(&mut rest) {
                if message.sequence != self.sequence {
                    continue;
                }
                if message.kind != NLMSG_ERROR {
                    return Ok(Some(message.body.to_vec()));
                }
                return match message.body.get(..4).and_then(word).unwrap_or(0) as i32 {
                    0 => Ok(None),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
        }
    }
}

/// Returns a request for a route to an address. Further attributes can be added.
fn route_request(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = family(address);
    let mut request = vec![0; RTMSG];
    request[0] = family;
    request[1] = bytes.len() as u8 * 8;
    attribute(&mut request, RTA_DST, &bytes);
    request
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

/// Takes the next message from `rest`.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Message<'a>> {
    let header = rest.get(..NLMSGHDR)?;
    let length = word(&header[..4])? as usize;
    let body = rest.get(NLMSGHDR..length)?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    let sequence = word(&header[8..12])?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(Message { kind, sequence, body })
}

/// Appends an attribute: length, kind, value, padded to a multiple of four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Returns the value of the first attribute of this kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while let Some(header) = attributes.get(..4) {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(4..length)?;
        // The two highest bits mean "nested" and "in network order" (NLA_TYPE_MASK).
        if u16::from_ne_bytes([header[2], header[3]]) & 0x3fff == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn family(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET, Ipv4Addr::octets(&address).to_vec()),
        IpAddr::V6(address) => (AF_INET6, Ipv6Addr::octets(&address).to_vec()),
    }
}

const NLMSGHDR: usize = 16;
const IFINFOMSG: usize = 16;
const RTMSG: usize = 12;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFF_UP: u32 = 1;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const IPPROTO_UDP: u8 = 17;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every Linux has it, and asking needs no privilege.
    #[test]
    fn the_loopback_interface_is_found_and_its_addresses_are_local() {
        let mut netlink = Netlink::open().expect("rtnetlink is always there");
        let lo = netlink.interface("lo").expect("an answer").expect("lo exists");
        assert!(lo.index > 0);
        assert_eq!(lo.address, [0; 6]);
        assert!(netlink.is_local("127.0.0.1".parse().expect("an address")).expect("an answer"));
        assert!(netlink.is_local("127.1.2.3".parse().expect("an address")).expect("an answer"));
        let route = netlink.route_to("127.0.0.1".parse().expect("an address")).expect("an answer");
        assert_eq!(route, Some(lo.index));
        let [from, to] = ["127.0.0.1:53", "127.0.0.2:4000"].map(|at| at.parse().expect("a socket"));
        assert_eq!(netlink.route_of_datagram(from, to).expect("an answer"), Some(lo.index));
        // TEST-NET-1 (RFC 5737) belongs to nobody.
        assert!(!netlink.is_local("192.0.2.53".parse().expect("an address")).expect("an answer"));
    }

    #[test]
    fn an_interface_that_does_not_exist_is_none() {
        let mut netlink = Netlink::open().expect("rtnetlink is always there");
        assert_eq!(netlink.interface("nrw-not-there").expect("an answer"), None);
    }

    #[test]
    fn attributes_are_found_and_cut_ones_are_not() {
        let mut list = Vec::new();
        attribute(&mut list, 3, b"lo\0");
        attribute(&mut list, 4, &65_536u32.to_ne_bytes());
        assert_eq!(find(&list, 4).and_then(word), Some(65_536));
        assert_eq!(find(&list[..list.len() - 1], 4), None);
        assert_eq!(find(&list, 9), None);
    }
}

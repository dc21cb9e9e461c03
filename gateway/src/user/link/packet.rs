//! Reads packets for the service's addresses on an interface, through packet sockets (packet(7)).
//!
//! The sockets see frames beside the kernel's own stack, which drops packets for addresses that are
//! not its own. Answers go back to the hardware address that the client's packet came from, so no
//! route is needed. The gateway answers neighbours that look for a service address
//! ([`super::neighbour`]). An address that is routed here through another address of this machine
//! does not need that.
//!
//! There is one socket each for IPv4, IPv6 and ARP: a socket for all protocols would also see every
//! packet that the machine sends. On an interface with VLANs, name the VLAN's own interface.

#![allow(unsafe_code, reason = "packet sockets have no safe form in std or nix")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use narrows_wire::Mac;
use nix::libc;

use super::tun::lost;
use super::{Link, LinkError, filter, gone, neighbour};
use crate::netlink::Netlink;
use crate::user::batch::{BATCH, Inbox, send_all};
use crate::user::peer::Peer;

/// The packet sockets of an interface.
#[derive(Debug)]
pub struct PacketLink {
    ipv4: Option<OwnedFd>,
    ipv6: Option<OwnedFd>,
    arp: Option<OwnedFd>,
    interface: u32,
    name: String,
    netlink: Netlink,
    mtu: u16,
    /// Our hardware address; `None` on links without such addresses, where nobody asks for them.
    mac: Option<Mac>,
    addresses: Vec<IpAddr>,
    /// Packets to send, of IPv4 and of IPv6.
    outboxes: [Outbox; 2],
    unsent: u64,
}

/// Queued packets and their receivers.
#[derive(Debug, Default)]
struct Outbox {
    packets: Vec<Vec<u8>>,
    names: Vec<libc::sockaddr_ll>,
}

impl PacketLink {
    /// Listens on the interface `name` for TCP to `port` at `addresses`.
    ///
    /// # Errors
    ///
    /// Returns a [`LinkError`] if there is no such interface, an address belongs to the machine, or
    /// CAP_NET_RAW is missing.
    pub fn open(name: &str, addresses: &[IpAddr], port: u16) -> Result<Self, LinkError> {
        let refused = |error| LinkError::of(error, "packet socket", "CAP_NET_RAW");
        let mut netlink = Netlink::open().map_err(refused)?;
        let interface = netlink
            .interface(name)
            .map_err(refused)?
            .ok_or_else(|| LinkError::NoInterface { name: name.into() })?;
        for &address in addresses {
            if netlink.is_local(address).map_err(refused)? {
                return Err(LinkError::Local { address });
            }
        }
        let mac = <[u8; 6]>::try_from(&interface.address[..]).ok().map(Mac);
        let open = |protocol: i32, program: &[libc::sock_filter]| {
            packet_socket(interface.index, protocol, program).map_err(refused)
        };
        let any = |v4: bool| addresses.iter().any(|address| address.is_ipv4() == v4);
        let mut link = Self {
            ipv4: None,
            ipv6: None,
            arp: None,
            interface: interface.index,
            name: name.into(),
            netlink,
            mtu: interface.mtu.min(65_535) as u16,
            mac,
            addresses: addresses.to_vec(),
            outboxes: Default::default(),
            unsent: 0,
        };
        if any(true) {
            link.ipv4 = Some(open(libc::ETH_P_IP, &filter::ipv4(addresses, port))?);
            if mac.is_some() {
                link.arp = Some(open(libc::ETH_P_ARP, &filter::arp(addresses))?);
            }
        }
        if any(false) {
            let socket = open(libc::ETH_P_IPV6, &filter::ipv6(addresses))?;
            for address in addresses {
                if let (IpAddr::V6(address), Some(_)) = (address, mac) {
                    let group = neighbour::solicited_node(*address);
                    join(&socket, interface.index, group).map_err(refused)?;
                }
            }
            link.ipv6 = Some(socket);
        }
        Ok(link)
    }

    fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.ipv4, &self.ipv6, &self.arp].into_iter().flatten()
    }

    /// Reads a socket: packets for this machine go into `inbox`, and neighbours that look for a
    /// service address are answered on the same socket.
    fn receive_from(
        &self,
        socket: &OwnedFd,
        inbox: &mut Inbox,
        answers: &mut Outbox,
    ) -> io::Result<bool> {
        let of_arp = self.arp.as_ref().is_some_and(|arp| arp.as_raw_fd() == socket.as_raw_fd());
        let keep = |packet: &[u8], from: &libc::sockaddr_ll| {
            if matches!(from.sll_pkttype, libc::PACKET_OUTGOING | libc::PACKET_OTHERHOST) {
                return None;
            }
            let peer = Peer { address: from.sll_addr, length: from.sll_halen.min(8) };
            if !of_arp && !neighbour::is_solicitation(packet) {
                return Some(peer);
            }
            let mac = self.mac?;
            let (answer, protocol, to) = if of_arp {
                let (answer, to) = neighbour::arp_reply(packet, &self.addresses, mac)?;
                (answer, libc::ETH_P_ARP, Peer::of(to))
            } else {
                let (answer, asker) = neighbour::advertisement(packet, &self.addresses, mac)?;
                let all = Peer::of(neighbour::ALL_NODES_MAC);
                (answer, libc::ETH_P_IPV6, if asker.is_some() { peer } else { all })
            };
            answers.packets.push(answer);
            answers.names.push(sockaddr(self.interface, protocol, to));
            None
        };
        match inbox.receive(socket, keep) {
            Err(error) => match error.raw_os_error() {
                // ENETDOWN: the interface was set down; it may come up again.
                Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(false),
                _ => Err(error),
            },
            more => more,
        }
    }
}

impl Link for PacketLink {
    fn receive(&mut self, from: usize, inbox: &mut Inbox) -> io::Result<bool> {
        let mut answers = Outbox::default();
        let mut unsent = 0;
        let Some(socket) = self.sockets().nth(from) else { return Ok(false) };
        let more = self.receive_from(socket, inbox, &mut answers)?;
        answers.send(socket, &mut unsent)?;
        self.unsent += unsent;
        Ok(more)
    }

    fn send(&mut self, packet: Vec<u8>, to: Peer) -> io::Result<()> {
        let is_ipv4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
        let protocol = if is_ipv4 { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
        let outbox = &mut self.outboxes[usize::from(!is_ipv4)];
        outbox.packets.push(packet);
        outbox.names.push(sockaddr(self.interface, protocol, to));
        if outbox.packets.len() < BATCH { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        for (socket, outbox) in [&self.ipv4, &self.ipv6].into_iter().zip(&mut self.outboxes) {
            match socket {
                Some(socket) => outbox.send(socket, &mut self.unsent)?,
                None => outbox.clear(),
            }
        }
        Ok(())
    }

    /// The sockets of a removed interface stay silent.
    fn check(&mut self) -> io::Result<()> {
        match self.netlink.interface(&self.name)? {
            Some(interface) if interface.index == self.interface => Ok(()),
            _ => Err(gone(&self.name)),
        }
    }

    fn unsent(&self) -> u64 {
        self.unsent
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets().map(AsFd::as_fd).collect()
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }
}

impl Outbox {
    /// Sends everything. What the device has no room for is lost and counted.
    fn send(&mut self, socket: &OwnedFd, unsent: &mut u64) -> io::Result<()> {
        let refused = |error: io::Error| match error.raw_os_error() {
            Some(libc::EINTR) => Ok(true),
            // ENETDOWN: the interface was set down; it may come up again.
            code if code == Some(libc::ENETDOWN) || lost(&error) => {
                *unsent += 1;
                Ok(false)
            }
            _ => Err(error),
        };
        let result = send_all(socket, &mut self.packets, &self.names, refused);
        self.clear();
        result
    }

    fn clear(&mut self) {
        self.packets.clear();
        self.names.clear();
    }
}

/// Returns a packet socket that starts to receive once its filter is in place.
fn packet_socket(
    interface: u32,
    protocol: i32,
    program: &[libc::sock_filter],
) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) takes no pointers. With protocol 0 it receives nothing until bind(2) names
    // one.
    let descriptor = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    checked(descriptor)?;
    // SAFETY: the descriptor is open and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };

    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    // For packets that arrive while this process does not run; the kernel limits it to
    // net.core.rmem_max.
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &(4 << 20 as libc::c_int))?;

    let address = sockaddr(interface, protocol, Peer::default());
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a sockaddr_ll of this length and outlives the call.
    checked(unsafe { libc::bind(descriptor, (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Accepts frames to a multicast address while the socket is open (RFC 4861 needs it for
/// solicitations).
fn join(socket: &OwnedFd, interface: u32, group: Mac) -> io::Result<()> {
    // SAFETY: packet_mreq is plain bytes, for which zeros are valid.
    let mut request: libc::packet_mreq = unsafe { zeroed() };
    request.mr_ifindex = interface as libc::c_int;
    request.mr_type = libc::PACKET_MR_MULTICAST as libc::c_ushort;
    request.mr_alen = 6;
    request.mr_address[..6].copy_from_slice(&group.0);
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let pointer = std::ptr::from_ref(value).cast();
    // SAFETY: the value has this length and outlives the call, and so does what sock_fprog points
    // to.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, length) })
}

fn sockaddr(interface: u32, protocol: i32, to: Peer) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: interface as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: to.length,
        sll_addr: to.address,
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

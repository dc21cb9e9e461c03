//! Packets of the service's addresses as they come in on an interface, through packet sockets (packet(7)).
//!
//! Frames are seen beside the kernel's own stack, which drops packets of addresses that it does not hold. Answers
//! go back to the hardware address that the client's packet came from, so that no route is asked. Neighbours that
//! look for a service address are answered ([`super::neighbour`]); an address that is routed here by way of another
//! address of this machine needs nothing of that.
//!
//! One socket for each of IPv4, IPv6 and ARP: a socket for all protocols would also be shown every packet that
//! the machine sends. On an interface with VLANs, the VLAN's own interface is the one to name.

#![allow(unsafe_code, reason = "packet sockets have no safe form in std or nix")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use narrows_wire::Mac;
use nix::libc;

use super::netlink::Netlink;
use super::tun::lost;
use super::{Link, LinkError, Peer, filter, neighbour};

/// The packet sockets of an interface.
#[derive(Debug)]
pub struct PacketLink {
    ipv4: Option<OwnedFd>,
    ipv6: Option<OwnedFd>,
    arp: Option<OwnedFd>,
    interface: u32,
    mtu: u16,
    /// Ours; `None` on links without such addresses, where nobody asks for them.
    mac: Option<Mac>,
    addresses: Vec<IpAddr>,
}

impl PacketLink {
    /// Listens on the interface `name` for TCP to `port` at `addresses`.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: no such interface, an address is the machine's own, CAP_NET_RAW is missing.
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
            mtu: interface.mtu.min(65_535) as u16,
            mac,
            addresses: addresses.to_vec(),
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

    fn answer_arp(&self, buffer: &mut [u8]) -> io::Result<()> {
        let (Some(socket), Some(mac)) = (&self.arp, self.mac) else { return Ok(()) };
        while let Some((length, _)) = receive(socket, buffer)? {
            if let Some((reply, to)) = neighbour::arp_reply(&buffer[..length], &self.addresses, mac)
            {
                send(socket, self.interface, libc::ETH_P_ARP, &reply, Peer::of(to))?;
            }
        }
        Ok(())
    }

    fn answer_solicitation(&self, socket: &OwnedFd, packet: &[u8], from: Peer) -> io::Result<()> {
        let Some(mac) = self.mac else { return Ok(()) };
        match neighbour::advertisement(packet, &self.addresses, mac) {
            None => Ok(()),
            Some((reply, asker)) => {
                let to = if asker.is_some() { from } else { Peer::of(neighbour::ALL_NODES_MAC) };
                send(socket, self.interface, libc::ETH_P_IPV6, &reply, to)
            }
        }
    }
}

impl Link for PacketLink {
    fn receive(&mut self, from: usize, buffer: &mut [u8]) -> io::Result<Option<(usize, Peer)>> {
        let Some(socket) = self.sockets().nth(from) else { return Ok(None) };
        if self.arp.as_ref().is_some_and(|arp| arp.as_raw_fd() == socket.as_raw_fd()) {
            self.answer_arp(buffer)?;
            return Ok(None);
        }
        while let Some((length, from)) = receive(socket, buffer)? {
            if !neighbour::is_solicitation(&buffer[..length]) {
                return Ok(Some((length, from)));
            }
            self.answer_solicitation(socket, &buffer[..length], from)?;
        }
        Ok(None)
    }

    fn send(&mut self, packet: &[u8], to: Peer) -> io::Result<()> {
        let (socket, protocol) = match packet.first().map(|byte| byte >> 4) {
            Some(4) => (&self.ipv4, libc::ETH_P_IP),
            _ => (&self.ipv6, libc::ETH_P_IPV6),
        };
        match socket {
            Some(socket) => send(socket, self.interface, protocol, packet, to),
            None => Ok(()),
        }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets().map(AsFd::as_fd).collect()
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }
}

impl Peer {
    fn of(mac: Mac) -> Self {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&mac.0);
        Self { address, length: 6 }
    }
}

/// A packet socket that begins to receive once its filter is in place.
fn packet_socket(
    interface: u32,
    protocol: i32,
    program: &[libc::sock_filter],
) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) takes no pointers. Protocol 0 receives nothing until bind(2) names one.
    let descriptor = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    checked(descriptor)?;
    // SAFETY: the descriptor is open and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };

    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    // What waits while this process does not run; the kernel lowers it to net.core.rmem_max.
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &(4 << 20 as libc::c_int))?;

    let address = sockaddr(interface, protocol, Peer::default());
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a sockaddr_ll of this length, and lives through the call.
    checked(unsafe { libc::bind(descriptor, (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Lets frames to a multicast address through, while the socket is open (RFC 4861 needs it for solicitations).
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
    // SAFETY: the value is of this length and lives through the call, as does what sock_fprog points to.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, length) })
}

/// A packet for this machine; others on the wire are passed over.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<(usize, Peer)>> {
    loop {
        // SAFETY: sockaddr_ll is plain numbers, for which zeros are valid.
        let mut from: libc::sockaddr_ll = unsafe { zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: buffer and address are of the lengths that are given, and live through the call.
        let received = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
                (&raw mut from).cast(),
                &raw mut length,
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(None),
                // The interface was set down; it may come up again.
                Some(libc::EINTR | libc::ENETDOWN) => Ok(None),
                _ => Err(error),
            };
        }
        if matches!(from.sll_pkttype, libc::PACKET_OUTGOING | libc::PACKET_OTHERHOST) {
            continue;
        }
        return Ok(Some((
            received as usize,
            Peer { address: from.sll_addr, length: from.sll_halen.min(8) },
        )));
    }
}

fn send(
    socket: &OwnedFd,
    interface: u32,
    protocol: i32,
    packet: &[u8],
    to: Peer,
) -> io::Result<()> {
    let address = sockaddr(interface, protocol, to);
    // SAFETY: packet and address are of the lengths that are given, and live through the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            0,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if sent >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if lost(&error) || error.raw_os_error() == Some(libc::ENETDOWN) { Ok(()) } else { Err(error) }
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

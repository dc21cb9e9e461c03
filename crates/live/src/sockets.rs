//! How sockets are made: in the namespace of a node, with the settings of a plan.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_sim::plan::Codepoint;
use narrows_transport::tcp;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrIn, TimestampingFlag, bind,
    connect, getsockname, getsockopt, listen, setsockopt, socket, sockopt,
};
use nix::{Result, getsockopt_impl, libc, setsockopt_impl, sockopt_impl};

use crate::part::{Place, Use};

/// The places of a plan's nodes, ready to make sockets in.
#[derive(Debug)]
pub(crate) struct Places {
    /// By the number of the node; `None`: another process plays it.
    nodes: Vec<Option<Opened>>,
    /// The code points of applications that have one.
    codepoints: Vec<Codepoint>,
    /// The namespace of this process.
    home: Option<File>,
}

#[derive(Debug)]
struct Opened {
    address: Ipv4Addr,
    also: HashMap<Use, Ipv4Addr>,
    namespace: Option<File>,
}

impl Places {
    /// Opens the namespaces of these places, by the number of the node, for applications with these
    /// code points.
    ///
    /// # Errors
    ///
    /// Returns the place whose namespace cannot be opened.
    pub(crate) fn open(
        places: Vec<Option<Place>>,
        codepoints: Vec<Codepoint>,
    ) -> std::result::Result<Self, String> {
        let open = |place: Place| {
            let namespace = place.namespace.map(|path| {
                File::open(&path).map_err(|why| format!("namespace {}: {why}", path.display()))
            });
            let also = place.also.into_iter().map(|also| (also.of, also.address)).collect();
            Ok(Opened { address: place.address, also, namespace: namespace.transpose()? })
        };
        let nodes = places
            .into_iter()
            .map(|place| place.map(open).transpose())
            .collect::<std::result::Result<Vec<_>, String>>()?;
        let moves = nodes.iter().flatten().any(|place| place.namespace.is_some());
        let home = moves.then(|| File::open(HOME).map_err(|why| format!("{HOME}: {why}")));
        Ok(Self { nodes, codepoints, home: home.transpose()? })
    }

    /// Returns the address that a node has for sockets of this use.
    pub(crate) fn address(&self, node: usize, of: Use) -> Ipv4Addr {
        self.nodes[node].as_ref().map_or(Ipv4Addr::UNSPECIFIED, |place| {
            place.also.get(&of).copied().unwrap_or(place.address)
        })
    }

    /// Returns the code point of what an application sends.
    pub(crate) fn dscp(&self, application: u32) -> u8 {
        let mine = |codepoint: &&Codepoint| codepoint.application == application as usize;
        self.codepoints.iter().find(mine).map_or(0, |codepoint| codepoint.dscp)
    }

    /// Creates a socket in the namespace of a node.
    fn socket(&self, node: usize, kind: SockType) -> Result<OwnedFd> {
        self.inside(node, || socket(AddressFamily::Inet, kind, FLAGS, None))?
    }

    /// Creates a socket for whole IPv4 packets of a node, with any source address.
    pub(crate) fn raw(&self, node: usize) -> Result<OwnedFd> {
        let protocol = SockProtocol::Raw;
        self.inside(node, || socket(AddressFamily::Inet, SockType::Raw, FLAGS, protocol))?
    }

    /// Creates a socket that receives the heads of the IPv4 packets that arrive at a node and pass
    /// all tests.
    pub(crate) fn packets(&self, node: usize, tests: &[PacketTest]) -> Result<OwnedFd> {
        let (family, kind) = (AddressFamily::Packet, SockType::Datagram);
        let made = self.inside(node, || socket(family, kind, FLAGS, SockProtocol::EthIp))??;
        let mut filter = filter(tests);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        setsockopt(&made, AttachFilter, &program)?;
        Ok(made)
    }

    /// Opens a file of /proc in the namespace of a node. Later reads are of that namespace, too.
    pub(crate) fn open_in(&self, node: usize, path: &str) -> io::Result<File> {
        self.inside(node, || File::open(path))?
    }

    fn inside<T>(&self, node: usize, act: impl FnOnce() -> T) -> Result<T> {
        let namespace = self.nodes[node].as_ref().and_then(|place| place.namespace.as_ref());
        if let Some(namespace) = namespace {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
        }
        let done = act();
        if let (Some(home), Some(_)) = (&self.home, namespace) {
            setns(home, CloneFlags::CLONE_NEWNET)?;
        }
        Ok(done)
    }

    /// Creates a UDP socket of a node at this address, for an application; port 0: at a free one.
    pub(crate) fn datagrams(
        &self,
        node: usize,
        at: SocketAddrV4,
        application: u32,
    ) -> Result<OwnedFd> {
        let made = self.socket(node, SockType::Datagram)?;
        set_dscp(&made, self.dscp(application))?;
        setsockopt(&made, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        bind(made.as_raw_fd(), &address(at))?;
        Ok(made)
    }

    /// Listens for connections at a node. SYN-ACKs have this code point.
    pub(crate) fn listen(
        &self,
        node: usize,
        at: SocketAddrV4,
        (config, backlog): (&tcp::Config, u32),
        dscp: u8,
    ) -> Result<OwnedFd> {
        let made = self.socket(node, SockType::Stream)?;
        set_dscp(&made, dscp)?;
        setsockopt(&made, sockopt::ReuseAddr, &true)?;
        set_tcp(&made, config)?;
        bind(made.as_raw_fd(), &address(at))?;
        if config.fast_open {
            // So many connections may wait for the end of their handshake.
            setsockopt(&made, FastOpen, &backlog)?;
        }
        let most = backlog.min(i32::MAX as u32) as i32;
        listen(&made, Backlog::new(most).unwrap_or(Backlog::MAXCONN))?;
        Ok(made)
    }

    /// Begins to connect from a node's address `from`, whose port may be zero. Returns the socket,
    /// whether the connection is established already or, with `fast_open`, waits for data, and the
    /// address of this end.
    pub(crate) fn connect(
        &self,
        (node, from): (usize, SocketAddrV4),
        to: SocketAddrV4,
        (config, fast_open): (&tcp::Config, bool),
        dscp: u8,
    ) -> Result<(OwnedFd, bool, SocketAddrV4)> {
        let made = self.socket(node, SockType::Stream)?;
        set_dscp(&made, dscp)?;
        set_tcp(&made, config)?;
        if from.port() == 0 {
            // connect(2) chooses the port, so that connections to other servers may share it.
            setsockopt(&made, sockopt::IpBindAddressNoPort, &true)?;
        } else {
            setsockopt(&made, sockopt::ReuseAddr, &true)?;
        }
        bind(made.as_raw_fd(), &address(from))?;
        if fast_open {
            setsockopt(&made, sockopt::TcpFastOpenConnect, &true)?;
        }
        let done = match connect(made.as_raw_fd(), &address(to)) {
            Ok(()) => true,
            Err(Errno::EINPROGRESS) => false,
            Err(why) => return Err(why),
        };
        let from = local(&made)?;
        Ok((made, done, from))
    }
}

/// Returns why sockets of this process cannot have a congestion control, if they cannot.
pub(crate) fn control_missing(word: &str) -> Option<String> {
    let made = socket(AddressFamily::Inet, SockType::Stream, FLAGS, None).ok()?;
    let why = setsockopt(&made, sockopt::TcpCongestion, &word.into()).err()?;
    Some(match why {
        // An unprivileged process does not load modules (`tcp_set_congestion_control`).
        Errno::ENOENT => format!("this kernel has no {word}; modprobe tcp_{word} may load it"),
        Errno::EPERM => {
            format!("{word} is not in tcp_allowed_congestion_control; add it there, or be root")
        }
        why => format!("{word}: {}", why.desc()),
    })
}

/// Returns a socket's own address.
pub(crate) fn local(made: &OwnedFd) -> Result<SocketAddrV4> {
    Ok(SocketAddrV4::from(getsockname::<SockaddrIn>(made.as_raw_fd())?))
}

/// Sets the other end of a datagram socket. From now on, it receives only from there.
pub(crate) fn set_peer(made: &OwnedFd, to: SocketAddrV4) -> Result<()> {
    connect(made.as_raw_fd(), &address(to))
}

pub(crate) fn address(of: SocketAddrV4) -> SockaddrIn {
    SockaddrIn::from(of)
}

/// Prepares a socket for QUIC: it never fragments packets, whatever ICMP says of the path (RFC 9000,
/// 14), and reports the ECN field of those that arrive.
pub(crate) fn set_up_quic(made: &OwnedFd) -> Result<()> {
    setsockopt(made, MtuDiscover, &libc::IP_PMTUDISC_PROBE)?;
    setsockopt(made, sockopt::IpRecvTos, &true)
}

/// Sets the code point of a socket's packets (RFC 2474). A new socket has 0.
pub(crate) fn set_dscp(made: &OwnedFd, dscp: u8) -> Result<()> {
    if dscp == 0 { Ok(()) } else { setsockopt(made, sockopt::Ipv4Tos, &(i32::from(dscp) << 2)) }
}

/// Sets whether a socket's packets are ECN-capable, ECT(0) (RFC 3168, 5), and their code point.
pub(crate) fn set_ect(made: &OwnedFd, ect: bool, dscp: u8) -> Result<()> {
    setsockopt(made, sockopt::Ipv4Tos, &(i32::from(dscp) << 2 | if ect { 2 } else { 0 }))
}

/// Returns the pending error of a socket, if it has one.
pub(crate) fn pending_error(made: &OwnedFd) -> Option<Errno> {
    match getsockopt(made, sockopt::SocketError) {
        Ok(0) => None,
        Ok(number) => Some(Errno::from_raw(number)),
        Err(why) => Some(why),
    }
}

/// Whether the kernel reports when the last byte of a write has been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    Off,
    On,
}

/// Sets whether the kernel reports acknowledgements of what is written from now on
/// (Documentation/networking/timestamping.rst). Bytes count from the first call, which must come
/// when the connection is established and nothing is written yet.
pub(crate) fn report_acks(made: &OwnedFd, reports: Reports) -> Result<()> {
    let mut flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    if reports == Reports::On {
        flags |= TimestampingFlag::from_bits_retain(TX_ACK);
    }
    setsockopt(made, sockopt::Timestamping, &flags)
}

/// What a field of an IPv4 packet must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketTest {
    /// Where the field begins.
    pub(crate) at: u32,
    pub(crate) width: Width,
    /// The bits that count.
    pub(crate) mask: u32,
    pub(crate) value: u32,
}

/// The width of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Byte = libc::BPF_B as isize,
    Half = libc::BPF_H as isize,
    Word = libc::BPF_W as isize,
}

/// Returns a program for packets that pass all tests (classic BPF,
/// Documentation/networking/filter.rst).
fn filter(tests: &[PacketTest]) -> Vec<libc::sock_filter> {
    let step =
        |code: u32, jf: usize, k| libc::sock_filter { code: code as u16, jt: 0, jf: jf as u8, k };
    let mut steps = Vec::with_capacity(3 * tests.len() + 2);
    for (number, test) in tests.iter().enumerate() {
        // A test that fails skips the rest and the first of the two returns.
        let rest = 3 * (tests.len() - number - 1) + 1;
        steps.extend([
            step(libc::BPF_LD | libc::BPF_ABS | test.width as u32, 0, test.at),
            step(libc::BPF_ALU | libc::BPF_AND, 0, test.mask),
            step(libc::BPF_JMP | libc::BPF_JEQ, rest, test.value),
        ]);
    }
    steps.extend([step(libc::BPF_RET, 0, HEAD), step(libc::BPF_RET, 0, 0)]);
    steps
}

/// Returns how many packets have passed a socket's filter since the last call.
pub(crate) fn passed(made: &OwnedFd) -> u64 {
    getsockopt(made, PacketStatistics).map_or(0, |counts| counts.tp_packets.into())
}

fn set_tcp(made: &OwnedFd, config: &tcp::Config) -> Result<()> {
    setsockopt(made, sockopt::TcpCongestion, &config.congestion.name().into())?;
    if config.pacing {
        setsockopt(made, MaxPacingRate, &UNLIMITED_PACE)?;
    }
    if !config.nagle {
        setsockopt(made, sockopt::TcpNoDelay, &true)?;
    }
    if config.mss != tcp::Config::default().mss {
        setsockopt(made, sockopt::TcpMaxSeg, &u32::from(config.mss))?;
    }
    Ok(())
}

// nix does not have this option.
sockopt_impl!(
    /// `IP_MTU_DISCOVER` (ip(7)).
    MtuDiscover,
    SetOnly,
    libc::IPPROTO_IP,
    libc::IP_MTU_DISCOVER,
    i32
);

// Nor this: socket(7).
sockopt_impl!(MaxPacingRate, Both, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64);
// Nor this: tcp(7).
sockopt_impl!(FastOpen, SetOnly, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, u32);
// Nor these: socket(7) and packet(7).
sockopt_impl!(AttachFilter, SetOnly, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, libc::sock_fprog);
sockopt_impl!(
    PacketStatistics,
    GetOnly,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats
);

/// A limit that no rate reaches, in bytes a second. Any limit but the largest number makes TCP pace
/// at its own rate (`sock_setsockopt`).
const UNLIMITED_PACE: u64 = 1 << 50;

const FLAGS: SockFlag = SockFlag::SOCK_NONBLOCK.union(SockFlag::SOCK_CLOEXEC);
/// The bytes of a packet that a filter passes on.
const HEAD: u32 = 64;
const HOME: &str = "/proc/self/ns/net";
const RECEIVE_BUFFER: usize = 1 << 20;
/// `SOF_TIMESTAMPING_TX_ACK` of include/uapi/linux/net_tstamp.h.
const TX_ACK: u32 = 1 << 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_that_the_kernel_lacks_is_named_with_a_remedy() {
        assert_eq!(control_missing("reno"), None);
        let why = control_missing("none").expect("no kernel has it");
        assert_eq!(why, "this kernel has no none; modprobe tcp_none may load it");
    }

    /// Without a limit, `SO_MAX_PACING_RATE` is the largest number, and TCP does not pace.
    #[test]
    fn a_socket_paces_only_if_it_should() {
        for (pacing, rate) in [(false, u64::MAX), (true, UNLIMITED_PACE)] {
            let made = socket(AddressFamily::Inet, SockType::Stream, FLAGS, None).expect("TCP");
            let config = tcp::Config { pacing, ..tcp::Config::default() };
            set_tcp(&made, &config).expect("every kernel has CUBIC");
            assert_eq!(getsockopt(&made, MaxPacingRate), Ok(rate));
        }
    }
}

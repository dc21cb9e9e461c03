//! IP packets with TCP and UDP, written and read with etherparse, which the gateway does not use.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use etherparse::{
    Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6Header, NetSlice,
    SlicedPacket, TcpHeader, TcpOptionElement, TransportSlice, UdpHeader, icmpv4,
};
use narrows_wire::dns::{Edns, Message, Question};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

/// A TCP segment in an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack: bool,
    pub timestamps: Option<(u32, u32)>,
    pub payload: Vec<u8>,
}

impl Segment {
    /// The packet, with valid checksums.
    pub fn packet(&self) -> Vec<u8> {
        let mut tcp = TcpHeader::new(self.from.port(), self.to.port(), self.seq, self.window);
        tcp.acknowledgment_number = self.ack;
        (tcp.fin, tcp.syn) = (self.flags & FIN != 0, self.flags & SYN != 0);
        (tcp.rst, tcp.psh) = (self.flags & RST != 0, self.flags & PSH != 0);
        tcp.ack = self.flags & ACK != 0;
        let mut options = Vec::new();
        options.extend(self.mss.map(TcpOptionElement::MaximumSegmentSize));
        options.extend(self.sack.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted));
        options.extend(self.timestamps.map(|(a, b)| TcpOptionElement::Timestamp(a, b)));
        options.extend(self.wscale.map(TcpOptionElement::WindowScale));
        tcp.set_options(&options).expect("they fit");
        let length = tcp.header_len() + self.payload.len();
        let mut packet = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip = v4(from.octets(), to.octets(), IpNumber::TCP, length);
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, &self.payload).expect("it fits");
                ip.to_bytes().to_vec()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = v6(from.octets(), to.octets(), IpNumber::TCP, length);
                tcp.checksum = tcp.calc_checksum_ipv6(&ip, &self.payload).expect("it fits");
                ip.to_bytes().to_vec()
            }
            _ => panic!("one family"),
        };
        packet.extend(&tcp.to_bytes()[..]);
        packet.extend(&self.payload);
        packet
    }

    /// Reads a packet, whose lengths and checksums must be valid.
    pub fn read(packet: &[u8]) -> Self {
        let sliced = SlicedPacket::from_ip(packet).expect("a whole packet");
        let (from, to) = addresses(&sliced, packet.len());
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
            panic!("no TCP: {packet:x?}")
        };
        let header = tcp.to_header();
        let sum = match &sliced.net {
            Some(NetSlice::Ipv4(ip)) => {
                header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload())
            }
            Some(NetSlice::Ipv6(ip)) => {
                header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload())
            }
            _ => panic!("no IP"),
        };
        assert_eq!(Ok(header.checksum), sum, "TCP checksum");
        let mut segment = Self {
            from: SocketAddr::new(from, header.source_port),
            to: SocketAddr::new(to, header.destination_port),
            seq: header.sequence_number,
            ack: header.acknowledgment_number,
            flags: packet[packet.len() - tcp.slice().len() + 13],
            window: header.window_size,
            mss: None,
            wscale: None,
            sack: false,
            timestamps: None,
            payload: tcp.payload().to_vec(),
        };
        for option in tcp.options_iterator() {
            match option.expect("well-formed options") {
                TcpOptionElement::MaximumSegmentSize(mss) => segment.mss = Some(mss),
                TcpOptionElement::WindowScale(scale) => segment.wscale = Some(scale),
                TcpOptionElement::SelectiveAcknowledgementPermitted => segment.sack = true,
                TcpOptionElement::Timestamp(a, b) => segment.timestamps = Some((a, b)),
                TcpOptionElement::Noop => {}
                other => panic!("unexpected option {other:?}"),
            }
        }
        segment
    }

    /// The sequence number after it.
    pub fn next(&self) -> u32 {
        let flags = u32::from(self.flags & FIN != 0) + u32::from(self.flags & SYN != 0);
        self.seq.wrapping_add(self.payload.len() as u32).wrapping_add(flags)
    }
}

/// A UDP datagram in an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub message: Vec<u8>,
}

impl Datagram {
    /// The packet, with valid checksums.
    pub fn packet(&self) -> Vec<u8> {
        let length = 8 + self.message.len();
        let (from, to) = (self.from.port(), self.to.port());
        let (mut packet, udp) = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let ip = v4(a.octets(), b.octets(), IpNumber::UDP, length);
                let udp = UdpHeader::with_ipv4_checksum(from, to, &ip, &self.message);
                (ip.to_bytes().to_vec(), udp)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let ip = v6(a.octets(), b.octets(), IpNumber::UDP, length);
                let udp = UdpHeader::with_ipv6_checksum(from, to, &ip, &self.message);
                (ip.to_bytes().to_vec(), udp)
            }
            _ => panic!("one family"),
        };
        packet.extend(udp.expect("it fits").to_bytes());
        packet.extend(&self.message);
        packet
    }

    /// Reads a packet, whose lengths and checksums must be valid.
    pub fn read(packet: &[u8]) -> Self {
        let sliced = SlicedPacket::from_ip(packet).expect("a whole packet");
        let (from, to) = addresses(&sliced, packet.len());
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
            panic!("no UDP: {packet:x?}")
        };
        let datagram = Self {
            from: SocketAddr::new(from, udp.source_port()),
            to: SocketAddr::new(to, udp.destination_port()),
            message: udp.payload().to_vec(),
        };
        let sum = datagram.packet();
        let at = sum.len() - udp.slice().len() + 6;
        assert_eq!(udp.checksum().to_be_bytes(), sum[at..at + 2], "UDP checksum");
        datagram
    }
}

/// A router's message about a packet longer than its next link's `mtu`; it quotes the first
/// `quoted` bytes.
pub fn too_big(packet: &[u8], mtu: u32, quoted: usize) -> Vec<u8> {
    let quoted = &packet[..quoted.min(packet.len())];
    if packet[0] >> 4 == 4 {
        let needed =
            icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu as u16 };
        let icmp = Icmpv4Header::with_checksum(Icmpv4Type::DestinationUnreachable(needed), quoted);
        let to = packet[12..16].try_into().expect("4 bytes");
        let ip = v4([203, 0, 113, 1], to, IpNumber::ICMP, icmp.header_len() + quoted.len());
        [&ip.to_bytes()[..], &icmp.to_bytes(), quoted].concat()
    } else {
        let from = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 1).octets();
        let to = packet[8..24].try_into().expect("16 bytes");
        let icmp = Icmpv6Header::with_checksum(Icmpv6Type::PacketTooBig { mtu }, from, to, quoted)
            .expect("it fits");
        let ip = v6(from, to, IpNumber::IPV6_ICMP, icmp.header_len() + quoted.len());
        [&ip.to_bytes()[..], &icmp.to_bytes(), quoted].concat()
    }
}

/// The fragments of an IP packet, at most `mtu` bytes each, as a kernel makes them.
pub fn fragments(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let v4 = packet[0] >> 4 == 4;
    let header = if v4 { 20 } else { 40 };
    let step = (mtu - header - if v4 { 0 } else { 8 }) / 8 * 8;
    let parts: Vec<_> = packet[header..].chunks(step).collect();
    let fragment = |(i, part): (usize, &&[u8])| {
        let (offset, more) = (i * step, u16::from(i + 1 < parts.len()));
        let mut fragment = packet[..header].to_vec();
        if v4 {
            fragment[2..4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
            fragment[4..6].copy_from_slice(&[0x12, 0x34]);
            let field = more << 13 | (offset / 8) as u16;
            fragment[6..8].copy_from_slice(&field.to_be_bytes());
            let (ip, _) = Ipv4Header::from_slice(&fragment).expect("a header");
            fragment[10..12].copy_from_slice(&ip.calc_header_checksum().to_be_bytes());
        } else {
            fragment[4..6].copy_from_slice(&((8 + part.len()) as u16).to_be_bytes());
            let next = core::mem::replace(&mut fragment[6], 44);
            fragment.extend([next, 0]);
            fragment.extend((offset as u16 | more).to_be_bytes());
            fragment.extend([0, 0, 0x12, 0x34]);
        }
        fragment.extend(*part);
        fragment
    };
    parts.iter().enumerate().map(fragment).collect()
}

/// A query with its two bytes of length; `edns` is the payload size of its OPT record.
pub fn query(id: u16, name: &str, kind: u16, edns: Option<u16>) -> Vec<u8> {
    let question = Question { name: name.parse().expect("a name"), kind, class: 1 };
    let edns =
        edns.map(|udp_payload| Edns { udp_payload, version: 0, dnssec_ok: true, padding: None });
    let message = Message { id, question: Some(question), edns, ..Message::default() };
    prefixed(&message.write().expect("it fits"))
}

/// A reply of at least `size` bytes to `message`, without length: header, question, filling, and a
/// bare OPT if the query has an OPT record. The filling consists of `fill`, in one record of type
/// 65280 (for private use).
pub fn reply(message: &[u8], size: usize, fill: u8) -> Vec<u8> {
    let asked = Message::read(message).expect("a query");
    let opt = if asked.edns.is_some() { 11 } else { 0 };
    let question = message.len() - message_opt_bytes(&asked);
    let mut reply = message[..question].to_vec();
    reply[2] |= 0x80;
    reply[6..12].copy_from_slice(&[0, 1, 0, 0, 0, u8::from(opt > 0)]);
    let data = size.saturating_sub(question + 12 + opt);
    reply.extend([0xc0, 12, 0xff, 0, 0, 1, 0, 0, 0, 60]);
    reply.extend((data as u16).to_be_bytes());
    reply.extend((0..data).map(|i| (i / 7) as u8 ^ fill));
    if opt > 0 {
        reply.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
    reply
}

fn message_opt_bytes(message: &Message) -> usize {
    message.edns.map_or(0, |edns| 11 + edns.padding.map_or(0, |padding| 4 + usize::from(padding)))
}

/// The message with its two bytes of length before it.
pub fn prefixed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

fn v4(from: [u8; 4], to: [u8; 4], protocol: IpNumber, length: usize) -> Ipv4Header {
    let mut ip = Ipv4Header::new(length as u16, 64, protocol, from, to).expect("it fits");
    ip.dont_fragment = true;
    ip.header_checksum = ip.calc_header_checksum();
    ip
}

fn v6(source: [u8; 16], destination: [u8; 16], next_header: IpNumber, length: usize) -> Ipv6Header {
    let payload_length = length as u16;
    Ipv6Header {
        source,
        destination,
        next_header,
        payload_length,
        hop_limit: 64,
        ..Default::default()
    }
}

/// The source and destination of an IP packet of this length, whose header must be valid.
fn addresses(sliced: &SlicedPacket<'_>, bytes: usize) -> (IpAddr, IpAddr) {
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.total_len), bytes, "IPv4 length");
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4 checksum");
            (header.source.into(), header.destination.into())
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.payload_length) + 40, bytes, "IPv6 length");
            (header.source.into(), header.destination.into())
        }
        _ => panic!("no IP"),
    }
}

/// The packet with valid checksums: that of its IPv4 header, and that of TCP if it directly follows
/// the IP header.
pub fn with_checksums(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let fold = |bytes: &[u8], more: u32| {
        let words =
            bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| b.into()));
        let sum = words.sum::<u32>() + more;
        let sum = (sum & 0xffff) + (sum >> 16);
        !(((sum & 0xffff) + (sum >> 16)) as u16)
    };
    let (addresses, header, end) = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 15) * 4;
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            (12..20, header, length)
        }
        Some(6) if packet.len() >= 40 && packet[6] == 6 => {
            (8..40, 40, 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
        }
        _ => return packet,
    };
    if header < 20 || end > packet.len() || end < header {
        return packet;
    }
    if addresses.start == 12 {
        packet[10..12].fill(0);
        let sum = fold(&packet[..header], 0);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    if end >= header + 20 {
        packet[header + 16..header + 18].fill(0);
        let pseudo = [&packet[addresses], &[0, 6][..]].concat();
        let pseudo = u32::from(!fold(&pseudo, (end - header) as u32));
        let sum = fold(&packet[header..end], pseudo);
        packet[header + 16..header + 18].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

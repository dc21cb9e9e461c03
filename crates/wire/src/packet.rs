//! Whole frames: Ethernet, IPv4, TCP or UDP, payload.

use core::fmt;
use std::net::Ipv4Addr;

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Header, Ethernet2HeaderSlice, IpDscp, IpEcn, IpNumber, Ipv4Header,
    Ipv4HeaderSlice, TcpHeader, TcpHeaderSlice, UdpHeader, UdpHeaderSlice,
};

use crate::tcp::{Flags, MAX_OPTION_BYTES, OptionError, Options};
use crate::{Ethernet, Ipv4, Mac, Tcp, Udp};

/// The headers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Link layer.
    pub ethernet: Ethernet,
    /// Network layer.
    pub ip: Ipv4,
    /// Transport layer.
    pub transport: Transport,
}

/// The transport layer's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
}

impl Transport {
    /// Returns the length of the header in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.bytes(),
            Self::Udp(_) => Udp::BYTES,
        }
    }
}

/// The payload of a packet to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This many bytes, all zero: the payload of a simulator that carries no data.
    Zeros(u16),
}

impl Payload<'_> {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        match *self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Zeros(n) => usize::from(n),
        }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Packet {
    /// Returns the length of all headers in bytes.
    pub fn header_bytes(&self) -> usize {
        Ethernet::BYTES + Ipv4::BYTES + self.transport.bytes()
    }

    /// Appends the frame to `out`, with at most `keep` bytes of the payload. Lengths and checksums
    /// are those of the whole frame. Returns the whole frame's length. On errors, `out` is
    /// unchanged.
    pub fn write(
        &self,
        payload: Payload<'_>,
        keep: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, WriteError> {
        if let Transport::Tcp(tcp) = &self.transport {
            if tcp.options.bytes() > MAX_OPTION_BYTES {
                return Err(WriteError::OptionsTooLong(tcp.options.bytes()));
            }
        }
        let transport_bytes = self.transport.bytes() + payload.len();
        let too_long = WriteError::TooLong(Ipv4::BYTES + transport_bytes);
        let transport_len = u16::try_from(transport_bytes).map_err(|_| too_long)?;

        let ip = self.ip;
        let protocol = match self.transport {
            Transport::Tcp(_) => IpNumber::TCP,
            Transport::Udp(_) => IpNumber::UDP,
        };
        let mut ip_header = Ipv4Header::new(
            transport_len,
            ip.ttl,
            protocol,
            ip.source.octets(),
            ip.destination.octets(),
        )
        .map_err(|_| too_long)?;
        ip_header.dscp = IpDscp::try_new(ip.tos >> 2).expect("an octet's upper six bits");
        ip_header.ecn = IpEcn::try_new(ip.ecn()).expect("two bits");
        ip_header.identification = ip.identification;
        ip_header.dont_fragment = ip.dont_fragment;
        ip_header.header_checksum = ip_header.calc_header_checksum();

        let ethernet = Ethernet2Header {
            source: self.ethernet.source.0,
            destination: self.ethernet.destination.0,
            ether_type: EtherType::IPV4,
        };
        out.extend_from_slice(&ethernet.to_bytes());
        out.extend_from_slice(&ip_header.to_bytes());
        let transport_at = out.len();
        match &self.transport {
            Transport::Tcp(tcp) => write_tcp(tcp, out),
            Transport::Udp(udp) => out.extend_from_slice(
                &UdpHeader {
                    source_port: udp.source_port,
                    destination_port: udp.destination_port,
                    length: transport_len,
                    checksum: 0,
                }
                .to_bytes(),
            ),
        }
        // Zeros add nothing to a sum, so a payload of zeros needs no bytes (RFC 1071).
        let mut sum = pseudo_header(ip.source, ip.destination, protocol, transport_len)
            .add_slice(&out[transport_at..]);
        if let Payload::Bytes(bytes) = payload {
            // The headers' length is a multiple of two, so the payload starts on a word boundary.
            sum = sum.add_slice(bytes);
        }
        // `ones_complement` returns the sum in the order of the octets in memory. In UDP, zero
        // means "no checksum", so ones are sent instead (RFC 768); TCP has no such case.
        let (offset, checksum) = match self.transport {
            Transport::Tcp(_) => (TCP_CHECKSUM_AT, sum.ones_complement()),
            Transport::Udp(_) => (UDP_CHECKSUM_AT, sum.to_ones_complement_with_no_zero()),
        };
        let at = transport_at + offset;
        out[at..at + 2].copy_from_slice(&checksum.to_ne_bytes());

        let kept = payload.len().min(keep);
        match payload {
            Payload::Bytes(bytes) => out.extend_from_slice(&bytes[..kept]),
            Payload::Zeros(_) => out.resize(out.len() + kept, 0),
        }
        Ok(self.header_bytes() + payload.len())
    }
}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its headers.
    pub packet: Packet,
    /// The part of the payload that the bytes hold, without a trailer of the link layer.
    pub payload: &'a [u8],
    /// The payload's length according to the headers. `payload` holds less if the capture was cut
    /// short.
    pub payload_len: u16,
}

/// Reads a frame without checking its checksums; see [`checksums_hold`].
pub fn read(frame: &[u8]) -> Result<Received<'_>, ReadError> {
    let ethernet = Ethernet2HeaderSlice::from_slice(frame).map_err(|_| ReadError::Truncated)?;
    if ethernet.ether_type() != EtherType::IPV4 {
        return Err(ReadError::NotIpv4(ethernet.ether_type().0));
    }
    let rest = &frame[Ethernet::BYTES..];
    // Distinguished here because etherparse returns both as the same kind of error.
    let Some(first) = rest.first() else { return Err(ReadError::Truncated) };
    let header_bytes = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header_bytes < Ipv4::BYTES {
        return Err(ReadError::BadIpHeader);
    }
    if rest.len() < header_bytes {
        return Err(ReadError::Truncated);
    }
    let ip = Ipv4HeaderSlice::from_slice(rest).map_err(|_| ReadError::BadIpHeader)?;
    let transport_len = ip.payload_len().map_err(|_| ReadError::BadIpHeader)?;
    if ip.is_fragmenting_payload() {
        return Err(ReadError::Fragment);
    }
    let rest = &rest[header_bytes..];
    let rest = &rest[..rest.len().min(usize::from(transport_len))];
    let (transport, header_bytes, transport_len) = match ip.protocol() {
        IpNumber::TCP => {
            let (tcp, bytes) = read_tcp(rest, transport_len)?;
            (Transport::Tcp(tcp), bytes, transport_len)
        }
        IpNumber::UDP => {
            let udp = UdpHeaderSlice::from_slice(rest)
                .map_err(|_| short_or(ReadError::BadUdpLength, transport_len, Udp::BYTES))?;
            // The UDP length may leave a surplus area, which is not payload (RFC 768).
            let length = udp.length();
            if usize::from(length) < Udp::BYTES || length > transport_len {
                return Err(ReadError::BadUdpLength);
            }
            let (source_port, destination_port) = (udp.source_port(), udp.destination_port());
            (Transport::Udp(Udp { source_port, destination_port }), Udp::BYTES, length)
        }
        other => return Err(ReadError::OtherProtocol(other.0)),
    };
    // The checks above ensure that the header fits into both lengths.
    let payload_len = transport_len - header_bytes as u16;
    let payload = &rest[header_bytes..];
    Ok(Received {
        packet: Packet {
            ethernet: Ethernet {
                destination: Mac(ethernet.destination()),
                source: Mac(ethernet.source()),
            },
            ip: Ipv4 {
                source: ip.source_addr(),
                destination: ip.destination_addr(),
                tos: ip.dcp().value() << 2 | ip.ecn().value(),
                ttl: ip.ttl(),
                identification: ip.identification(),
                dont_fragment: ip.dont_fragment(),
            },
            transport,
        },
        payload: &payload[..payload.len().min(usize::from(payload_len))],
        payload_len,
    })
}

/// Returns whether the checksums of the IPv4 header and of the transport are right (RFC 1071). A
/// UDP checksum of zero means that there is none. A frame that was cut short is
/// [`ReadError::Truncated`].
pub fn checksums_hold(frame: &[u8]) -> Result<bool, ReadError> {
    let received = read(frame)?;
    let ip = &frame[Ethernet::BYTES..];
    let ip_bytes = usize::from(ip[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let segment = ip.get(ip_bytes..total).ok_or(ReadError::Truncated)?;
    let (protocol, segment) = match received.packet.transport {
        Transport::Tcp(_) => (IpNumber::TCP, segment),
        Transport::Udp(_) => {
            let length = usize::from(received.payload_len) + Udp::BYTES;
            (IpNumber::UDP, segment.get(..length).ok_or(ReadError::Truncated)?)
        }
    };
    let header = Sum16BitWords::new().add_slice(&ip[..ip_bytes]).ones_complement() == 0;
    let none = protocol == IpNumber::UDP && segment[UDP_CHECKSUM_AT..][..2] == [0, 0];
    let Ipv4 { source, destination, .. } = received.packet.ip;
    // This is at most the IP packet's total length, a u16.
    let sum = pseudo_header(source, destination, protocol, segment.len() as u16).add_slice(segment);
    Ok(header && (none || sum.ones_complement() == 0))
}

/// Why a frame cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes end within a header (or, for checksums, within the packet).
    Truncated,
    /// The frame carries something else. Carries the EtherType.
    NotIpv4(u16),
    /// The version, header length or total length of the IPv4 header is invalid.
    BadIpHeader,
    /// It is a fragment; narrows does not reassemble.
    Fragment,
    /// The packet carries neither TCP nor UDP. Carries the protocol's number.
    OtherProtocol(u8),
    /// The TCP header's data offset is invalid.
    BadDataOffset,
    /// A TCP option has a wrong length.
    BadOption(OptionError),
    /// The length in the UDP header is invalid.
    BadUdpLength,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the frame is cut short"),
            Self::NotIpv4(kind) => write!(f, "the frame is not IPv4 (EtherType {kind:#06x})"),
            Self::BadIpHeader => write!(f, "the IPv4 header's version or lengths make no sense"),
            Self::Fragment => write!(f, "the packet is a fragment"),
            Self::OtherProtocol(number) => write!(f, "IP protocol {number} is neither TCP nor UDP"),
            Self::BadDataOffset => write!(f, "the TCP data offset makes no sense"),
            Self::BadOption(error) => error.fmt(f),
            Self::BadUdpLength => write!(f, "the UDP length makes no sense"),
        }
    }
}

impl core::error::Error for ReadError {}

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The IP packet would be longer than 65535 bytes. Carries its length.
    TooLong(usize),
    /// The TCP options need more than 40 bytes. Carries their length.
    OptionsTooLong(usize),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "an IP packet of {bytes} bytes is above 65535"),
            Self::OptionsTooLong(bytes) => write!(f, "TCP options of {bytes} bytes are above 40"),
        }
    }
}

impl core::error::Error for WriteError {}

fn write_tcp(tcp: &Tcp, out: &mut Vec<u8>) {
    let header = TcpHeader {
        sequence_number: tcp.seq,
        acknowledgment_number: tcp.ack,
        fin: tcp.flags.has(Flags::FIN),
        syn: tcp.flags.has(Flags::SYN),
        rst: tcp.flags.has(Flags::RST),
        psh: tcp.flags.has(Flags::PSH),
        ack: tcp.flags.has(Flags::ACK),
        urg: tcp.flags.has(Flags::URG),
        ece: tcp.flags.has(Flags::ECE),
        cwr: tcp.flags.has(Flags::CWR),
        ..TcpHeader::new(tcp.source_port, tcp.destination_port, tcp.seq, tcp.window)
    };
    let at = out.len();
    out.extend_from_slice(&header.to_bytes());
    tcp.options.write(out);
    // At most 60 bytes, as the caller has checked.
    let words = ((out.len() - at) / 4) as u8;
    out[at + TCP_DATA_OFFSET_AT] = words << 4;
}

/// Returns the header at the start of `segment` and its length. `whole` is the segment's length
/// according to IP.
fn read_tcp(segment: &[u8], whole: u16) -> Result<(Tcp, usize), ReadError> {
    let Some(&offset) = segment.get(TCP_DATA_OFFSET_AT) else {
        return Err(short_or(ReadError::BadDataOffset, whole, TCP_MIN_BYTES));
    };
    let bytes = usize::from(offset >> 4) * 4;
    if bytes < TCP_MIN_BYTES || bytes > usize::from(whole) {
        return Err(ReadError::BadDataOffset);
    }
    let header = TcpHeaderSlice::from_slice(segment).map_err(|_| ReadError::Truncated)?;
    let options = Options::read(header.options()).map_err(ReadError::BadOption)?;
    let tcp = Tcp {
        source_port: header.source_port(),
        destination_port: header.destination_port(),
        seq: header.sequence_number(),
        ack: header.acknowledgment_number(),
        flags: Flags(segment[TCP_FLAGS_AT]),
        window: header.window_size(),
        options,
    };
    Ok((tcp, bytes))
}

/// Returns `error` if the packet itself is too short for a header, and [`ReadError::Truncated`] if
/// only the capture is.
fn short_or(error: ReadError, whole: u16, header: usize) -> ReadError {
    if usize::from(whole) < header { error } else { ReadError::Truncated }
}

/// Returns the sum over the pseudo header (RFC 9293, section 3.1; RFC 768).
fn pseudo_header(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: IpNumber,
    length: u16,
) -> Sum16BitWords {
    Sum16BitWords::new()
        .add_4bytes(source.octets())
        .add_4bytes(destination.octets())
        .add_2bytes([0, protocol.0])
        .add_2bytes(length.to_be_bytes())
}

const TCP_MIN_BYTES: usize = 20;
const TCP_DATA_OFFSET_AT: usize = 12;
const TCP_FLAGS_AT: usize = 13;
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;

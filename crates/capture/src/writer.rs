//! Writes packets to a file.
//!
//! A file has an interface for each captured link, or a single one for a place: the end of a link,
//! where packets leave and arrive. Each packet says in which direction it passed (`epb_flags`).

use std::io::{self, Write};

use narrows_sim::captured::{Captured, Content, Frame, Quoted, Said};
use narrows_sim::plan::{Capture, Plan};
use narrows_sim::tcp;
use narrows_wire::dns;
use narrows_wire::tcp::{AccurateEcn, Cookie, Flags, Options, SackBlocks};
use narrows_wire::{Arp, Ethernet, Ipv4, Mac, Packet, Payload, Tcp, Transport, Udp, WriteError};

use crate::message::{DnsPacket, Messages};
use crate::{address, blocks, fragment};

/// Returns what a capture has seen as a pcapng file. Packets of other links are left out.
///
/// With a snap length, only that many bytes of each frame are kept, counted from the Ethernet
/// header. The original lengths are right in any case.
///
/// # Errors
///
/// Returns an error if a packet is longer than IP allows. The simulator makes no such packet: an
/// MSS is at most 65495 bytes, and its segments with data have no SACK blocks.
///
/// # Panics
///
/// If the captured link, or something that a packet refers to, is not in the plan.
pub fn pcapng(
    plan: &Plan,
    capture: &Capture,
    packets: &[Captured],
    messages: Messages,
) -> io::Result<Vec<u8>> {
    let mut writer = Writer::of(plan, capture, messages, Vec::new())?;
    for packet in packets {
        if writer.interface(packet.link).is_some() {
            writer.packet(packet)?;
        }
    }
    writer.finish()
}

/// Writes packets of one or more links as they come.
///
/// Times are nanoseconds since the start of the run, as if the run had begun with the year 1970.
/// Fractions of a nanosecond are cut off.
#[derive(Debug)]
pub struct Writer<'a, W> {
    plan: &'a Plan,
    out: W,
    /// The captured links of the plan, each with its interface in the file.
    links: Vec<(usize, u32)>,
    /// The bytes of a frame to keep.
    keep: usize,
    messages: Messages,
    frame: Vec<u8>,
}

impl<'a, W: Write> Writer<'a, W> {
    /// Starts a file for a capture, with a single interface.
    ///
    /// # Panics
    ///
    /// If a link is not in the plan.
    pub fn of(plan: &'a Plan, capture: &Capture, messages: Messages, out: W) -> io::Result<Self> {
        let mut writer = Self::begin(plan, messages, capture.snaplen, out)?;
        writer.add_interface(&capture.name, capture.link, capture.snaplen)?;
        writer.links.extend(capture.back.map(|back| (back, 0)));
        Ok(writer)
    }

    /// Starts a file with an interface for each of `links`. For `snaplen` see [`pcapng`].
    ///
    /// # Panics
    ///
    /// If a link is not in the plan.
    pub fn new(
        plan: &'a Plan,
        links: &[usize],
        messages: Messages,
        snaplen: Option<u32>,
        out: W,
    ) -> io::Result<Self> {
        let mut writer = Self::begin(plan, messages, snaplen, out)?;
        for &link in links {
            writer.add_interface(&plan.links[link].name, link, snaplen)?;
        }
        Ok(writer)
    }

    fn begin(
        plan: &'a Plan,
        messages: Messages,
        snaplen: Option<u32>,
        mut out: W,
    ) -> io::Result<Self> {
        blocks::section_header(&mut out, concat!("narrows ", env!("CARGO_PKG_VERSION")))?;
        Ok(Self {
            plan,
            out,
            links: Vec::new(),
            keep: snaplen.map_or(usize::MAX, |bytes| bytes as usize),
            messages,
            frame: Vec::with_capacity(2048),
        })
    }

    fn add_interface(&mut self, name: &str, link: usize, snaplen: Option<u32>) -> io::Result<()> {
        // Links are few.
        self.links.push((link, self.links.len() as u32));
        let rate = self.plan.links[link].rate;
        blocks::interface(&mut self.out, name, rate.as_bps(), snaplen.unwrap_or(0))
    }

    /// Returns the interface that sees a link.
    fn interface(&self, link: u32) -> Option<u32> {
        let found = self.links.iter().find(|&&(captured, _)| captured == link as usize);
        found.map(|&(_, interface)| interface)
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream fails. An error of the kind `InvalidInput` means that the
    /// packet's link is not in the file, or that the packet is longer than IP allows. The file then
    /// stays sound.
    ///
    /// # Panics
    ///
    /// If the packet refers to something that is not in the plan.
    pub fn packet(&mut self, packet: &Captured) -> io::Result<()> {
        if self.interface(packet.link).is_none() {
            return Err(invalid(format!("link {} is not among those captured", packet.link)));
        }
        let message;
        let mut parted = None;
        let mut accurate_ecn = false;
        let (headers, payload, keep) = match packet.frame {
            Frame::Tcp(segment) => {
                accurate_ecn = segment.flags.contains(tcp::Flags::AE);
                let transport = Transport::Tcp(tcp(packet.ports, &segment));
                let headers = self.around(packet, segment.ecn as u8, transport);
                if packet.said.is_empty() {
                    (headers, Payload::Zeros(segment.len), self.keep)
                } else {
                    message = self.said(&packet.said, segment.len).map_err(invalid)?;
                    (headers, Payload::Bytes(&message), usize::MAX)
                }
            }
            Frame::Arp { reply, broadcast } => {
                return self.arp(packet, reply, broadcast);
            }
            Frame::TooBig { ip_bytes, router, mtu, quoted } => {
                self.frame =
                    self.too_big(packet, (ip_bytes, router, mtu), &quoted).map_err(invalid)?;
                return self.write(packet, self.frame.len());
            }
            Frame::Udp { ip_bytes, ecn, content, part } => {
                parted = part;
                let (source_port, destination_port) = packet.ports;
                let udp = Transport::Udp(Udp { source_port, destination_port });
                let headers = self.around(packet, ecn, udp);
                match content {
                    None => {
                        let below = (Ipv4::BYTES + Udp::BYTES) as u16;
                        (headers, Payload::Zeros(ip_bytes.saturating_sub(below)), self.keep)
                    }
                    Some(Content { query, attempt, reply, truncated, query_bytes }) => {
                        let ip_bytes = ip_bytes.into();
                        let dns =
                            DnsPacket { query, attempt, reply, truncated, ip_bytes, query_bytes };
                        message = self.messages.message(&dns).write().map_err(invalid)?;
                        (headers, Payload::Bytes(&message), usize::MAX)
                    }
                }
            }
        };
        self.frame.clear();
        let keep = if parted.is_some() { usize::MAX } else { keep };
        let mut original = headers.write(payload, keep, &mut self.frame).map_err(invalid)?;
        if accurate_ecn {
            fragment::set_accurate_ecn(&mut self.frame);
        }
        if let Some(part) = parted {
            fragment::cut(&mut self.frame, &part);
            original = self.frame.len();
        }
        self.write(packet, original)
    }

    /// Writes what is kept of the frame, whose length was `original`.
    fn write(&mut self, packet: &Captured, original: usize) -> io::Result<()> {
        let head = blocks::Head {
            interface: self.interface(packet.link).unwrap_or(0),
            at_ns: packet.at.as_ps() / 1_000,
            // An IP packet and an Ethernet header are far below 4 GiB.
            original: original as u32,
            inbound: packet.inbound,
        };
        let kept = &self.frame[..self.frame.len().min(self.keep)];
        blocks::packet(&mut self.out, &head, kept)
    }

    /// Flushes, and returns the stream that was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Returns the payload of a segment that carries DNS messages.
    fn said(&self, said: &[Said], bytes: u16) -> Result<Vec<u8>, dns::WriteError> {
        let mut payload = vec![0; usize::from(bytes)];
        for said in said {
            let message = self.messages.over_tcp(&said.content, said.bytes)?;
            // How much of the message lies before the segment, and where the rest begins in it.
            let before = usize::try_from(-said.at).unwrap_or(0);
            let at = usize::try_from(said.at).unwrap_or(0);
            let rest = message.iter().skip(before);
            payload.iter_mut().skip(at).zip(rest).for_each(|(byte, &said)| *byte = said);
        }
        Ok(payload)
    }

    /// ARP between the ends of a link.
    fn arp(&mut self, packet: &Captured, reply: bool, broadcast: bool) -> io::Result<()> {
        let link = &self.plan.links[packet.link as usize];
        let (sender, target) = (link.from, link.to);
        let asked = if broadcast { Mac::default() } else { address::mac(target) };
        let arp = Arp {
            reply,
            sender: (address::mac(sender), address::ip(sender)),
            target: (asked, address::ip(target)),
        };
        self.frame.clear();
        arp.write(&mut self.frame);
        self.write(packet, self.frame.len())
    }

    /// Makes a router's message, with as much of the segment as it quotes.
    fn too_big(
        &self,
        packet: &Captured,
        (ip_bytes, router, mtu): (u16, u32, u16),
        quoted: &Quoted,
    ) -> Result<Vec<u8>, WriteError> {
        let udp = Transport::Udp(Udp { source_port: 0, destination_port: 0 });
        let Packet { ethernet, ip, transport } = self.around(packet, 0, udp);
        let segment = tcp::Segment {
            seq: quoted.seq,
            ack: quoted.ack,
            flags: quoted.flags,
            window: quoted.window,
            timestamps: quoted.has_timestamps.then_some((0, 0)),
            ..tcp::Segment::default()
        };
        let dropped = Packet {
            ethernet,
            ip: Ipv4::new(ip.destination, ip.source),
            transport: Transport::Tcp(tcp((packet.ports.1, packet.ports.0), &segment)),
        };
        let headers = Ipv4::BYTES as u16 + segment.header_bytes();
        let mut original = Vec::new();
        let payload = Payload::Zeros(quoted.ip_bytes.saturating_sub(headers));
        dropped.write(payload, usize::MAX, &mut original)?;
        let ip = Ipv4 { source: address::ip(router as usize), dont_fragment: false, ..ip };
        let below = (Ipv4::BYTES + Udp::BYTES) as u16;
        let mut frame = Vec::with_capacity(usize::from(ip_bytes) + Ethernet::BYTES);
        let payload = Payload::Zeros(ip_bytes.saturating_sub(below));
        Packet { ethernet, ip, transport }.write(payload, usize::MAX, &mut frame)?;
        fragment::make_too_big(&mut frame, &original, mtu);
        Ok(frame)
    }

    /// Returns the headers below `transport`.
    fn around(&self, packet: &Captured, ecn: u8, transport: Transport) -> Packet {
        let ip = Ipv4::new(address::ip(packet.from as usize), address::ip(packet.to as usize));
        let link = &self.plan.links[packet.link as usize];
        Packet {
            ethernet: Ethernet {
                destination: address::mac(link.to),
                source: address::mac(link.from),
            },
            ip: Ipv4 {
                tos: packet.dscp << 2 | ecn,
                ttl: ip.ttl.saturating_sub(packet.routers.min(63)),
                ..ip
            },
            transport,
        }
    }
}

/// Returns a segment's header.
fn tcp((source_port, destination_port): (u16, u16), segment: &tcp::Segment) -> Tcp {
    let mut sack = SackBlocks::default();
    for &(start, end) in segment.sack.as_slice() {
        // The simulator's option holds fewer blocks than ours.
        sack.push(start.0, end.0);
    }
    let options = Options {
        mss: segment.syn.map(|syn| syn.mss),
        window_scale: segment.syn.and_then(|syn| syn.window_scale),
        sack_permitted: segment.syn.is_some_and(|syn| syn.sack_permitted),
        timestamps: segment.timestamps,
        sack,
        accurate_ecn: segment.accurate.and_then(|option| {
            AccurateEcn::new(option.order() == tcp::Order::One, option.fields())
        }),
        fast_open: segment.syn.and_then(|syn| syn.fast_open).and_then(|option| match option {
            tcp::FastOpenOption::Request => Cookie::new(&[]),
            // Linux's cookies have 8 bytes; no server here looks at them.
            tcp::FastOpenOption::Cookie => Cookie::new(&[0; 8]),
        }),
    };
    Tcp {
        source_port,
        destination_port,
        seq: segment.seq.0,
        // RFC 9293, section 3.1: the field is meaningless without ACK; hosts send zero.
        ack: if segment.flags.contains(tcp::Flags::ACK) { segment.ack.0 } else { 0 },
        // AE is not a flag of that byte: see `fragment::set_accurate_ecn`.
        flags: Flags(segment.flags.without(tcp::Flags::AE).0),
        window: segment.window,
        options,
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

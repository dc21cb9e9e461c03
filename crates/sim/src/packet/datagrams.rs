//! Packets other than TCP: datagrams and their fragments, routers' messages, ARP.

use narrows_apps::Message;
use narrows_qdisc::Ecn;
use narrows_transport::tcp::{Flags, Seq};

use super::{
    ARP, ARP_BYTES, Arp, FOREGROUND, FRAGMENT, IP_HEADER, MORE, NOT_TCP, Packet, PacketKind, QUIC,
    Stamp, TIMESTAMPS, TOO_BIG, UDP_HEADER,
};
use crate::captured::Quoted;

/// The longest router's message (RFC 1812, 4.3.2.3). It quotes as much of a packet as fits.
const LONGEST_MESSAGE: u16 = 576;
/// The router's own IPv4 and ICMP headers (RFC 792).
const ICMP_HEADERS: u16 = IP_HEADER + 8;

impl Packet {
    /// Creates a datagram with a message, from a socket of the flow's first end or to it.
    ///
    /// # Panics
    ///
    /// Panics if it is longer than an IP packet may be.
    pub(crate) fn datagram(stamp: Stamp, socket: u32, message: &Message) -> Self {
        let bytes = u32::from(IP_HEADER + UDP_HEADER) + message.bytes;
        Self {
            direction: stamp.direction,
            a: socket,
            b: message.tag,
            tsval: message.notes[0],
            tsecr: message.notes[1],
            extra: 0,
            bytes: u16::try_from(bytes).expect("the application keeps to the limit"),
            window: 0,
            hop: 0,
            flags: 0,
            meta: NOT_TCP | stamp.label.class,
            generation: stamp.label.generation,
        }
    }

    /// Creates a datagram of QUIC. The message's tag is its number.
    pub(crate) fn quic(stamp: Stamp, message: &Message, ecn: Ecn) -> Self {
        let packet = Self::datagram(stamp, stamp.direction / 2, message);
        Self { flags: QUIC, meta: packet.meta | ecn as u8, ..packet }
    }

    /// Returns whether it is a datagram of QUIC.
    pub(crate) const fn is_quic(&self) -> bool {
        matches!(self.kind(), PacketKind::Datagram) && self.flags & QUIC != 0
    }

    /// Creates a datagram of the foreground in an IP packet of `bytes`, for tests of links.
    #[cfg(test)]
    pub(crate) fn of_bytes(socket: u32, bytes: u16) -> Self {
        let payload = u32::from(bytes - IP_HEADER - UDP_HEADER);
        let message = Message { bytes: payload, ..Message::default() };
        Self::datagram(Stamp::new(0, 0, true), socket, &message)
    }

    /// Creates a router's message to the sender of a TCP segment that was longer than a link's
    /// `mtu` (RFC 792, RFC 1191, section 4). `router` is the node that sends it.
    pub(crate) fn too_big(dropped: &Self, mtu: u16, router: u32) -> Self {
        Self {
            direction: dropped.direction ^ 1,
            a: dropped.a,
            b: dropped.b,
            tsval: router,
            tsecr: u32::from(mtu) << 16 | u32::from(dropped.bytes),
            extra: u32::from(dropped.meta & TIMESTAMPS),
            bytes: dropped.bytes.saturating_add(ICMP_HEADERS).min(LONGEST_MESSAGE),
            window: dropped.window,
            hop: 0,
            flags: dropped.flags,
            meta: NOT_TCP | TOO_BIG,
            generation: dropped.generation,
        }
    }

    /// Creates an ARP packet from the neighbour with this entry.
    pub(crate) const fn arp_message(direction: u32, entry: u32, arp: Arp) -> Self {
        let operation = match arp {
            Arp::Request { broadcast: false } => 0,
            Arp::Request { broadcast: true } => 1,
            Arp::Reply => 2,
        };
        Self {
            direction,
            a: entry,
            b: operation,
            tsval: 0,
            tsecr: 0,
            extra: 0,
            bytes: ARP_BYTES,
            window: 0,
            hop: 0,
            flags: 0,
            meta: NOT_TCP | ARP,
            generation: 0,
        }
    }

    /// Returns, for an ARP packet, the entry that its sender has for its receiver.
    pub(crate) const fn arp_entry(&self) -> u32 {
        self.a
    }

    /// Cuts a datagram into fragments with this number (RFC 791, 3.2). All but the last are as long
    /// as `mtu` allows, and a whole number of units of 8 bytes.
    pub(crate) fn fragments(self, mtu: u16, number: u32) -> impl Iterator<Item = Self> {
        let units = (mtu - IP_HEADER) / 8;
        let payload = self.bytes - IP_HEADER;
        (0..payload.div_ceil(8 * units)).map(move |index| {
            let offset = index * units;
            let left = payload - 8 * offset;
            let more = left > 8 * units;
            Self {
                extra: number,
                bytes: IP_HEADER + left.min(8 * units),
                window: offset,
                flags: if more { MORE } else { 0 },
                // Only the first fragment has ports.
                meta: (if offset == 0 { self.meta } else { self.meta & !FOREGROUND }) | FRAGMENT,
                ..self
            }
        })
    }

    /// Returns, for a router's message, the MTU of the link.
    pub(crate) fn mtu(&self) -> u16 {
        (self.tsecr >> 16) as u16
    }

    /// Returns, for a router's message, what it quotes of the dropped segment.
    pub(crate) fn quoted(&self) -> Quoted {
        Quoted {
            ip_bytes: self.tsecr as u16,
            seq: Seq(self.a),
            ack: Seq(self.b),
            flags: Flags(self.flags),
            window: self.window,
            has_timestamps: self.extra != 0,
        }
    }

    /// Returns, for a router's message, the node that sent it.
    pub(crate) fn router(&self) -> u32 {
        self.tsval
    }

    /// Returns, for a fragment, the number of its datagram.
    pub(crate) fn datagram_number(&self) -> u32 {
        self.extra
    }

    /// Returns, for a fragment, its payload's offset in the datagram's, and whether more fragments
    /// follow.
    pub(crate) fn offset(&self) -> (u16, bool) {
        (8 * self.window, self.flags & MORE != 0)
    }

    /// Returns whether a middlebox can read its UDP header: it is a whole datagram or the beginning
    /// of one.
    pub(crate) fn begins_datagram(&self) -> bool {
        match self.kind() {
            PacketKind::Datagram => true,
            PacketKind::Fragment => self.window == 0,
            PacketKind::Tcp | PacketKind::TooBig | PacketKind::Arp(_) => false,
        }
    }

    /// Returns the socket at the flow's first end that a datagram comes from or goes to.
    pub(crate) fn socket(&self) -> u32 {
        self.a
    }

    /// Returns the message in a datagram.
    pub(crate) fn message(&self) -> Message {
        Message {
            bytes: u32::from(self.bytes - IP_HEADER - UDP_HEADER),
            tag: self.b,
            notes: [self.tsval, self.tsecr],
        }
    }
}

//! A link in memory that loses, duplicates and reorders packets.

use rand_core::Rng;
use rand_pcg::Pcg32;

use super::*;

/// Packets in flight, and what happens to them.
#[derive(Debug)]
pub(super) struct MemoryLink {
    pub(super) to_gateway: VecDeque<Vec<u8>>,
    pub(super) to_clients: VecDeque<Vec<u8>>,
    pub(super) impairment: Impairment,
    /// The random stream of each client and direction, so that what happens to a packet does not
    /// depend on the other clients' packets before it.
    streams: HashMap<u64, Pcg32>,
    /// The identification of the last packet's fragments.
    id: u16,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Impairment {
    pub(super) seed: u64,
    pub(super) loss_percent: u64,
    pub(super) duplicate_percent: u64,
    pub(super) reorder_percent: u64,
    /// The largest packet that a router on the way to the clients forwards; 0: any. It reports
    /// longer ones to the gateway.
    pub(super) narrow: usize,
    /// The most bytes of TCP in a fragment of a client's packet, a multiple of 8; 0: packets come
    /// whole.
    pub(super) fragment: usize,
}

impl MemoryLink {
    pub(super) fn new(impairment: Impairment) -> Self {
        Self {
            to_gateway: VecDeque::new(),
            to_clients: VecDeque::new(),
            impairment,
            streams: HashMap::new(),
            id: 0,
        }
    }

    pub(super) fn carry(&mut self, packet: &[u8], to_gateway: bool) {
        let Impairment { seed, loss_percent, duplicate_percent, reorder_percent, fragment, .. } =
            self.impairment;
        let segment = read(packet).expect("both sides send TCP");
        let client = if to_gateway { segment.client() } else { segment.server() };
        let stream = (at(client) as u64) << 1 | u64::from(to_gateway);
        let random = self.streams.entry(stream).or_insert_with(|| Pcg32::new(seed, stream));
        let mut chance = |percent| u64::from(random.next_u32()) % 100 < percent;
        let copies = 1 + usize::from(chance(duplicate_percent));
        self.id = self.id.wrapping_add(1);
        for _ in 0..copies {
            for piece in pieces(packet, self.id, if to_gateway { fragment } else { 0 }) {
                if chance(loss_percent) {
                    continue;
                }
                let first = chance(reorder_percent);
                let queue = if to_gateway { &mut self.to_gateway } else { &mut self.to_clients };
                if first { queue.push_front(piece) } else { queue.push_back(piece) }
            }
        }
    }
}

impl Link for MemoryLink {
    fn receive(&mut self, _: usize, inbox: &mut Inbox) -> io::Result<bool> {
        inbox.fill(|buffer| {
            Ok(self.to_gateway.pop_front().map(|packet| {
                buffer[..packet.len()].copy_from_slice(&packet);
                (packet.len(), Peer::default())
            }))
        })
    }

    fn send(&mut self, packet: Vec<u8>, _: Peer) -> io::Result<()> {
        if (1..packet.len()).contains(&self.impairment.narrow) {
            self.to_gateway.push_back(too_big(&packet, self.impairment.narrow));
        } else {
            self.carry(&packet, false);
        }
        Ok(())
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn mtu(&self) -> u16 {
        1500
    }
}

/// Returns the packet in fragments with at most `bytes` bytes of TCP; with 0, as it is.
fn pieces(packet: &[u8], id: u16, bytes: usize) -> Vec<Vec<u8>> {
    let header_bytes = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let (header, tcp) = packet.split_at(header_bytes);
    if bytes == 0 || tcp.len() <= bytes {
        return vec![packet.to_vec()];
    }
    let fragment = |(at, piece): (usize, &[u8])| {
        let offset = at * bytes;
        let more = offset + piece.len() < tcp.len();
        let mut made = header.to_vec();
        if header_bytes == 20 {
            let mut header = Ipv4Header::from_slice(header).expect("a header").0;
            (header.identification, header.dont_fragment, header.more_fragments) =
                (id, false, more);
            header.fragment_offset = IpFragOffset::try_new(offset as u16 / 8).expect("it fits");
            header.set_payload_len(piece.len()).expect("it fits");
            header.header_checksum = header.calc_header_checksum();
            made = header.to_bytes().to_vec();
        } else {
            made[4..6].copy_from_slice(&(8 + piece.len() as u16).to_be_bytes());
            made[6] = 44;
            made.extend([crate::core::packet::TCP, 0]);
            made.extend((offset as u16 | u16::from(more)).to_be_bytes());
            made.extend(u32::from(id).to_be_bytes());
        }
        made.extend(piece);
        made
    };
    tcp.chunks(bytes).enumerate().map(fragment).collect()
}

/// Returns a router's message about a packet that its next link does not carry. It quotes the
/// headers (RFC 1191, RFC 4443).
pub(super) fn too_big(packet: &[u8], mtu: usize) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        let quoted = &packet[..28];
        let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu as u16 };
        let icmp = Icmpv4Header::with_checksum(Icmpv4Type::DestinationUnreachable(needed), quoted);
        let to = packet[12..16].try_into().expect("4 bytes");
        let ip = Ipv4Header::new(36, 64, IpNumber::ICMP, [203, 0, 113, 1], to).expect("short");
        [&ip.to_bytes()[..], &icmp.to_bytes(), quoted].concat()
    } else {
        let (quoted, kind) = (&packet[..60], Icmpv6Type::PacketTooBig { mtu: mtu as u32 });
        let destination = packet[8..24].try_into().expect("16 bytes");
        let ip = Ipv6Header {
            payload_length: 68,
            next_header: IpNumber::IPV6_ICMP,
            hop_limit: 64,
            source: [0x20; 16],
            destination,
            ..Ipv6Header::default()
        };
        let icmp = Icmpv6Header::with_checksum(kind, ip.source, destination, quoted);
        [&ip.to_bytes()[..], &icmp.expect("short").to_bytes(), quoted].concat()
    }
}

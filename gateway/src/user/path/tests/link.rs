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
}

impl MemoryLink {
    pub(super) fn new(impairment: Impairment) -> Self {
        Self {
            to_gateway: VecDeque::new(),
            to_clients: VecDeque::new(),
            impairment,
            streams: HashMap::new(),
        }
    }

    pub(super) fn carry(&mut self, packet: &[u8], to_gateway: bool) {
        let Impairment { seed, loss_percent, duplicate_percent, reorder_percent, .. } =
            self.impairment;
        let segment = read(packet).expect("both sides send TCP");
        let client = if to_gateway { segment.client() } else { segment.server() };
        let stream = (at(client) as u64) << 1 | u64::from(to_gateway);
        let random = self.streams.entry(stream).or_insert_with(|| Pcg32::new(seed, stream));
        let mut chance = |percent| u64::from(random.next_u32()) % 100 < percent;
        let copies = 1 + usize::from(chance(duplicate_percent));
        for _ in 0..copies {
            if chance(loss_percent) {
                continue;
            }
            let first = chance(reorder_percent);
            let queue = if to_gateway { &mut self.to_gateway } else { &mut self.to_clients };
            if first { queue.push_front(packet.to_vec()) } else { queue.push_back(packet.to_vec()) }
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

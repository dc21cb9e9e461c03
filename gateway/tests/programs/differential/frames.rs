//! Frames around the packets, some of them spoilt.

use super::*;

impl Pair {
    /// A frame around a client's packet, sometimes with VLAN tags, padding or a checksum left to
    /// offloads, and the length of its link header.
    pub(super) fn frame(&mut self, packet: &[u8]) -> (Vec<u8>, usize) {
        let packet = &if self.chance(15) { unfinished(packet) } else { packet.to_vec() };
        let mut frame = link(packet).to_vec();
        let kind = self.below(20);
        if kind < 3 {
            let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0x20, 6, 0x81, 0, 0, 7];
            frame.splice(12..12, tags[8 - 4 * kind as usize..].to_vec());
        }
        let link = frame.len();
        if self.chance(10) {
            let more = 1 + self.below(7) as usize;
            frame.extend(with_more_headers(packet, more));
        } else {
            frame.extend(packet);
        }
        if self.chance(10) {
            let padding = self.below(40) as usize;
            frame.extend(vec![0x5a; padding]);
        }
        (frame, link)
    }

    /// Spoils a frame.
    pub(super) fn spoil(&mut self, frame: &mut Vec<u8>) {
        match self.below(3) {
            0 => {
                let length = 14 + self.below(frame.len() as u32 - 14);
                frame.truncate(length as usize);
            }
            1 => {
                // Most likely in the headers.
                for _ in 0..=self.below(3) {
                    let at = 12 + self.below(60) as usize;
                    if let Some(byte) = frame.get_mut(at) {
                        *byte ^= 1 << (self.random.next_u32() & 7);
                    }
                }
            }
            _ => {
                let at = self.below(frame.len() as u32) as usize;
                frame[at] = self.random.next_u32() as u8;
            }
        }
    }
}

/// The link header of a packet between two stations.
pub(super) fn link(packet: &[u8]) -> [u8; 14] {
    let [high, low] = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, high, low]
}

/// The packet with only the sum of the pseudo-header as its checksum, as CHECKSUM_PARTIAL leaves
/// it.
pub(super) fn unfinished(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let (addresses, tcp) = if packet[0] >> 4 == 4 { (12..20, 20) } else { (8..40, 40) };
    let words = packet[addresses].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum = words.sum::<u32>() + 6 + (packet.len() - tcp) as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[tcp + 16..tcp + 18]
        .copy_from_slice(&(((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet
}

/// The packet with `more` words of IPv4 options, or that many IPv6 extension headers of 8 or 16
/// bytes.
pub(super) fn with_more_headers(packet: &[u8], more: usize) -> Vec<u8> {
    let (header, rest) = packet.split_at(if packet[0] >> 4 == 4 { 20 } else { 40 });
    let mut header = header.to_vec();
    let mut between = Vec::new();
    if header.len() == 20 {
        between.resize(4 * more, 1);
        header[0] += more as u8;
        let length = u16::from_be_bytes([header[2], header[3]]) + between.len() as u16;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[10..12].fill(0);
        let all = [&header[..], &between].concat();
        let sum: u32 = all.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    } else {
        let kinds = [0, 60, 43, 60, 60, 43, 60];
        for (i, words) in (0..more).map(|i| (i, i & 1)) {
            let next = if i + 1 < more { kinds[i + 1] } else { header[6] };
            between.extend([next, words as u8]);
            between.extend(vec![0; 6 + 8 * words]);
        }
        header[6] = kinds[0];
        let length = (between.len() + rest.len()) as u16;
        header[4..6].copy_from_slice(&length.to_be_bytes());
    }
    [&header, &between, rest].concat()
}

/// Whether the packet has a valid IP header directly before the TCP header.
pub(super) fn is_plain(packet: &[u8]) -> bool {
    let sum: u32 = packet[..20].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    match packet[0] {
        0x45 => (sum & 0xffff) + (sum >> 16) == 0xffff,
        _ => packet[0] >> 4 == 6 && packet[6] == 6,
    }
}

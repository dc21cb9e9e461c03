//! Ethernet frames around the core, with up to two VLAN tags (IEEE 802.1Q, 802.1ad), as XDP sees
//! them.

use super::{Beside, Connection, Core, Counter, Now, Verdict};

impl Core {
    /// Takes an Ethernet frame as [`Core::on_client_beside`] takes an IP packet. A frame that it
    /// puts out has the link header of the one that came in: with its addresses swapped for
    /// [`Verdict::Transmit`], and unchanged for [`Verdict::Query`].
    pub fn on_client_frame(
        &mut self,
        now: Now,
        frame: &[u8],
        beside: impl Fn(Connection) -> Beside,
        out: &mut Vec<Vec<u8>>,
    ) -> Verdict {
        let Some(header) = link_header(frame) else {
            if self.settings.active {
                self.count(Counter::Malformed);
            }
            return Verdict::Pass;
        };
        // A frame to a group address belongs to no connection (RFC 1122 section 4.2.3.10).
        if frame[0] & 1 == 1 {
            return Verdict::Pass;
        }
        let (header, packet) = frame.split_at(header);
        let version = match &header[header.len() - 2..] {
            IPV4 => 4,
            IPV6 => 6,
            _ => return Verdict::Pass,
        };
        if self.settings.active && packet.first().is_none_or(|byte| byte >> 4 != version) {
            self.count(Counter::Malformed);
            return Verdict::Pass;
        }
        let before = out.len();
        let verdict = self.on_client_beside(now, packet, beside, out);
        for packet in &mut out[before..] {
            let mut frame = header.to_vec();
            if verdict == Verdict::Transmit {
                frame[..6].copy_from_slice(&header[6..12]);
                frame[6..12].copy_from_slice(&header[..6]);
            }
            frame.append(packet);
            *packet = frame;
        }
        verdict
    }
}

/// Returns the length of the link header with its tags; `None` if it is cut short.
fn link_header(frame: &[u8]) -> Option<usize> {
    let mut bytes = 14;
    for _ in 0..2 {
        match frame.get(bytes - 2..bytes)? {
            VLAN | SERVICE_VLAN => bytes += 4,
            _ => break,
        }
    }
    (frame.len() >= bytes).then_some(bytes)
}

const IPV4: &[u8] = &[0x08, 0x00];
const IPV6: &[u8] = &[0x86, 0xdd];
const VLAN: &[u8] = &[0x81, 0x00];
const SERVICE_VLAN: &[u8] = &[0x88, 0xa8];

//! Path MTU discovery (RFC 1191, RFC 8201): PROTOCOL.md, "Too long for the path".
//!
//! A message counts only if it quotes a sequence number that is in flight (RFC 5927, section 7), so
//! that nobody can shorten the segments of a connection without seeing it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::checksum;
use super::flow::{BLACK_HOLE, Flow, FlowKey, RECOVERING, State};
use super::packet::{
    ICMP, ICMPV6, Ip, TCP, TCP_BYTES, V4_BYTES, V6_BYTES, u16_at, u32_at, u128_at,
};
use super::{Connection, Core, Counter, Now, Verdict, nanoseconds};

/// What the path to a client was found to carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Until when this is believed, in nanoseconds of the boot clock. After that the path may carry
    /// more again.
    until: u64,
    /// The largest payload of our segments, without TCP options.
    mss: u16,
}

/// The most paths that are remembered at once.
pub(super) const PATHS: usize = 8192;
/// How many nanoseconds a path is remembered; Linux's `net.ipv4.route.mtu_expires`.
const REMEMBERED: u64 = 600_000_000_000;
/// The smallest MTU of an IPv4 path that is believed; Linux's `net.ipv4.route.min_pmtu`.
const LEAST_V4: u16 = 552;
/// The smallest MTU of an IPv6 path (RFC 8200, section 5).
const LEAST_V6: u32 = 1280;
/// The plateaus of RFC 1191, section 7.1, without those below `LEAST_V4`.
const PLATEAUS: [u16; 7] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006];
/// The bytes of an ICMP message before the packet that it quotes.
const ICMP_BYTES: usize = 8;

/// A segment that was too long, as a router quotes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooBig {
    pub(crate) ends: Connection,
    pub(crate) seq: u32,
    /// The MTU of the next link, minus our headers without TCP options.
    pub(crate) mss: u16,
}

impl TooBig {
    /// Reads an IP packet. Returns `None` for another message, or for one that cannot be right.
    pub(crate) fn read(ip: &Ip<'_>) -> Option<Self> {
        let message = ip.payload;
        if ip.fragment.is_some() {
            return None;
        }
        let (mtu, was, quoted, pseudo_header) = match (ip.destination, ip.protocol) {
            (IpAddr::V4(_), ICMP) => {
                let quoted = message.get(ICMP_BYTES..ICMP_BYTES + V4_BYTES + 8)?;
                let fragment = u16_at(quoted, 6) & 0x3fff != 0;
                // Our packets have neither options nor fragments.
                if message[..2] != [3, 4] || quoted[0] != 0x45 || quoted[9] != TCP || fragment {
                    return None;
                }
                let was = u16_at(quoted, 2);
                let plateau = PLATEAUS.into_iter().find(|&plateau| plateau < was);
                let mtu = match u16_at(message, 6) {
                    0 => plateau.unwrap_or(LEAST_V4),
                    mtu => mtu,
                };
                (mtu.max(LEAST_V4).into(), u32::from(was), quoted, 0)
            }
            (IpAddr::V6(_), ICMPV6) => {
                let quoted = message.get(ICMP_BYTES..ICMP_BYTES + V6_BYTES + 8)?;
                let mtu = u32_at(message, 4);
                if message[0] != 2 || quoted[0] >> 4 != 6 || quoted[6] != TCP || mtu < LEAST_V6 {
                    return None;
                }
                let was = V6_BYTES as u32 + u32::from(u16_at(quoted, 4));
                (mtu, was, quoted, ip.pseudo_header(message.len()))
            }
            _ => return None,
        };
        // RFC 5927, section 7.1: the MTU must be smaller than the packet that did not fit.
        if mtu >= was || checksum::fold(pseudo_header + checksum::sum(message)) != 0xffff {
            return None;
        }
        let (source, destination, tcp): (IpAddr, IpAddr, _) = match ip.destination {
            IpAddr::V4(_) => (
                Ipv4Addr::from_bits(u32_at(quoted, 12)).into(),
                Ipv4Addr::from_bits(u32_at(quoted, 16)).into(),
                &quoted[V4_BYTES..],
            ),
            IpAddr::V6(_) => (
                Ipv6Addr::from_bits(u128_at(quoted, 8)).into(),
                Ipv6Addr::from_bits(u128_at(quoted, 24)).into(),
                &quoted[V6_BYTES..],
            ),
        };
        let headers = quoted.len() - 8 + TCP_BYTES;
        (source == ip.destination).then(|| Self {
            ends: Connection {
                client: SocketAddr::new(destination, u16_at(tcp, 2)),
                server: SocketAddr::new(source, u16_at(tcp, 0)),
            },
            seq: u32_at(tcp, 4),
            // Smaller than a packet of at most 65575 bytes, minus 40 or 60.
            mss: (mtu as usize - headers) as u16,
        })
    }
}

impl Core {
    /// Handles a packet that is not a segment for a server.
    pub(super) fn on_icmp(&mut self, now: Now, packet: &[u8], out: &mut Vec<Vec<u8>>) -> Verdict {
        let Ok(Some(ip)) = Ip::read(packet) else { return Verdict::Pass };
        let Some(too_big) = TooBig::read(&ip) else { return Verdict::Pass };
        match self.on_too_big(now, &too_big) {
            Some(segment) => {
                self.count(Counter::Resent);
                out.push(segment);
                Verdict::Transmit
            }
            None => Verdict::Pass,
        }
    }

    /// Shortens the segments of the entry that the message is about. Returns the first missing
    /// segment, to be sent again.
    fn on_too_big(&mut self, now: Now, message: &TooBig) -> Option<Vec<u8>> {
        let ends = message.ends;
        let server = self.server(ends.server.ip())?;
        if ends.server.port() != self.settings.port {
            return None;
        }
        let key = FlowKey { client: ends.client.ip(), port: ends.client.port(), server };
        let flow = self.flows.get(&key)?;
        let outstanding = flow.end().wrapping_sub(flow.acked);
        let sent = message.seq.wrapping_sub(flow.acked) < outstanding;
        if !sent || !matches!(flow.state, State::Replied | State::Closing) {
            return None;
        }
        let flow = Flow { repeats: RECOVERING, ..self.shortened(ends, &flow, message.mss)? };
        self.learn_path(now, message);
        self.keep(now, key, flow);
        self.reply_segment(ends, &flow, flow.offset(flow.acked))
    }

    /// Remembers what the path to a client carries, after a message has shortened a connection's
    /// segments.
    pub(crate) fn learn_path(&mut self, now: Now, message: &TooBig) {
        self.count(Counter::PathMtu);
        let until = nanoseconds(now).saturating_add(REMEMBERED);
        self.paths.put(message.ends.client.ip(), Path { until, mss: message.mss });
    }

    /// Returns the entry with shorter segments; `None` if they are already as short. If a reply now
    /// needs several segments, its query counts as not acknowledged from the start; otherwise the
    /// client would stop asking.
    fn shortened(&self, ends: Connection, flow: &Flow, mss: u16) -> Option<Flow> {
        let ours = if ends.client.is_ipv4() { self.settings.mss4 } else { self.settings.mss6 };
        if mss >= flow.mss.min(ours) {
            return None;
        }
        let mut flow = Flow { mss, ..*flow };
        flow.query_unacked |=
            !flow.at_once && usize::from(flow.reply_length) > self.payload_max(ends, &flow);
        Some(flow)
    }

    /// Returns the entry whose client misses its reply from `place` on and gets that part again.
    pub(super) fn missed(&mut self, ends: Connection, mut flow: Flow, place: u32) -> Flow {
        flow.repeats = match flow.acked == place {
            true if flow.repeats >= RECOVERING => flow.repeats.saturating_add(1),
            _ => RECOVERING,
        };
        flow.acked = place;
        // RFC 4821, section 7.2, as in Linux (`tcp_base_mss`); RFC 8200, section 5.
        let least = if ends.client.is_ipv4() { 1024 } else { 1220 };
        let left = flow.end().wrapping_sub(place);
        // It may be too long for the path without any router saying so (RFC 2923, section 2.1).
        if flow.repeats == BLACK_HOLE && left > least.into() {
            if let Some(shorter) = self.shortened(ends, &flow, least) {
                self.count(Counter::BlackHole);
                return shorter;
            }
        }
        flow
    }

    /// Returns the MSS that the path to a client is known to carry.
    pub(crate) fn path_mss(&self, now: Now, client: IpAddr) -> Option<u16> {
        let path = self.paths.get(&client)?;
        (nanoseconds(now) < path.until).then_some(path.mss)
    }
}

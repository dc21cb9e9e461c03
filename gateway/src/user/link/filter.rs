//! Classic BPF programs. In the kernel, they restrict the packet sockets to packets for the
//! gateway.
//!
//! Source: `Documentation/networking/filter.rst`, Linux 6.1. A program sees the packet from the
//! network header on, because the sockets have the type SOCK_DGRAM. It is coarser than the core,
//! which checks again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::libc::sock_filter;

/// Accepts IPv4 packets with TCP for `port` at one of `addresses`, fragments of TCP for any port
/// there, and whole ICMP messages to them about unreachable destinations (RFC 792): routers use
/// these to report segments that are too long (RFC 1191).
pub(super) fn ipv4(addresses: &[IpAddr], port: u16) -> Vec<sock_filter> {
    let mut program = Program::default();
    program.load(BYTE, 9);
    program.push(JUMP_EQUAL, u32::from(ICMP), 0, 6);
    program.load(HALF, 6);
    program.bits(FRAGMENT, Goto::Reject);
    program.push(LOAD_HEADER_LENGTH, 0, 0, 0);
    program.push(LOAD_INDEXED | BYTE, 0, 0, 0);
    program.unless(u32::from(UNREACHABLE), Goto::Reject);
    program.push(JUMP, 6, 0, 0);
    program.unless(u32::from(TCP), Goto::Reject);
    program.load(HALF, 6);
    program.push(JUMP_SET, FRAGMENT, 3, 0);
    program.push(LOAD_HEADER_LENGTH, 0, 0, 0);
    program.push(LOAD_INDEXED | HALF, 2, 0, 0);
    program.unless(u32::from(port), Goto::Reject);
    program.load(WORD, 16);
    for address in v4(addresses) {
        program.when(address.to_bits(), Goto::Accept);
    }
    program.finish(Goto::Reject)
}

/// Accepts IPv6 packets for one of `addresses` with TCP, extension headers or the message that a
/// packet was too big (RFC 4443 section 3.2), and neighbour solicitations for anybody.
pub(super) fn ipv6(addresses: &[IpAddr]) -> Vec<sock_filter> {
    let mut program = Program::default();
    program.load(BYTE, 6);
    program.push(JUMP_EQUAL, u32::from(ICMPV6), 0, 4);
    program.load(BYTE, 40);
    program.when(u32::from(NEIGHBOUR_SOLICITATION), Goto::Accept);
    program.unless(u32::from(PACKET_TOO_BIG), Goto::Reject);
    program.push(JUMP, 1, 0, 0);
    program.when(u32::from(UDP), Goto::Reject);
    for address in v6(addresses) {
        let bits = address.to_bits();
        for word in 0..4 {
            program.load(WORD, 24 + 4 * word);
            let expected = (bits >> (96 - 32 * word)) as u32;
            // The next address begins behind the rest of this one: two instructions per word, and
            // one at the end.
            let left = 2 * (3 - word) as u8 + 1;
            program.push(JUMP_EQUAL, expected, 0, left);
        }
        program.push(RETURN, ALL, 0, 0);
    }
    program.finish(Goto::Reject)
}

/// Accepts ARP requests for one of `addresses`.
pub(super) fn arp(addresses: &[IpAddr]) -> Vec<sock_filter> {
    let mut program = Program::default();
    program.load(HALF, 6);
    program.unless(1, Goto::Reject); // ares_op$REQUEST (RFC 826)
    program.load(WORD, 24);
    for address in v4(addresses) {
        program.when(address.to_bits(), Goto::Accept);
    }
    program.finish(Goto::Reject)
}

/// How a condition ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goto {
    Accept,
    Reject,
}

/// A program under construction. Its conditional jumps get their targets when these are known.
#[derive(Default)]
struct Program {
    instructions: Vec<sock_filter>,
    /// Where a jump's target is missing: the instruction, which branch, and which end it goes to.
    open: Vec<(usize, bool, Goto)>,
}

impl Program {
    fn push(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.instructions.push(sock_filter { code, jt, jf, k });
    }

    fn load(&mut self, size: u16, at: u32) {
        self.push(LOAD_ABSOLUTE | size, at, 0, 0);
    }

    fn when(&mut self, value: u32, goto: Goto) {
        self.open.push((self.instructions.len(), true, goto));
        self.push(JUMP_EQUAL, value, 0, 0);
    }

    fn unless(&mut self, value: u32, goto: Goto) {
        self.open.push((self.instructions.len(), false, goto));
        self.push(JUMP_EQUAL, value, 0, 0);
    }

    fn bits(&mut self, mask: u32, goto: Goto) {
        self.open.push((self.instructions.len(), true, goto));
        self.push(JUMP_SET, mask, 0, 0);
    }

    /// Ends the program. What did not jump ends at `otherwise`.
    fn finish(mut self, otherwise: Goto) -> Vec<sock_filter> {
        let end = self.instructions.len();
        let other = if otherwise == Goto::Accept { Goto::Reject } else { Goto::Accept };
        for goto in [otherwise, other] {
            self.push(RETURN, if goto == Goto::Accept { ALL } else { 0 }, 0, 0);
        }
        for (at, on_true, goto) in self.open {
            let target = if goto == otherwise { end } else { end + 1 };
            // At most 16 addresses of 9 instructions each, so no jump exceeds 255.
            let distance = (target - at - 1) as u8;
            let instruction = &mut self.instructions[at];
            *(if on_true { &mut instruction.jt } else { &mut instruction.jf }) = distance;
        }
        self.instructions
    }
}

fn v4(addresses: &[IpAddr]) -> impl Iterator<Item = Ipv4Addr> + '_ {
    addresses.iter().filter_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

fn v6(addresses: &[IpAddr]) -> impl Iterator<Item = Ipv6Addr> + '_ {
    addresses.iter().filter_map(|address| match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(*address),
    })
}

// linux/bpf_common.h
const LOAD_ABSOLUTE: u16 = 0x20;
const LOAD_INDEXED: u16 = 0x40;
const LOAD_HEADER_LENGTH: u16 = 0xb1; // ldxb 4*([0]&0xf)
const WORD: u16 = 0x00;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
/// The whole packet.
const ALL: u32 = u32::MAX;

/// Flags and offset of an IPv4 header (two bytes from 6 on): more fragments, or an offset.
const FRAGMENT: u32 = 0x3fff;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const UNREACHABLE: u8 = 3;
const PACKET_TOO_BIG: u8 = 2;
const NEIGHBOUR_SOLICITATION: u8 = 135;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kernel's result for these instructions; `None`: they read beyond the packet, so
    /// it rejects it.
    fn run(program: &[sock_filter], packet: &[u8]) -> bool {
        let read = |at: usize, size: u16| match size {
            WORD => Some(u32::from_be_bytes(packet.get(at..at + 4)?.try_into().ok()?)),
            HALF => Some(u32::from(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?))),
            _ => Some(u32::from(*packet.get(at)?)),
        };
        let (mut a, mut x, mut at) = (0, 0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let loaded = match step.code & 0x67 {
                LOAD_ABSOLUTE => read(step.k as usize, step.code & 0x18),
                LOAD_INDEXED => read(x + step.k as usize, step.code & 0x18),
                _ => Some(a),
            };
            match (step.code, loaded) {
                (RETURN, _) => return step.k > 0,
                (LOAD_HEADER_LENGTH, _) => x = usize::from(packet[0] & 0xf) * 4,
                (JUMP, _) => at += step.k as usize,
                (JUMP_EQUAL, _) => at += usize::from(if a == step.k { step.jt } else { step.jf }),
                (JUMP_SET, _) => at += usize::from(if a & step.k != 0 { step.jt } else { step.jf }),
                (_, Some(value)) => a = value,
                (_, None) => return false,
            }
        }
    }

    fn addresses() -> Vec<IpAddr> {
        ["192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2"]
            .map(|address| address.parse().expect("an address"))
            .to_vec()
    }

    fn v4_packet(to: &str, protocol: u8, port: u16, options: usize, fragment: u16) -> Vec<u8> {
        let mut packet = vec![0; 20 + options + 20];
        packet[0] = 0x45 + (options / 4) as u8;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet[16..20].copy_from_slice(&to.parse::<Ipv4Addr>().expect("an address").octets());
        packet[22 + options..24 + options].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn v6_packet(to: &str, next: u8) -> Vec<u8> {
        let mut packet = vec![0; 60];
        packet[0] = 0x60;
        packet[6] = next;
        packet[24..40].copy_from_slice(&to.parse::<Ipv6Addr>().expect("an address").octets());
        packet
    }

    #[test]
    fn only_tcp_for_the_service_passes_ipv4() {
        let program = ipv4(&addresses(), 53);
        for to in ["192.0.2.1", "192.0.2.2"] {
            assert!(run(&program, &v4_packet(to, TCP, 53, 0, 0x4000)), "{to}, DF");
            assert!(run(&program, &v4_packet(to, TCP, 53, 40, 0)), "{to}, options");
        }
        assert!(!run(&program, &v4_packet("192.0.2.3", TCP, 53, 0, 0)));
        assert!(!run(&program, &v4_packet("192.0.2.1", UDP, 53, 0, 0)));
        assert!(!run(&program, &v4_packet("192.0.2.1", TCP, 54, 0, 0)));
    }

    #[test]
    fn fragments_of_tcp_alone_pass() {
        let program = ipv4(&addresses(), 53);
        for fragment in [0x2000, 0x2001, 0x0001] {
            for port in [53, 54] {
                assert!(run(&program, &v4_packet("192.0.2.2", TCP, port, 0, fragment)));
            }
            assert!(!run(&program, &v4_packet("192.0.2.3", TCP, 53, 0, fragment)));
            assert!(!run(&program, &v4_packet("192.0.2.1", UDP, 53, 0, fragment)));
            let mut unreachable = v4_packet("192.0.2.1", ICMP, 0, 0, fragment);
            unreachable[20] = UNREACHABLE;
            assert!(!run(&program, &unreachable));
        }
    }

    #[test]
    fn unreachable_and_too_big_pass_and_other_icmp_does_not() {
        let (four, six) = (ipv4(&addresses(), 53), ipv6(&addresses()));
        for (kind, options) in [(UNREACHABLE, 0), (UNREACHABLE, 40), (8, 0), (11, 4)] {
            for (to, ours) in [("192.0.2.2", true), ("192.0.2.3", false)] {
                let mut packet = v4_packet(to, ICMP, 0, options, 0);
                packet[20 + options] = kind;
                assert_eq!(run(&four, &packet), ours && kind == UNREACHABLE, "{to}, {kind}");
            }
        }
        for kind in [1, PACKET_TOO_BIG, 128] {
            for (to, ours) in [("2001:db8::2", true), ("2001:db8::3", false)] {
                let mut packet = v6_packet(to, ICMPV6);
                packet[40] = kind;
                assert_eq!(run(&six, &packet), ours && kind == PACKET_TOO_BIG, "{to}, {kind}");
            }
        }
    }

    #[test]
    fn only_the_service_and_solicitations_pass_ipv6() {
        let program = ipv6(&addresses());
        for to in ["2001:db8::1", "2001:db8::2"] {
            assert!(run(&program, &v6_packet(to, TCP)), "{to}");
            assert!(run(&program, &v6_packet(to, 60)), "{to}, destination options");
            assert!(!run(&program, &v6_packet(to, UDP)), "{to}");
            assert!(!run(&program, &v6_packet(to, ICMPV6)), "{to}, an echo");
        }
        assert!(!run(&program, &v6_packet("2001:db8::3", TCP)));
        assert!(!run(&program, &v6_packet("2001:db9::1", TCP)));
        let mut solicitation = v6_packet("ff02::1:ff00:1", ICMPV6);
        solicitation[40] = NEIGHBOUR_SOLICITATION;
        assert!(run(&program, &solicitation));
    }

    #[test]
    fn only_requests_for_the_service_pass_arp() {
        let program = arp(&addresses());
        let packet = |operation: u8, target: [u8; 4]| {
            let mut packet = vec![0; 28];
            packet[7] = operation;
            packet[24..].copy_from_slice(&target);
            packet
        };
        assert!(run(&program, &packet(1, [192, 0, 2, 2])));
        assert!(!run(&program, &packet(2, [192, 0, 2, 2])));
        assert!(!run(&program, &packet(1, [192, 0, 2, 9])));
    }

    #[test]
    fn sixteen_addresses_fit_the_jumps() {
        let many: Vec<IpAddr> =
            (1..=16u16).map(|n| IpAddr::V6([0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into())).collect();
        let program = ipv6(&many);
        assert!(run(&program, &v6_packet("2001:db8::10", TCP)));
        assert!(!run(&program, &v6_packet("2001:db8::11", TCP)));
    }
}

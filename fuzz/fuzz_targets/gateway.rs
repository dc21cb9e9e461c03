//! The gateway's core: no packets, in whatever order, make it panic. It sends only whole packets
//! with correct checksums. Except for the SYN/ACK, a client that is not verified gets no more bytes
//! than it sent.
//!
//! The input is a series of steps. Each is a byte for its kind, followed by what that kind takes
//! from the input.
#![no_main]

use std::net::Ipv4Addr;
use std::time::Duration;

use etherparse::{IpNumber, Ipv4Header, SlicedPacket, TcpHeader, TransportSlice, UdpHeader};
use libfuzzer_sys::fuzz_target;
use narrows_gateway::core::{Beside, Core, Now, ReplyVerdict, Settings, Verdict};

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const SYN: u8 = 2;

fuzz_target!(|input: &[u8]| {
    let Some((&[options, port], mut rest)) = input.split_first_chunk() else { return };
    let mut core = Core::new(Settings {
        servers: vec![SERVER.into()],
        close_fin: options & 1 != 0,
        syncache: options & 2 != 0,
        truncate_over: u16::from(options & 4) * 50,
        syn_interval_ns: u64::from(options & 8) * 1_000_000,
        query_interval_ns: u64::from(options & 16) * 1_000_000,
        ring: 1 << 18,
        flows: 4,
        ..Settings::default()
    });
    let port = 1024 + u16::from(port);
    let mut now = Now { boot: Duration::from_secs(9), wall: Duration::from_secs(1_700_000_000) };
    // From the last SYN/ACK: our initial sequence number and our timestamp.
    let (mut first, mut tsval) = (0_u32, 0_u32);
    let mut out = Vec::new();
    while let Some((&kind, after)) = rest.split_first() {
        rest = after;
        out.clear();
        match kind % 8 {
            0 => {
                now.boot += Duration::from_millis(u64::from(take::<2>(&mut rest)[0]) * 500);
                now.wall = now.boot + Duration::from_secs(1_700_000_000);
                core.poll(now, &mut out);
                out.iter().for_each(|packet| check(packet));
            }
            1 => {
                let bytes = some(&mut rest);
                client(&mut core, now, bytes, &mut out);
            }
            2 => {
                let bytes = some(&mut rest);
                let beside = match kind >> 3 & 3 {
                    0 => Beside::Server,
                    1 => Beside::NoServer,
                    2 => Beside::Connection,
                    _ => Beside::TimeWait,
                };
                core.on_client_frame(now, bytes, |_| beside, &mut out);
            }
            3 => {
                let bytes = some(&mut rest);
                core.on_reply(now, bytes, &mut out);
                core.adopt(now, bytes);
            }
            4 => {
                let message = some(&mut rest);
                let udp = UdpHeader {
                    source_port: 53,
                    destination_port: port,
                    length: 8 + message.len() as u16,
                    checksum: 0,
                };
                let packet =
                    ip(SERVER, CLIENT, IpNumber::UDP, &[&udp.to_bytes(), message].concat());
                let verdict = core.on_reply(now, &packet, &mut out);
                out.iter().for_each(|packet| check(packet));
                assert_eq!(
                    out.is_empty(),
                    matches!(verdict, ReplyVerdict::Pass | ReplyVerdict::Drop)
                );
            }
            _ => {
                // A segment of the one client. The input gives its place, its acknowledgement and
                // its flags.
                let [seq, ack, flags, payload] = take(&mut rest);
                let (bytes, with_ts) = (some(&mut rest), options & 32 != 0);
                let mut tcp = TcpHeader::new(port, 53, 1000 + u32::from(seq), 512);
                tcp.acknowledgment_number = first.wrapping_add(u32::from(ack));
                (tcp.fin, tcp.syn, tcp.rst) = (flags & 1 != 0, flags & SYN != 0, flags & 4 != 0);
                tcp.ack = flags & 16 != 0;
                if with_ts {
                    let mut option = vec![1, 1, 8, 10];
                    option.extend((now.boot.as_millis() as u32).to_be_bytes());
                    option.extend(tsval.to_be_bytes());
                    tcp.set_options_raw(&option).expect("twelve bytes");
                }
                let payload = &bytes[..bytes.len().min(4 * usize::from(payload))];
                let header =
                    Ipv4Header::new(0, 64, IpNumber::TCP, CLIENT.octets(), SERVER.octets())
                        .expect("it fits");
                tcp.checksum = tcp.calc_checksum_ipv4(&header, payload).expect("it fits");
                let packet =
                    ip(CLIENT, SERVER, IpNumber::TCP, &[&tcp.to_bytes()[..], payload].concat());
                if client(&mut core, now, &packet, &mut out) == Verdict::Transmit && tcp.syn {
                    let answer = &out[0];
                    first = u32::from_be_bytes([answer[24], answer[25], answer[26], answer[27]]);
                    if with_ts {
                        tsval =
                            u32::from_be_bytes([answer[48], answer[49], answer[50], answer[51]]);
                    }
                }
            }
        }
    }
});

/// Passes a client's packet to the core, and checks what the core sends.
fn client(core: &mut Core, now: Now, packet: &[u8], out: &mut Vec<Vec<u8>>) -> Verdict {
    let known = core.flows().count() > 0;
    let verdict = core.on_client(now, packet, out);
    out.iter().for_each(|packet| check(packet));
    assert_eq!(out.len(), usize::from(matches!(verdict, Verdict::Transmit | Verdict::Query)));
    if verdict == Verdict::Transmit && !known {
        let header = if out[0][0] >> 4 == 4 { 20 } else { 40 };
        assert!(out[0][header + 13] & SYN != 0 || out[0].len() <= packet.len());
    }
    verdict
}

/// Checks that a packet from the core is whole and that its checksum is right.
fn check(packet: &[u8]) {
    let sliced = SlicedPacket::from_ip(packet).expect("a whole packet");
    let payload = &packet[if packet[0] >> 4 == 4 { 20 } else { 40 }..];
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    let protocol = match sliced.transport {
        Some(TransportSlice::Tcp(_)) => 6,
        Some(TransportSlice::Udp(_)) => 17,
        other => panic!("neither TCP nor UDP: {other:?}"),
    };
    let words = |bytes: &[u8]| -> u64 {
        bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum()
    };
    let mut sum = words(addresses) + protocol + payload.len() as u64 + words(payload);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    assert_eq!(sum, 0xffff, "checksum");
}

fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: IpNumber, payload: &[u8]) -> Vec<u8> {
    let mut header =
        Ipv4Header::new(payload.len() as u16, 64, protocol, from.octets(), to.octets())
            .expect("it fits");
    header.header_checksum = header.calc_header_checksum();
    [&header.to_bytes()[..], payload].concat()
}

/// Takes the next `N` bytes; zeros stand for missing ones.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let length = rest.len().min(N);
    let (start, after) = rest.split_at(length);
    bytes[..length].copy_from_slice(start);
    *rest = after;
    bytes
}

/// Takes as many of the next bytes as the two before them say.
fn some<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = usize::from(u16::from_be_bytes(take(rest))).min(rest.len());
    let (start, after) = rest.split_at(length);
    *rest = after;
    start
}

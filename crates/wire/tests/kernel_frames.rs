//! Frames that Linux 6.18 sent between two network namespaces (veth, transmit checksums computed in
//! software, `tcp_ecn=1`), captured with tshark. They are read as tshark shows them, and written
//! back identically.

use std::net::Ipv4Addr;

use narrows_wire::tcp::{Flags, Options};
use narrows_wire::{Mac, Payload, ReadError, Received, Transport, checksums_hold, read};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A SYN that offers ECN.
#[rustfmt::skip]
const SYN: &[u8] = &[
    0x9e, 0x08, 0x43, 0x36, 0x86, 0xae, 0x2e, 0xfb, 0x33, 0xfb, 0x0f, 0xe5, 0x08, 0x00, 0x45, 0x00,
    0x00, 0x3c, 0x0c, 0xf2, 0x40, 0x00, 0x40, 0x06, 0x19, 0xc8, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00,
    0x00, 0x02, 0x8c, 0x12, 0x13, 0x89, 0x08, 0x67, 0xe9, 0x8a, 0x00, 0x00, 0x00, 0x00, 0xa0, 0xc2,
    0xfa, 0xf0, 0x5b, 0x9d, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0x61, 0x5e,
    0xe9, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
];

/// Its answer.
#[rustfmt::skip]
const SYN_ACK: &[u8] = &[
    0x2e, 0xfb, 0x33, 0xfb, 0x0f, 0xe5, 0x9e, 0x08, 0x43, 0x36, 0x86, 0xae, 0x08, 0x00, 0x45, 0x00,
    0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x26, 0xba, 0x0a, 0x00, 0x00, 0x02, 0x0a, 0x00,
    0x00, 0x01, 0x13, 0x89, 0x8c, 0x12, 0x58, 0xde, 0x21, 0xd2, 0x08, 0x67, 0xe9, 0x8b, 0xa0, 0x52,
    0xfe, 0x88, 0x67, 0x5d, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0xc1, 0x47,
    0xb5, 0x1e, 0x61, 0x5e, 0xe9, 0xc0, 0x01, 0x03, 0x03, 0x0a,
];

/// Three bytes of data, ECT(0).
#[rustfmt::skip]
const DATA: &[u8] = &[
    0x9e, 0x08, 0x43, 0x36, 0x86, 0xae, 0x2e, 0xfb, 0x33, 0xfb, 0x0f, 0xe5, 0x08, 0x00, 0x45, 0x02,
    0x00, 0x37, 0x0c, 0xf4, 0x40, 0x00, 0x40, 0x06, 0x19, 0xc9, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00,
    0x00, 0x02, 0x8c, 0x12, 0x13, 0x89, 0x08, 0x67, 0xe9, 0x8b, 0x58, 0xde, 0x21, 0xd3, 0x80, 0x18,
    0x00, 0x3f, 0xd0, 0x46, 0x00, 0x00, 0x01, 0x01, 0x08, 0x0a, 0x61, 0x5e, 0xe9, 0xc2, 0xc1, 0x47,
    0xb5, 0x1e, 0x61, 0x62, 0x63,
];

/// A datagram with `hello`.
#[rustfmt::skip]
const DATAGRAM: &[u8] = &[
    0x9e, 0x08, 0x43, 0x36, 0x86, 0xae, 0x2e, 0xfb, 0x33, 0xfb, 0x0f, 0xe5, 0x08, 0x00, 0x45, 0x00,
    0x00, 0x21, 0xd0, 0x83, 0x40, 0x00, 0x40, 0x11, 0x56, 0x46, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00,
    0x00, 0x02, 0x9c, 0x40, 0x00, 0x09, 0x00, 0x0d, 0x0b, 0xb6, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
];

/// Reads a frame, checks its checksums, and writes it again.
#[track_caller]
fn there_and_back(frame: &[u8]) -> Received<'_> {
    let received = read(frame).expect("a sound frame");
    assert_eq!(checksums_hold(frame), Ok(true));
    let mut written = Vec::new();
    let length = received.packet.write(Payload::Bytes(received.payload), usize::MAX, &mut written);
    assert_eq!(length, Ok(frame.len()));
    assert_eq!(written, frame);
    received
}

#[track_caller]
fn tcp(frame: &[u8]) -> narrows_wire::Tcp {
    match there_and_back(frame).packet.transport {
        Transport::Tcp(tcp) => tcp,
        Transport::Udp(_) => panic!("TCP expected"),
    }
}

#[test]
fn a_syn_and_its_options() {
    let syn = tcp(SYN);
    assert_eq!((syn.source_port, syn.destination_port), (35_858, 5001));
    assert_eq!(syn.flags, Flags(Flags::SYN | Flags::ECE | Flags::CWR));
    assert_eq!(syn.window, 64_240);
    assert_eq!(syn.bytes(), 40);
    assert_eq!(
        syn.options,
        Options {
            mss: Some(1460),
            window_scale: Some(10),
            sack_permitted: true,
            timestamps: Some((1_633_610_176, 0)),
            ..Options::default()
        }
    );

    let answer = tcp(SYN_ACK);
    assert_eq!(answer.flags, Flags(Flags::SYN | Flags::ACK | Flags::ECE));
    assert_eq!(answer.ack, syn.seq.wrapping_add(1));
    assert_eq!(answer.options.timestamps, Some((3_242_702_110, 1_633_610_176)));
}

#[test]
fn data_and_its_ecn_field() {
    let received = there_and_back(DATA);
    assert_eq!(received.payload, b"abc");
    assert_eq!(received.packet.ip.ecn(), 0b10);
    assert_eq!((received.packet.ip.source, received.packet.ip.destination), (CLIENT, SERVER));
    assert_eq!(received.packet.ip.ttl, 64);
    assert_eq!(received.packet.ethernet.destination, Mac([0x9e, 0x08, 0x43, 0x36, 0x86, 0xae]));
    assert_eq!(received.packet.ethernet.source.to_string(), "2e:fb:33:fb:0f:e5");
    assert_eq!(tcp(DATA).flags, Flags(Flags::PSH | Flags::ACK));
}

#[test]
fn a_datagram() {
    let received = there_and_back(DATAGRAM);
    assert_eq!(received.payload, b"hello");
    let Transport::Udp(udp) = received.packet.transport else { panic!("UDP expected") };
    assert_eq!((udp.source_port, udp.destination_port), (40_000, 9));
}

#[test]
fn every_flipped_bit_of_ip_and_above_breaks_a_checksum() {
    for frame in [SYN, DATA, DATAGRAM] {
        for bit in 14 * 8..frame.len() * 8 {
            let mut frame = frame.to_vec();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksums_hold(&frame), Ok(true), "bit {bit}");
        }
    }
}

#[test]
fn a_frame_cut_anywhere_in_its_headers_is_truncated() {
    for (frame, headers) in [(SYN, 74), (DATA, 66), (DATAGRAM, 42)] {
        for length in 0..headers {
            assert_eq!(read(&frame[..length]), Err(ReadError::Truncated), "{length} bytes");
        }
        assert_eq!(read(&frame[..headers]).map(|r| r.packet), read(frame).map(|r| r.packet));
    }
    assert_eq!(read(&DATA[..67]).map(|r| (r.payload, r.payload_len)), Ok((&b"a"[..], 3)));
    assert_eq!(checksums_hold(&DATA[..67]), Err(ReadError::Truncated));
}

#[test]
fn a_trailer_is_no_payload() {
    // Ethernet pads frames to 60 bytes (IEEE 802.3, 3.2.8).
    let mut padded = DATAGRAM.to_vec();
    padded.resize(60, 0xff);
    assert_eq!(read(&padded), read(DATAGRAM));
    assert_eq!(checksums_hold(&padded), Ok(true));
}

#[test]
fn what_we_do_not_read_is_named() {
    let with = |at: usize, value: u8| {
        let mut frame = DATA.to_vec();
        frame[at] = value;
        read(&frame).map(|_| ()).expect_err("unreadable")
    };
    assert_eq!(with(12, 0x86), ReadError::NotIpv4(0x8600));
    assert_eq!(with(14, 0x65), ReadError::BadIpHeader);
    assert_eq!(with(14, 0x44), ReadError::BadIpHeader);
    assert_eq!(with(17, 19), ReadError::BadIpHeader);
    assert_eq!(with(20, 0x20), ReadError::Fragment);
    assert_eq!(with(23, 132), ReadError::OtherProtocol(132));
    assert_eq!(with(46, 0x40), ReadError::BadDataOffset);
    assert_eq!(with(46, 0xf0), ReadError::BadDataOffset);
    assert!(matches!(with(57, 3), ReadError::BadOption(_)));
}

use narrows_apps::Message;
use narrows_transport::tcp::{
    AccurateEcn, EcnBytes, FastOpenOption, Flags, Order, SackBlocks, Segment, Seq, SynOptions,
};

use super::*;

#[test]
fn segments_survive_the_compact_form() {
    let mut pool = OptionPool::default();
    let mut sack = SackBlocks::default();
    assert!(sack.push(Seq(5), Seq(9)));
    let segments = [
        Segment {
            seq: Seq(u32::MAX),
            flags: Flags::SYN.with(Flags::ECE).with(Flags::CWR),
            window: 65_535,
            timestamps: Some((1, 0)),
            syn: Some(SynOptions {
                mss: 1460,
                window_scale: Some(0),
                sack_permitted: true,
                fast_open: None,
            }),
            ..Segment::default()
        },
        Segment {
            flags: Flags::SYN,
            len: 36,
            syn: Some(SynOptions {
                fast_open: Some(FastOpenOption::Cookie),
                ..SynOptions::default()
            }),
            ..Segment::default()
        },
        Segment {
            seq: Seq(1),
            ack: Seq(2),
            flags: Flags::ACK,
            timestamps: Some((3, 4)),
            sack,
            ..Segment::default()
        },
        Segment {
            seq: Seq(9),
            ack: Seq(2),
            flags: Flags::ACK,
            len: 1448,
            ecn: Ecn::Ect0,
            timestamps: Some((3, 4)),
            ..Segment::default()
        },
        Segment { seq: Seq(9), flags: Flags::ACK, len: 1460, ..Segment::default() },
        // Accurate ECN: the option on data, on an acknowledgement with SACK blocks, on a SYN-ACK.
        Segment {
            seq: Seq(9),
            flags: Flags::ACK.with(Flags::AE),
            len: 1436,
            ecn: Ecn::Ect1,
            timestamps: Some((3, 4)),
            accurate: Some(accurate(3)),
            ..Segment::default()
        },
        Segment { flags: Flags::ACK, sack, accurate: Some(accurate(2)), ..Segment::default() },
        Segment {
            flags: Flags::SYN.with(Flags::ACK).with(Flags::CWR),
            syn: Some(SynOptions { mss: 1460, window_scale: Some(7), ..SynOptions::default() }),
            accurate: Some(AccurateEcn::INITIAL),
            ..Segment::default()
        },
    ];
    for segment in segments {
        let packet = Packet::from_segment(Stamp::new(7, 1, true), &segment, &mut pool);
        assert_eq!(packet.peek_segment(&pool), segment);
        if packet.is_plain() {
            assert_eq!(Segment::from(packet.header()), segment);
            let again = Packet::from_header(Stamp::new(7, 1, true), &packet.header());
            assert_eq!(again.peek_segment(&pool), segment);
        }
        assert_eq!(packet.into_segment(&mut pool), segment);
    }
    assert_eq!(pool.in_use(), 0);
}

fn accurate(fields: usize) -> AccurateEcn {
    AccurateEcn::new(Order::One, EcnBytes { ect0: 1, ce: 2, ect1: 0xff_ffff }, fields)
}

/// An endpoint sends a header, and then adds what the header has no room for.
#[test]
fn options_are_added_to_a_header() {
    let mut pool = OptionPool::default();
    let mut sack = SackBlocks::default();
    sack.push(Seq(5), Seq(9));
    let plain = Segment { flags: Flags::ACK, timestamps: Some((3, 4)), ..Segment::default() };
    for (sack, option) in [
        (sack, None),
        (sack, Some(accurate(2))),
        (SackBlocks::default(), Some(accurate(3))),
        (SackBlocks::default(), None),
    ] {
        let segment = Segment { sack, accurate: option, ..plain };
        let mut packet = Packet::from_header(Stamp::new(7, 1, true), &plain.header());
        packet.add_options((sack, option), &mut pool);
        let whole = Packet::from_segment(Stamp::new(7, 1, true), &segment, &mut pool);
        assert_eq!(packet.bytes, whole.bytes);
        assert_eq!(packet.is_plain(), sack.is_empty() && option.is_none());
        assert_eq!(packet.into_segment(&mut pool), segment);
        whole.discard(&mut pool);
    }
    assert_eq!(pool.in_use(), 0);
}

fn datagram(direction: u32, socket: u32, tag: u32) -> Packet {
    let message = Message { bytes: 32, tag, notes: [1, 2] };
    Packet::datagram(Stamp::new(direction, 0, true), socket, &message)
}

#[test]
fn messages_survive_the_compact_form() {
    let message = Message { bytes: 65_507, tag: u32::MAX, notes: [7, u32::MAX] };
    let packet = Packet::datagram(Stamp::new(5, 0, false), 9, &message);
    assert_eq!((packet.message(), packet.socket(), packet.bytes), (message, 9, 65_535));
    assert!(packet.kind() == PacketKind::Datagram && !packet.is_foreground() && packet.goes_back());
}

#[test]
fn flows_have_hashes_and_ports_of_their_own() {
    let mut pool = OptionPool::default();
    // Flows 0 and 1 are connections, flow 2 has the datagrams of many sockets.
    let tcp = |direction, generation, pool: &mut OptionPool| {
        Packet::from_segment(Stamp::new(direction, generation, false), &Segment::default(), pool)
    };
    let mut packets: Vec<Packet> = (0..4).map(|direction| tcp(direction, 0, &mut pool)).collect();
    packets.push(tcp(2, 1, &mut pool));
    packets.extend(
        (4..6).flat_map(|direction| (0..9).map(move |socket| datagram(direction, socket, 7))),
    );
    // Flow 3 is a connection of QUIC, and then another one.
    let quic = |direction, generation, tag| {
        let message = Message { bytes: 1200, tag, ..Message::default() };
        Packet::quic(Stamp::new(direction, generation, true), &message, Ecn::NotEct)
    };
    packets
        .extend((6..8).flat_map(|direction| (0..3).map(move |number| quic(direction, number, 7))));
    assert_eq!(quic(6, 1, 8).flow_hash(), quic(6, 1, 9).flow_hash());
    let hashes: std::collections::BTreeSet<u64> = packets.iter().map(Packet::flow_hash).collect();
    assert_eq!(hashes.len(), packets.len());
    assert_eq!(datagram(4, 3, 8).flow_hash(), datagram(4, 3, 9).flow_hash());
    assert_eq!(packets[0].ports([5001, 35_000]), (5001, 35_000));
    assert_eq!(packets[3].ports([5001, 35_001]), (35_001, 5001));
    assert_eq!(datagram(4, 2, 0).ports([0, 53]), (49_154, 53));
    assert_eq!(datagram(5, 2, 0).ports([0, 53]), (53, 49_154));
}

#[test]
fn hashes_spread_over_buckets() {
    // 4096 flows in 64 buckets: 64 each on average, with a standard deviation of 8.
    let mut buckets = [0; 64];
    for socket in 0..4096 {
        buckets[datagram(0, socket, 0).flow_hash() as usize % 64] += 1;
    }
    assert!(buckets.iter().all(|count| (24..=104).contains(count)), "{buckets:?}");
}

#[test]
fn a_full_segment_with_timestamps_is_an_ip_packet_of_1500_bytes() {
    let segment =
        Segment { len: 1448, flags: Flags::ACK, timestamps: Some((1, 1)), ..Segment::default() };
    assert_eq!(
        Packet::from_segment(Stamp::new(0, 0, false), &segment, &mut OptionPool::default()).bytes,
        1500
    );
}

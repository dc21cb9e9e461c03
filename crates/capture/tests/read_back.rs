//! Capture files hold what was captured, as `pcap-file` and `narrows-wire` read them.

mod common;

use std::time::Duration;

use common::{DOWN, UP, exchange, messages, plan};
use narrows_capture::message::{Error, errors};
use narrows_capture::{Writer, address, pcapng};
use narrows_sim::captured::{Captured, Content, Frame};
use narrows_sim::plan::{Capture, Kind, Plan, dns::client::Client, dns::exchange::Sizes};
use narrows_units::Time;
use narrows_wire::dns::{Data, Message};
use narrows_wire::{Ethernet, Received, Transport, checksums_hold, read};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;

/// Writes `packets`, of both links, to one file.
fn both_links(plan: &Plan, packets: &[Captured], snaplen: Option<u32>) -> Vec<u8> {
    let mut writer =
        Writer::new(plan, &[DOWN, UP], messages(), snaplen, Vec::new()).expect("a vector");
    for packet in packets {
        writer.packet(packet).expect("a packet of the plan");
    }
    writer.finish().expect("a vector")
}

/// The file of a single capture.
fn file_of(plan: &Plan, capture: &Capture, packets: &[Captured]) -> Vec<u8> {
    pcapng(plan, capture, packets, messages()).expect("packets of the plan")
}

fn packets(file: &[u8]) -> Vec<EnhancedPacketBlock<'static>> {
    let mut reader = PcapNgReader::new(file).expect("a section header");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.expect("a sound block") {
            Block::EnhancedPacket(packet) => packets.push(packet.into_owned()),
            Block::InterfaceDescription(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    packets
}

#[test]
fn the_file_names_its_links_and_counts_nanoseconds() {
    let plan = plan();
    let file = both_links(&plan, &exchange(), None);
    let mut reader = PcapNgReader::new(&file[..]).expect("a section header");
    while reader.next_block().is_some() {}
    let interfaces = reader.interfaces();
    assert_eq!(interfaces.len(), 2);
    for (interface, name) in interfaces.iter().zip(["bottleneck.forward", "bottleneck.backward"]) {
        assert_eq!(interface.linktype, DataLink::ETHERNET);
        let options = &interface.options;
        assert!(options.contains(&InterfaceDescriptionOption::IfName(name.into())));
        assert!(options.contains(&InterfaceDescriptionOption::IfSpeed(10_000_000)));
        assert!(options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
    }
}

#[test]
fn every_packet_reads_back_as_it_was() {
    let plan = plan();
    let captured = exchange();
    let file = both_links(&plan, &captured, None);
    let packets = packets(&file);
    assert_eq!(packets.len(), captured.len());
    for (packet, captured) in packets.iter().zip(&captured) {
        assert_eq!(packet.interface_id, if captured.link as usize == DOWN { 0 } else { 1 });
        assert_eq!(packet.timestamp, Duration::from_nanos(captured.at.as_ps() / 1_000));
        assert_eq!(packet.original_len as usize, packet.data.len());
        assert_eq!(checksums_hold(&packet.data), Ok(true));
        let received = read(&packet.data).expect("a sound frame");
        assert_same(&plan, captured, &received);
        let ip_bytes = packet.data.len() - Ethernet::BYTES;
        assert_eq!(ip_bytes, accounted(captured));
    }
}

/// The length of the IP packet as the simulator accounts it.
fn accounted(captured: &Captured) -> usize {
    match captured.frame {
        Frame::Tcp(segment) => usize::from(20 + segment.header_bytes() + segment.len),
        Frame::Udp { ip_bytes, part, .. } => {
            usize::from(part.map_or(ip_bytes, |part| part.ip_bytes))
        }
        Frame::TooBig { ip_bytes, .. } => usize::from(ip_bytes),
        Frame::Arp { .. } => panic!("an ARP frame is not an IP packet"),
    }
}

fn assert_same(plan: &Plan, captured: &Captured, received: &Received<'_>) {
    let packet = received.packet;
    let link = &plan.links[captured.link as usize];
    assert_eq!(packet.ethernet.source, address::mac(link.from));
    assert_eq!(packet.ethernet.destination, address::mac(link.to));
    assert_eq!(packet.ip.source, address::ip(captured.from as usize));
    assert_eq!(packet.ip.destination, address::ip(captured.to as usize));
    assert_eq!(packet.ip.ttl, 64 - captured.routers);
    match (captured.frame, packet.transport) {
        (Frame::Tcp(segment), Transport::Tcp(tcp)) => {
            assert_eq!((tcp.source_port, tcp.destination_port), captured.ports);
            assert_eq!(packet.ip.ecn(), segment.ecn as u8);
            assert_eq!((tcp.seq, tcp.ack), (segment.seq.0, segment.ack.0));
            assert_eq!(tcp.flags.0, segment.flags.0);
            assert_eq!(tcp.window, segment.window);
            assert_eq!(received.payload_len, segment.len);
            assert!(received.payload.iter().all(|&byte| byte == 0));
            assert_eq!(tcp.options.timestamps, segment.timestamps);
            let sack = segment.sack.as_slice().iter().map(|&(start, end)| (start.0, end.0));
            assert!(sack.eq(tcp.options.sack.as_slice().iter().copied()));
            assert_eq!(tcp.options.mss, segment.syn.map(|syn| syn.mss));
            assert_eq!(tcp.options.window_scale, segment.syn.and_then(|syn| syn.window_scale));
            assert_eq!(tcp.options.sack_permitted, segment.syn.is_some_and(|s| s.sack_permitted));
        }
        (
            Frame::Udp { ecn, content: Some(Content { query, reply, .. }), .. },
            Transport::Udp(udp),
        ) => {
            assert_eq!((udp.source_port, udp.destination_port), captured.ports);
            assert_eq!(packet.ip.ecn(), ecn);
            let message = Message::read(received.payload).expect("a sound message");
            assert_eq!(message.reply, reply);
            let question = message.question.expect("a question");
            let name = question.name.to_string();
            let number: u32 = name[1..name.find('.').expect("labels")].parse().expect("digits");
            assert_eq!(number, query);
            assert!(name.ends_with(".narrows.example"));
            let text =
                matches!(message.answers[..], [ref answer] if matches!(answer.data, Data::Txt(_)));
            assert_eq!(text, reply);
        }
        (frame, transport) => panic!("{frame:?} became {transport:?}"),
    }
}

#[test]
fn frames_are_cut_to_the_snap_length() {
    let plan = plan();
    let captured = exchange();
    let whole = packets(&both_links(&plan, &captured, None));
    for snaplen in [14, 54, 96, 1_513, 1_514, u32::MAX] {
        let file = both_links(&plan, &captured, Some(snaplen));
        let cut = packets(&file);
        assert_eq!(cut.len(), whole.len());
        for (cut, whole) in cut.iter().zip(&whole) {
            let kept = whole.data.len().min(snaplen as usize);
            assert_eq!(cut.original_len as usize, whole.data.len());
            assert_eq!(cut.data[..], whole.data[..kept]);
        }
        let mut reader = PcapNgReader::new(&file[..]).expect("a section header");
        while reader.next_block().is_some() {}
        assert!(reader.interfaces().iter().all(|interface| interface.snaplen == snaplen));
    }
}

/// A place sees both directions at one interface, and says which is which (draft, 4.3.1).
#[test]
fn packets_of_a_place_have_their_direction() {
    let plan = plan();
    let place = Capture { back: Some(UP), snaplen: Some(60), ..Capture::of(DOWN, "place") };
    let mut captured = exchange();
    for packet in &mut captured {
        packet.inbound = packet.link as usize == UP;
    }
    let file = file_of(&plan, &place, &captured);
    let packets = packets(&file);
    assert_eq!(packets.len(), captured.len());
    for (packet, captured) in packets.iter().zip(&captured) {
        assert_eq!((packet.interface_id, packet.data.len().min(61)), (0, packet.data.len()));
        let direction = if captured.inbound { 0b01 } else { 0b10 };
        assert_eq!(packet.options, [EnhancedPacketOption::Flags(direction)]);
    }
    let mut reader = PcapNgReader::new(&file[..]).expect("a section header");
    while reader.next_block().is_some() {}
    assert_eq!(reader.interfaces().len(), 1);
    assert!(
        reader.interfaces()[0]
            .options
            .contains(&InterfaceDescriptionOption::IfName("place".into()))
    );
}

#[test]
fn one_link_of_several() {
    let plan = plan();
    let captured = exchange();
    let of_link =
        |link: usize| captured.iter().filter(|packet| packet.link as usize == link).count();
    assert_eq!(
        packets(&file_of(&plan, &Capture::of(DOWN, "down"), &captured)).len(),
        of_link(DOWN)
    );
    assert_eq!(packets(&file_of(&plan, &Capture::of(UP, "up"), &captured)).len(), of_link(UP));
    assert_eq!(
        file_of(&plan, &Capture::of(UP, "up"), &captured),
        file_of(&plan, &Capture::of(UP, "up"), &captured)
    );
}

#[test]
fn packets_of_other_links_are_refused_and_leave_the_file_sound() {
    let plan = plan();
    let captured = exchange();
    let mut writer = Writer::new(&plan, &[DOWN], messages(), None, Vec::new()).expect("a vector");
    let written = captured.iter().filter(|packet| writer.packet(packet).is_ok()).count();
    assert!(written < captured.len());
    assert_eq!(packets(&writer.finish().expect("a vector")).len(), written);
}

/// RFC 791, 3.1: the total length has 16 bits.
#[test]
fn a_packet_longer_than_ip_allows_is_an_error() {
    let mut long = exchange().swap_remove(1);
    let Frame::Tcp(segment) = &mut long.frame else { panic!("a segment") };
    segment.len = 65_535;
    let link = Capture::of(long.link as usize, "");
    let error = pcapng(&plan(), &link, &[long], messages()).expect_err("it does not fit");
    assert!(error.to_string().ends_with("is above 65535"), "{error}");
}

#[test]
fn late_packets_keep_their_time() {
    // Beyond 2^32 ns, where the timestamp's upper half is needed.
    let plan = plan();
    let at = Time::from_ps(86_400_000_000_000_000);
    let late = Captured { at, ..exchange().swap_remove(1) };
    assert_eq!(
        packets(&file_of(&plan, &Capture::of(DOWN, "down"), &[late]))[0].timestamp,
        Duration::from_secs(86_400)
    );
}

#[test]
fn lengths_that_no_message_has_are_refused() {
    let mut plan = plan();
    assert_eq!(errors(&plan), []);
    fn padded(plan: &mut Plan) -> &mut Client {
        match &mut plan.applications[1].kind {
            Kind::DnsClient(client) => client,
            other => panic!("{other:?}"),
        }
    }
    // IP packets of 60 B, and of 69, 81 and 1000 B.
    padded(&mut plan).sizes = Sizes::fixed(32, 440);
    let found = errors(&plan);
    assert_eq!(found, [Error::Query { resolvers: "padded".to_owned(), bytes: 60, min: 69 }]);
    assert_eq!(
        found[0].to_string(),
        "resolvers \"padded\": queries of 60 B cannot be captured as DNS messages; they need 69 B"
    );
    padded(&mut plan).sizes = Sizes::fixed(41, 53);
    assert!(matches!(errors(&plan)[..], [Error::Reply { min: 82, .. }]));
    padded(&mut plan).sizes = Sizes::fixed(41, 972);
    assert!(matches!(errors(&plan)[..], [Error::Query { min: 80, .. }]));
}

#[test]
fn arp_between_routers_is_a_frame_of_its_own() {
    let plan = plan();
    let frames = [(false, true), (false, false), (true, false)];
    let captured = frames.map(|(reply, broadcast)| {
        common::captured(Time::ZERO, false, 0, Frame::Arp { reply, broadcast })
    });
    let file = both_links(&plan, &captured, None);
    let link = &plan.links[DOWN];
    let (sender, target) = (address::mac(link.from), address::mac(link.to));
    for (packet, (reply, broadcast)) in packets(&file).iter().zip(frames) {
        assert_eq!(packet.data[..6], if broadcast { [0xff; 6] } else { target.0 });
        assert_eq!(packet.data[6..12], sender.0);
        // RFC 826: the protocol, and request or reply.
        assert_eq!((&packet.data[12..14], packet.data[21]), (&[8, 6][..], 1 + u8::from(reply)));
        assert_eq!(packet.data[28..32], address::ip(link.from).octets());
        assert_eq!(packet.data[38..42], address::ip(link.to).octets());
        assert_eq!(packet.data.len(), 42);
    }
}

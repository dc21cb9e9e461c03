//! The headers and bytes around a segment: IP options and extension headers, VLAN tags, padding,
//! checksums.

use super::*;

/// Sets the checksum of an IPv4 header of any length.
fn set_ipv4_checksum(packet: &mut [u8]) {
    let bytes = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum: u32 = packet[..bytes]
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// A packet with `options` (IPv4, a multiple of four bytes) or extension headers (IPv6, the first
/// number and the bytes).
fn with_more_headers(packet: &[u8], first: u8, more: &[u8]) -> Vec<u8> {
    let ipv4 = packet[0] >> 4 == 4;
    let at = if ipv4 { 20 } else { 40 };
    let mut longer = [&packet[..at], more, &packet[at..]].concat();
    if ipv4 {
        longer[0] += more.len() as u8 / 4;
        let length = longer.len() as u16;
        longer[2..4].copy_from_slice(&length.to_be_bytes());
        set_ipv4_checksum(&mut longer);
    } else {
        longer[6] = first;
        let length = longer.len() as u16 - 40;
        longer[4..6].copy_from_slice(&length.to_be_bytes());
    }
    longer
}

/// Extension headers of these kinds and lengths in units of eight bytes, the last before TCP.
fn extensions(kinds: &[(u8, u8)]) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    for (i, &(_, units)) in kinds.iter().enumerate() {
        let next = kinds.get(i + 1).map_or(6, |&(kind, _)| kind);
        let start = bytes.len();
        bytes.resize(start + usize::from(units) * 8, 1);
        bytes[start..start + 2].copy_from_slice(&[next, units - 1]);
    }
    (kinds[0].0, bytes)
}

#[test]
fn headers_between_are_skipped_and_not_sent_on() {
    let programs = programs!("headers_between_are_skipped_and_not_sent_on");
    for client in Client::kinds(&programs) {
        let ipv6 = client.saying.server.is_ipv6();
        let more: Vec<(u8, Vec<u8>)> = if ipv6 {
            [
                &[(0, 1)][..],
                &[(60, 3)],
                &[(43, 2)],
                &[(0, 1), (60, 2), (43, 1), (60, 1), (60, 1), (60, 1)],
                &[(0, 60)],
            ]
            .map(extensions)
            .into_iter()
            // The header of a fragment that has the whole packet, alone and behind another one.
            .chain([(44, vec![6, 0xff, 0, 6, 1, 2, 3, 4])])
            .chain([(0, [[44, 0, 1, 4, 0, 0, 0, 0], [6, 0, 0, 0, 1, 2, 3, 4]].concat())])
            .collect()
        } else {
            [4, 12, 40].map(|bytes| (0, vec![1; bytes])).into()
        };
        for (first, more) in more {
            programs.remove_flows();
            let syn = with_more_headers(&client.saying.syn().packet(), first, &more);
            let came = client.say_packet(&syn);
            let Came::Segment(answer) = came else { panic!("{came:?}") };
            let mut client = client.clone();
            client.saying.cookie = answer.seq;
            client.saying.tsecr = answer.timestamps.map_or(0, |(tsval, _)| tsval);
            let query = with_more_headers(&client.saying.data().packet(), first, &more);
            let came = client.say_packet(&query);
            let Came::Query(datagram) = came else { panic!("{came:?}") };
            assert_eq!(datagram.message.len(), client.saying.query.len() - 2);
        }
    }
}

#[test]
fn what_the_server_sees_of_the_ip_header_is_the_clients() {
    let programs = programs!("what_the_server_sees_of_the_ip_header_is_the_clients");
    let client = Client::new(&programs, false, false).open();
    let mut packet = client.saying.data().packet();
    (packet[1], packet[8]) = (0xb8, 57);
    packet[4..6].copy_from_slice(&[0xbe, 0xef]);
    set_ipv4_checksum(&mut packet);
    let (_, after) = programs.xdp(&client.frame(&packet));
    assert_eq!(after[14 + 1], 0xb8);
    assert_eq!(after[14 + 4..14 + 10], [0xbe, 0xef, 0x40, 0, 57, 17]);

    let client = Client::new(&programs, true, false).open();
    let mut packet = client.saying.data().packet();
    packet[..4].copy_from_slice(&[0x6b, 0x8a, 0xbc, 0xde]);
    packet[7] = 33;
    let (_, after) = programs.xdp(&client.frame(&packet));
    assert_eq!(after[14..18], [0x6b, 0x8a, 0xbc, 0xde]);
    assert_eq!(after[14 + 6..14 + 8], [17, 33]);
}

#[test]
fn tags_stay_and_padding_is_ignored() {
    let programs = programs!("tags_stay_and_padding_is_ignored");
    for tags in [vec![[0x81, 0, 0, 5]], vec![[0x88, 0xa8, 0, 9], [0x81, 0, 0x60, 5]]] {
        for mut client in Client::kinds(&programs) {
            client.tags.clone_from(&tags);
            let mut client = client.asked();
            assert!(client.flow().is_some());
            let ack = client.saying.ack(client.saying.length(), 0);
            assert_eq!(client.say(&ack), Came::Drop);
        }
    }
    for client in Client::kinds(&programs) {
        let client = client.open();
        let mut frame = client.frame(&client.saying.data().packet());
        frame.extend([0xaa; 30]);
        let came = client.say_frame(&frame);
        let Came::Query(datagram) = came else { panic!("{came:?}") };
        assert_eq!(datagram.message.len(), client.saying.query.len() - 2);
        let mut frame = client.frame(&client.saying.ack(0, 0).packet());
        frame.resize(frame.len() + 6, 0xaa);
        assert_eq!(client.say_frame(&frame), Came::Drop);
    }
    // A third tag is unknown.
    let mut client = Client::new(&programs, false, false);
    client.tags = vec![[0x81, 0, 0, 5]; 3];
    let frame = client.frame(&client.saying.syn().packet());
    assert_eq!(counted(&programs, &[], || client.say_frame(&frame)), Came::Pass);
}

/// Only the sum of the pseudo-header, as a virtual link leaves it (CHECKSUM_PARTIAL).
fn offloaded(packet: &[u8]) -> Vec<u8> {
    let (at, addresses) = if packet[0] >> 4 == 4 { (20, 12..20) } else { (40, 8..40) };
    let length = (packet.len() - at) as u32;
    let sum: u32 = packet[addresses]
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum::<u32>()
        + 6
        + length;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
    let mut packet = packet.to_vec();
    packet[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn a_checksum_is_right_offloaded_or_wrong() {
    let programs = programs!("a_checksum_is_right_offloaded_or_wrong");
    programs.set(settings { several_queries: 0, ..Programs::settings() });
    for client in Client::kinds(&programs) {
        let client = client.open();
        for padding in [1, 2, 3, 4, 400, 511, 512, 513, 1000, 1005, 1006, 1007, 1300, 1400] {
            // Any bytes: those that are no query go to the kernel.
            let payload: Vec<u8> = (0..padding).map(|i| (i * 31) as u8).collect();
            let packet = client.saying.data_at(0, 0, &payload).packet();
            let to_kernel = &[Counter::ToKernelUnusual];
            let (right, partial) = (packet.clone(), offloaded(&packet));
            assert_eq!(counted(&programs, to_kernel, || client.say_packet(&right)), Came::Pass);
            assert_eq!(counted(&programs, to_kernel, || client.say_packet(&partial)), Came::Pass);
            for at in [packet.len() - 1, packet.len() - padding, packet.len() - padding / 2 - 1] {
                let mut wrong = packet.clone();
                wrong[at] ^= 0x40;
                let came =
                    counted(&programs, &[Counter::BadChecksum], || client.say_packet(&wrong));
                assert_eq!(came, Came::Drop, "{padding} bytes, byte {at}");
            }
        }
        let packet = client.saying.data().packet();
        let mut wrong = packet.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(client.say_packet(&wrong), Came::Drop);
        assert_eq!(client.flow().map(|_| ()), None);
        assert!(matches!(client.say_packet(&offloaded(&packet)), Came::Query(_)));
    }
}

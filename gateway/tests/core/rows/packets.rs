//! What is not for the gateway, what is malformed, and which headers are read.

use super::*;
use narrows_gateway::core::Core;

#[test]
fn for_others_pass() {
    let mut client = Conversation::new(settings());
    let syn = client.syn();
    let mut elsewhere = syn.clone();
    elsewhere.to.set_port(54);
    let mut other = syn;
    other.to.set_ip([192, 0, 2, 54].into());
    let datagram = Datagram { from: client.client, to: client.server, message: vec![0; 40] };
    for packet in [elsewhere.packet(), other.packet(), datagram.packet()] {
        assert_eq!(client.say_bytes(&packet), PASS);
    }
    assert!(client.core.counters().iter().all(|(_, count)| count == 0));
}

#[test]
fn pass_where_the_gateway_is_not_active() {
    let mut client = Conversation::new(Settings { active: false, ..settings() });
    assert_eq!(client.say(&client.syn()), PASS);
    assert_eq!(client.say_bytes(&[0x45]), PASS);
    assert!(client.core.counters().iter().all(|(_, count)| count == 0));
}

#[test]
fn that_are_malformed_pass_and_are_counted() {
    let mut client = Conversation::new(settings());
    let syn = client.syn().packet();
    let edited = |edits: &[(usize, u8)]| {
        let mut packet = syn.clone();
        for &(at, byte) in edits {
            packet[at] = byte;
        }
        packet
    };
    let malformed = [
        Vec::new(),
        syn[..19].to_vec(),
        syn[..syn.len() - 1].to_vec(),
        edited(&[(0, 0x44)]),
        edited(&[(2, 0), (3, 19)]),
        edited(&[(2, 0), (3, 39)]),
        edited(&[(32, 0x40)]),
        edited(&[(32, 0xf0)]),
    ];
    for (count, packet) in malformed.iter().enumerate() {
        assert_eq!(client.say_bytes(packet), PASS);
        assert_eq!(client.count(Counter::Malformed), count as u64 + 1, "{packet:x?}");
    }
}

#[test]
fn that_are_fragments_pass() {
    let mut client = Conversation::open(settings());
    for ipv6 in [false, true] {
        if ipv6 {
            client = client.over_ipv6();
        }
        for fragment in fragments(&client.data().packet(), 88) {
            assert_eq!(client.say_bytes(&fragment), PASS);
        }
    }
    assert_eq!(client.count(Counter::Malformed), 0);
}

#[test]
fn with_ipv4_options_and_bytes_behind_are_read() {
    let mut client = Conversation::open(settings());
    let plain = client.data().packet();
    let mut packet = [&plain[..20], &[7, 7, 4, 0, 0, 0, 0, 0], &plain[20..], &[0; 9]].concat();
    packet[0] = 0x47;
    packet[3] += 8;
    // If the checksum is wrong, nobody knows whose packet it is.
    assert_eq!(client.say_bytes(&packet), PASS);
    assert_eq!(client.count(Counter::Malformed), 1);
    assert!(matches!(client.say_bytes(&with_checksums(&packet)), Said::Query(_)));
}

#[test]
fn with_ipv6_extension_headers_are_read() {
    let mut client = Conversation::new(settings()).over_ipv6();
    client.shake_hands();
    let plain = client.data().packet();
    // Hop-by-hop, routing, and destination options, six in all; 8, 24 and 16 bytes.
    let mut extensions = Vec::new();
    for (i, (next, bytes)) in
        [(43, 8), (60, 24), (60, 16), (60, 8), (60, 8), (6, 8)].into_iter().enumerate()
    {
        extensions.extend([next, (bytes / 8 - 1) as u8]);
        extensions.extend(vec![0; bytes - 2]);
        if i == 5 {
            break;
        }
    }
    let with = |extensions: &[u8], first| {
        let mut packet = [&plain[..40], extensions, &plain[40..]].concat();
        let length = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        packet[6] = first;
        packet
    };
    let mut again = client.clone();
    assert!(matches!(client.say_bytes(&with(&extensions, 0)), Said::Query(_)));
    let seven = [&[0, 0, 0, 0, 0, 0, 0, 0], &extensions[..]].concat();
    assert_eq!(again.say_bytes(&with(&seven, 0)), PASS);
    assert_eq!(again.count(Counter::Malformed), 0);
}

#[test]
fn with_vlan_tags_are_read_and_answered_in_kind() {
    let mut core = Core::new(settings());
    let client = Conversation::new(settings());
    for tags in 0..=3 {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7].iter().take(4 * tags));
        frame.extend([0x08, 0x00]);
        let header = frame.len();
        frame.extend(client.syn().packet());
        let mut out = Vec::new();
        let verdict = core.on_client_frame(client.now, &frame, |_| Beside::Server, &mut out);
        if tags > 2 {
            assert_eq!((verdict, out.len()), (Verdict::Pass, 0));
            continue;
        }
        assert_eq!(verdict, Verdict::Transmit);
        assert_eq!(out[0][..6], frame[6..12]);
        assert_eq!(out[0][6..12], frame[..6]);
        assert_eq!(out[0][12..header], frame[12..header]);
        assert_eq!(Segment::read(&out[0][header..]).flags, SYN | ACK);
    }
}

#[test]
fn to_a_group_address_of_the_link_pass() {
    let mut core = Core::new(settings());
    let client = Conversation::new(settings());
    let mut frame = vec![1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend(client.syn().packet());
    let mut out = Vec::new();
    let verdict = core.on_client_frame(client.now, &frame, |_| Beside::Server, &mut out);
    assert_eq!((verdict, out.len()), (Verdict::Pass, 0));
    assert_eq!(core.counters().iter().map(|(_, n)| n).sum::<u64>(), 0);
}

#[test]
fn with_a_wrong_checksum_are_dropped_if_they_have_data() {
    let mut client = Conversation::open(settings());
    let mut packet = client.data().packet();
    let last = packet.len() - 1;
    packet[last] ^= 1;
    assert_eq!(client.say_bytes(&packet), DROP);
    assert_eq!(client.count(Counter::BadChecksum), 1);
    assert_eq!(client.flow(), None);
}

#[test]
fn whose_checksum_is_left_to_an_offload_are_right() {
    let mut client = Conversation::open(settings());
    let mut packet = client.data().packet();
    let words = packet[12..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let mut sum: u32 = words.sum::<u32>() + 6 + (packet.len() - 20) as u32;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[36..38].copy_from_slice(&(sum as u16).to_be_bytes());
    assert!(matches!(client.say_bytes(&packet), Said::Query(_)));
}

//! The XDP program's verdicts, by `bpf_prog_run`: each row of PROTOCOL.md's tables, for IPv4 and
//! IPv6, with and without timestamps. Needs root; prints SKIP otherwise.

#![cfg(feature = "ebpf")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::conversation::KEYS;
use common::frames::*;
use common::packets::{ACK, FIN, PSH, RST, SYN, Segment, mended, prefixed, query};
use common::programs::{Programs, RING_UNIT, boot_ns, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::settings;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

#[test]
fn a_syn_is_answered_with_what_the_client_can_use() {
    let programs = programs!("a_syn_is_answered_with_what_the_client_can_use");
    for client in Client::kinds(&programs) {
        for (mss, wscale, sack) in [
            (Some(1460), Some(9), true),
            (Some(1460), Some(9), false),
            (Some(1460), None, true),
            (None, Some(0), true),
            (None, None, false),
        ] {
            let timestamps = client.saying.tsval.is_some();
            let syn = Segment { mss, wscale, sack, ..client.saying.syn() };
            let came = counted(&programs, &[Counter::Syn], || client.say_packet(&syn.packet()));
            let Came::Segment(answer) = came else { panic!("{came:?}") };
            assert_eq!(answer.flags, SYN | ACK);
            assert_eq!(answer.ack, syn.seq.wrapping_add(1));
            assert_eq!(answer.window, 65_535);
            assert_eq!(answer.mss, Some(if client.saying.server.is_ipv6() { 1440 } else { 1460 }));
            assert_eq!(answer.wscale, wscale.filter(|_| timestamps).map(|_| 7));
            assert_eq!(answer.sack, sack && timestamps);
            assert_eq!(answer.timestamps.map(|(_, tsecr)| tsecr), client.saying.tsval);
            assert!(answer.payload.is_empty());
        }
    }
    assert!(programs.flows().is_empty(), "no state");
}

/// In the layout of Linux's `net/ipv4/tcp_output.c`, for those who compare bytes.
#[test]
fn the_options_of_a_syn_ack_are_laid_out_as_linux_does() {
    let programs = programs!("the_options_of_a_syn_ack_are_laid_out_as_linux_does");
    let client = Client::new(&programs, false, false);
    let (_, frame) = programs.xdp(&client.frame(&client.saying.syn().packet()));
    let options = &frame[14 + 20 + 20..];
    assert_eq!(
        options[..8],
        [2, 4, 1460u16.to_be_bytes()[0], 1460u16.to_be_bytes()[1], 4, 2, 8, 10]
    );
    assert_eq!(options[16..], [1, 3, 3, 7]);
    let syn = Segment { sack: false, wscale: None, ..client.saying.syn() };
    let (_, frame) = programs.xdp(&client.frame(&syn.packet()));
    let options = &frame[14 + 20 + 20..];
    assert_eq!(options[4..8], [1, 1, 8, 10]);
    assert_eq!(options.len(), 16);
}

#[test]
fn what_else_a_syn_says_is_not_looked_at() {
    let programs = programs!("what_else_a_syn_says_is_not_looked_at");
    let client = Client::new(&programs, false, false);
    let plain = client.say_packet(&client.saying.syn().packet());
    // PSH, URG, ECE, CWR, and data.
    for flags in [8, 32, 64, 128, 0xe8] {
        let mut packet = client.saying.syn().packet();
        packet[33] |= flags;
        assert_eq!(client.say_packet(&mended(&packet)), plain);
    }
    let syn = Segment { payload: b"early".to_vec(), ..client.saying.syn() };
    let mut packet = syn.packet();
    assert_eq!(client.say_packet(&packet), plain);
    *packet.last_mut().unwrap() ^= 1;
    assert_eq!(
        counted(&programs, &[Counter::BadChecksum], || client.say_packet(&packet)),
        Came::Drop
    );
}

#[test]
fn a_syn_with_ack_fin_or_rst_is_dropped() {
    let programs = programs!("a_syn_with_ack_fin_or_rst_is_dropped");
    for client in Client::kinds(&programs) {
        for flags in [ACK, FIN, RST, ACK | FIN, ACK | RST, FIN | RST, ACK | FIN | RST] {
            let syn = Segment { flags: SYN | flags, ..client.saying.syn() };
            let came =
                counted(&programs, &[Counter::OddFlags], || client.say_packet(&syn.packet()));
            assert_eq!(came, Came::Drop);
        }
        for flags in [0, FIN, PSH, FIN | PSH] {
            let segment = Segment { flags, ..client.saying.data() };
            let came =
                counted(&programs, &[Counter::OddFlags], || client.say_packet(&segment.packet()));
            assert_eq!(came, Came::Drop, "a segment without ACK");
        }
    }
}

/// RFC 9293, section 3.1, and how Linux handles invalid options.
#[test]
fn options_are_read_as_linux_reads_them() {
    let programs = programs!("options_are_read_as_linux_reads_them");
    let client = Client::new(&programs, false, false);
    // MSS, window scale, SACK and timestamps as they were read.
    type Read = (u16, Option<u8>, bool, bool);
    let ts = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0];
    let with_ts = |before: &[u8]| [before, &ts].concat();
    let cases: [(Vec<u8>, Read); 12] = [
        (with_ts(&[3, 3, 20, 2, 4, 5, 0xb4]), (1460, Some(14), false, true)),
        (with_ts(&[4, 2]), (536, None, true, true)),
        // With a wrong length: skipped.
        (with_ts(&[2, 3, 5, 2, 4, 2, 0x18]), (536, None, false, true)),
        (with_ts(&[3, 2, 4, 3, 1]), (536, None, false, true)),
        (with_ts(&[254, 6, 1, 2, 3, 4]), (536, None, false, true)),
        // With length 0 or 1, or beyond the end: reading stops.
        (with_ts(&[254, 0]), (536, None, false, false)),
        (with_ts(&[254, 1]), (536, None, false, false)),
        (vec![2, 4, 5, 0xb4, 8, 10, 0, 0], (1460, None, false, false)),
        (vec![2, 4, 5, 0xb4, 1, 1, 1, 8], (1460, None, false, false)),
        // An end of options before the rest.
        (with_ts(&[0]), (536, None, false, false)),
        // The last one counts.
        (with_ts(&[2, 4, 5, 0, 2, 4, 4, 0]), (1024, None, false, true)),
        (with_ts(&[2, 4, 0, 0]), (88, None, false, true)),
    ];
    for (mut options, (mss, wscale, sack, timestamps)) in cases {
        options.resize(options.len().next_multiple_of(4), 0);
        let mut packet = Segment {
            mss: None,
            wscale: None,
            sack: false,
            timestamps: None,
            ..client.saying.syn()
        }
        .packet();
        packet.extend(&options);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[32] = ((20 + options.len()) / 4 * 16) as u8;
        let came = client.say_packet(&mended(&packet));
        let Came::Segment(answer) = came else { panic!("{came:?}") };
        assert_eq!(answer.timestamps.is_some(), timestamps, "{options:?}");
        assert_eq!((answer.wscale, answer.sack), (wscale.map(|_| 7), sack), "{options:?}");
        if let Some((tsval, _)) = answer.timestamps {
            assert_eq!((tsval >> 18) as u16, mss, "{options:?}");
            assert_eq!((tsval >> 14 & 15) as u8, wscale.unwrap_or(15), "{options:?}");
        } else {
            let class = if mss == 1460 { 13 } else { 2 };
            assert_eq!(answer.seq >> 27 & 15, class, "{options:?}");
        }
    }
}

#[test]
fn a_query_becomes_a_datagram() {
    let programs = programs!("a_query_becomes_a_datagram");
    for edns in [None, Some(512), Some(1232), Some(65_535)] {
        for client in Client::kinds(&programs) {
            let mut client = client.open();
            client.saying.query = query(0xabcd, "www.example.com", 28, edns);
            let head = programs.ring_head();
            let said = client.saying.data();
            let came = counted(&programs, &[Counter::Query], || client.say(&said));
            let Came::Query(datagram) = came else { panic!("{came:?}") };
            let mut message = client.saying.query[2..].to_vec();
            match edns {
                None => {
                    message[11] = 1;
                    message.extend([0, 0, 41, 0xff, 0xdc, 0, 0, 0, 0, 0, 0]);
                }
                Some(size) if size < 65_500 => {
                    let at = message.len() - 8;
                    message[at..at + 2].copy_from_slice(&65_500u16.to_be_bytes());
                }
                Some(_) => {}
            }
            assert_eq!(datagram.message, message);

            let entry = client.flow().expect("an entry");
            let (query_seq, server_seq) = client.starts();
            let timestamps = said.timestamps;
            assert_eq!(entry.state, QUERY);
            assert_eq!((entry.query_seq, entry.server_seq), (query_seq, server_seq));
            assert_eq!(entry.client_next, query_seq.wrapping_add(client.saying.length()));
            assert_eq!(u32::from(entry.query_length), client.saying.length());
            assert_eq!((entry.reply_length, entry.acked, entry.repeats), (0, server_seq, 0));
            assert_eq!(u16::from_be(entry.dns_id), 0xabcd);
            let added = if edns.is_none() { EDNS_ADDED } else { 0 };
            match timestamps {
                Some((tsval, tsecr)) => {
                    assert_eq!(entry.flags, TIMESTAMPS | SACK | added);
                    assert_eq!((entry.tsval, entry.client_tsval), (tsecr | HEARD, tsval));
                    assert_eq!((entry.mss, entry.client_wscale, entry.window), (1460, 9, 512 << 9));
                }
                None => {
                    assert_eq!(entry.flags, added);
                    assert_eq!((entry.tsval, entry.client_tsval), (0, 0));
                    assert_eq!((entry.mss, entry.client_wscale, entry.window), (1460, 15, 65_535));
                }
            }
            assert_eq!(entry.stored, head);
            assert_eq!(programs.ring(head, client.saying.query.len()), client.saying.query);
            assert_eq!(programs.ring_head(), head + client.saying.length().div_ceil(RING_UNIT));
        }
    }
}

#[test]
fn a_query_with_fin_is_noted_as_closed_by_the_client() {
    let programs = programs!("a_query_with_fin_is_noted_as_closed_by_the_client");
    for client in Client::kinds(&programs) {
        let mut client = client.open();
        let said = Segment { flags: ACK | PSH | FIN, ..client.saying.data() };
        assert!(matches!(client.say(&said), Came::Query(_)));
        let entry = client.flow().unwrap();
        assert_eq!(entry.flags & CLIENT_FIN, CLIENT_FIN);
        assert_eq!(entry.client_next, said.next());
    }
}

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
            .into()
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

/// A query, with each change that makes it something else.
fn no_queries() -> Vec<(&'static str, Vec<u8>)> {
    let good = query(7, "www.example.com", 1, Some(1232));
    let message = &good[2..];
    let opt = message.len() - 11;
    let change = |at: usize, value: u8| {
        let mut message = message.to_vec();
        message[at] = value;
        prefixed(&message)
    };
    let insert =
        |at: usize, bytes: &[u8]| prefixed(&[&message[..at], bytes, &message[at..]].concat());
    let with_counts = |message: &[u8], additional: u8| {
        let mut message = message.to_vec();
        message[11] = additional;
        prefixed(&message)
    };
    let tsig = [
        &[1, b'k', 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 16][..],
        &[1, b'h', 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0],
    ]
    .concat();
    let labels = |lengths: &[u8]| {
        let mut name = Vec::new();
        for &length in lengths {
            name.push(length);
            name.resize(name.len() + usize::from(length), b'x');
        }
        let mut message = message[..12].to_vec();
        message[11] = 0;
        message.extend(name);
        message.extend([0, 0, 1, 0, 1]);
        prefixed(&message)
    };
    vec![
        ("a prefix that is too short", [&[0, 30][..], message].concat()),
        ("a prefix that is too long", [&[1, 0][..], message].concat()),
        ("the prefix alone", good[..2].to_vec()),
        ("half a prefix", good[..1].to_vec()),
        ("the first half", good[..20].to_vec()),
        ("two queries", [&good[..], &good[..]].concat()),
        ("QR", change(2, 0x81)),
        ("opcode NOTIFY", change(2, 0x20)),
        ("opcode UPDATE", change(2, 0x28)),
        ("TC", change(2, 0x03)),
        ("no question", change(5, 0)),
        ("two questions", change(5, 2)),
        ("256 questions", change(4, 1)),
        ("an answer", change(7, 1)),
        ("an authority record", change(9, 1)),
        ("two additional records", change(11, 2)),
        ("257 additional records", change(10, 1)),
        ("a record that is not counted", change(11, 0)),
        ("a compressed name", change(12 + 4, 0xc0)),
        ("a label of 64", change(12, 64)),
        ("a name of 256 bytes", labels(&[63, 63, 63, 62])),
        ("OPT of version 1", change(opt + 6, 1)),
        ("OPT of another name", insert(opt, &[1, b'x'])),
        ("OPT's type changed", change(opt + 2, 42)),
        ("OPT's options beyond the end", change(opt + 10, 1)),
        ("bytes behind OPT", insert(message.len(), &[0])),
        ("bytes behind the question", with_counts(&[&message[..opt], &[0]].concat(), 0)),
        ("half an OPT", with_counts(&message[..opt + 5], 1)),
        ("TSIG alone", with_counts(&[&message[..opt], &tsig].concat(), 1)),
        ("OPT and TSIG", with_counts(&[message, &tsig].concat(), 2)),
        ("no DNS", b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec()),
        ("1025 bytes", {
            let mut long = message.to_vec();
            long.resize(1023, 0);
            let options = (1023 - message.len()) as u16;
            long[opt + 9..opt + 11].copy_from_slice(&options.to_be_bytes());
            prefixed(&long)
        }),
    ]
}

#[test]
fn what_is_not_one_whole_query_goes_to_the_kernel_as_it_came() {
    let programs = programs!("what_is_not_one_whole_query_goes_to_the_kernel_as_it_came");
    for client in Client::kinds(&programs) {
        let client = client.open();
        for (what, payload) in no_queries() {
            let packet = client.saying.data_at(0, 0, &payload).packet();
            let head = programs.ring_head();
            let came =
                counted(&programs, &[Counter::ToKernelUnusual], || client.say_packet(&packet));
            assert_eq!(came, Came::Pass, "{what}");
            assert_eq!(client.flow().map(|_| ()), None, "{what}");
            assert_eq!(programs.ring_head(), head, "{what}");
        }
    }
}

#[test]
fn odd_queries_are_queries_too() {
    let programs = programs!("odd_queries_are_queries_too");
    let root = query(1, ".", 2, None);
    assert_eq!(root.len(), 19);
    let mut flags = query(2, "example.com", 1, None);
    flags[2 + 2] |= 0x05; // AA and RD do not matter.
    flags[2 + 3] |= 0xff;
    let mut long = query(3, "example.com", 1, Some(4096))[2..].to_vec();
    let opt = long.len() - 11;
    long.resize(1022, 0xee);
    let options = (1022 - opt - 11) as u16;
    long[opt + 9..opt + 11].copy_from_slice(&options.to_be_bytes());
    let mut odd = query(4, "example.com", 1, Some(4096))[2..].to_vec();
    odd.extend([0xff, 0xff, 0xff]);
    let at = odd.len() - 3 - 1;
    odd[at] = 3;
    let labels: String = (0..127).map(|_| "x.").collect();
    for payload in [
        root,
        flags,
        prefixed(&long),
        prefixed(&odd),
        query(5, &labels, 1, None),
        query(6, "example.com", 65_535, Some(0)),
    ] {
        for client in Client::kinds(&programs) {
            let mut client = client.open();
            let said = client.saying.data_at(0, 0, &payload);
            let came = client.say(&said);
            assert!(matches!(came, Came::Query(_)), "{came:?} {payload:x?}");
        }
    }
}

#[test]
fn transfers_are_the_kernels_unless_they_are_not_looked_for() {
    let programs = programs!("transfers_are_the_kernels_unless_they_are_not_looked_for");
    for kind in [251, 252] {
        for client in Client::kinds(&programs) {
            programs.set(Programs::settings());
            let mut client = client.open();
            client.saying.query = query(1, "example.com", kind, None);
            let said = client.saying.data();
            let came = counted(&programs, &[Counter::ToKernelTransfer], || client.say(&said));
            assert_eq!(came, Came::Pass);
            assert_eq!(client.flow().map(|_| ()), None);
            programs.set(settings { axfr_detect: 0, ..Programs::settings() });
            assert!(matches!(client.say(&client.saying.data()), Came::Query(_)));
        }
    }
}

#[test]
fn names_with_large_replies_are_the_kernels_for_a_time() {
    let programs = programs!("names_with_large_replies_are_the_kernels_for_a_time");
    let long = format!("{}.{}.example", "a".repeat(63), "b".repeat(40));
    for name in [".", "x", "xy.example", "www.example.com", "large.example.org", &long] {
        let mut client = Client::new(&programs, false, false).open();
        client.saying.query = query(1, &name.to_uppercase(), 16, None);
        let question = &query(1, name, 16, None)[2 + 12..];
        let mut hasher = SipHasher24::new_with_keys(KEYS[0].k0, KEYS[0].k1);
        hasher.write(question);
        programs.remember_large(hasher.finish(), boot_ns() + 10_000_000_000);
        let said = client.saying.data();
        let came = counted(&programs, &[Counter::ToKernelLarge], || client.say(&said));
        assert_eq!(came, Came::Pass, "{name}");
        // Another type has another reply.
        let other = client.saying.data_at(0, 0, &query(1, name, 1, None));
        assert!(matches!(client.say(&other), Came::Query(_)), "{name}");
        programs.remove_flows();
        programs.remember_large(hasher.finish(), boot_ns() - 1);
        assert!(
            matches!(client.say(&client.saying.data()), Came::Query(_)),
            "{name}: its time is over"
        );
        programs.remove_flows();
    }
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let programs = programs!("a_client_that_says_nothing_is_let_go");
    for client in Client::kinds(&programs) {
        let mut client = client.open();
        let fin = client.saying.fin(0, 0);
        let came = counted(&programs, &[Counter::Closed], || client.say(&fin));
        let timestamps = fin.timestamps.map(|(tsval, tsecr)| (tsecr, tsval));
        let expected =
            Segment { flags: FIN | ACK, window: 65_535, timestamps, ..client.segment(0, 1) };
        assert_eq!(came, Came::Segment(expected));
        assert!(programs.flows().is_empty());
    }
}

//! PROTOCOL.md, "The first data".

use super::*;

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
                    message.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
                }
                Some(size) if size < 4096 => {
                    let at = message.len() - 8;
                    message[at..at + 2].copy_from_slice(&4096u16.to_be_bytes());
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
    programs.set(settings { several_queries: 0, ..Programs::settings() });
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

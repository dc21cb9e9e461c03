//! PROTOCOL.md, "The first data" of a connection.

use super::*;

#[test]
fn a_whole_query_goes_to_the_server() {
    for ipv6 in [false, true] {
        for plain in [false, true] {
            let mut client = Conversation::new(settings());
            client = if ipv6 { client.over_ipv6() } else { client };
            client = if plain { client.plain() } else { client };
            client.shake_hands();
            let Said::Query(datagram) = client.say(&client.data()) else { panic!("no query") };
            // The payload size is raised; the rest is unchanged.
            let mut message = client.query[2..].to_vec();
            let at = message.len() - 8;
            message[at..at + 2].copy_from_slice(&4096_u16.to_be_bytes());
            assert_eq!(datagram.message, message);
            let flow = client.flow().expect("an entry");
            assert_eq!((flow.state, flow.mss), (State::Query, 1460));
            assert_eq!(flow.query_seq, client.isn.wrapping_add(1));
            assert_eq!(flow.client_next, flow.query_seq.wrapping_add(client.length()));
            assert_eq!(flow.server_seq, client.cookie.wrapping_add(1));
            assert_eq!((flow.dns_id, flow.edns_added), (0x1234, false));
            assert_eq!(flow.timestamps, !plain);
            assert_eq!(flow.window, if plain { 65_535 } else { 512 << 9 });
        }
    }
}

/// It may leave out the timestamps that it offered.
#[test]
fn without_timestamps_only_the_mss_is_known() {
    for syncache in [false, true] {
        let mut client = Conversation::open(Settings { syncache, ..settings() });
        let data = Segment { timestamps: None, ..client.data() };
        assert!(matches!(client.say(&data), Said::Query(_)));
        let flow = client.flow().expect("an entry");
        assert_eq!((flow.timestamps, flow.sack, flow.mss), (syncache, syncache, 1460));
        assert_eq!(flow.window, if syncache { 512 << 9 } else { 512 });
        let (_, segments) = client.answer(300);
        // A SYN cache still knows the SYN's.
        let timestamps = syncache.then_some((client.tsecr | 4096, 7000));
        assert_eq!(segments[0].timestamps, timestamps);
    }
    // Or send some that it did not offer.
    let mut client = Conversation::new(settings()).plain();
    client.shake_hands();
    let data = Segment { timestamps: Some((5, 0)), ..client.data() };
    assert!(matches!(client.say(&data), Said::Query(_)));
    assert!(!client.flow().expect("an entry").timestamps);
}

#[test]
fn without_edns_an_opt_record_is_added() {
    let mut client = Conversation::open(settings());
    client.query = query(7, "example.com", 1, None);
    let Said::Query(datagram) = client.say(&client.data()) else { panic!("no query") };
    assert_eq!(datagram.message, client.at_server());
    assert!(client.flow().expect("an entry").edns_added);
}

#[test]
fn with_a_larger_edns_size_nothing_changes() {
    let mut client = Conversation::open(settings());
    client.query = query(7, "example.com", 1, Some(4097));
    let Said::Query(datagram) = client.say(&client.data()) else { panic!("no query") };
    assert_eq!(datagram.message, client.query[2..]);
}

#[test]
fn with_fin_is_a_half_close() {
    let mut client = Conversation::open(settings());
    let data = Segment { flags: ACK | PSH | FIN, ..client.data() };
    assert!(matches!(client.say(&data), Said::Query(_)));
    let flow = client.flow().expect("an entry");
    assert!(flow.client_fin);
    assert_eq!(flow.client_next, data.next());
}

#[test]
fn above_the_rate_of_its_source_is_for_the_kernel() {
    let settings = Settings { query_interval_ns: 1_000_000_000, ..settings() };
    let mut client = Conversation::asked(settings);
    client.client.set_port(40_001);
    client.shake_hands();
    let data = client.data();
    assert_eq!(client.say(&data), hand_off(Reason::Rate));
    assert_eq!((client.count(Counter::QueryLimited), client.flow()), (1, None));
    client.now.boot += Duration::from_secs(1);
    assert!(matches!(client.say(&data), Said::Query(_)));
}

#[test]
fn a_bare_fin_is_answered_with_fin_and_ack() {
    let mut client = Conversation::open(settings());
    let answer = segment(client.say(&client.fin(0, 0)));
    assert_eq!((answer.flags, answer.ack), (FIN | ACK, client.isn.wrapping_add(2)));
    assert_eq!(client.flow(), None);
    assert_eq!(client.count(Counter::Closed), 1);
}

#[test]
fn a_zone_transfer_is_left_to_the_kernel() {
    for kind in [251, 252] {
        let mut client = Conversation::open(settings());
        client.query = query(7, "example.com", kind, None);
        assert_eq!(client.say(&client.data()), hand_off(Reason::Transfer));
        assert_eq!(client.flow(), None);
        let mut client = Conversation::open(Settings { axfr_detect: false, ..settings() });
        client.query = query(7, "example.com", kind, None);
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
    }
}

/// The query with these options in its OPT record.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut message = query(7, "example.com", 1, Some(1232))[2..].to_vec();
    let length = message.len();
    message[length - 2..].copy_from_slice(&(options.len() as u16).to_be_bytes());
    message.extend(options);
    prefixed(&message)
}

/// RFC 7828, sections 3.1 and 3.3: an empty option of code 11; a cookie (code 10) may precede it.
#[test]
fn the_servers_idle_time_is_left_to_the_kernel() {
    let keepalive = [0, 11, 0, 0];
    let cookie = [&[0, 10, 0, 8][..], &[0; 8]].concat();
    for options in [keepalive.to_vec(), [&cookie[..], &keepalive].concat()] {
        let mut client = Conversation::open(settings());
        client.query = with_options(&options);
        assert_eq!(client.say(&client.data()), hand_off(Reason::Keepalive));
        assert_eq!(client.flow(), None);
        assert!(client.core.adopt(client.now, &client.data().packet()).is_some());
    }
    // A cookie that contains such bytes, and truncated options.
    let inside = [&[0, 10, 0, 8][..], &keepalive, &keepalive].concat();
    for options in [cookie, inside, vec![0, 11, 0], vec![0, 10, 0xff, 0xff, 0, 11, 0, 0]] {
        let mut client = Conversation::open(settings());
        client.query = with_options(&options);
        assert!(matches!(client.say(&client.data()), Said::Query(_)), "{options:?}");
    }
}

#[test]
fn a_name_with_a_large_reply_is_left_to_the_kernel() {
    let mut client = Conversation::asked(Settings { large_ns: 10_000_000_000, ..settings() });
    assert_eq!(client.answer(20_000).0, ReplyVerdict::HandOff);
    client.client.set_port(40_001);
    client.shake_hands();
    // In any mixture of upper and lower case.
    client.query = query(9, "WWW.eXample.com", 1, None);
    assert_eq!(client.say(&client.data()), hand_off(Reason::Large));
    let mut other = client.clone();
    other.query = query(9, "www.example.com", 28, None);
    assert!(matches!(other.say(&other.data()), Said::Query(_)));
    client.now.boot += Duration::from_secs(11);
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
}

/// "Anything else": each condition of a whole query, broken separately.
#[test]
fn anything_else_is_left_to_the_kernel() {
    let whole = query(7, "example.com", 1, Some(1232));
    let question = whole.len() - 11;
    let edited = |edits: &[(usize, u8)]| {
        let mut payload = whole.clone();
        for &(at, byte) in edits {
            payload[at] = byte;
        }
        payload
    };
    let prefixed_part = |message: &[u8]| prefixed(message);
    let unusual = [
        whole[..1].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], &whole[..]].concat(),
        prefixed_part(&whole[2..18]),
        prefixed_part(&[0; 1023]),
        edited(&[(4, 0x80)]),
        edited(&[(4, 0x08)]),
        edited(&[(4, 0x02)]),
        edited(&[(7, 0)]),
        edited(&[(7, 2)]),
        edited(&[(9, 1)]),
        edited(&[(11, 1)]),
        edited(&[(13, 0)]),
        edited(&[(13, 2)]),
        edited(&[(14, 0xc0)]),
        edited(&[(14, 64)]),
        edited(&[(14, 63)]),
        edited(&[(question, 1)]),
        edited(&[(question + 2, 42)]),
        edited(&[(question + 6, 1)]),
        edited(&[(question + 10, 1)]),
        prefixed_part(&[&whole[2..], &[0]].concat()),
        prefixed_part(&whole[2..question + 3]),
    ];
    for payload in unusual {
        let mut client = Conversation::open(settings());
        client.query.clone_from(&payload);
        assert_eq!(client.say(&client.data()), hand_off(Reason::Unusual), "{payload:x?}");
        assert_eq!(client.flow(), None);
    }
}

#[test]
fn names_of_up_to_255_bytes_are_whole() {
    let label = "x".repeat(63);
    for (last, whole) in [(61, true), (62, false)] {
        let mut payload = query(7, "a", 1, None);
        let mut name = Vec::new();
        for label in [&label[..], &label, &label, &label[..last]] {
            name.push(label.len() as u8);
            name.extend(label.bytes());
        }
        name.push(0);
        payload.splice(14..17, name);
        let mut client = Conversation::open(settings());
        client.query = prefixed(&payload[2..]);
        assert_eq!(matches!(client.say(&client.data()), Said::Query(_)), whole);
    }
}

#[test]
fn to_a_server_that_is_gone_is_left_to_the_kernel() {
    let mut client = Conversation::open(settings());
    client.beside = Beside::NoServer;
    let data = client.data();
    assert_eq!(client.say(&data), hand_off(Reason::Down));
    assert_eq!(client.flow(), None);
    assert!(client.core.adopt(client.now, &data.packet()).is_some());
}

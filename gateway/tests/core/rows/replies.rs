//! PROTOCOL.md, "The reply": what the server sends.

use super::*;

#[test]
fn in_one_segment_acknowledge_the_query() {
    for ipv6 in [false, true] {
        for plain in [false, true] {
            let mut client = Conversation::new(settings());
            client = if ipv6 { client.over_ipv6() } else { client };
            client = if plain { client.plain() } else { client };
            client.shake_hands();
            client.say(&client.data());
            let message = reply(&client.at_server(), 500, 0);
            let (_, segments) = client.answer(500);
            let [segment] = &segments[..] else { panic!("{} segments", segments.len()) };
            assert_eq!(segment.payload, prefixed(&message));
            assert_eq!((segment.flags, segment.ack), (ACK | PSH, client.data().next()));
            assert_eq!(segment.seq, client.cookie.wrapping_add(1));
            assert_eq!(segment.window, if plain { 65_535 } else { 511 });
            assert_eq!(
                segment.timestamps,
                client.tsval.map(|next| (client.tsecr | 4096, next - 1))
            );
        }
    }
}

#[test]
fn in_several_segments_fill_all_but_the_last() {
    let (client, segments) = Conversation::replied(settings(), 5000);
    let message = reply(&client.at_server(), 5000, 0);
    let lengths: Vec<_> = segments.iter().map(|s| s.payload.len()).collect();
    assert_eq!(lengths, [1448, 1448, 1448, 5002 - 3 * 1448]);
    let flags: Vec<_> = segments.iter().map(|s| s.flags).collect();
    assert_eq!(flags, [ACK, ACK, ACK, ACK | PSH]);
    let whole: Vec<u8> = segments.iter().flat_map(|s| s.payload.clone()).collect();
    assert_eq!(whole, prefixed(&message));
    assert!(segments.windows(2).all(|pair| pair[0].next() == pair[1].seq));
    assert_eq!(client.count(Counter::ReplySegments), 4);
}

#[test]
fn carry_fin_on_the_last_segment_where_connections_are_closed() {
    let (client, segments) = Conversation::replied(close_fin(), 5000);
    let flags: Vec<_> = segments.iter().map(|s| s.flags).collect();
    assert_eq!(flags, [ACK, ACK, ACK, ACK | PSH | FIN]);
    assert_eq!(state(&client), Some(State::Closing));
}

#[test]
fn lose_an_opt_record_that_was_added() {
    let mut client = Conversation::open(settings());
    client.query = query(7, "example.com", 1, None);
    client.say(&client.data());
    let plain = reply(&client.query[2..], 300, 0);
    let (_, segments) = client.answer(311);
    assert_eq!(segments[0].payload, prefixed(&plain));
}

/// Each reason for which the kernel has to answer in our place.
#[test]
fn that_are_not_ours_put_the_query_to_the_kernel() {
    let edns = query(7, "example.com", 1, Some(1232));
    let plain = query(7, "example.com", 1, None);
    type Case<'a> = (&'a [u8], fn(&mut Conversation, &mut Vec<u8>));
    let cases: [Case<'_>; 6] = [
        (&edns, |_, reply| reply[2] |= 2),
        (&edns, |client, _| {
            client.window = 0;
            client.say(&client.ack(client.length(), 0));
        }),
        (&edns, |_, reply| reply.resize(10 * 1448 - 1, 0)),
        (&plain, |_, reply| {
            let last = reply.len() - 1;
            reply[last] = 4;
            reply.extend([0; 4]);
        }),
        (&plain, |_, reply| reply[11] = 0),
        (&plain, |_, reply| {
            let at = reply.len() - 9;
            reply[at] = 42;
        }),
    ];
    for (i, (query, change)) in cases.into_iter().enumerate() {
        let mut client = Conversation::open(settings());
        client.query = query.to_vec();
        client.say(&client.data());
        let mut message = reply(&client.at_server(), 300, 0);
        change(&mut client, &mut message);
        let (verdict, out) = client.answer_with(&message);
        assert_eq!((verdict, out.len()), (ReplyVerdict::HandOff, 1), "case {i}");
        let again = Segment::read(&out[0]);
        assert_eq!(again.payload, query);
        let mut asked = client.data();
        asked.timestamps =
            Some((client.flow().expect("an entry").client_tsval, client.tsecr | 4096));
        assert_eq!(again, asked);
        assert_eq!(state(&client), Some(State::Slow));
        assert_eq!(client.say_bytes(&out[0]), hand_off(Reason::Left));
        assert!(client.core.adopt(client.now, &out[0]).is_some());
        assert_eq!(state(&client), Some(State::Kernel));
        // The server answers a query that it received twice.
        assert_eq!(client.answer_with(&message), (ReplyVerdict::Drop, Vec::new()));
    }
}

/// A rate limit's TC = 1, BADCOOKIE, a reply without a question: these say nothing about the name.
#[test]
fn that_tell_nothing_put_the_query_to_the_kernel_and_not_the_name() {
    let cases: [fn(&mut Vec<u8>); 3] = [
        |reply| reply[2] |= 2,
        |reply| reply[3] |= 7,
        |reply| {
            reply.truncate(12);
            reply[4..12].fill(0);
        },
    ];
    for change in cases {
        let mut client = Conversation::asked(settings());
        let mut message = client.query[2..client.query.len() - 11].to_vec();
        message[2] |= 0x80;
        message[11] = 0;
        change(&mut message);
        let (verdict, out) = client.answer_with(&message);
        assert_eq!((verdict, out.len()), (ReplyVerdict::HandOff, 1));
        assert_eq!(client.count(Counter::ToKernelRefused), 1);
        assert!(client.core.adopt(client.now, &out[0]).is_some());
        client.client.set_port(40_001);
        client.shake_hands();
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
    }
}

/// Somebody asks over UDP in the client's name, with its port and ID.
#[test]
fn to_another_question_pass() {
    let asked = Conversation::asked(settings());
    let (replied, _) = Conversation::replied(settings(), 100);
    for mut client in [asked, replied] {
        for (name, kind) in [("www.example.org", 1), ("www.example.com", 28), ("example.com", 1)] {
            let before = client.flow();
            let message = reply(&query(0x1234, name, kind, None)[2..], 100, 0);
            assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
            assert_eq!(client.flow(), before);
        }
    }
    // It is the same in upper or lower case.
    let mut client = Conversation::asked(settings());
    let mut message = reply(&client.at_server(), 100, 0);
    message[12..28].make_ascii_uppercase();
    assert_eq!(client.answer_with(&message).0, ReplyVerdict::Sent);
}

#[test]
fn of_just_the_most_segments_are_sent() {
    let (_, segments) = Conversation::replied(settings(), 10 * 1448 - 2);
    assert_eq!(segments.len(), 10);
}

#[test]
fn that_come_again_are_dropped() {
    let mut client = Conversation::asked(settings());
    client.answer(100);
    assert_eq!(client.answer(100), (ReplyVerdict::Drop, Vec::new()));
    assert_eq!(client.count(Counter::ReplyRepeated), 1);
}

#[test]
fn to_others_pass() {
    let mut client = Conversation::asked(settings());
    let message = reply(&client.at_server(), 100, 0);
    let mut other_id = message.clone();
    other_id[0] ^= 1;
    let mut no_reply = message.clone();
    no_reply[2] &= 0x7f;
    for message in [&other_id[..], &no_reply, &message[..11], &[]] {
        assert_eq!(client.answer_with(message).0, ReplyVerdict::Pass);
    }
    client.client.set_port(1);
    assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
    client.client.set_port(40_000);
    client.server.set_port(5353);
    assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
    client.server = "192.0.2.99:53".parse().expect("an address");
    assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
}

#[test]
fn in_fragments_are_gathered() {
    for ipv6 in [false, true] {
        for mtu in [1500, 576] {
            let mut client = Conversation::new(settings());
            client = if ipv6 { client.over_ipv6() } else { client };
            client.shake_hands();
            client.say(&client.data());
            let message = reply(&client.at_server(), 5000, 0);
            let datagram =
                Datagram { from: client.server, to: client.client, message: message.clone() };
            let parts = fragments(&datagram.packet(), mtu);
            let (last, first) = parts.split_last().expect("fragments");
            for part in first {
                let verdict = client.core.on_reply(client.now, part, &mut Vec::new());
                assert_eq!(verdict, ReplyVerdict::Drop);
            }
            let mut out = Vec::new();
            assert_eq!(client.core.on_reply(client.now, last, &mut out), ReplyVerdict::Sent);
            let payloads = out.iter().flat_map(|packet| Segment::read(packet).payload);
            assert_eq!(payloads.collect::<Vec<_>>(), prefixed(&message));
        }
    }
}

#[test]
fn fragments_of_others_pass() {
    let mut client = Conversation::asked(settings());
    let mut message = reply(&client.at_server(), 5000, 0);
    message[0] ^= 1;
    let datagram = Datagram { from: client.server, to: client.client, message };
    for part in fragments(&datagram.packet(), 1500) {
        let verdict = client.core.on_reply(client.now, &part, &mut Vec::new());
        assert_eq!(verdict, ReplyVerdict::Pass);
    }
}

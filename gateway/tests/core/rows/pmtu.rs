//! PROTOCOL.md, "Too long for the path".

use super::*;
use crate::common::packets::too_big;

/// A router's message that the segment is longer than the `mtu` of a link.
#[track_caller]
fn complain(client: &mut Conversation, about: &Segment, mtu: u32) -> Said {
    client.say_bytes(&too_big(&about.packet(), mtu, 1280))
}

/// Checks that the message passes and that nothing changes.
#[track_caller]
fn is_ignored(client: &mut Conversation, packet: &[u8]) {
    let entry = client.flow();
    assert_eq!(client.say_bytes(packet), PASS);
    assert_eq!(client.flow(), entry);
    assert_eq!(client.count(Counter::PathMtu), 0);
}

/// A client on IPv4 and one on IPv6, each with a reply of 5000 bytes, and the room for data in 1280
/// bytes.
fn both() -> [(Conversation, Vec<Segment>, usize); 2] {
    let v4 = Conversation::replied(settings(), 5000);
    let mut v6 = Conversation::new(settings()).over_ipv6();
    v6.shake_hands();
    v6.say(&v6.data());
    let segments = v6.answer(5000).1;
    [(v4.0, v4.1, 1280 - 52), (v6, segments, 1280 - 72)]
}

#[test]
fn the_first_segment_that_is_missing_comes_again_and_is_shorter() {
    for (mut client, segments, size) in both() {
        // Even if a later segment is quoted, because messages get lost too.
        let again = segment(complain(&mut client, &segments[1], 1280));
        assert_eq!((again.seq, again.ack), (segments[0].seq, segments[0].ack));
        assert_eq!(again.payload, segments[0].payload[..size]);
        assert_eq!((client.count(Counter::PathMtu), client.count(Counter::Resent)), (1, 1));
        // Each segment causes a message, but only one of them counts.
        for about in &segments {
            assert_eq!(complain(&mut client, about, 1280), PASS);
        }
        // The rest is sent as acknowledgements arrive.
        let whole: Vec<u8> =
            segments.iter().flat_map(|segment| &segment.payload).copied().collect();
        let mut have = size;
        while have < whole.len() {
            let next = segment(client.say(&client.ack(client.length(), have as u32)));
            assert_eq!(next.payload, whole[have..whole.len().min(have + size)]);
            assert_eq!(next.ack, client.isn.wrapping_add(1), "the client must go on asking");
            have += next.payload.len();
        }
        let end = segment(client.say(&client.ack(client.length(), have as u32)));
        assert_eq!((end.payload.len(), end.ack), (0, client.isn.wrapping_add(1 + client.length())));
        assert_eq!(state(&client), Some(State::Idle));
    }
}

#[test]
fn what_is_acknowledged_is_not_sent_again() {
    for (mut client, segments, size) in both() {
        let step = segments[0].payload.len();
        client.say(&client.ack(client.length(), step as u32));
        assert_eq!(complain(&mut client, &segments[0], 1280), PASS, "it has arrived");
        let again = segment(complain(&mut client, &segments[2], 1280));
        assert_eq!((again.seq, again.payload.len()), (segments[1].seq, size));
    }
}

#[test]
fn a_single_segments_query_is_in_doubt_again() {
    let (mut client, segments) = Conversation::replied(settings(), 1400);
    assert_eq!(segments.len(), 1);
    assert_eq!(segments[0].ack, client.isn.wrapping_add(1 + client.length()));
    let again = segment(complain(&mut client, &segments[0], 1280));
    assert_eq!((again.payload.len(), again.ack), (1228, client.isn.wrapping_add(1)));
    assert!(client.flow().is_some_and(|flow| flow.query_unacked));
    // Not if one segment is still enough.
    let (mut client, segments) = Conversation::replied(settings(), 1200);
    let about = Segment { payload: vec![0; 1400], ..segments[0].clone() };
    let again = segment(complain(&mut client, &about, 1280));
    assert_eq!((&again.payload, again.ack), (&segments[0].payload, segments[0].ack));
}

#[test]
fn the_clients_next_connection_has_short_segments_from_the_start() {
    for (mut client, segments, size) in both() {
        segment(complain(&mut client, &segments[0], 1280));
        for (later, length) in [(599, size), (1, segments[0].payload.len())] {
            client.now.boot += Duration::from_secs(later);
            client.client.set_port(client.client.port() + 1);
            client.tsval = client.tsval.map(|_| 7000);
            client.shake_hands();
            assert!(matches!(client.say(&client.data()), Said::Query(_)));
            let (verdict, segments) = client.answer(5000);
            assert_eq!(verdict, ReplyVerdict::Sent);
            assert_eq!(segments[0].payload.len(), length, "{later} s later");
        }
    }
}

/// RFC 1191, section 7.1, and Linux's `min_pmtu`.
#[test]
fn routers_that_do_not_say_how_much_are_answered_by_the_plateaus() {
    let (mut client, segments) = Conversation::replied(settings(), 5000);
    for (was, mtu) in [(1500, 1492), (1492, 1006), (1006, 552)] {
        let about = Segment { payload: vec![0; was - 52], ..segments[0].clone() };
        assert_eq!(segment(complain(&mut client, &about, 0)).payload.len(), mtu - 52);
    }
    let about = Segment { payload: vec![0; 552 - 52], ..segments[0].clone() };
    assert_eq!(complain(&mut client, &about, 0), PASS);
}

#[test]
fn no_path_is_believed_to_carry_less_than_the_least() {
    let [(mut v4, segments, _), (mut v6, segments6, _)] = both();
    assert_eq!(segment(complain(&mut v4, &segments[0], 68)).payload.len(), 552 - 52);
    is_ignored(&mut v6, &too_big(&segments6[0].packet(), 1279, 1280));
}

#[test]
fn eight_bytes_of_the_segment_are_enough() {
    for (mut client, segments, size) in both() {
        let header = if client.client.is_ipv4() { 20 } else { 40 };
        let packet = segments[0].packet();
        is_ignored(&mut client, &too_big(&packet, 1280, header + 7));
        let again = segment(client.say_bytes(&too_big(&packet, 1280, header + 8)));
        assert_eq!(again.payload.len(), size);
    }
}

#[test]
fn what_is_not_about_a_segment_on_its_way_is_not_believed() {
    for (mut client, segments, _) in both() {
        let (first, last) = (&segments[0], segments.last().expect("several"));
        let seq = |seq: u32| Segment { seq, ..first.clone() };
        let mut others = vec![seq(first.seq.wrapping_sub(1)), seq(last.next())];
        let mut other = first.clone();
        other.to.set_port(40_001);
        others.push(other.clone());
        other.to = first.to;
        other.from.set_port(54);
        others.push(other);
        for other in others {
            is_ignored(&mut client, &too_big(&other.packet(), 1280, 1280));
        }
        // A link that carries the segment, and segments that fit the link anyway.
        let length = first.packet().len() as u32;
        is_ignored(&mut client, &too_big(&first.packet(), length, 1280));
        let longer = Segment { payload: vec![0; 3000], ..first.clone() };
        is_ignored(&mut client, &too_big(&longer.packet(), length, 1280));
    }
}

#[test]
fn what_is_not_as_our_segments_are_is_not_believed() {
    for (mut client, segments, _) in both() {
        let v4 = client.client.is_ipv4();
        let header = if v4 { 20 } else { 40 };
        let packet = too_big(&segments[0].packet(), 1280, 1280);
        // The type; for IPv4 the code, options and fragments; another protocol; a wrong checksum.
        let mut spoilt = vec![(header, 11), (header + 8 + if v4 { 9 } else { 6 }, 17)];
        if v4 {
            spoilt.extend([(header + 1, 3), (header + 8, 0x46), (header + 14, 0x60)]);
        }
        for (at, byte) in spoilt {
            let mut other = packet.clone();
            other[at] = byte;
            sum_anew(&mut other, header);
            is_ignored(&mut client, &other);
        }
        let mut wrong = packet.clone();
        wrong[header + 60] ^= 1;
        is_ignored(&mut client, &wrong);
        segment(client.say_bytes(&packet));
    }
}

/// Sets the right checksum in an ICMP message behind a header of this length.
fn sum_anew(packet: &mut [u8], header: usize) {
    packet[header + 2..header + 4].fill(0);
    let addresses = if header == 40 { &packet[8..40] } else { &[] };
    let length = if header == 40 { (packet.len() - header) as u32 + 58 } else { 0 };
    let words = addresses.chunks(2).chain(packet[header..].chunks(2));
    let mut sum = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum::<u32>()
        + length;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[header + 2..header + 4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[test]
fn before_the_reply_and_after_it_nothing_is_on_its_way() {
    let (mut client, segments) = Conversation::replied(settings(), 5000);
    let end = segments.iter().map(|segment| segment.payload.len() as u32).sum();
    let mut asked = Conversation::asked(settings());
    is_ignored(&mut asked, &too_big(&segments[0].packet(), 1280, 1280));
    client.say(&client.ack(client.length(), end));
    assert_eq!(state(&client), Some(State::Idle));
    is_ignored(&mut client, &too_big(&segments[0].packet(), 1280, 1280));
}

#[test]
fn the_fourth_time_that_a_segment_is_sent_again_it_is_short() {
    for ((mut client, segments, _), least) in both().into_iter().zip([1024 - 12, 1220 - 12]) {
        let whole = segments[0].payload.len();
        for size in [whole, whole, whole, least, least] {
            assert!(matches!(client.say(&client.data()), Said::Query(_)));
            let again = client.answer(5000).1;
            assert_eq!((again[0].seq, again[0].payload.len()), (segments[0].seq, size));
        }
        assert_eq!((client.count(Counter::BlackHole), client.count(Counter::PathMtu)), (1, 0));
    }
    let (mut client, segments) = Conversation::replied(settings(), 1400);
    for size in [segments[0].payload.len(); 3].into_iter().chain([1024 - 12]) {
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        let again = client.answer(1400).1;
        assert_eq!(
            (again[0].payload.len(), again.len()),
            (size, 2),
            "the same segment twice, or two parts"
        );
    }
    let next = segment(client.say(&client.ack(client.length(), 1012)));
    assert_eq!(next.payload, segments[0].payload[1012..]);
    assert_eq!(client.count(Counter::BlackHole), 1);
}

#[test]
fn a_segment_that_arrives_at_last_is_no_black_hole() {
    let (mut client, segments) = Conversation::replied(settings(), 5000);
    let step = segments[0].payload.len();
    for place in 0..3 {
        let ack = (place * step) as u32;
        // This brings it too, except for the first.
        client.say(&client.ack(client.length(), ack));
        for _ in 0..if place == 0 { 3 } else { 2 } {
            let asked = client.data_at(0, ack, &client.query);
            assert!(matches!(client.say(&asked), Said::Query(_)));
            assert_eq!(client.answer(5000).1[0].payload.len(), step);
        }
    }
    assert_eq!(client.count(Counter::BlackHole), 0);
}

#[test]
fn a_short_reply_is_not_too_long_for_any_path() {
    let (mut client, segments) = Conversation::replied(settings(), 1000);
    for _ in 0..5 {
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        assert_eq!(client.answer(1000).1[0].payload, segments[0].payload);
    }
    assert_eq!(client.count(Counter::BlackHole), 0);
}

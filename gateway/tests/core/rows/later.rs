//! "A later query": what a client sends when it has the reply to the query before.

use super::*;

/// The client's next query.
fn next_query() -> Vec<u8> {
    query(0x5678, "other.example.net", 28, Some(1232))
}

/// A client that has acknowledged a reply of `size` bytes, and that reply's length with its prefix.
fn answered(settings: Settings, size: usize) -> (Conversation, u32) {
    let (mut client, segments) = Conversation::replied(settings, size);
    let end = segments.iter().map(|segment| segment.payload.len() as u32).sum();
    client.say(&client.ack(client.length(), end));
    assert_eq!(state(&client), Some(State::Idle));
    (client, end)
}

/// A client that has acknowledged a reply of `size` bytes and whose next query is with the server.
/// Sequence numbers are relative to that query.
fn asked_again(settings: Settings, size: usize) -> Conversation {
    let (mut client, end) = answered(settings, size);
    let query = next_query();
    let second = client.data_at(client.length(), end, &query);
    assert!(matches!(client.say(&second), Said::Query(_)));
    at(&mut client, &second);
    client
}

/// Makes sequence numbers relative to this segment's query.
fn at(client: &mut Conversation, segment: &Segment) {
    (client.isn, client.cookie) = (segment.seq.wrapping_sub(1), segment.ack.wrapping_sub(1));
    client.query.clone_from(&segment.payload);
}

#[test]
fn it_goes_to_the_server_and_its_reply_to_the_client() {
    for acknowledged in [false, true] {
        for plain in [false, true] {
            let client = Conversation::new(settings());
            let mut client = if plain { client.plain() } else { client };
            client.shake_hands();
            assert!(matches!(client.say(&client.data()), Said::Query(_)));
            let (_, segments) = client.answer(100);
            let end = segments[0].payload.len() as u32;
            if acknowledged {
                assert_eq!(client.say(&client.ack(client.length(), end)), DROP);
            }
            let before = client.flow().expect("an entry");
            let second = client.data_at(client.length(), end, &next_query());
            let Said::Query(datagram) = client.say(&second) else { panic!("not a query") };
            at(&mut client, &second);
            let asked = &next_query()[2..];
            assert_eq!(datagram.message.len(), asked.len());
            assert_eq!(datagram.message[..12], asked[..12]);
            let flow = client.flow().expect("an entry");
            assert_eq!(flow.state, State::Query);
            assert_eq!((flow.query_seq, flow.server_seq), (second.seq, second.ack));
            assert_eq!((flow.client_next, flow.dns_id), (second.next(), 0x5678));
            assert_eq!(u32::from(flow.earlier), second.seq.wrapping_sub(before.query_seq));
            assert_eq!((flow.tsval, flow.mss), (before.tsval, before.mss));
            assert_eq!(client.core.flows().count(), 1);

            let (verdict, segments) = client.answer(300);
            assert_eq!(verdict, ReplyVerdict::Sent);
            assert_eq!((segments[0].seq, segments[0].ack), (second.ack, second.next()));
            assert_eq!(segments[0].payload.len(), 302);
            assert_eq!(client.count(Counter::Query), 2);
            assert_eq!(client.count(Counter::QueryLater), 1);
            assert_eq!(client.count(Counter::Reply), 2);
            // The third query is served in the same way.
            let third = client.data_at(client.length(), 302, &next_query());
            assert!(matches!(client.say(&third), Said::Query(_)));
            assert_eq!(client.flow().expect("an entry").server_seq, third.ack);
        }
    }
}

#[test]
fn it_may_end_the_connection() {
    let (mut client, end) = answered(settings(), 100);
    let last = client.data_at(client.length(), end, &next_query());
    let last = Segment { flags: ACK | PSH | FIN, ..last };
    assert!(matches!(client.say(&last), Said::Query(_)));
    at(&mut client, &last);
    let (_, segments) = client.answer(100);
    assert_eq!((segments[0].flags, segments[0].ack), (ACK | PSH | FIN, last.next()));
    assert_eq!(client.say(&client.ack(client.length() + 1, 103)), DROP);
    assert_eq!(client.flow(), None);
}

#[test]
fn it_is_the_kernels_where_later_queries_are() {
    let (mut client, end) = answered(Settings { later_queries: false, ..settings() }, 100);
    let second = client.data_at(client.length(), end, &next_query());
    assert_eq!(client.say(&second), hand_off(Reason::Second));
    assert!(client.core.adopt(client.now, &second.packet()).is_some());
    assert_eq!(client.flow(), None);
}

#[test]
fn what_is_not_served_is_the_kernels_on_the_same_connection() {
    let mut keepalive = next_query();
    let end = keepalive.len();
    keepalive[end - 1] = 4;
    keepalive.extend([0, 11, 0, 0]);
    let keepalive = prefixed(&keepalive[2..]);
    let two = [next_query(), next_query()].concat();
    let part = next_query()[..20].to_vec();
    let transfer = query(1, "example.com", 252, None);
    for (payload, beside, reason) in [
        (two, Beside::Server, Reason::Second),
        (part, Beside::Server, Reason::Second),
        (transfer, Beside::Server, Reason::Transfer),
        (keepalive, Beside::Server, Reason::Keepalive),
        (next_query(), Beside::NoServer, Reason::Down),
        (next_query(), Beside::Connection, Reason::Second),
        (next_query(), Beside::TimeWait, Reason::Second),
    ] {
        let (mut client, end) = answered(settings(), 100);
        client.beside = beside;
        let second = client.data_at(client.length(), end, &payload);
        let before = client.flow();
        assert_eq!(client.say(&second), hand_off(reason));
        assert_eq!(client.flow(), before, "tc ingress removes it");
        let adoption = client.core.adopt(client.now, &second.packet()).expect("for the kernel");
        assert_eq!((adoption.mss, adoption.joined), (1460, None));
        assert_eq!(client.flow(), None);
        assert_eq!(client.count(Counter::QueryLater), 0);
    }
}

/// A name that was found to have a large reply.
#[test]
fn a_large_name_is_the_kernels() {
    let mut client = asked_again(settings(), 100);
    let (verdict, _) = client.answer(40_000);
    assert_eq!(verdict, ReplyVerdict::HandOff);
    let (mut core, now) = (client.core, client.now);
    core = {
        let mut other = Conversation::new(settings());
        (other.core, other.now) = (core, now);
        other.client.set_port(40_001);
        other.shake_hands();
        assert!(matches!(other.say(&other.data()), Said::Query(_)));
        let (_, segments) = other.answer(100);
        let end = segments[0].payload.len() as u32;
        let second = other.data_at(other.length(), end, &next_query());
        assert_eq!(other.say(&second), hand_off(Reason::Large));
        other.core
    };
    assert_eq!(core.counters().get(Counter::ToKernelLarge), 1);
}

/// New connections can use the other half of the burst.
#[test]
fn above_half_of_the_burst_it_is_the_kernels() {
    let second_ns = 1_000_000_000;
    let limits =
        Settings { query_interval_ns: second_ns, query_burst_ns: 8 * second_ns, ..settings() };
    let mut client = asked_again(limits, 100);
    // Two have passed: GCRA lets one packet more pass than there are intervals in the burst.
    for _ in 2..5 {
        let (_, segments) = client.answer(100);
        let end = segments[0].payload.len() as u32;
        let next = client.data_at(client.length(), end, &next_query());
        assert!(matches!(client.say(&next), Said::Query(_)));
        at(&mut client, &next);
    }
    let (_, segments) = client.answer(100);
    let end = segments[0].payload.len() as u32;
    let next = client.data_at(client.length(), end, &next_query());
    assert_eq!(client.say(&next), hand_off(Reason::Second));
    let mut other = Conversation::new(settings());
    (other.core, other.now) = (client.core, client.now);
    other.client.set_port(40_001);
    other.shake_hands();
    assert!(matches!(other.say(&other.data()), Said::Query(_)));
}

#[test]
fn its_reply_comes_again_from_the_ring() {
    for size in [100, 4000] {
        let mut client = asked_again(settings(), 1000);
        let (_, first) = client.answer(size);
        // The server is asked, but the client gets the reply that it was sent first.
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        let message = reply(&client.at_server(), 60, 9);
        let (verdict, again) = client.answer_with(&message);
        assert_eq!(verdict, ReplyVerdict::Sent);
        let payloads = |segments: &[Segment]| -> Vec<Vec<u8>> {
            segments.iter().map(|segment| segment.payload.clone()).collect()
        };
        let mut again: Vec<_> = again.iter().map(|packet| Segment::read(packet)).collect();
        // A single segment is sent twice.
        again.truncate(first.len());
        assert_eq!(payloads(&again), payloads(&first));
        assert_eq!(again[0].seq, first[0].seq);
    }
}

#[test]
fn it_is_the_kernels_when_the_server_leaves_it_without_an_answer() {
    let mut client = asked_again(settings(), 100);
    client.now.boot += Duration::from_millis(501);
    let again = client.data();
    assert_eq!(client.say(&again), hand_off(Reason::Silent));
    assert!(client.core.adopt(client.now, &again.packet()).is_some());
    assert_eq!(state(&client), Some(State::Kernel));
}

#[test]
fn a_truncated_reply_puts_it_to_the_kernel_in_mid_stream() {
    let mut client = asked_again(settings(), 100);
    let mut message = reply(&client.at_server(), 60, 0);
    message[2] |= 2;
    let (verdict, out) = client.answer_with(&message);
    assert_eq!(verdict, ReplyVerdict::HandOff);
    let put = Segment::read(&out[0]);
    let data = client.data();
    assert_eq!((put.seq, put.ack, &put.payload), (data.seq, data.ack, &data.payload));
    assert!(client.core.adopt(client.now, &out[0]).is_some());
}

/// Its client may send it again because our acknowledgement was lost, and packets may come late.
#[test]
fn the_query_before_again_is_acknowledged() {
    let (mut client, end) = answered(settings(), 4000);
    let first = client.data();
    let second = client.data_at(client.length(), end, &next_query());
    assert!(matches!(client.say(&second), Said::Query(_)));
    let both = [&first.payload[..], &second.payload].concat();
    // As the client sent it before it had the reply.
    let stale = client.data_at(0, end - 1, &both);
    let late = client.data_at(0, end, &first.payload);
    let part = client.data_at(7, end, &first.payload[7..]);
    for again in [&first, &stale, &late, &part] {
        let before = client.flow();
        let answer = segment(client.say(again));
        assert_eq!((answer.flags, answer.payload.len()), (ACK, 0));
        assert_eq!((answer.seq, answer.ack), (second.ack, second.seq));
        assert_eq!(client.flow(), before);
    }
    assert_eq!(client.count(Counter::QueryEarlier), 4);
    assert_eq!(client.count(Counter::Query), 2, "the server gets no query twice");
    // Behind the reply, and behind our FIN.
    at(&mut client, &second);
    client.answer(200);
    assert_eq!(segment(client.say(&late)).seq, second.ack.wrapping_add(202));
    client.say(&client.fin(client.length(), 202));
    assert_eq!(state(&client), Some(State::Closing));
    assert_eq!(segment(client.say(&late)).seq, second.ack.wrapping_add(203));
    // A new connection on the port, with other sequence numbers.
    client.isn = 77;
    client.tsecr = 0;
    client.shake_hands();
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
    assert_eq!(client.flow().expect("an entry").earlier, 0);
}

/// A client whose previous query is not acknowledged yet. When it sends again, it puts the next
/// query into the same segment, which is returned. Sequence numbers are relative to the next query.
fn both_in_one(size: usize) -> (Conversation, Segment) {
    let (mut client, end) = answered(settings(), 4000);
    let first = client.data();
    let second = client.data_at(client.length(), end, &next_query());
    assert!(matches!(client.say(&second), Said::Query(_)));
    let both = client.data_at(0, end, &[&first.payload[..], &second.payload].concat());
    at(&mut client, &second);
    if size > 0 {
        client.answer(size);
    }
    (client, both)
}

/// RFC 9293, section 3.10.7.4: "trim off any portions outside the window".
#[test]
fn what_was_received_before_is_cut_off_before_the_query() {
    // The server still has time: our ACK says what was received.
    let (mut client, both) = both_in_one(0);
    let before = client.flow();
    let answer = segment(client.say(&both));
    assert_eq!((answer.flags, answer.payload.len()), (ACK, 0));
    assert_eq!((answer.seq, answer.ack), (both.ack, client.data().seq));
    assert_eq!(client.count(Counter::QueryWaits), 1);
    assert_eq!(client.count(Counter::Query), 2, "the server gets no query twice");
    let stored = |client: &Conversation| {
        client.flow().map(|flow| (flow.state, flow.query_seq, flow.client_next))
    };
    assert_eq!(stored(&client), before.map(|flow| (flow.state, flow.query_seq, flow.client_next)));
    // The server's time is over: the kernel gets only the second query.
    client.now.boot += Duration::from_millis(501);
    assert_eq!(client.say(&both), hand_off(Reason::Silent));
    let adoption = client.core.adopt(client.now, &both.packet()).expect("for the kernel");
    let joined = Segment::read(&adoption.joined.expect("a segment without the first query"));
    assert_eq!(joined, Segment { seq: client.data().seq, payload: next_query(), ..both });
    assert_eq!(state(&client), Some(State::Kernel));
}

#[test]
fn what_was_received_before_is_cut_off_before_a_lost_reply() {
    // The server is asked for its reply again, and after that the ring answers.
    let (mut client, both) = both_in_one(200);
    let again = Segment { timestamps: client.data().timestamps, ..both };
    let Said::Query(datagram) = client.say(&again) else { panic!("not a query") };
    assert_eq!(datagram.message[..12], next_query()[2..14]);
    let resent = segment(client.say(&again));
    assert_eq!((resent.seq, resent.payload.len()), (again.ack, 202));
    assert_eq!(client.count(Counter::Resent), 1);
}

/// The client has the reply, and more behind its query in the same segment.
#[test]
fn what_was_received_before_is_cut_off_before_what_is_new() {
    let third = query(0x9abc, "third.example", 1, Some(1232));
    let old_begins = [("the query before", true), ("the query", false)];
    for (what, before) in old_begins {
        for acknowledged in [false, true] {
            let more = |payload: &[u8]| {
                let (mut client, both) = both_in_one(200);
                if acknowledged {
                    client.say(&client.ack(client.length(), 202));
                    assert_eq!(state(&client), Some(State::Idle));
                }
                let old = if before { both } else { client.data() };
                let payload = [&old.payload[..], payload].concat();
                let ack = client.ack(0, 202).ack;
                (client, Segment { ack, payload, ..old })
            };
            // The next query.
            let (mut client, again) = more(&third);
            let Said::Query(datagram) = client.say(&again) else { panic!("{what}") };
            assert_eq!(datagram.message[..12], third[2..14], "{what}");
            let flow = client.flow().expect("an entry");
            let begins = again.next().wrapping_sub(third.len() as u32);
            assert_eq!((flow.state, flow.query_seq), (State::Query, begins));
            assert_eq!((flow.client_next, flow.server_seq), (again.next(), again.ack));
            assert_eq!(client.core.stored(&flow), Some(&third[..]));
            // What is not served here.
            let (mut client, again) = more(b"\0\x20part");
            assert_eq!(client.say(&again), hand_off(Reason::Second), "{what}");
            let adoption = client.core.adopt(client.now, &again.packet()).expect("for the kernel");
            let joined = Segment::read(&adoption.joined.expect("what is new"));
            let seq = again.next().wrapping_sub(6);
            assert_eq!(joined, Segment { seq, payload: b"\0\x20part".to_vec(), ..again }, "{what}");
            // Its FIN, and then data behind ours.
            let (mut client, again) = more(b"");
            let fin = Segment { flags: ACK | PSH | FIN, ..again };
            let answer = segment(client.say(&fin));
            assert_eq!((answer.flags, answer.ack), (ACK | FIN, fin.next()), "{what}");
            assert_eq!((state(&client), answer.seq), (Some(State::Closing), fin.ack));
            let (mut client, again) = more(&third);
            client.core.poll(later_than_idle(&client), &mut Vec::new());
            assert_eq!(state(&client), Some(State::Closing));
            assert_eq!(segment(client.say(&again)).flags, RST, "{what}");
            assert_eq!(client.flow(), None);
        }
    }
}

fn later_than_idle(client: &Conversation) -> Now {
    let boot = client.now.boot + idle();
    Now { boot, ..client.now }
}

#[test]
fn what_is_before_the_connection_is_no_copy_of_its() {
    let mut client = asked_again(settings(), 100);
    let flow = client.flow().expect("an entry");
    let far = client.data_at(0u32.wrapping_sub(u32::from(flow.earlier) + 1), 0, b"far");
    dropped(&mut client, &far, Counter::Strange);
    let unheard = client.data_at(0u32.wrapping_sub(1), 2, b"unheard");
    dropped(&mut client, &unheard, Counter::Strange);
    let old = client.data_at(0u32.wrapping_sub(1), 0u32.wrapping_sub((1 << 22) + 1), b"old");
    dropped(&mut client, &old, Counter::Strange);
    let segments = [(0u32.wrapping_sub(u32::from(flow.earlier)), 1), (u32::MAX, 0)];
    for (seq, ack) in segments {
        assert!(matches!(client.say(&client.data_at(seq, ack, b"n")), Said::Segment(_)));
    }
}

#[test]
fn acknowledged_at_once_where_that_is_set() {
    let mut client = asked_again(at_once(), 100);
    let datagram = Datagram { from: client.client, to: client.server, message: client.at_server() };
    let ack = client.core.acknowledge(&datagram.packet()).expect("is due");
    let (ack, data) = (Segment::read(&ack), client.data());
    assert_eq!((ack.seq, ack.ack), (data.ack, data.next()));
}

/// A resolver asks many queries on one connection: the count stops there.
#[test]
fn bytes_before_a_query_are_counted_up_to_64_kilobytes() {
    let unlimited = Settings { query_interval_ns: 0, ..settings() };
    let mut client = asked_again(unlimited, 100);
    let length = next_query().len();
    for _ in 0..65_535 / length + 2 {
        let (_, segments) = client.answer(100);
        let end = segments[0].payload.len() as u32;
        let next = client.data_at(client.length(), end, &next_query());
        assert!(matches!(client.say(&next), Said::Query(_)));
        at(&mut client, &next);
    }
    assert_eq!(client.flow().expect("an entry").earlier, u16::MAX);
}

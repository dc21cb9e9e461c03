//! PROTOCOL.md, "Acknowledged at once".

use super::*;

/// Lets a query's datagram go on to the server, and returns the ACK for the client.
fn acknowledged(client: &mut Conversation) -> Option<Segment> {
    let message = client.at_server();
    let datagram = Datagram { from: client.client, to: client.server, message };
    client.core.acknowledge(&datagram.packet()).map(|packet| Segment::read(&packet))
}

/// A client whose query is with the server and acknowledged.
fn asked() -> Conversation {
    let mut client = Conversation::asked(at_once());
    assert!(acknowledged(&mut client).is_some());
    client
}

/// A client whose query is acknowledged and whose reply has left, and the reply's segments.
fn replied(size: usize) -> (Conversation, Vec<Segment>) {
    let mut client = asked();
    let (verdict, segments) = client.answer(size);
    assert_eq!(verdict, ReplyVerdict::Sent);
    (client, segments)
}

#[test]
fn the_query_is_acknowledged_once_and_before_its_reply() {
    let mut client = Conversation::asked(at_once());
    let before = client.flow();
    let ack = acknowledged(&mut client).expect("it is due");
    let (data, flow) = (client.data(), client.flow().expect("an entry"));
    assert_eq!((ack.seq, ack.ack), (data.ack, data.next()));
    assert_eq!((ack.flags, ack.payload.len()), (ACK, 0));
    assert_eq!(ack.timestamps, Some((flow.tsval, flow.client_tsval)));
    assert_eq!(before.map(|flow| flow.state), Some(State::Query));
    assert_eq!(acknowledged(&mut client), None);
}

#[test]
fn other_settings_acknowledge_nothing() {
    assert_eq!(acknowledged(&mut Conversation::asked(settings())), None);
}

#[test]
fn datagrams_of_no_query_of_ours_bring_no_ack() {
    let mut client = Conversation::asked(at_once());
    let right = Datagram { from: client.client, to: client.server, message: client.at_server() };
    let (mut port, mut other) = (right.clone(), right.clone());
    port.from.set_port(1);
    other.to.set_port(5353);
    for datagram in [port, other] {
        assert_eq!(client.core.acknowledge(&datagram.packet()), None);
    }
    assert!(client.core.acknowledge(&right.packet()).is_some());
}

#[test]
fn a_fin_with_the_query_is_acknowledged_with_ours() {
    let mut client = Conversation::open(at_once());
    let data = Segment { flags: ACK | PSH | FIN, ..client.data() };
    client.say(&data);
    let ack = acknowledged(&mut client).expect("it is due");
    assert_eq!(ack.ack.wrapping_add(1), data.next());
    let (_, segments) = client.answer(100);
    assert_eq!((segments[0].flags, segments[0].ack), (ACK | PSH | FIN, data.next()));
}

#[test]
fn a_query_that_comes_again_is_acknowledged_again() {
    let mut client = asked();
    let data = client.data();
    let ack = segment(client.say(&data));
    assert_eq!((ack.seq, ack.ack, ack.flags), (data.ack, data.next(), ACK));
    assert_eq!(client.count(Counter::QueryWaits), 1);
    assert_eq!(client.count(Counter::Query), 1);
}

#[test]
fn all_segments_of_a_reply_acknowledge_the_query() {
    let (client, segments) = replied(4000);
    assert!(segments.len() > 1);
    assert!(segments.iter().all(|segment| segment.ack == client.data().next()));
    assert!(client.flow().is_some_and(|flow| !flow.query_unacked));
}

#[test]
fn a_fin_before_the_reply_has_come_brings_it_when_it_comes_again() {
    let (mut client, segments) = replied(4000);
    let end = segments.last().expect("a reply").next();
    let fin = client.fin(client.length(), 0);
    // The reply may be in flight.
    let ours = segment(client.say(&fin));
    assert_eq!((ours.flags, ours.seq, ours.ack), (FIN | ACK, end, fin.seq));
    assert_eq!(state(&client), Some(State::Closing));
    let again = segment(client.say(&client.fin(client.length(), 0)));
    assert_eq!((again.seq, &again.payload), (segments[0].seq, &segments[0].payload));
    assert_eq!(again.ack, fin.seq);
    // Each acknowledgement brings the next, and the last our FIN, which acknowledges the client's.
    let had = segments[0].payload.len() as u32;
    let next = segment(client.say(&client.ack(client.length() + 1, had)));
    assert_eq!(next.seq, segments[1].seq);
    let had = had + segments[1].payload.len() as u32;
    let last = segment(client.say(&client.ack(client.length() + 1, had)));
    assert_eq!((last.flags, last.ack), (ACK | PSH | FIN, fin.next()));
    let all = end.wrapping_sub(segments[0].seq);
    client.say(&client.ack(client.length() + 1, all + 1));
    assert_eq!(client.flow(), None);
}

/// The client will not ask again.
#[test]
fn a_query_without_an_answer_is_closed() {
    let mut client = asked();
    let mut out = Vec::new();
    client.now.boot += Duration::from_secs(3);
    client.core.poll(client.now, &mut out);
    let fin = Segment::read(&out[0]);
    assert_eq!((fin.flags, fin.seq, fin.ack), (FIN | ACK, client.data().ack, client.data().next()));
    assert_eq!(state(&client), Some(State::Closing));
    // A late reply belongs to no query.
    assert_eq!(client.answer(100), (ReplyVerdict::Drop, vec![]));
    client.say(&client.fin(client.length(), 1));
    assert_eq!(client.flow(), None);
}

#[test]
fn a_reply_without_acknowledgement_is_closed_behind_it() {
    let (mut client, segments) = replied(100);
    let mut out = Vec::new();
    client.now.boot += idle();
    client.core.poll(client.now, &mut out);
    let fin = Segment::read(&out[0]);
    assert_eq!((fin.seq, fin.ack), (segments[0].next(), client.data().next()));
}

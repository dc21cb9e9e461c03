//! PROTOCOL.md, "Keep-alive probes".

use super::*;

/// A probe, without data and with one byte, `sent` bytes behind the SYN and with `ack` bytes of the
/// reply acknowledged.
fn probes(client: &Conversation, sent: u32, ack: u32) -> [Segment; 2] {
    [&b""[..], b"?"].map(|garbage| Segment {
        payload: garbage.to_vec(),
        ..client.ack(sent.wrapping_sub(1), ack)
    })
}

/// What both probes bring, and how they leave the entry.
#[track_caller]
fn acknowledged(client: &Conversation, sent: u32, ack: u32) -> (Segment, Option<State>) {
    let [empty, garbage] = probes(client, sent, ack).map(|probe| {
        let mut client = client.clone();
        let before = client.count(Counter::Probe);
        let seen = client.flow().map(|flow| flow.seen_ms);
        client.now.boot += Duration::from_secs(2);
        let said = segment(client.say(&probe));
        assert_eq!(client.count(Counter::Probe), before + 1);
        assert_eq!(client.flow().map(|flow| flow.seen_ms), seen, "it lasts no longer");
        (said, state(&client))
    });
    assert_eq!(empty, garbage);
    assert!(empty.0.payload.is_empty());
    empty
}

/// Sequence numbers behind those of the SYNs: of the answer, and what it acknowledges.
fn numbers(client: &Conversation, segment: &Segment) -> (u32, u32) {
    let start = client.ack(0, 0);
    (segment.seq.wrapping_sub(start.ack), segment.ack.wrapping_sub(start.seq))
}

#[test]
fn before_the_first_query_the_cookie_answers() {
    for (plain, ipv6, syncache) in
        [(false, false, false), (true, false, false), (false, true, false), (false, false, true)]
    {
        let mut client = Conversation::new(Settings { syncache, ..settings() });
        client = if ipv6 { client.over_ipv6() } else { client };
        client = if plain { client.plain() } else { client };
        client.shake_hands();
        let (answer, _) = acknowledged(&client, 0, 0);
        assert_eq!((answer.flags, numbers(&client, &answer)), (ACK, (0, 0)));
        assert_eq!(answer.window, if plain { 65_535 } else { 511 });
        assert_eq!(answer.timestamps, client.tsval.map(|tsval| (client.tsecr, tsval)));
        // The client can still ask.
        let probe = probes(&client, 0, 0)[1].clone();
        client.say(&probe);
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
    }
}

/// A probe in the name of others needs the cookie.
#[test]
fn another_cookie_brings_nothing() {
    let client = Conversation::open(settings());
    for (sent, ack) in [(0, 1), (0, u32::MAX), (2, 0), (u32::MAX, 0)] {
        for (probe, counter) in
            probes(&client, sent, ack).iter().zip([Counter::UnknownAck, Counter::UnknownData])
        {
            dropped(&mut client.clone(), probe, counter);
        }
    }
    let [probe, _] = probes(&client, 0, 0);
    let mut later = client.clone();
    later.now.wall += Duration::from_secs(64);
    dropped(&mut later, &probe, Counter::UnknownAck);
    let mut wrong = probe.packet();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let mut client = client;
    assert_eq!(client.say_bytes(&wrong), DROP);
    // With two bytes, or a FIN, it is no probe.
    for segment in [client.data_at(u32::MAX, 0, b"??"), client.fin(u32::MAX, 0)] {
        assert_eq!(client.say(&segment), DROP);
    }
    assert_eq!(client.count(Counter::Probe), 0);
}

/// The kernel may have the connection, or the port may have been used before.
#[test]
fn others_may_have_the_port() {
    let mut client = Conversation::open(settings());
    client.beside = Beside::Connection;
    for probe in probes(&client, 0, 0) {
        assert_eq!(client.say(&probe), PASS);
    }
    let (mut client, _) = Conversation::replied(settings(), 50);
    client.isn = 0x7654_3210;
    client.shake_hands();
    assert_eq!(acknowledged(&client, 0, 0).1, Some(State::Replied));
}

/// It goes on sending its query, because nothing acknowledges that.
#[test]
fn who_waits_for_a_reply_is_told_that_we_live() {
    let client = Conversation::asked(settings());
    let (answer, state) = acknowledged(&client, client.length(), 0);
    assert_eq!((answer.flags, numbers(&client, &answer)), (ACK, (0, 0)));
    assert_eq!(state, Some(State::Query));
    let client = Conversation::asked(at_once());
    let (answer, _) = acknowledged(&client, client.length(), 0);
    assert_eq!(numbers(&client, &answer), (0, client.length()));
    let (client, _) = Conversation::replied(settings(), 98);
    let (answer, state) = acknowledged(&client, client.length(), 60);
    assert_eq!((answer.flags, numbers(&client, &answer)), (ACK, (100, 0)));
    assert_eq!(state, Some(State::Replied));
}

#[test]
fn who_has_the_reply_gets_an_ack_of_all() {
    for (size, settings) in [(98, settings()), (3998, settings()), (98, at_once())] {
        let (client, _) = Conversation::replied(settings, size);
        let length = client.length();
        let (answer, state) = acknowledged(&client, length, size as u32 + 2);
        assert_eq!((answer.flags, numbers(&client, &answer)), (ACK, (size as u32 + 2, length)));
        assert_eq!(state, Some(State::Idle));
        let mut client = client;
        client.say(&client.ack(length, size as u32 + 2));
        let (answer, state) = acknowledged(&client, length, size as u32 + 2);
        assert_eq!(numbers(&client, &answer), (size as u32 + 2, length));
        assert_eq!(state, Some(State::Idle));
    }
}

#[test]
fn behind_our_fin() {
    let (mut client, _) = Conversation::replied(settings(), 98);
    let length = client.length();
    client.say(&client.ack(length, 100));
    client.now.boot += Duration::from_secs(60);
    let mut out = Vec::new();
    client.core.poll(client.now, &mut out);
    assert_eq!((out.len(), state(&client)), (1, Some(State::Closing)));
    let (answer, _) = acknowledged(&client, length, 101);
    assert_eq!((answer.flags, numbers(&client, &answer)), (ACK, (101, length)));
    // Our FIN was lost.
    let (answer, _) = acknowledged(&client, length, 100);
    assert_eq!((answer.flags, numbers(&client, &answer)), (ACK | FIN, (100, length)));
    // Behind the client's FIN, the ACK before it may be late.
    client.say(&client.fin(length, 100));
    assert_eq!(client.say(&client.ack(length, 100)), DROP);
    assert_eq!(client.count(Counter::Probe), 0);
}

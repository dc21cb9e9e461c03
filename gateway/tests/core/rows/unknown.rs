//! PROTOCOL.md, segments that have no entry and begin nothing.

use super::*;

#[test]
fn the_handshakes_ack_is_dropped() {
    let mut client = Conversation::open(settings());
    let ack = client.ack(0, 0);
    dropped(&mut client, &ack, Counter::HandshakeAck);
}

#[test]
fn what_the_kernel_has_passes() {
    let mut client = Conversation::open(settings());
    client.beside = Beside::Connection;
    for segment in [client.ack(9, 9), client.data_at(9, 9, b"x"), client.fin(9, 9)] {
        assert_eq!(client.say(&segment), PASS);
    }
    assert_eq!(client.count(Counter::KernelHasIt), 3);
}

#[test]
fn an_ack_is_dropped() {
    let mut client = Conversation::open(settings());
    let ack = client.ack(9, 9);
    dropped(&mut client, &ack, Counter::UnknownAck);
}

fn heard(segment: Segment) -> Segment {
    Segment { timestamps: segment.timestamps.map(|(a, b)| (a, b | 4096)), ..segment }
}

#[test]
fn data_or_a_fin_of_who_has_heard_of_us_is_answered_with_rst() {
    let mut client = Conversation::open(settings());
    for (flags, payload) in [(ACK, &b"data"[..]), (ACK | FIN, b"data"), (ACK | FIN, b"")] {
        let data = heard(Segment { flags, ..client.data_at(50, 90, payload) });
        let answer = segment(client.say(&data));
        assert_eq!((answer.flags, answer.seq, answer.ack), (RST, data.ack, 0));
        assert_eq!((answer.window, answer.timestamps), (0, None));
    }
    assert_eq!(client.count(Counter::UnknownData), 2);
    assert_eq!(client.count(Counter::UnknownFin), 1);
}

/// They may belong to a connection whose first data was lost or overtaken.
#[test]
fn another_fin_and_other_data_are_dropped() {
    let mut client = Conversation::open(settings());
    let fin = client.fin(50, 90);
    dropped(&mut client, &fin, Counter::UnknownFin);
    for flags in [ACK, ACK | FIN] {
        let data = Segment { flags, ..client.data_at(50, 0, b"data") };
        dropped(&mut client, &data, Counter::UnknownData);
    }
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
}

/// The client opened it but sent its first data after the cookie had expired. It would wait for
/// ever.
#[test]
fn data_whose_cookie_is_too_old_is_answered_with_rst() {
    for (plain, ipv6) in [(false, false), (true, false), (false, true)] {
        let mut client = Conversation::new(settings());
        client = if ipv6 { client.over_ipv6() } else { client };
        client = if plain { client.plain() } else { client };
        client.shake_hands();
        client.now.wall += Duration::from_secs(70);
        client.now.boot += Duration::from_secs(70);
        // Data behind the first data cannot be checked: its cookie is unknown.
        let second = client.data_at(50, 0, b"data");
        dropped(&mut client, &second, Counter::UnknownData);
        let answer = segment(client.say(&client.data()));
        assert_eq!((answer.flags, answer.seq, answer.ack), (RST, client.cookie + 1, 0));
        assert_eq!(segment(client.say(&client.fin(0, 0))).flags, RST);
        client.now.wall += Duration::from_secs(600);
        let data = client.data();
        dropped(&mut client, &data, Counter::UnknownData);
    }
}

#[test]
fn neither_syn_nor_rst_nor_ack_is_dropped() {
    let mut client = Conversation::open(settings());
    for flags in [0, FIN, PSH, FIN | PSH] {
        let odd = Segment { flags, ..client.data() };
        dropped(&mut client, &odd, Counter::OddFlags);
    }
}

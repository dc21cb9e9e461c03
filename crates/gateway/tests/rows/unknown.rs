//! PROTOCOL.md, segments without an entry that begin nothing.

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
    client.kernel_has = true;
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

#[test]
fn neither_syn_nor_rst_nor_ack_is_dropped() {
    let mut client = Conversation::open(settings());
    for flags in [0, FIN, PSH, FIN | PSH] {
        let odd = Segment { flags, ..client.data() };
        dropped(&mut client, &odd, Counter::OddFlags);
    }
}

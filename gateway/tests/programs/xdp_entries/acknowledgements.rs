//! PROTOCOL.md, "Acknowledgements": pure ACKs.

use super::*;

#[test]
fn the_third_repeat_of_an_ack_brings_the_segment() {
    let programs = programs!("the_third_repeat_of_an_ack_brings_the_segment");
    let reply = reply_bytes(5000);
    for client in Client::kinds(&programs) {
        let mut client = client.replied(&reply, REPLIED, QUERY_UNACKED);
        let ours = if client.saying.server.is_ipv6() { 1440 } else { 1460 };
        let size = if client.saying.tsval.is_some() { ours - 12 } else { ours };
        let again = |from: usize, client: &Client<'_>| {
            let payload = reply[from..from + size].to_vec();
            Came::Segment(Segment { payload, ..client.segment(from as u32, 0) })
        };
        // The egress program has noted the reply's first byte as acknowledged, so three ACKs of it
        // are three repeats. The first ACK of the next number is not a repeat.
        for (from, repeats) in [(0, 3), (100, 1), (200, 1)] {
            for i in 1..=repeats + 5 {
                let ack = client.saying.ack(0, from as u32);
                if i == repeats {
                    let counters = [Counter::Ack, Counter::Resent];
                    let came = counted(&programs, &counters, || client.say(&ack));
                    assert_eq!(came, again(from, &client));
                } else {
                    assert_eq!(
                        counted(&programs, &[Counter::Ack], || client.say(&ack)),
                        Came::Drop
                    );
                }
            }
        }
        // An older one out of order changes nothing.
        let old = client.saying.ack(0, 50);
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&old)), Came::Drop);
        let next = client.saying.ack(0, 1448);
        assert_eq!(client.say(&next), again(1448, &client));
        // All of it: the query is acknowledged once.
        let length = client.saying.length();
        let ack = client.saying.ack(length, 5000);
        let came = counted(&programs, &[Counter::Ack], || client.say(&ack));
        assert_eq!(came, Came::Segment(client.segment(5000, length)));
        assert_eq!(client.flow().unwrap().state, IDLE);
        for _ in 0..5 {
            assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&ack)), Came::Drop);
        }
    }
}

#[test]
fn repeats_bring_our_fin_where_that_alone_is_missed() {
    let programs = programs!("repeats_bring_our_fin_where_that_alone_is_missed");
    let reply = reply_bytes(500);
    for client in Client::kinds(&programs) {
        let mut client = client.replied(&reply, CLOSING, 0);
        let length = client.saying.length();
        let ack = client.saying.ack(length, 500);
        for _ in 0..3 {
            assert_eq!(client.say(&ack), Came::Drop);
        }
        let fin = Segment { flags: ACK | FIN, ..client.segment(500, length) };
        let Came::Segment(came) = client.say(&ack) else { panic!("no FIN") };
        assert_eq!(came, Segment { timestamps: came.timestamps, ..fin });
        // Everything is acknowledged, but the client has not closed yet.
        let ack = client.saying.ack(length, 501);
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&ack)), Came::Drop);
        assert_eq!(client.flow().unwrap().state, CLOSING);
    }
}

#[test]
fn acks_that_do_not_fit_change_nothing() {
    let programs = programs!("acks_that_do_not_fit_change_nothing");
    let reply = reply_bytes(500);
    for state in [REPLIED, IDLE, CLOSING] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&reply, state, 0);
            let length = client.saying.length();
            let before = fields(client.flow());
            for (seq, ack) in [
                (u32::MAX - 1, 0),
                (length + 1, 500),
                (0x8000_0000, 500),
                (length, u32::MAX),
                (length, 502),
                (length, 0x8000_0000),
            ] {
                let ack = client.saying.ack(seq, ack);
                assert_eq!(
                    counted(&programs, &[Counter::Strange], || client.say(&ack)),
                    Came::Drop
                );
                assert_eq!(fields(client.flow()), before);
            }
        }
    }
}

/// RFC 7323: a timestamp is noted if it is later, modulo 2^32; the window always is.
#[test]
fn windows_and_later_timestamps_are_noted() {
    let programs = programs!("windows_and_later_timestamps_are_noted");
    let mut client = Client::new(&programs, false, false);
    client.saying.tsval = Some(u32::MAX - 2);
    let mut client = client.replied(&reply_bytes(100), REPLIED, 0);
    let tsecr = client.saying.tsecr;
    for (tsval, window, noted) in [(u32::MAX, 7, u32::MAX), (5, 8, 5), (u32::MAX, 9, 5), (3, 0, 5)]
    {
        let ack = Segment {
            timestamps: Some((tsval, tsecr)),
            window,
            ..client.saying.ack(client.saying.length(), 50)
        };
        client.say(&ack);
        let entry = client.flow().unwrap();
        assert_eq!((entry.client_tsval, entry.window), (noted, u32::from(window) << 9));
    }
    // Without the option, the noted value stays.
    let ack = Segment { timestamps: None, ..client.saying.ack(client.saying.length(), 50) };
    client.say(&ack);
    assert_eq!(client.flow().unwrap().client_tsval, 5);
}

//! PROTOCOL.md, "Data on an entry": when either side closes.

use super::*;

#[test]
fn a_reply_with_fin_is_closed_in_steps() {
    let programs = programs!("a_reply_with_fin_is_closed_in_steps");
    let reply = reply_bytes(300);
    for client in Client::kinds(&programs) {
        let mut client = client.replied(&reply, CLOSING, 0);
        let length = client.saying.length();
        // The reply has arrived, but not our FIN.
        let again = client.saying.data_at(0, 300, &client.saying.query);
        let came = counted(&programs, &[Counter::Resent], || client.say(&again));
        let fin = Segment { flags: ACK | FIN, ..client.segment(300, length) };
        assert_eq!(came, Came::Segment(fin));
        // Both have arrived, but not our ACK.
        let again = client.saying.data_at(0, 301, &client.saying.query);
        let came = counted(&programs, &[Counter::Ack], || client.say(&again));
        assert_eq!(came, Came::Segment(client.segment(301, length)));
        assert_eq!(client.flow().unwrap().state, CLOSING);
        // The client closes before it has our FIN, and repeats its own.
        for _ in 0..2 {
            let closes = client.saying.fin(length, 300);
            let came = counted(&programs, &[Counter::Ack], || client.say(&closes));
            let both = Segment { flags: ACK | FIN, ..client.segment(300, length + 1) };
            assert_eq!(came, Came::Segment(both));
            let entry = client.flow().unwrap();
            assert_eq!(entry.flags & CLIENT_FIN, CLIENT_FIN);
            assert_eq!(entry.client_next, client.starts().0.wrapping_add(length + 1));
        }
        // Our FIN is acknowledged.
        let last = client.saying.ack(length + 1, 301);
        let came = counted(&programs, &[Counter::Ack, Counter::Closed], || client.say(&last));
        assert_eq!(came, Came::Drop);
        assert_eq!(client.flow().map(|_| ()), None);
    }
    for client in Client::kinds(&programs) {
        // The usual way: the client's FIN also acknowledges ours.
        let mut client = client.replied(&reply, CLOSING, 0);
        let length = client.saying.length();
        let closes = client.saying.fin(length, 301);
        let came = counted(&programs, &[Counter::Closed], || client.say(&closes));
        assert_eq!(came, Came::Segment(client.segment(301, length + 1)));
        assert_eq!(client.flow().map(|_| ()), None);
        // Our ACK of it is lost. A client that has had a timestamp of ours learns that the
        // connection is over.
        let came = counted(&programs, &[Counter::UnknownFin], || client.say(&closes));
        assert_eq!(came, Came::Drop);
        client.saying.tsecr |= HEARD;
        let closes = client.saying.fin(length, 301);
        let came = counted(&programs, &[Counter::UnknownFin], || client.say(&closes));
        let timestamps = client.saying.tsval.is_some();
        assert_eq!(matches!(came, Came::Segment(segment) if segment.flags == RST), timestamps);
    }
}

#[test]
fn a_client_that_is_done_is_let_go() {
    let programs = programs!("a_client_that_is_done_is_let_go");
    let reply = reply_bytes(200);
    for state in [REPLIED, IDLE] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&reply, state, QUERY_UNACKED);
            let length = client.saying.length();
            if state == IDLE {
                let early = client.saying.fin(length, 199);
                let came = counted(&programs, &[Counter::Strange], || client.say(&early));
                assert_eq!(came, Came::Drop);
            }
            // The answer may be lost, so the same comes again.
            for _ in 0..2 {
                let fin = client.saying.fin(length, 200);
                let came = counted(&programs, &[Counter::Ack], || client.say(&fin));
                let expected = Segment { flags: FIN | ACK, ..client.segment(200, length + 1) };
                assert_eq!(came, Came::Segment(expected));
                let entry = client.flow().unwrap();
                assert_eq!((entry.state, entry.flags & CLIENT_FIN), (CLOSING, CLIENT_FIN));
                assert_eq!(entry.flags & QUERY_UNACKED, 0);
            }
            // Its last ACK.
            let ack = client.saying.ack(length + 1, 201);
            let counters = [Counter::Ack, Counter::Closed];
            assert_eq!(counted(&programs, &counters, || client.say(&ack)), Came::Drop);
            assert_eq!(client.flow().map(|_| ()), None);
            assert_eq!(counted(&programs, &[Counter::UnknownAck], || client.say(&ack)), Came::Drop);
        }
    }
}

#[test]
fn a_second_query_behind_our_fin_is_reset() {
    let programs = programs!("a_second_query_behind_our_fin_is_reset");
    for ack in [200, 201] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&reply_bytes(200), CLOSING, 0);
            let second =
                client.saying.data_at(client.saying.length(), ack, &query(9, "b.example", 1, None));
            let came = counted(&programs, &[Counter::Closed], || client.say(&second));
            let reset = Segment {
                flags: RST,
                ack: 0,
                window: 0,
                timestamps: None,
                ..client.segment(ack, 0)
            };
            assert_eq!(came, Came::Segment(reset));
            assert_eq!(client.flow().map(|_| ()), None);
        }
    }
}

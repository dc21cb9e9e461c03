//! PROTOCOL.md, "Data on an entry": when the reply has left.

use super::*;

#[test]
fn a_reply_is_sent_again_from_where_the_client_misses_it() {
    let programs = programs!("a_reply_is_sent_again_from_where_the_client_misses_it");
    let reply = reply_bytes(4001);
    for (state, end) in [(REPLIED, ACK | PSH), (CLOSING, ACK | PSH | FIN)] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&reply, state, QUERY_UNACKED);
            let ours = if client.saying.server.is_ipv6() { 1440 } else { 1460 };
            let size = if client.saying.tsval.is_some() { ours - 12 } else { ours };
            // More than one segment of it is missing: this needs the server's help, which does not
            // come here.
            let asks = client.saying.data_at(0, 1, &client.saying.query);
            let came = counted(&programs, &[Counter::QueryAgain], || client.say(&asks));
            assert!(matches!(came, Came::Query(_)));
            let entry = client.flow().unwrap();
            assert_eq!((entry.state, entry.flags & AGAIN), (state, AGAIN));
            assert_eq!(entry.acked, client.starts().1.wrapping_add(1));
            for from in [0, 1, 1000, 1448, 2601, 3999, 4000] {
                let again = client.saying.data_at(0, from, &client.saying.query);
                let came = counted(&programs, &[Counter::Resent], || client.say(&again));
                let to = reply.len().min(from as usize + size);
                let expected = Segment {
                    flags: if to == reply.len() { end } else { ACK },
                    payload: reply[from as usize..to].to_vec(),
                    ..client.segment(from, 0)
                };
                assert_eq!(came, Came::Segment(expected), "from {from}");
            }
            // An ACK of what was never sent, or from before the reply: its first segment again.
            for ack in [u32::MAX, 5000, 0x8000_0000] {
                let again = client.saying.data_at(0, ack, &client.saying.query);
                let Came::Segment(segment) = client.say(&again) else { panic!("nothing came") };
                assert_eq!(segment.seq, client.starts().1);
                assert_eq!(segment.payload, reply[..size]);
            }
            assert_eq!(client.flow().unwrap().state, state);
        }
    }
}

#[test]
fn the_whole_reply_is_acknowledged_and_so_is_the_query() {
    let programs = programs!("the_whole_reply_is_acknowledged_and_so_is_the_query");
    let reply = reply_bytes(3000);
    for client in Client::kinds(&programs) {
        let mut client = client.replied(&reply, REPLIED, QUERY_UNACKED);
        let length = client.saying.length();
        // The query again, because it was not acknowledged; the client has the whole reply.
        for _ in 0..2 {
            let again = client.saying.data_at(0, 3000, &client.saying.query);
            let came = counted(&programs, &[Counter::Ack], || client.say(&again));
            assert_eq!(came, Came::Segment(client.segment(3000, length)));
            let entry = client.flow().unwrap();
            assert_eq!((entry.state, entry.flags & QUERY_UNACKED), (IDLE, 0));
        }
        // The client no longer misses a part of it.
        let late = client.saying.data_at(0, 1000, &client.saying.query);
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&late)), Came::Drop);
    }
}

#[test]
fn a_second_query_that_comes_behind_the_reply_is_served() {
    let programs = programs!("a_second_query_that_comes_behind_the_reply_is_served");
    let reply = reply_bytes(200);
    for state in [REPLIED, IDLE] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&reply, state, 0);
            let length = client.saying.length();
            let first = client.saying.data();
            let bytes = query(9, "second.example", 1, None);
            let second = client.saying.data_at(length, 200, &bytes);
            let wanted = [Counter::Query, Counter::QueryLater];
            let came = counted(&programs, &wanted, || client.say(&second));
            assert!(matches!(came, Came::Query(_)), "{came:?}");
            let entry = client.flow().unwrap();
            assert_eq!((entry.state, entry.earlier), (QUERY, length as u16));
            assert_eq!((entry.query_seq, entry.server_seq), (second.seq, second.ack));
            assert_eq!((entry.reply_length, entry.query_length), (0, bytes.len() as u16));
            assert_eq!(programs.ring(entry.stored, bytes.len()), bytes);
            // The first query again, late or because our acknowledgement was lost.
            let came = counted(&programs, &[Counter::QueryEarlier], || client.say(&first));
            let Came::Segment(answer) = came else { panic!("{came:?}") };
            assert_eq!((answer.seq, answer.ack, answer.flags), (second.ack, second.seq, ACK));
        }
    }
}

#[test]
fn a_second_query_is_the_kernels() {
    let programs = programs!("a_second_query_is_the_kernels");
    programs.set(settings { later_queries: 0, several_queries: 0, ..Programs::settings() });
    let reply = reply_bytes(200);
    for state in [REPLIED, IDLE] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&reply, state, 0);
            let length = client.saying.length();
            let second = client.saying.data_at(length, 200, &query(9, "second.example", 1, None));
            let before = fields(client.flow());
            let came = counted(&programs, &[Counter::ToKernelSecond], || client.say(&second));
            assert_eq!(came, Came::Pass);
            assert_eq!(fields(client.flow()), before, "tc ingress removes it");
            // A query whose client misses part of the reply waits until it has that.
            let bytes = query(9, "second.example", 1, None);
            let second = client.saying.data_at(length, 100, &bytes);
            let verdict = if state == REPLIED { Counter::Kept } else { Counter::Strange };
            assert_eq!(counted(&programs, &[verdict], || client.say(&second)), Came::Drop);
            if state == IDLE {
                continue;
            }
            let behind = length + bytes.len() as u32;
            let third = client.saying.data_at(behind, 199, b"third");
            assert_eq!(counted(&programs, &[Counter::Kept], || client.say(&third)), Came::Drop);
            let entry = client.flow().unwrap();
            let kept = [&bytes[..], b"third"].concat();
            assert_eq!(usize::from(entry.ahead_length), kept.len());
            assert_eq!(programs.ring(entry.ahead, kept.len()), kept);
            let ack = client.saying.ack(behind + 5, 199);
            assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&ack)), Came::Drop);
            let ack = client.saying.ack(behind + 5, 200);
            let came = counted(&programs, &[Counter::ToKernelPipelined], || client.say(&ack));
            assert_eq!((came, client.flow().unwrap().state), (Came::Pass, REPLIED));
        }
    }
}

#[test]
fn what_is_no_longer_in_the_ring_is_reset() {
    let programs = programs!("what_is_no_longer_in_the_ring_is_reset");
    let reply = reply_bytes(1000);
    for client in Client::kinds(&programs) {
        let mut client = client.replied(&reply, REPLIED, AGAIN);
        let stored = client.flow().unwrap().stored;
        // Almost once around, except for the part that is being overwritten.
        programs.set_ring_head(stored.wrapping_add((RING_SIZE - 131_072) / RING_UNIT - 1));
        let again = client.saying.data();
        assert!(matches!(client.say(&again), Came::Segment(segment) if segment.payload == reply));
        programs.set_ring_head(stored.wrapping_add((RING_SIZE - 131_072) / RING_UNIT));
        // ACKs alone bring nothing.
        for _ in 0..4 {
            let ack = client.saying.ack(client.saying.length(), 0);
            assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&ack)), Came::Drop);
        }
        let came = counted(&programs, &[Counter::ResendGone], || client.say(&again));
        let reset =
            Segment { flags: RST, ack: 0, window: 0, timestamps: None, ..client.segment(0, 0) };
        assert_eq!(came, Came::Segment(reset));
        assert_eq!(client.flow().map(|_| ()), None);
    }
}

/// A test packet has room for about 3500 bytes. For longer payloads there is a note before the
/// headers, for tc ingress.
#[test]
fn a_payload_that_has_no_room_is_left_to_tc() {
    let programs = programs!("a_payload_that_has_no_room_is_left_to_tc");
    programs.set(settings { mss4: 8960, mss6: 8940, ..Programs::settings() });
    let reply = reply_bytes(9000);
    for client in Client::kinds(&programs) {
        let mut client = client;
        client.saying.mss = Some(8960);
        let client = client.replied(&reply, REPLIED, QUERY_UNACKED | AGAIN);
        let entry = client.flow().unwrap();
        let again = client.saying.data_at(0, 500, &client.saying.query).packet();
        let (verdict, after) =
            counted(&programs, &[Counter::Resent], || programs.xdp(&client.frame(&again)));
        assert_eq!(verdict, XDP_PASS);
        let (note, frame) = after.split_at(20);
        let word = |at: usize| u32::from_ne_bytes(note[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(4), word(8)), (0x6e61_7772, entry.stored, 500));
        let payload = &reply[500..500 + word(12) as usize];
        let largest = u32::from(entry.mss) - if client.saying.tsval.is_some() { 12 } else { 0 };
        assert_eq!(word(12), largest.min(8500));
        // tc ingress cuts off what is left of the client's packet behind the headers.
        let headers = &frame[..14 + word(16) as usize];
        // Together they are the segment, with valid lengths and checksum.
        let segment = Segment::read(&[&headers[14..], payload].concat());
        assert_eq!((segment.from, segment.to), (client.saying.server, client.saying.client));
        assert_eq!(segment.seq, client.starts().1.wrapping_add(500));
        assert_eq!(segment.payload, payload);
    }
}

/// At every place around the ring's end, even beyond 2^32 units.
#[test]
fn a_reply_is_whole_wherever_it_is_in_the_ring() {
    let programs = programs!("a_reply_is_whole_wherever_it_is_in_the_ring");
    let reply = reply_bytes(1400);
    let units = RING_SIZE / RING_UNIT;
    for head in (units - 24..units + 2).chain([u32::MAX - 10, u32::MAX, 0]) {
        programs.remove_flows();
        let client = Client::new(&programs, false, true).open();
        programs.set_ring_head(head);
        let mut client = client.replied(&reply, REPLIED, AGAIN);
        let came = client.say(&client.saying.data());
        assert!(matches!(came, Came::Segment(segment) if segment.payload == reply), "{head}");
    }
}

//! The XDP program's verdicts on connections that have an entry, by `bpf_prog_run`: PROTOCOL.md,
//! "Data on an entry" and "Acknowledgements", row by row. Needs root; prints SKIP otherwise.

#![cfg(feature = "ebpf")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::frames::*;
use common::packets::{ACK, FIN, PSH, RST, Segment, query};
use common::programs::{Programs, RING_SIZE, RING_UNIT, XDP_PASS, boot_ns, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::{flow, settings};

#[test]
fn a_query_that_comes_again_waits_while_the_server_has_time() {
    let programs = programs!("a_query_that_comes_again_waits_while_the_server_has_time");
    for client in Client::kinds(&programs) {
        let mut client = client.open();
        let data = client.saying.data();
        let first = client.say(&data);
        assert!(matches!(first, Came::Query(_)));
        let again = Segment { window: 300, ..client.saying.data() };
        assert_eq!(counted(&programs, &[Counter::QueryWaits], || client.say(&again)), Came::Drop);
        let entry = client.flow().unwrap();
        assert_eq!(entry.state, QUERY);
        assert_eq!(entry.window, if client.saying.tsval.is_some() { 300 << 9 } else { 300 });
        assert_eq!(entry.client_tsval, again.timestamps.map_or(0, |(tsval, _)| tsval));
        // Again, with the FIN that followed.
        let fin = Segment { flags: ACK | PSH | FIN, ..client.saying.data() };
        assert_eq!(counted(&programs, &[Counter::QueryWaits], || client.say(&fin)), Came::Drop);
        let entry = client.flow().unwrap();
        assert_eq!((entry.flags & CLIENT_FIN, entry.client_next), (CLIENT_FIN, fin.next()));
        assert_eq!(counted(&programs, &[Counter::QueryWaits], || client.say(&fin)), Came::Drop);
        assert_eq!(client.flow().unwrap().client_next, fin.next(), "one FIN has one number");
        // Another ID in its place: this is not the entry's query.
        let other = query(0x4321, "www.example.com", 1, Some(1232));
        let other = client.saying.data_at(0, 0, &other);
        let before = fields(client.flow());
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&other)), Came::Drop);
        assert_eq!(fields(client.flow()), before);
    }
}

/// The server may have dropped it, as a rate limit does. A client that has proven its address gets
/// an answer, over TCP.
#[test]
fn a_query_that_comes_again_later_is_left_to_the_kernel() {
    let programs = programs!("a_query_that_comes_again_later_is_left_to_the_kernel");
    for client in Client::kinds(&programs) {
        let mut client = client.asked();
        let entry = client.flow().unwrap();
        programs.set_flow(
            &client.key(),
            &flow { asked_us: entry.asked_us.wrapping_sub(500_000), ..entry },
        );
        let again = client.saying.data();
        assert_eq!(
            counted(&programs, &[Counter::ToKernelSilent], || client.say(&again)),
            Came::Pass
        );
        assert_eq!(client.flow().unwrap().state, SLOW);
        // And so is each copy.
        assert_eq!(counted(&programs, &[Counter::KernelHasIt], || client.say(&again)), Came::Pass);
    }
}

#[test]
fn while_the_server_is_asked_fin_is_noted() {
    let programs = programs!("while_the_server_is_asked_fin_is_noted");
    for client in Client::kinds(&programs) {
        let mut client = client.asked();
        let length = client.saying.length();
        let fin = client.saying.fin(length, 0);
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&fin)), Came::Drop);
        let entry = client.flow().unwrap();
        assert_eq!((entry.flags & CLIENT_FIN, entry.client_next), (CLIENT_FIN, fin.next()));
        // The repeated FIN has another place than the expected data.
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&fin)), Came::Drop);
        // Data behind a gap, and behind the FIN.
        for place in [length + 100, length + 1] {
            let far = client.saying.data_at(place, 0, b"far");
            assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&far)), Came::Drop);
        }
        // An ACK of what the server was asked only changes window and timestamp.
        let ack = client.saying.ack(length, 0);
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&ack)), Came::Drop);
        assert_eq!(client.flow().unwrap().state, QUERY);
    }
}

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
    programs.set(settings { later_queries: 0, ..Programs::settings() });
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

#[test]
fn a_second_query_while_the_server_is_asked_is_the_kernels() {
    let programs = programs!("a_second_query_while_the_server_is_asked_is_the_kernels");
    let second = query(2, "b.example", 1, None);
    for client in Client::kinds(&programs) {
        let mut client = client.asked();
        let length = client.saying.length();
        let before = fields(client.flow());
        // Something that was never sent, and the first query is not in the ring.
        let odd = client.saying.data_at(length, 1, &second);
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&odd)), Came::Drop);
        let head = programs.ring_head();
        programs.set_ring_head(head.wrapping_add(RING_SIZE / RING_UNIT));
        let more = client.saying.data_at(length, 0, &second);
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&more)), Came::Drop);
        assert_eq!(fields(client.flow()), before);
        programs.set_ring_head(head);

        let came = counted(&programs, &[Counter::ToKernelPipelined], || client.say(&more));
        assert_eq!(came, Came::Pass);
        let entry = client.flow().unwrap();
        assert_eq!((entry.state, entry.client_next), (SLOW, client.saying.data().next()));
    }
    // The same in one segment, as Linux sends it again; and the first query in parts.
    for client in Client::kinds(&programs) {
        let client = client.asked();
        let both = [&client.saying.query[..], &second].concat();
        for payload in [&both, &both[..7]] {
            let mut client = client.clone();
            let entry = client.flow().unwrap();
            let again = client.saying.data_at(0, 0, payload);
            let came = counted(&programs, &[Counter::ToKernelPipelined], || client.say(&again));
            assert_eq!(came, Came::Pass);
            assert_eq!(client.flow().unwrap().state, SLOW);
            programs.set_flow(&client.key(), &entry);
        }
    }
}

#[test]
fn a_connection_that_was_left_to_the_kernel_is_its() {
    let programs = programs!("a_connection_that_was_left_to_the_kernel_is_its");
    for state in [SLOW, KERNEL] {
        for client in Client::kinds(&programs) {
            let mut client = client.replied(&[], state, 0);
            let before = fields(client.flow());
            let length = client.saying.length();
            let passed = [
                client.saying.data(),
                client.saying.data_at(length, 0, b"second"),
                client.saying.data_at(length + 700, 0, b"further"),
                client.saying.fin(length + 700, 0),
                client.saying.data_at(0, 0, &[7; 1200]),
            ];
            for segment in passed {
                let came = counted(&programs, &[Counter::KernelHasIt], || client.say(&segment));
                assert_eq!(came, Came::Pass);
            }
            let rst = Segment { flags: RST, ..client.saying.ack(length, 0) };
            assert_eq!(counted(&programs, &[], || client.say(&rst)), Came::Pass);
            // There is no socket here, which an ACK would need.
            let ack = client.saying.ack(length, 0);
            let unknown = if state == SLOW { Counter::Strange } else { Counter::UnknownAck };
            assert_eq!(counted(&programs, &[unknown], || client.say(&ack)), Came::Drop);
            // Beyond what the kernel can expect before it has sent anything.
            for far in
                [client.saying.data_at(70_000, 0, b"far"), client.saying.data_at(9, 1, b"far")]
            {
                let unknown = if state == SLOW { Counter::Strange } else { Counter::UnknownData };
                assert_eq!(counted(&programs, &[unknown], || client.say(&far)), Came::Drop);
            }
            assert_eq!(fields(client.flow()), before);
        }
    }
}

#[test]
fn a_port_may_be_used_again() {
    let programs = programs!("a_port_may_be_used_again");
    let reply = reply_bytes(300);
    for state in [QUERY, REPLIED, IDLE, CLOSING, SLOW, KERNEL] {
        for client in Client::kinds(&programs) {
            let old = client.replied(&reply, state, 0);
            let mut client = old.clone();
            client.saying.isn = 0x1357_9bdf;
            let mut client = client.open();
            assert_eq!(fields(client.flow()), fields(old.flow()), "a SYN changes nothing");
            let data = client.saying.data();
            let came = counted(&programs, &[Counter::Query], || client.say(&data));
            assert!(matches!(came, Came::Query(_)), "state {state}");
            let entry = client.flow().unwrap();
            assert_eq!((entry.state, entry.query_seq), (QUERY, client.starts().0));
            assert_eq!(entry.reply_length, 0);
        }
    }
    // If the kernel gets the new connection, the old entry does not get in its way.
    let mut client = Client::new(&programs, false, false).replied(&reply, IDLE, 0);
    client.saying.isn = 0x1357_9bdf;
    let mut client = client.open();
    let data = client.saying.data_at(0, 0, b"\x00");
    assert_eq!(counted(&programs, &[Counter::ToKernelUnusual], || client.say(&data)), Came::Pass);
    assert_eq!(client.flow().map(|_| ()), None);
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
                (u32::MAX, 0),
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

#[test]
fn a_reset_counts_within_what_was_sent() {
    let programs = programs!("a_reset_counts_within_what_was_sent");
    let reset = |client: &Client<'_>, seq| Segment { flags: RST, ..client.saying.ack(seq, 0) };
    for client in Client::kinds(&programs) {
        let mut none = client.clone().open();
        let segment = reset(&none, 0);
        assert_eq!(counted(&programs, &[], || none.say(&segment)), Came::Pass, "the kernel's");
        let client = client.asked();
        let entry = client.flow().unwrap();
        let length = client.saying.length();
        for seq in [u32::MAX, length + 1, 0x8000_0000] {
            let mut client = client.clone();
            let segment = reset(&client, seq);
            assert_eq!(
                counted(&programs, &[Counter::Strange], || client.say(&segment)),
                Came::Drop
            );
            assert!(client.flow().is_some());
        }
        for (seq, flags) in [(0, RST), (1, RST | ACK), (length, RST | FIN)] {
            let mut client = client.clone();
            client.programs.set_flow(&client.key(), &entry);
            let segment = Segment { flags, ..reset(&client, seq) };
            assert_eq!(counted(&programs, &[Counter::Reset], || client.say(&segment)), Came::Drop);
            assert_eq!(client.flow().map(|_| ()), None);
        }
    }
}

/// It may be the second segment of a new connection whose first was lost. A client that has had a
/// timestamp of an entry's segments has an old connection.
#[test]
fn what_nobody_knows_is_dropped_unless_it_is_over() {
    let programs = programs!("what_nobody_knows_is_dropped_unless_it_is_over");
    for heard in [0, HEARD] {
        for client in Client::kinds(&programs) {
            let mut client = client;
            client.saying.cookie = 0x0bad_0bad;
            client.saying.tsecr = 0x2222_2222 & !HEARD | heard;
            let ack = client.saying.ack(5, 6);
            assert_eq!(counted(&programs, &[Counter::UnknownAck], || client.say(&ack)), Came::Drop);
            for (segment, counter) in [
                (client.saying.fin(5, 6), Counter::UnknownFin),
                (client.saying.data_at(5, 6, b"what"), Counter::UnknownData),
            ] {
                let came = counted(&programs, &[counter], || client.say(&segment));
                let reset = Segment {
                    flags: RST,
                    ack: 0,
                    window: 0,
                    timestamps: None,
                    ..client.segment(6, 0)
                };
                let over = heard != 0 && client.saying.tsval.is_some();
                assert_eq!(came, if over { Came::Segment(reset) } else { Came::Drop });
            }
            assert!(programs.flows().is_empty());
        }
    }
}

/// The client opened it but sent its first data after the cookie had expired. It would wait for
/// ever.
#[test]
fn data_whose_cookie_is_too_old_is_answered_with_rst() {
    let programs = programs!("data_whose_cookie_is_too_old_is_answered_with_rst");
    for (before, after) in [(70, false), (300, false), (540, false), (70, true)] {
        for client in Client::kinds(&programs) {
            programs.set(Programs::settings());
            let mut client = client.open();
            let settings = Programs::settings();
            let later = settings.wall_offset_ns + before * 1_000_000_000;
            let mut keys = settings.keys;
            let mut previous_until_ns = 96_000_000_000;
            if after {
                // The key changed half a minute ago, after the handshake.
                keys.swap(0, 1);
                previous_until_ns = later + boot_ns() - 30_000_000_000 + 96_000_000_000;
            }
            programs.set(narrows_gateway::kernel::types::settings {
                wall_offset_ns: later,
                previous_until_ns,
                keys,
                ..settings
            });
            for (segment, counter) in [
                (client.saying.data(), Counter::UnknownData),
                (client.saying.fin(0, 0), Counter::UnknownFin),
            ] {
                let Came::Segment(answer) = counted(&programs, &[counter], || client.say(&segment))
                else {
                    panic!("no RST after {before} s")
                };
                assert_eq!((answer.flags, answer.seq), (RST, segment.ack));
            }
            let second = client.saying.data_at(50, 0, b"data");
            assert_eq!(
                counted(&programs, &[Counter::UnknownData], || client.say(&second)),
                Came::Drop
            );
        }
    }
}

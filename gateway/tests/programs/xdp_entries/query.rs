//! PROTOCOL.md, "Data on an entry": while the query is with the server, or was left to the kernel.

use super::*;

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
        // The query comes again, with the FIN that followed.
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
fn a_second_query_while_the_server_is_asked_is_the_kernels() {
    let programs = programs!("a_second_query_while_the_server_is_asked_is_the_kernels");
    programs.set(settings { several_queries: 0, ..Programs::settings() });
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

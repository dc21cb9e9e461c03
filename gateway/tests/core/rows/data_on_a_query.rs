//! PROTOCOL.md, "Data on an entry": the query is with the server, or was left to the kernel.

use super::*;

#[test]
fn query_the_same_waits_while_the_server_has_time() {
    let mut client = Conversation::asked(settings());
    client.now.boot += Duration::from_millis(499);
    assert_eq!(client.say(&client.data()), DROP);
    assert_eq!(client.count(Counter::QueryWaits), 1);
    let fin = Segment { flags: ACK | FIN, ..client.data() };
    assert_eq!(client.say(&fin), DROP);
    assert!(client.flow().expect("an entry").client_fin);
    assert_eq!(state(&client), Some(State::Query));
}

#[test]
fn query_the_same_is_left_to_the_kernel_after_that() {
    let mut client = Conversation::asked(settings());
    client.now.boot += Duration::from_millis(500);
    let again = client.data();
    assert_eq!(client.say(&again), hand_off(Reason::Silent));
    assert_eq!(state(&client), Some(State::Slow));
    let adoption = client.core.adopt(client.now, &again.packet()).expect("for the kernel");
    assert_eq!(adoption.joined, None);
    // The kernel answers, so the server's late datagram is dropped.
    assert_eq!(client.answer(100), (ReplyVerdict::Drop, Vec::new()));
}

#[test]
fn query_another_at_its_place_is_dropped() {
    let mut client = Conversation::asked(settings());
    let segment = client.data_at(0, 0, &query(0x1235, "www.example.com", 1, Some(1232)));
    dropped(&mut client, &segment, Counter::Strange);
}

#[test]
fn query_with_more_behind_it_is_left_to_the_kernel() {
    let asked = Conversation::asked(settings());
    let longer = [&asked.query[..], b"\0\x20and"].concat();
    for payload in [&longer[..], &asked.query[..5]] {
        let mut client = asked.clone();
        let far = client.data_at(0, 1, payload);
        dropped(&mut client, &far, Counter::Strange);
        let again = client.data_at(0, 0, payload);
        assert_eq!(client.say(&again), hand_off(Reason::Pipelined));
        assert_eq!(state(&client), Some(State::Slow));
        let adoption = client.core.adopt(client.now, &again.packet()).expect("for the kernel");
        assert_eq!(adoption.joined, None);
        assert_eq!(state(&client), Some(State::Kernel));
    }
}

#[test]
fn query_bare_fin_is_a_half_close() {
    let mut client = Conversation::asked(settings());
    let fin = client.fin(client.length(), 0);
    assert_eq!(client.say(&fin), DROP);
    let flow = client.flow().expect("an entry");
    assert!(flow.client_fin);
    assert_eq!(flow.client_next, fin.next());
    dropped(&mut client, &fin, Counter::Strange);
    // The reply acknowledges the client's FIN and carries the gateway's.
    let (_, segments) = client.answer(100);
    assert_eq!(segments[0].flags, ACK | PSH | FIN);
    assert_eq!(segments[0].ack, fin.next());
    assert_eq!(state(&client), Some(State::Closing));
}

/// The client's second query has arrived while the first is with the server.
fn pipelined(mut client: Conversation) -> (Conversation, Segment) {
    let second = client.data_at(client.length(), 0, b"\0\x06second");
    assert_eq!(client.say(&second), hand_off(Reason::Pipelined));
    assert_eq!(state(&client), Some(State::Slow));
    (client, second)
}

#[test]
fn query_data_behind_is_left_to_the_kernel_with_it() {
    let plain = Conversation::new(settings()).plain();
    let others = Conversation::new(settings()).over_ipv6();
    for mut client in [Conversation::new(settings()), plain, others] {
        client.shake_hands();
        client.say(&client.data());
        let (mut client, second) = pipelined(client);
        let adoption = client.core.adopt(client.now, &second.packet()).expect("for the kernel");
        assert_eq!(adoption.timestamps, second.timestamps.map(|(a, b)| (b, a)));
        let joined = Segment::read(&adoption.joined.expect("both queries"));
        let payload = [&client.query[..], &second.payload].concat();
        assert_eq!(joined, Segment { seq: client.data().seq, payload, ..second });
        assert_eq!(state(&client), Some(State::Kernel));
        assert_eq!(client.count(Counter::Adopted), 1);
    }
}

#[test]
fn query_data_behind_keeps_the_servers_reply_from_the_client() {
    let (mut client, second) = pipelined(Conversation::asked(settings()));
    for adopted in [false, true] {
        if adopted {
            client.core.adopt(client.now, &second.packet()).expect("for the kernel");
        }
        assert_eq!(client.answer(100), (ReplyVerdict::Drop, Vec::new()));
    }
    assert_eq!(client.count(Counter::ReplyRepeated), 2);
    client.now.boot += client.core.settings().timeout;
    client.core.poll(client.now, &mut Vec::new());
    assert_eq!(client.flow(), None);
}

#[test]
fn query_data_behind_that_does_not_fit_is_dropped() {
    // Otherwise one source could not fill the ring.
    let asked = Conversation::asked(Settings { query_interval_ns: 0, ..settings() });
    // Data with another ACK number, data behind a gap, and data behind the client's FIN.
    let length = asked.length();
    for (seq, ack) in [(length, 1), (length + 1, 0)] {
        let mut client = asked.clone();
        let data = client.data_at(seq, ack, b"second");
        dropped(&mut client, &data, Counter::Strange);
    }
    let mut client = asked.clone();
    client.say(&client.fin(length, 0));
    let data = client.data_at(length + 1, 0, b"second");
    dropped(&mut client, &data, Counter::Strange);
    // The first query is no longer in the ring.
    let mut client = asked;
    let other = query(1, &"a".repeat(60), 1, None);
    for port in 0..=u16::MAX {
        if client.core.stored(&client.flow().expect("an entry")).is_none() {
            break;
        }
        let mut noise = client.clone();
        noise.client.set_port(port.max(1));
        (noise.isn, noise.query) = (u32::from(port), other.clone());
        noise.shake_hands();
        noise.say(&noise.data());
        client.core = noise.core;
        // The entries of these clients must not displace this one.
        client.say(&client.ack(length, 0));
    }
    let data = client.data_at(length, 0, b"second");
    dropped(&mut client, &data, Counter::Strange);
    assert_eq!(state(&client), Some(State::Query));
}

#[test]
fn what_comes_after_a_pipelined_query_is_the_kernels() {
    let (client, second) = pipelined(Conversation::asked(settings()));
    let mut adopted = client.clone();
    adopted.core.adopt(client.now, &second.packet()).expect("for the kernel");
    for mut client in [client, adopted] {
        let behind = client.length() + second.payload.len() as u32;
        let rst = Segment { flags: RST, ..client.ack(behind, 0) };
        assert_eq!(client.say(&rst), Said::Nothing(Verdict::Pass));
        let left = state(&client);
        // Before the kernel has a socket: the segment may be on its way there, or the one before
        // was lost.
        for again in [client.data(), second.clone(), client.data_at(behind, 0, b"third")] {
            assert_eq!(client.say(&again), hand_off(Reason::Left));
        }
        assert_eq!(client.say(&client.fin(behind, 0)), hand_off(Reason::Left));
        let unknown = client.count(Counter::UnknownAck) + client.count(Counter::Strange);
        assert_eq!(client.say(&client.ack(behind, 0)), DROP);
        assert_eq!(client.say(&client.ack(client.length(), 0)), DROP);
        assert_eq!(client.count(Counter::UnknownAck) + client.count(Counter::Strange), unknown + 2);
        // Once it has a socket, it gets everything.
        client.beside = Beside::Connection;
        for segment in [client.ack(behind, 500), client.fin(behind, 500), client.ack(3, 0)] {
            assert_eq!(client.say(&segment), Said::Nothing(Verdict::Pass));
        }
        assert_eq!(state(&client), left);
        // Afterwards the port may be used again.
        client.beside = Beside::Server;
        client.isn = client.isn.wrapping_add(70_000);
        client.shake_hands();
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        assert_eq!(state(&client), Some(State::Query));
    }
}

#[test]
fn what_the_kernel_was_not_given_is_adopted_when_it_comes_again() {
    let (client, second) = pipelined(Conversation::asked(settings()));
    let third = client.data_at(client.length() + second.payload.len() as u32, 0, b"third");
    let mut waiting = client.clone();
    assert_eq!(waiting.core.adopt(client.now, &third.packet()), None);
    assert_eq!(waiting.count(Counter::Strange), 1);
    let both = client.data_at(0, 0, &[&client.query[..], &second.payload].concat());
    for again in [client.data(), both, second] {
        for state_before in [State::Slow, State::Kernel] {
            let mut client = client.clone();
            if state_before == State::Kernel {
                client.core.adopt(client.now, &client.data().packet()).expect("for the kernel");
            }
            assert_eq!(state(&client), Some(state_before));
            assert!(client.core.adopt(client.now, &again.packet()).is_some());
            assert_eq!(state(&client), Some(State::Kernel));
        }
    }
}

#[test]
fn slow_the_query_is_left_to_the_kernel() {
    let mut client = Conversation::asked(settings());
    assert_eq!(client.answer(20_000).0, ReplyVerdict::HandOff);
    for data in [client.data(), client.data_at(client.length(), 0, b"more")] {
        assert_eq!(client.say(&data), hand_off(Reason::Left));
        assert!(client.core.clone().adopt(client.now, &data.packet()).is_some());
    }
    assert_eq!(client.count(Counter::ToKernelReply), 1);
}

//! PROTOCOL.md, "Data on an entry": the reply has left.

use super::*;

#[test]
fn port_reused() {
    let (mut client, _) = Conversation::replied(settings(), 100);
    client.isn = client.isn.wrapping_add(70_000);
    client.shake_hands();
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
    let flow = client.flow().expect("an entry");
    assert_eq!((flow.state, flow.query_seq), (State::Query, client.isn.wrapping_add(1)));
}

#[test]
fn replied_the_query_again_brings_all_that_is_missing_with_the_server() {
    for settings in [settings(), close_fin()] {
        let (mut client, segments) = Conversation::replied(settings, 12_000);
        let step = segments[0].payload.len() as u32;
        let data = client.data_at(0, 2 * step, &client.query.clone());
        assert!(matches!(client.say(&data), Said::Query(_)));
        assert!(client.flow().expect("an entry").again);
        // Another reply, even a short one: the client gets parts of one reply only.
        let (verdict, again) = client.answer(100);
        assert_eq!(verdict, ReplyVerdict::Sent);
        assert_eq!(again.len(), segments.len() - 2);
        for (again, first) in again.iter().zip(&segments[2..]) {
            assert_eq!(
                (again.seq, again.ack, again.flags, &again.payload),
                (first.seq, first.ack, first.flags, &first.payload)
            );
        }
        assert_eq!(client.count(Counter::Resent), again.len() as u64);
        // This happens only once.
        assert_eq!(client.answer(100).0, ReplyVerdict::Drop);
    }
}

#[test]
fn replied_the_query_again_with_one_segment_missing_brings_it_twice() {
    for (size, ack) in [(300, 0), (4000, 2 * 1448)] {
        let (mut client, segments) = Conversation::replied(settings(), size);
        let last = segments.last().expect("a segment");
        let data = client.data_at(0, ack, &client.query.clone());
        assert!(matches!(client.say(&data), Said::Query(_)));
        let (_, again) = client.answer(size);
        assert_eq!(again.len(), 2);
        for again in again {
            assert_eq!((again.seq, again.ack, &again.payload), (last.seq, last.ack, &last.payload));
        }
    }
}

#[test]
fn replied_the_query_again_gives_the_segment_at_its_ack() {
    for settings in [settings(), close_fin()] {
        let (mut client, segments) = Conversation::replied(settings, 4000);
        let whole: Vec<u8> = segments.iter().flat_map(|s| s.payload.clone()).collect();
        // If the reply has several segments, the server is asked first; here it does not answer.
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        for ack in [0, 1448, 2896, 4000, 17] {
            let data = client.data_at(0, ack, &client.query.clone());
            let again = segment(client.say(&data));
            let end = (ack as usize + 1448).min(whole.len());
            assert_eq!(again.payload, whole[ack as usize..end], "at {ack}");
            assert_eq!(again.seq, data.ack);
            assert_eq!(again.ack, segments[0].ack);
            assert_eq!(
                again.flags & FIN,
                if end == whole.len() { segments[2].flags & FIN } else { 0 }
            );
        }
        assert_eq!(client.count(Counter::Resent), 5);
    }
}

#[test]
fn replied_the_query_again_with_another_ack_gives_the_first_segment() {
    for settings in [settings(), close_fin()] {
        let (mut client, segments) = Conversation::replied(settings, 4000);
        for ack in [4003_u32.wrapping_add(1), u32::MAX] {
            let data = client.data_at(0, ack, &client.query.clone());
            assert_eq!(segment(client.say(&data)).payload, segments[0].payload);
        }
    }
}

#[test]
fn closing_the_query_again_at_the_end_gives_our_fin() {
    let (mut client, segments) = Conversation::replied(close_fin(), 100);
    let end = segments[0].payload.len() as u32;
    let again = segment(client.say(&client.data_at(0, end, &client.query.clone())));
    assert_eq!((again.flags, again.payload.len()), (FIN | ACK, 0));
    assert_eq!(again.next(), segments[0].next());
}

#[test]
fn the_query_again_behind_the_end_is_acknowledged() {
    for (settings, beyond, after) in
        [(settings(), 0, State::Idle), (close_fin(), 1, State::Closing)]
    {
        let (mut client, segments) = Conversation::replied(settings, 4000);
        let end = segments.iter().map(|s| s.payload.len() as u32).sum::<u32>() + beyond;
        for _ in 0..2 {
            let data = client.data_at(0, end, &client.query.clone());
            let answer = segment(client.say(&data));
            assert_eq!((answer.flags, answer.seq), (ACK, data.ack));
            assert_eq!(answer.ack, data.next());
            assert!(answer.payload.is_empty());
            assert_eq!(state(&client), Some(after));
        }
    }
}

#[test]
fn idle_a_second_query_is_left_to_the_kernel() {
    for acknowledged in [false, true] {
        let (mut client, segments) = Conversation::replied(settings(), 100);
        let end = segments[0].payload.len() as u32;
        if acknowledged {
            assert_eq!(client.say(&client.ack(client.length(), end)), DROP);
            assert_eq!(state(&client), Some(State::Idle));
        }
        let second = client.data_at(client.length(), end, b"second");
        assert_eq!(client.say(&second), hand_off(Reason::Second));
        assert_eq!(
            client.core.adopt(client.now, &second.packet()),
            Some(Adoption {
                mss: 1460,
                wscale: Some(9),
                sack: true,
                timestamps: second.timestamps.map(|(a, b)| (b, a)),
                joined: None,
            })
        );
        assert_eq!(client.flow(), None);
    }
}

#[test]
fn idle_a_bare_fin_is_answered_with_fin_and_ack() {
    for size in [100, 4000] {
        let (mut client, segments) = Conversation::replied(settings(), size);
        let end = segments.iter().map(|s| s.payload.len() as u32).sum::<u32>();
        // The gateway's FIN may be lost. The client then repeats its own.
        for _ in 0..2 {
            let fin = client.fin(client.length(), end);
            let answer = segment(client.say(&fin));
            assert_eq!((answer.flags, answer.seq, answer.ack), (FIN | ACK, fin.ack, fin.next()));
            assert_eq!(state(&client), Some(State::Closing));
        }
        assert_eq!(client.say(&client.ack(client.length() + 1, end + 1)), DROP);
        assert_eq!(client.flow(), None);
        assert_eq!(client.count(Counter::Closed), 1);
    }
}

#[test]
fn replied_a_fin_before_the_end_closes_behind_the_reply() {
    for size in [100, 4000] {
        let (mut client, segments) = Conversation::replied(settings(), size);
        let end = segments.iter().map(|s| s.payload.len() as u32).sum::<u32>();
        let fin = client.fin(client.length(), 5);
        let answer = segment(client.say(&fin));
        let behind = fin.ack.wrapping_add(end - 5);
        assert_eq!((answer.flags, answer.seq), (FIN | ACK, behind));
        assert_eq!(answer.ack, client.data().seq, "the query may have to come again");
        assert_eq!(state(&client), Some(State::Closing));
        // The client asks for the reply, which also brings our FIN.
        let again = client.data_at(0, end - 9, &client.query.clone());
        assert!(matches!(client.say(&again), Said::Query(_)));
        let (_, again) = client.answer(size);
        assert_eq!((again[0].flags, again[0].payload.len()), (FIN | ACK | PSH, 9));
        assert_eq!(again[0].ack, client.data().seq);
        // The client has both, so its FIN is acknowledged.
        let last = segment(client.say(&client.ack(client.length() + 1, end + 1)));
        assert_eq!((last.flags, last.ack), (ACK, fin.next()));
    }
}

#[test]
fn replied_data_before_the_end_is_kept_for_the_kernel() {
    for (size, parts) in [(100, 1), (4000, 1), (100, 3)] {
        let (mut client, segments) = Conversation::replied(settings(), size);
        let end = segments.iter().map(|s| s.payload.len() as u32).sum::<u32>();
        let mut kept = Vec::new();
        for part in 0..parts {
            let payload = [b'a' + part; 300];
            let data = client.data_at(client.length() + kept.len() as u32, 5, &payload);
            kept.extend(payload);
            // It may come twice.
            for _ in 0..=u8::from(part == 0) {
                assert_eq!(client.say(&data), DROP);
            }
            assert_eq!(usize::from(client.flow().expect("an entry").ahead_length), kept.len());
        }
        assert_eq!(client.count(Counter::Kept), u64::from(parts) + 1);
        let behind = client.length() + kept.len() as u32;
        // An acknowledgement of part of the reply, and data behind a gap.
        assert_eq!(client.say(&client.ack(behind, end - 1)), DROP);
        let far = client.data_at(behind + 1, end, b"far");
        dropped(&mut client, &far, Counter::Strange);
        let whole = client.ack(behind, end);
        let more = client.data_at(behind, end, b"more");
        let fin = client.fin(behind, end);
        for last in [whole, more, fin] {
            let mut client = client.clone();
            assert_eq!(client.say(&last), hand_off(Reason::Pipelined));
            let adoption = client.core.adopt(client.now, &last.packet()).expect("for the kernel");
            let joined = Segment::read(&adoption.joined.expect("what was kept"));
            let payload = [&kept[..], &last.payload].concat();
            let seq = client.data_at(client.length(), 0, b"").seq;
            assert_eq!(joined, Segment { seq, payload, ..last });
            assert_eq!(client.flow(), None);
        }
        // The second query again, because the client's ACK was lost.
        let again = client.data_at(client.length(), end, &kept);
        assert_eq!(client.say(&again), hand_off(Reason::Second));
    }
}

#[test]
fn replied_data_that_is_too_much_is_dropped() {
    let (client, _) = Conversation::replied(settings(), 100);
    let length = client.length();
    let fin = Segment { flags: ACK | FIN, ..client.data_at(length, 5, b"last") };
    for odd in [client.data_at(length, 5, &[0; 1025]), fin] {
        dropped(&mut client.clone(), &odd, Counter::Strange);
    }
    let mut client = client;
    for part in 0..5 {
        let data = client.data_at(length + part * 1024, 5, &[0; 1024]);
        if part < 4 {
            assert_eq!(client.say(&data), DROP);
            assert_eq!(client.count(Counter::Kept), u64::from(part) + 1);
        } else {
            dropped(&mut client, &data, Counter::Strange);
        }
    }
}

#[test]
fn replied_data_that_is_kept_counts_for_the_sources_rate() {
    let limited = Settings { query_interval_ns: 1_000_000_000, query_burst_ns: 0, ..settings() };
    let (mut client, _) = Conversation::replied(limited, 100);
    client.now.boot += Duration::from_millis(1500);
    let data = client.data_at(client.length(), 5, b"second");
    assert_eq!(client.say(&data), DROP);
    dropped(&mut client, &data, Counter::QueryLimited);
}

#[test]
fn a_query_that_comes_again_above_the_sources_rate_does_not_reach_the_server() {
    let limited = Settings { query_interval_ns: 1_000_000_000, query_burst_ns: 0, ..settings() };
    let (mut client, segments) = Conversation::replied(limited, 100);
    let data = client.data();
    client.now.boot += Duration::from_millis(500);
    assert_eq!(segment(client.say(&data)).payload, segments[0].payload);
    client.now.boot += Duration::from_millis(1000);
    assert!(matches!(client.say(&data), Said::Query(_)));
}

#[test]
fn closing_a_bare_fin_is_acknowledged() {
    let (mut client, segments) = Conversation::replied(close_fin(), 100);
    let end = segments[0].payload.len() as u32;
    // Again, before the client has our FIN, and together with it.
    let early = client.fin(client.length(), 5);
    dropped(&mut client, &early, Counter::Strange);
    for (ack, flags, gone) in [(end, FIN | ACK, false), (end + 1, ACK, true)] {
        let fin = client.fin(client.length(), ack);
        let answer = segment(client.say(&fin));
        assert_eq!((answer.flags, answer.seq, answer.ack), (flags, fin.ack, fin.next()));
        assert_eq!(client.flow().is_none(), gone);
    }
    assert_eq!(client.count(Counter::Closed), 1);
}

#[test]
fn closing_a_second_query_is_answered_with_rst() {
    for fin in [0, 1] {
        let (mut client, segments) = Conversation::replied(close_fin(), 100);
        let end = segments[0].payload.len() as u32;
        let second = client.data_at(client.length(), end + fin, b"second");
        let answer = segment(client.say(&second));
        assert_eq!((answer.flags, answer.seq), (RST, second.ack));
        assert_eq!(client.flow(), None);
    }
}

#[test]
fn a_reply_gone_from_the_ring_ends_the_connection() {
    // Otherwise one source could not fill the ring.
    let unlimited = Settings { query_interval_ns: 0, ..settings() };
    let (mut client, _) = Conversation::replied(unlimited, 100);
    let mut others = client.clone();
    for port in 1..=40 {
        others.client.set_port(port);
        others.shake_hands();
        others.say(&others.data());
        assert_eq!(others.answer(14_000).0, ReplyVerdict::Sent);
    }
    client.core = others.core;
    let data = client.data();
    let answer = segment(client.say(&data));
    assert_eq!((answer.flags, answer.seq), (RST, data.ack));
    assert_eq!(client.flow(), None);
    assert_eq!(client.count(Counter::ResendGone), 1);
}

//! The XDP program's verdicts on connections with several open queries, by `bpf_prog_run`:
//! PROTOCOL.md, "Several queries at once". Needs root; prints SKIP otherwise.

use std::time::Instant;

use crate::common::frames::*;
use crate::common::packets::{ACK, Datagram, FIN, PSH, RST, Segment, query, too_big};
use crate::common::programs::{Programs, XDP_PASS, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::{opens, settings};

/// `enum opens_state` of `bpf/types.h`.
const SERVED: u8 = 0;
const LEAVING: u8 = 1;
/// `OPEN_MAX` and `OPEN_AHEAD` there.
const MOST: usize = 32;
const AHEAD: usize = 12_288;

/// The n-th query, whose ID is its number.
fn nth(n: u16) -> Vec<u8> {
    query(n, &format!("n{n}.example.com"), 1, Some(1232))
}

/// A client with this many queries at the server, each sent in a separate segment; also returns
/// their total length.
fn asked<'a>(client: Client<'a>, count: u16) -> (Client<'a>, u32) {
    let (mut client, mut at) = (client.open(), 0);
    for n in 0..count {
        let query = nth(n);
        let segment = client.saying.data_at(at, 0, &query);
        let Came::Query(datagram) = client.say(&segment) else { panic!("query {n}") };
        assert_eq!(datagram.message[..2], n.to_be_bytes());
        at += query.len() as u32;
    }
    (client, at)
}

fn queries(client: &Client<'_>) -> opens {
    client.programs.opens(&client.key()).expect("several queries are open")
}

/// The same client before its SYN, on another connection.
fn on_port<'a>(client: &Client<'a>, port: u16) -> Client<'a> {
    let mut other = client.clone();
    other.saying.client.set_port(port + client.saying.client.port() % 10);
    other
}

/// Gives out the reply to the n-th open query, as egress does.
fn answer(client: &Client<'_>, n: usize, reply: &[u8]) {
    let mut opens = queries(client);
    let query = &mut opens.query[(usize::from(opens.first) + n) % MOST];
    query.stored = client.programs.ring_store(reply);
    query.reply_seq = opens.given;
    query.reply_length = reply.len() as u16;
    opens.given = opens.given.wrapping_add(reply.len() as u32);
    opens.bytes -= query.length;
    client.programs.set_opens(&client.key(), &opens);
}

#[test]
fn each_query_goes_to_the_server_while_others_are_open() {
    let programs = programs!("each_query_goes_to_the_server_while_others_are_open");
    for client in Client::kinds(&programs) {
        let before = [Counter::Query, Counter::QueryLater, Counter::QueryPipelined];
        let before = before.map(|counter| programs.count(counter));
        let (mut client, at) = asked(client, 3);
        let after = [Counter::Query, Counter::QueryLater, Counter::QueryPipelined];
        let after = after.map(|counter| programs.count(counter));
        assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [3, 2, 2]);
        let (start, reply_start) = client.starts();
        let entry = client.flow().unwrap();
        assert_eq!((entry.state, entry.client_next), (OPEN, start.wrapping_add(at)));
        let opens = queries(&client);
        assert_eq!((opens.count, opens.state, opens.given), (3, SERVED, reply_start));
        assert_eq!(u32::from(opens.bytes), at);
        let ids: Vec<u16> = opens.query[..3].iter().map(|q| u16::from_be(q.dns_id)).collect();
        assert_eq!(ids, [0, 1, 2]);
        // Repeated queries wait while the server has time, and data behind a gap comes again by
        // itself.
        for (place, counter) in
            [(0, Counter::QueryWaits), (at + 9, Counter::Strange), (at + 70_000, Counter::Strange)]
        {
            let segment = client.saying.data_at(place, 0, &nth(0));
            assert_eq!(counted(&programs, &[counter], || client.say(&segment)), Came::Drop);
        }
        // Acknowledgements of what was never given out, and a FIN, which comes again when
        // everything is answered.
        for ack in [1, 0x8000_0000] {
            let strange = client.saying.ack(at, ack);
            assert_eq!(
                counted(&programs, &[Counter::Strange], || client.say(&strange)),
                Came::Drop
            );
        }
        let fin = client.saying.fin(at, 0);
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&fin)), Came::Drop);
        assert_eq!(client.flow().unwrap().client_next, start.wrapping_add(at));
        // A RST within what the client sent ends it.
        let far = Segment { flags: RST, ..client.saying.ack(at + 1, 0) };
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&far)), Came::Drop);
        let rst = Segment { flags: RST, ..client.saying.ack(at, 0) };
        assert_eq!(counted(&programs, &[Counter::Reset], || client.say(&rst)), Came::Drop);
        assert!(client.flow().is_none() && programs.opens(&client.key()).is_none());
    }
}

#[test]
fn a_segment_may_have_several() {
    let programs = programs!("a_segment_may_have_several");
    let three = [nth(0), nth(1), nth(2)];
    for client in Client::kinds(&programs) {
        // As the first data, behind a query, and behind its reply.
        for (port, (before, answered)) in (50_000..).zip([(0, false), (1, false), (1, true)]) {
            let client = on_port(&client, port);
            let (mut client, at, ack) = if answered {
                let client = client.replied(&reply_bytes(100), IDLE, 0);
                let at = client.saying.length();
                (client, at, 100)
            } else {
                let (client, at) = asked(client, before);
                (client, at, 0)
            };
            let mut payload = three.concat();
            if before == 1 && !answered {
                payload = [nth(7), nth(8), nth(9)].concat();
            }
            let segment = client.saying.data_at(at, ack, &payload);
            let frame = client.frame(&segment.packet());
            let (verdict, after) = programs.xdp(&frame);
            assert_eq!(verdict, XDP_PASS);
            // What tc ingress splits: where the ring has it, its bytes, and the number of queries.
            let words: Vec<u32> = after[..20]
                .chunks(4)
                .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
                .collect();
            assert_eq!((words[0], words[3], words[4]), (0x6e61_7370, payload.len() as u32, 3));
            assert_eq!(programs.ring(words[1], payload.len()), payload);
            let datagram = Datagram::read(&after[20 + 14..]);
            assert_eq!(datagram.message[..2], payload[2..4]);
            let entry = client.flow().unwrap();
            assert_eq!((entry.state, entry.client_next), (OPEN, segment.next()));
            assert_eq!(queries(&client).count, 3 + u8::from(before == 1 && !answered));
            let rst = Segment { flags: RST, ..client.saying.ack(at, ack) };
            assert_eq!(client.say(&rst), Came::Drop);
            assert!(programs.opens(&client.key()).is_none());
        }
    }
}

#[test]
fn what_the_client_misses_is_sent_again() {
    let programs = programs!("what_the_client_misses_is_sent_again");
    let replies = [reply_bytes(120), reply_bytes(1200), reply_bytes(80)];
    for client in Client::kinds(&programs) {
        let (mut client, at) = asked(client, 3);
        let (first, second) = (nth(0).len() as u32, nth(1).len() as u32);
        // The second query was answered first, then the first.
        answer(&client, 1, &replies[1]);
        answer(&client, 0, &replies[0]);
        // No unanswered query is acknowledged, so neither is the third.
        let held = first + second;
        let segment = |client: &Client<'_>, seq: u32, payload: &[u8]| Segment {
            flags: ACK | PSH,
            payload: payload.to_vec(),
            ..client.segment(seq, held)
        };
        let again = client.saying.data_at(0, 0, &nth(0));
        let came = counted(&programs, &[Counter::Resent], || client.say(&again));
        assert_eq!(came, Came::Segment(segment(&client, 0, &replies[1])));
        // An acknowledgement of a part brings the next part, up to what was given out when the
        // first was sent again.
        let part = client.saying.ack(at, 1200);
        let came = counted(&programs, &[Counter::Ack, Counter::Resent], || client.say(&part));
        assert_eq!(came, Came::Segment(segment(&client, 1200, &replies[0])));
        assert_eq!(
            queries(&client).count,
            3,
            "the oldest query leaves when its whole reply has arrived"
        );
        let ack = client.saying.ack(at, 1320);
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&ack)), Came::Drop);
        assert_eq!(queries(&client).count, 1);
        assert_eq!(client.flow().unwrap().query_seq, client.starts().0.wrapping_add(held));
        // The client repeats an acknowledgement for the third time.
        answer(&client, 0, &replies[2]);
        for turn in 1..=3 {
            let same = client.saying.ack(at, 1320);
            let came = client.say(&same);
            let expected = match turn {
                3 => Came::Segment(segment(&client, 1320, &replies[2])),
                _ => Came::Drop,
            };
            assert_eq!(came, expected, "{turn}");
        }
        // Everything has arrived: the last query is acknowledged once, and the connection waits for
        // the next.
        let all = client.saying.ack(at, 1400);
        let expected = client.segment(1400, at);
        let came = counted(&programs, &[Counter::Ack], || client.say(&all));
        let timestamps = expected.timestamps.map(|(ours, _)| (ours, all.timestamps.unwrap().0));
        assert_eq!(came, Came::Segment(Segment { timestamps, ..expected }));
        assert_eq!(counted(&programs, &[Counter::Ack], || client.say(&all)), Came::Drop);
        let entry = client.flow().unwrap();
        assert_eq!(entry.state, IDLE);
        assert!(programs.opens(&client.key()).is_none());
        // A copy of an earlier one, and of the last.
        for (place, counter) in [(0, Counter::QueryEarlier), (held, Counter::Ack)] {
            let copy = client.saying.data_at(place, 1400, &nth(if place == 0 { 0 } else { 2 }));
            let came = counted(&programs, &[counter], || client.say(&copy));
            assert!(
                matches!(came, Came::Segment(Segment { ref payload, .. }) if payload.is_empty())
            );
        }
        // Another query, as on any connection that stays open.
        let next = client.saying.data_at(at, 1400, &nth(4));
        assert!(matches!(client.say(&next), Came::Query(_)));
        assert_eq!(client.flow().unwrap().state, QUERY);
    }
}

/// A client that never sends parts sends a whole segment again, although its first query is
/// acknowledged.
#[test]
fn what_was_received_before_is_cut_off() {
    let programs = programs!("what_was_received_before_is_cut_off");
    let (both, third) = ([nth(0), nth(1)].concat(), nth(2));
    let (length, held) = (both.len() as u32, nth(0).len() as u32);
    for client in Client::kinds(&programs) {
        let mut client = client.open();
        let segment = client.saying.data_at(0, 0, &both);
        assert_eq!(programs.xdp(&client.frame(&segment.packet())).0, XDP_PASS);
        answer(&client, 0, &reply_bytes(60));
        answer(&client, 1, &reply_bytes(40));
        // The last reply acknowledged the first query, and our ACK of both is lost.
        let all = client.saying.ack(length, 100);
        assert!(matches!(client.say(&all), Came::Segment(_)));
        assert_eq!(client.flow().unwrap().state, IDLE);
        for _ in 0..2 {
            let again = client.saying.data_at(0, 100, &both);
            let came = counted(&programs, &[Counter::Ack], || client.say(&again));
            let Came::Segment(ack) = came else { panic!("{came:?}") };
            let expected = client.segment(100, length);
            assert_eq!((ack.seq, ack.ack, ack.flags), (expected.seq, expected.ack, ACK));
        }
        // The second query again, with the next one behind it.
        let begun = [&both[held as usize..], &third].concat();
        let again = client.saying.data_at(held, 100, &begun);
        let Came::Query(datagram) = client.say(&again) else { panic!("not a query") };
        assert_eq!(datagram.message[..2], 2u16.to_be_bytes());
        let entry = client.flow().unwrap();
        assert_eq!((entry.state, entry.query_seq), (QUERY, client.starts().0.wrapping_add(length)));
        assert_eq!(programs.ring(entry.stored, third.len()), third);
        // While the server has time, nothing happens; then the kernel's TCP gets the connection.
        let whole = [&both[..], &third].concat();
        let again = client.saying.data_at(0, 100, &whole);
        let came = counted(&programs, &[Counter::QueryWaits], || client.say(&again));
        let Came::Segment(ack) = came else { panic!("{came:?}") };
        assert_eq!((ack.ack, ack.flags), (client.segment(100, length).ack, ACK));
        programs.set(settings { patience_us: 0, ..Programs::settings() });
        let came = counted(&programs, &[Counter::ToKernelSilent], || client.say(&again));
        assert_eq!(came, Came::Pass);
        programs.set(Programs::settings());
    }
}

#[test]
fn what_is_not_served_waits_for_the_kernel() {
    let programs = programs!("what_is_not_served_waits_for_the_kernel");
    // Otherwise one source could not keep so much.
    let unlimited = settings { query_interval_ns: 0, ..Programs::settings() };
    programs.set(unlimited);
    let part = nth(9)[..20].to_vec();
    for client in Client::kinds(&programs) {
        let fresh = client;
        // If nothing was given out, at once: tc ingress puts the open queries in front.
        let (mut client, at) = asked(on_port(&fresh, 50_100), 2);
        let segment = client.saying.data_at(at, 0, &part);
        let came = counted(&programs, &[Counter::ToKernelPipelined], || client.say(&segment));
        assert_eq!(came, Came::Pass);
        assert_eq!(queries(&client).state, LEAVING);
        // If replies were sent, it gets the connection when the client has them.
        let (mut client, at) = asked(on_port(&fresh, 50_200), 2);
        answer(&client, 1, &reply_bytes(60));
        let counters = [Counter::ToKernelPipelined, Counter::Kept];
        let segment = client.saying.data_at(at, 0, &part);
        assert_eq!(counted(&programs, &counters, || client.say(&segment)), Came::Drop);
        let entry = client.flow().unwrap();
        assert_eq!(programs.ring(entry.ahead, part.len()), part);
        // More data in order, as far as there is room; and the same data again.
        let more: Vec<u8> = (0..1400u32).map(|i| (i * 7) as u8).collect();
        let (mut kept, begin) = (part.clone(), programs.ring_head());
        while kept.len() + more.len() <= AHEAD {
            let behind = client.saying.data_at(at + kept.len() as u32, 0, &more);
            assert_eq!(counted(&programs, &[Counter::Kept], || client.say(&behind)), Came::Drop);
            kept.extend(&more);
        }
        let length = kept.len();
        let behind = client.saying.data_at(at + length as u32, 0, &more);
        assert_eq!(counted(&programs, &[Counter::Strange], || client.say(&behind)), Came::Drop);
        let entry = client.flow().unwrap();
        assert_eq!(usize::from(entry.ahead_length), length);
        assert_eq!(programs.ring(entry.ahead, length), kept);
        // Two larger places in the ring, and not one for each segment.
        let units = programs.ring_head().wrapping_sub(begin);
        assert_eq!(units, (6144 + AHEAD as u32) / crate::common::programs::RING_UNIT);
        assert_eq!(counted(&programs, &[Counter::Kept], || client.say(&segment)), Came::Drop);
        let ack = client.saying.ack(at + length as u32, 60);
        assert_eq!(client.say(&ack), Came::Pass);
        // The server has not answered in time: the client's copy passes, and so does the next.
        let (mut client, _) = asked(on_port(&fresh, 50_300), 2);
        let mut opens = queries(&client);
        opens.query[usize::from(opens.first)].asked_us =
            opens.query[usize::from(opens.first)].asked_us.wrapping_sub(500_000);
        programs.set_opens(&client.key(), &opens);
        let again = client.saying.data_at(0, 0, &nth(0));
        let came = counted(&programs, &[Counter::ToKernelSilent], || client.say(&again));
        assert_eq!(came, Came::Pass);
        assert_eq!(counted(&programs, &[], || client.say(&again)), Came::Pass);
        // The same ID and question twice: nobody could tell their replies apart.
        let (mut client, at) = asked(on_port(&fresh, 50_400), 2);
        let twin = client.saying.data_at(at, 0, &nth(1));
        assert_eq!(client.say(&twin), Came::Pass);
        // More than there is room for.
        let (mut client, at) = asked(on_port(&fresh, 50_500), MOST as u16);
        assert_eq!(usize::from(queries(&client).count), MOST);
        let one_more = client.saying.data_at(at, 0, &nth(99));
        assert_eq!(client.say(&one_more), Came::Pass);
        // The setting is off.
        programs.set(settings { several_queries: 0, ..unlimited });
        let (mut client, at) = asked(on_port(&fresh, 50_600), 1);
        let second = client.saying.data_at(at, 0, &nth(1));
        let came = counted(&programs, &[Counter::ToKernelPipelined], || client.say(&second));
        assert_eq!(came, Came::Pass);
        assert_eq!(client.flow().unwrap().state, SLOW);
        let fin = Segment { flags: FIN | ACK, ..client.saying.ack(at, 0) };
        assert_eq!(client.say(&fin), Came::Pass);
        programs.set(unlimited);
    }
}

/// An ICMP message has no acknowledgement from which a RST could take its number.
#[test]
fn a_message_about_a_reply_that_is_gone_passes() {
    let programs = programs!("a_message_about_a_reply_that_is_gone_passes");
    let reply = reply_bytes(1350);
    // A client's address has a message remembered, and only a lower MTU says something new.
    for (client, mtu) in Client::kinds(&programs).zip([1300, 1290, 1300, 1290]) {
        let (mut client, _) = asked(client, 2);
        answer(&client, 0, &reply);
        let segment = Segment { payload: reply.clone(), ..client.segment(0, 0) };
        let units = crate::common::programs::RING_SIZE / crate::common::programs::RING_UNIT;
        programs.set_ring_head(programs.ring_head().wrapping_add(units));
        let message = too_big(&segment.packet(), mtu, 1280);
        let counters = [Counter::PathMtu];
        let came = counted(&programs, &counters, || client.say_packet(&message));
        assert_eq!(came, Came::Pass);
        // The client's own copy is answered with the numbers that it expects.
        let again = client.saying.data_at(0, 0, &nth(0));
        let came = counted(&programs, &[Counter::ResendGone], || client.say(&again));
        let Came::Segment(reset) = came else { panic!("{came:?}") };
        assert_eq!((reset.flags, reset.seq), (RST, client.starts().1));
        assert!(client.flow().is_none());
    }
}

/// The client's acknowledgement of the replies is lost. Then it sends again what was kept.
#[test]
fn what_was_kept_passes_when_it_comes_again() {
    let programs = programs!("what_was_kept_passes_when_it_comes_again");
    let part = nth(9)[..20].to_vec();
    for client in Client::kinds(&programs) {
        let (mut client, at) = asked(client, 2);
        answer(&client, 0, &reply_bytes(60));
        answer(&client, 1, &reply_bytes(40));
        let segment = client.saying.data_at(at, 0, &part);
        let counters = [Counter::ToKernelPipelined, Counter::Kept];
        assert_eq!(counted(&programs, &counters, || client.say(&segment)), Came::Drop);
        // The kernel gets nothing before the client has all replies.
        let early = client.saying.data_at(at, 60, &part);
        assert_eq!(counted(&programs, &[Counter::Kept], || client.say(&early)), Came::Drop);
        let again = client.saying.data_at(at, 100, &part);
        for _ in 0..2 {
            assert_eq!(counted(&programs, &[], || client.say(&again)), Came::Pass);
        }
    }
}

/// A segment of more bytes than there is room for, as offloads of the interface make them. When the
/// client has all replies, it is treated like one behind the reply to a single query.
#[test]
fn what_cannot_be_kept_comes_again_when_the_client_has_all_replies() {
    let programs = programs!("what_cannot_be_kept_comes_again_when_the_client_has_all_replies");
    let long: Vec<u8> = (10..400).flat_map(nth).collect();
    assert!((AHEAD + 1..2 * AHEAD).contains(&long.len()));
    for client in Client::kinds(&programs) {
        // The client acknowledges the replies alone, or with the segment.
        for (port, alone) in [(50_100, true), (50_200, false)] {
            let (mut client, at) = asked(on_port(&client, port), 2);
            answer(&client, 0, &reply_bytes(60));
            answer(&client, 1, &reply_bytes(40));
            let segment = client.saying.data_at(at, 0, &long);
            let counters = [Counter::ToKernelPipelined, Counter::Strange];
            assert_eq!(counted(&programs, &counters, || client.say(&segment)), Came::Drop);
            assert_eq!(client.flow().unwrap().ahead_length, 0);
            if alone {
                let ack = client.saying.ack(at, 100);
                let came = client.say(&ack);
                let Came::Segment(answer) = came else { panic!("{came:?}") };
                assert_eq!((answer.ack, answer.flags), (client.segment(100, at).ack, ACK));
                assert_eq!(client.flow().unwrap().state, IDLE);
            }
            let segment = client.saying.data_at(at, 100, &long);
            let came = counted(&programs, &[Counter::ToKernelSecond], || client.say(&segment));
            assert_eq!(came, Came::Pass);
            let entry = client.flow().unwrap();
            let end = entry.server_seq.wrapping_add(entry.reply_length.into());
            assert_eq!((entry.state, entry.client_next, end), (IDLE, segment.seq, segment.ack));
            assert!(programs.opens(&client.key()).is_none());
        }
    }
}

#[test]
fn keep_alive_probes_are_answered_while_queries_are_open() {
    let programs = programs!("keep_alive_probes_are_answered_while_queries_are_open");
    let reply = reply_bytes(100);
    for client in Client::kinds(&programs) {
        for garbage in [&b""[..], b"?"] {
            programs.remove_flows();
            let (mut client, at) = asked(client.clone(), 2);
            let first = nth(0).len() as u32;
            // For replies given out: what the client has, and the answer's numbers.
            for (given, has, seq, acknowledged) in
                [(0, 0, 0, 0), (1, 0, 100, first), (2, 100, 200, first), (2, 200, 200, at)]
            {
                if u32::from(queries(&client).answered) < given && has == 0 {
                    answer(&client, 0, &reply);
                } else if given == 2 && has == 100 {
                    answer(&client, 1, &reply);
                }
                let probe = Segment {
                    payload: garbage.to_vec(),
                    ..client.saying.ack(at.wrapping_sub(1), has)
                };
                let came = counted(&programs, &[Counter::Probe], || client.say(&probe));
                assert_eq!(came, Came::Segment(client.segment(seq, acknowledged)), "{given} {has}");
            }
            assert_eq!(client.flow().unwrap().state, IDLE);
        }
    }
}

/// What one source keeps and its long replies fill an eighth of the ring a second, and as much at
/// once. Others' queries find room meanwhile.
#[test]
fn what_one_source_keeps_leaves_others_their_room() {
    let programs = programs!("what_one_source_keeps_leaves_others_their_room");
    programs.set(settings {
        query_interval_ns: 1,
        query_burst_ns: 1_000_000_000,
        ..Programs::settings()
    });
    let long: Vec<u8> = (10..200).flat_map(nth).collect();
    let part_of_ring = f64::from(crate::common::programs::RING_SIZE / 8);
    for client in Client::kinds(&programs).skip(1).step_by(2) {
        let (mut kept, began) = (0, Instant::now());
        for port in 0..10 {
            let (mut client, at) = asked(on_port(&client, 50_000 + 10 * port), 2);
            answer(&client, 0, &reply_bytes(60));
            let segment = client.saying.data_at(at, 0, &long);
            assert_eq!(client.say(&segment), Came::Drop);
            kept += u32::from(client.flow().unwrap().ahead_length > 0);
        }
        // Each counts with the two copies that tc ingress will make.
        let each = 3.0 * AHEAD as f64;
        let most = 1.0 + (1.0 + began.elapsed().as_secs_f64()) * part_of_ring / each;
        assert!(kept >= 1 && f64::from(kept) <= most, "{kept} of at most {most}");
    }
}

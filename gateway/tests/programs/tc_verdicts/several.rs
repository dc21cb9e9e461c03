//! PROTOCOL.md, "Several queries at once", in tc egress and tc ingress.

use super::*;
use narrows_gateway::kernel::types::opens;

/// `enum flow_state` and `enum opens_state` of `bpf/types.h`.
const OPEN: u8 = crate::common::frames::OPEN;
const LEAVING: u8 = 1;
const LEFT: u8 = 2;

/// A connection with three queries at the server; `asked` has the first.
fn three<'a>(programs: &'a Programs, v6: bool, plain: bool) -> (Asked<'a>, [Vec<u8>; 3]) {
    let asked = Asked::changed(programs, v6, plain, |entry| entry.state = OPEN);
    let queries = [
        asked.query.clone(),
        query(7, "second.example.com", 16, Some(1232)),
        query(8, "third.example.com", 16, Some(1232)),
    ];
    let mut all =
        opens { key: asked.key, given: REPLY_SEQ, ack_sent: QUERY_SEQ, ..opens::default() };
    // Across the end of the circular buffer.
    (all.first, all.count) = (31, 3);
    let mut seq = QUERY_SEQ;
    let stored = programs.ring_store(&queries[1..].concat());
    for (n, query) in queries.iter().enumerate() {
        let one = &mut all.query[(31 + n) % 32];
        one.seq = seq;
        one.length = query.len() as u16;
        one.dns_id = u16::from_be_bytes([query[2], query[3]]).to_be();
        one.question = question_of(query);
        // The first in a separate segment, the others in one.
        one.stored = if n == 0 { asked.flow().stored } else { stored };
        one.offset = if n == 2 { queries[1].len() as u16 } else { 0 };
        seq = seq.wrapping_add(query.len() as u32);
        all.bytes += one.length;
    }
    programs.set_opens(&asked.key, &all);
    programs.set_flow(&asked.key, &flow { client_next: seq, acked: REPLY_SEQ, ..asked.flow() });
    (asked, queries)
}

fn state(asked: &Asked<'_>) -> opens {
    asked.programs.opens(&asked.key).expect("several queries are open")
}

#[test]
fn replies_come_in_any_order_and_get_the_next_numbers() {
    let Some(programs) = Programs::load_with_tc("several replies") else { return };
    for (v6, plain) in [(false, false), (false, true), (true, false), (true, true)] {
        let (asked, queries) = three(&programs, v6, plain);
        let ends: Vec<u32> = queries
            .iter()
            .scan(QUERY_SEQ, |seq, query| {
                *seq = seq.wrapping_add(query.len() as u32);
                Some(*seq)
            })
            .collect();
        let mut given = 0;
        // What each acknowledges: nothing unanswered, and never everything while the client may
        // lack some of it.
        for (n, size, ack) in [(1, 300, QUERY_SEQ), (0, 500, ends[1]), (2, 77, ends[1])] {
            let message = reply_to(&queries[n][2..], size, 0);
            // A question that nobody asked, with that ID.
            let stranger =
                query(u16::from_be_bytes([queries[n][2], queries[n][3]]), "x.test", 1, None);
            asked.passed(&asked.datagram(&reply_to(&stranger[2..], 60, 0)));
            let (verdict, after) = asked.answer(&message);
            assert_eq!(verdict, NEXT);
            let segment = asked.segment(given, &prefixed(&message), ACK | PSH, ack);
            assert_eq!(Segment::read(&after[14..]), segment);
            given += 2 + message.len();
            assert_eq!(state(&asked).given, REPLY_SEQ.wrapping_add(given as u32));
            // Its copy.
            let copies = programs.count(Counter::ReplyRepeated);
            assert_eq!(asked.answer(&message).0, REDIRECT);
            assert_eq!(programs.count(Counter::ReplyRepeated), copies + 1);
        }
        assert_eq!(state(&asked).bytes, 0);
        // A reply with nothing else in flight acknowledges everything.
        let (asked, queries) = three(&programs, v6, plain);
        let mut one = state(&asked);
        (one.count, one.first, one.bytes) = (1, 1, queries[2].len() as u16);
        programs.set_opens(&asked.key, &one);
        let message = reply_to(&queries[2][2..], 90, 0);
        let (_, after) = asked.answer(&message);
        let segment = asked.segment(0, &prefixed(&message), ACK | PSH, ends[2]);
        assert_eq!(Segment::read(&after[14..]), segment);
    }
}

#[test]
fn what_cannot_be_sent_brings_the_kernel_all_that_waits() {
    let Some(programs) = Programs::load_with_tc("several queries left") else { return };
    for (v6, plain) in [(false, false), (true, true)] {
        let (asked, queries) = three(&programs, v6, plain);
        let first = reply_to(&queries[0][2..], 100, 0);
        assert_eq!(asked.answer(&first).0, NEXT);
        // Longer than a segment, while the client may lack the first reply: nothing leaves, and it
        // comes with the client's ACK.
        let long = reply_to(&queries[1][2..], 2000, 0);
        let before = programs.count(Counter::ToKernelReply);
        assert_eq!(asked.answer(&long), (REDIRECT, frame(&asked.datagram(&long))));
        assert_eq!(
            (state(&asked).state, programs.count(Counter::ToKernelReply)),
            (LEAVING, before + 1)
        );
        let given = REPLY_SEQ.wrapping_add(2 + first.len() as u32);
        let next = asked.flow().client_next;
        let ack = Segment {
            from: asked.client,
            to: asked.server,
            seq: next,
            ack: given,
            timestamps: (!plain).then_some((CLIENT_TSVAL, TSVAL)),
            ..asked.segment(0, &[], ACK, 0)
        };
        // Too early: it does not acknowledge a reply that was given out.
        let early = frame(&Segment { ack: REPLY_SEQ, ..ack.clone() }.packet());
        assert_eq!(programs.adopt(&early).0, DROP);
        // The client has the reply, and something more is kept.
        let kept = b"kept".to_vec();
        let entry = flow {
            acked: given,
            ahead: programs.ring_store(&kept),
            ahead_length: kept.len() as u16,
            ..asked.flow()
        };
        programs.set_flow(&asked.key, &entry);
        let last = Segment { seq: next.wrapping_add(4), payload: b"last".to_vec(), ..ack.clone() };
        let payload = [&queries[1][..], &queries[2], &kept, b"last"].concat();
        let joined = Segment {
            seq: last.next().wrapping_sub(payload.len() as u32),
            payload,
            ..last.clone()
        };
        let (verdict, after) = programs.adopt(&frame(&last.packet()));
        assert_eq!((verdict, Segment::read(&after[14..])), (NEXT, joined));
        assert_eq!((state(&asked).state, asked.flow().state), (LEFT, KERNEL));
        // The server's late datagrams do not reach the client.
        let late = reply_to(&queries[2][2..], 100, 0);
        assert_eq!(asked.answer(&late).0, REDIRECT);

        // If the client has everything, the packet itself becomes the client's ACK.
        let (asked, queries) = three(&programs, v6, plain);
        let mut cut = reply_to(&queries[1][2..], 60, 0);
        cut[2] |= 2;
        let (verdict, after) = asked.answer(&cut);
        assert_eq!(verdict, REDIRECT);
        let ack = Segment { ack: REPLY_SEQ, window: Segment::read(&after[14..]).window, ..ack };
        assert_eq!(Segment::read(&after[14..]), ack);
        // A repeated query stands for everything that the ring has: all of it, once.
        let again = Segment { seq: QUERY_SEQ, payload: queries[0].clone(), ..ack.clone() };
        let (verdict, after) = programs.adopt(&frame(&again.packet()));
        let joined = Segment { payload: queries.concat(), ..again };
        assert_eq!((verdict, Segment::read(&after[14..])), (NEXT, joined));
    }
}

/// A reply that only needs more than one segment is not on the list of large replies, whatever was
/// added to another query. One that is too long is.
#[test]
fn only_its_own_query_says_whether_a_reply_is_too_long() {
    let Some(programs) = Programs::load_with_tc("several, too long") else { return };
    programs.set(settings { max_segments: 1, mss4: 1400, ..Programs::settings() });
    for (n, edns, added, over, listed) in
        [(1, EDNS_ADDED, 0, 0, 0), (1, 0, 1, 11, 0), (1, EDNS_ADDED, 0, 1, 1), (2, 0, 1, 12, 1)]
    {
        let (asked, queries) = three(&programs, false, true);
        programs.set_flow(&asked.key, &flow { flags: edns, ..asked.flow() });
        let mut all = state(&asked);
        all.query[n - 1].edns_added = added;
        programs.set_opens(&asked.key, &all);
        let before = programs.large().len();
        // With its two bytes of length as long as a segment, and that many bytes more.
        let mut message = reply_to(&queries[n][2..], 1398 + over, 0);
        message.resize(1398 + over, 0);
        asked.answer(&message);
        assert_eq!(programs.large().len() - before, listed, "{n}, {over}");
    }
}

/// A client may send what the ring has together with what comes behind it, and its FIN.
#[test]
fn what_comes_behind_a_copy_is_adopted_with_it() {
    let Some(programs) = Programs::load_with_tc("behind a copy") else { return };
    for (v6, plain) in [(false, true), (true, false)] {
        for (size, flags) in [(1, ACK), (700, ACK | FIN), (0, ACK | FIN)] {
            let (asked, queries) = three(&programs, v6, plain);
            let kept = b"kept".to_vec();
            let entry = flow {
                ahead: programs.ring_store(&kept),
                ahead_length: kept.len() as u16,
                ..asked.flow()
            };
            programs.set_flow(&asked.key, &entry);
            let leaving = opens { state: LEAVING, ..state(&asked) };
            programs.set_opens(&asked.key, &leaving);
            let more = vec![7; size];
            let again = Segment {
                from: asked.client,
                to: asked.server,
                seq: entry.client_next,
                ack: REPLY_SEQ,
                flags,
                timestamps: (!plain).then_some((CLIENT_TSVAL, TSVAL)),
                payload: [&kept[..], &more].concat(),
                ..asked.segment(0, &[], ACK, 0)
            };
            let payload = [&queries.concat()[..], &kept, &more].concat();
            let joined = Segment { seq: QUERY_SEQ, payload, ..again.clone() };
            let (verdict, after) = programs.adopt(&frame(&again.packet()));
            assert_eq!((verdict, Segment::read(&after[14..])), (NEXT, joined));
            assert_eq!((state(&asked).state, asked.flow().state), (LEFT, KERNEL));
        }
    }
}

//! PROTOCOL.md, "Adoption (tc ingress)".

use super::*;

/// The client's next query behind the reply.
fn second(asked: &Asked<'_>) -> Segment {
    Segment {
        from: asked.client,
        to: asked.server,
        seq: asked.flow().client_next,
        ack: REPLY_SEQ.wrapping_add(asked.flow().reply_length.into()),
        timestamps: (!asked.plain).then_some((CLIENT_TSVAL, TSVAL)),
        payload: asked.query.clone(),
        ..asked.segment(0, &[], ACK | PSH, 0)
    }
}

// The kernel only accepts a connection at the real tc ingress hook. Under bpf_prog_run it refuses
// each one, which is counted. The end-to-end tests show that it accepts them.
#[test]
fn takes_a_second_query_and_removes_the_entry() {
    let Some(programs) = Programs::load_with_tc("second query") else { return };
    for (number, state) in [REPLIED, IDLE].into_iter().cycle().take(4).enumerate() {
        let asked = Asked::changed(&programs, number > 1, false, |flow| flow.state = state);
        let frame = frame(&second(&asked).packet());
        assert_eq!(programs.adopt(&frame), (NEXT, frame));
        assert!(programs.flow(&asked.key).is_none());
    }
    assert_eq!(programs.counts(), [(Counter::AdoptFailed, 4)]);
}

#[test]
fn takes_the_query_that_was_left_to_the_kernel() {
    let Some(programs) = Programs::load_with_tc("entry SLOW") else { return };
    let both = [&query(ID, "www.example.com", 16, Some(1232))[..], b"more"].concat();
    for (state, plain) in [(SLOW, true), (KERNEL, false)] {
        for payload in [&both[..both.len() - 4], &both, &both[..3]] {
            let asked = Asked::changed(&programs, false, plain, |flow| flow.state = state);
            let payload = payload.to_vec();
            let first = Segment { seq: QUERY_SEQ, ack: REPLY_SEQ, payload, ..second(&asked) };
            let first = frame(&first.packet());
            assert_eq!(programs.adopt(&first), (NEXT, first));
            assert_eq!(asked.flow().state, KERNEL, "the server's reply may still come");
        }
    }
    assert_eq!(programs.counts(), [(Counter::AdoptFailed, 6)]);
}

#[test]
fn puts_the_query_before_a_pipelined_one() {
    let Some(programs) = Programs::load_with_tc("pipelined") else { return };
    let units = crate::common::programs::RING_SIZE / crate::common::programs::RING_UNIT;
    for asked in Asked::kinds(&programs).chain(Asked::kinds(&programs)) {
        for (turn, size) in [1, 30, 31, 511, 512, 1024, 1400, 3000].into_iter().enumerate() {
            // Also if one of the two crosses the ring's end.
            let back = turn as u32 % 3;
            programs.set_ring_head(0u32.wrapping_sub(units + back));
            let state = [SLOW, KERNEL][turn & 1];
            let asked = Asked::changed(&programs, asked.server.is_ipv6(), asked.plain, |flow| {
                flow.state = state;
            });
            let payload: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
            let flags = ACK | PSH | if turn & 2 == 0 { FIN } else { 0 };
            let second = Segment { ack: REPLY_SEQ, payload, flags, ..second(&asked) };
            let mut came = frame(&second.packet());
            // The Ethernet padding is no part of the query.
            came.extend(vec![0x5a; turn]);
            let (verdict, after) = programs.adopt(&came);
            assert_eq!(verdict, NEXT);
            let payload = [&asked.query[..], &second.payload].concat();
            // Reading it checks lengths and checksums.
            let joined = Segment { seq: QUERY_SEQ, payload, ..second };
            assert_eq!(Segment::read(&after[14..]), joined);
            assert_eq!(after, frame(&joined.packet()), "{size}");
            assert_eq!(asked.flow().state, KERNEL);
        }
    }
    assert_eq!(programs.counts(), [(Counter::AdoptFailed, 64)]);
}

#[test]
fn takes_what_was_kept_until_the_client_had_the_reply() {
    let Some(programs) = Programs::load_with_tc("kept") else { return };
    let kept: Vec<u8> = (0..3000u32).map(|i| (i * 5) as u8).collect();
    for state in [REPLIED, IDLE] {
        for (v6, plain) in [(false, true), (true, false)] {
            for (size, kept) in [(0, &kept[..1]), (0, &kept), (40, &kept[..511])] {
                let asked = Asked::changed(&programs, v6, plain, |flow| {
                    (flow.state, flow.reply_length) = (state, 500);
                    flow.ahead = programs.ring_store(kept);
                    flow.ahead_length = kept.len() as u16;
                });
                let next = second(&asked);
                let behind = next.seq.wrapping_add(kept.len() as u32);
                let last =
                    Segment { seq: behind, payload: vec![7; size], flags: ACK, ..next.clone() };
                // Not before the client has the reply.
                let early = Segment { ack: last.ack.wrapping_sub(1), ..last.clone() };
                let early = frame(&early.packet());
                assert_eq!(programs.adopt(&early), (NEXT, early));
                let (verdict, after) = programs.adopt(&frame(&last.packet()));
                assert_eq!(verdict, NEXT);
                let payload = [kept, &last.payload].concat();
                let joined = Segment { seq: next.seq, payload, ..last };
                assert_eq!(after, frame(&joined.packet()));
                assert!(programs.flow(&asked.key).is_none());
            }
        }
    }
    assert_eq!(programs.counts(), [(Counter::AdoptFailed, 12)]);
}

/// RFC 9293, section 3.10.7.4: "trim off any portions outside the window".
#[test]
fn cuts_off_what_was_received_before() {
    let Some(programs) = Programs::load_with_tc("received before") else { return };
    let old: Vec<u8> = (0..700u32).map(|i| (i * 3) as u8).collect();
    let mut turns = 0;
    for asked in Asked::kinds(&programs) {
        for (cut, size) in [(1, 1), (29, 500), (512, 513), (700, 2000)] {
            let v6 = asked.server.is_ipv6();
            let new: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
            let payload = [&old[..cut], &new].concat();
            let back = |seq: u32| seq.wrapping_sub(cut as u32);
            // An entry SLOW: older queries come before its own.
            let slow = Asked::changed(&programs, v6, asked.plain, |flow| {
                (flow.state, flow.earlier) = (SLOW, 700);
            });
            let whole = Segment {
                seq: back(QUERY_SEQ),
                ack: REPLY_SEQ,
                payload: payload.clone(),
                ..second(&slow)
            };
            let trimmed = Segment { seq: QUERY_SEQ, payload: new.clone(), ..whole.clone() };
            assert_eq!(programs.adopt(&frame(&whole.packet())), (NEXT, frame(&trimmed.packet())));
            assert_eq!(slow.flow().state, KERNEL);
            // An entry IDLE: its query, and older ones, come before the new data.
            let idle = Asked::changed(&programs, v6, asked.plain, |flow| {
                (flow.state, flow.reply_length, flow.earlier) = (IDLE, 500, 700);
            });
            let next = second(&idle);
            let whole = Segment { seq: back(next.seq), payload, ..next.clone() };
            let trimmed = Segment { payload: new, ..next };
            // Reading it checks lengths and checksums.
            let (verdict, after) = programs.adopt(&frame(&whole.packet()));
            assert_eq!((verdict, Segment::read(&after[14..])), (NEXT, trimmed));
            assert!(programs.flow(&idle.key).is_none());
            turns += 2;
        }
    }
    assert_eq!(programs.counts(), [(Counter::AdoptFailed, turns)]);
}

#[test]
fn joins_behind_ip_options() {
    let Some(programs) = Programs::load_with_tc("pipelined, options") else { return };
    let asked = Asked::changed(&programs, false, false, |flow| flow.state = SLOW);
    let second = Segment { ack: REPLY_SEQ, ..second(&asked) };
    let mut came = frame(&second.packet());
    came.splice(34..34, [1, 1, 1, 0]);
    came[14] = 0x46;
    came[17] += 4;
    let header = |frame: &mut [u8]| {
        frame[24..26].fill(0);
        let words =
            frame[14..38].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    header(&mut came);
    let (verdict, after) = programs.adopt(&came);
    assert_eq!(verdict, NEXT);
    let payload = [&asked.query[..], &second.payload].concat();
    let joined = frame(&Segment { seq: QUERY_SEQ, payload, ..second }.packet());
    let mut right = after.clone();
    header(&mut right);
    assert_eq!(after, right, "the header's checksum");
    assert_eq!(after[38..], joined[34..]);
    assert_eq!(usize::from(u16::from_be_bytes([after[16], after[17]])), after.len() - 14);
}

#[test]
fn what_comes_behind_a_query_waits_for_it() {
    let Some(programs) = Programs::load_with_tc("behind") else { return };
    for (state, verdict) in [(SLOW, DROP), (KERNEL, NEXT)] {
        let asked = Asked::changed(&programs, false, false, |flow| flow.state = state);
        let next = Segment { ack: REPLY_SEQ, ..second(&asked) };
        let far = Segment { seq: next.seq.wrapping_add(99), ..next.clone() };
        let fin = Segment { flags: ACK | FIN, payload: Vec::new(), ..far.clone() };
        let other = Segment { ack: REPLY_SEQ.wrapping_add(1), ..next.clone() };
        let inside = Segment { seq: QUERY_SEQ.wrapping_add(3), ..next.clone() };
        for segment in [far, fin, other, inside] {
            let before = frame(&segment.packet());
            assert_eq!(programs.adopt(&before), (verdict, before), "{state}");
            assert_eq!(asked.flow().state, state);
        }
        // Nothing follows the client's FIN.
        let asked = Asked::changed(&programs, false, false, |flow| {
            flow.state = state;
            flow.flags |= CLIENT_FIN;
            flow.client_next = flow.client_next.wrapping_add(1);
        });
        let behind = Segment { ack: REPLY_SEQ, ..second(&asked) };
        assert_eq!(programs.adopt(&frame(&behind.packet())).0, verdict);
    }
    assert_eq!(programs.counts(), [(Counter::Strange, 5)]);
}

#[test]
fn a_second_query_waits_where_the_first_has_left_the_ring() {
    let Some(programs) = Programs::load_with_tc("ring gone") else { return };
    let asked = Asked::changed(&programs, false, false, |flow| flow.state = SLOW);
    let units = crate::common::programs::RING_SIZE / crate::common::programs::RING_UNIT;
    programs.set_ring_head(programs.ring_head().wrapping_add(units));
    let second = Segment { ack: REPLY_SEQ, ..second(&asked) };
    assert_eq!(programs.adopt(&frame(&second.packet())).0, DROP);
    assert_eq!(asked.flow().state, SLOW, "the client sends the first again");
    assert_eq!(programs.counts(), [(Counter::XdpError, 1)]);
}

#[test]
fn leaves_alone_what_is_not_for_the_kernel() {
    let Some(programs) = Programs::load_with_tc("not adopted") else { return };
    for state in [QUERY, REPLIED, IDLE, CLOSING] {
        let asked = Asked::changed(&programs, false, false, |flow| flow.state = state);
        let good = second(&asked);
        let mut others = vec![
            Segment { payload: Vec::new(), ..good.clone() },
            Segment { payload: Vec::new(), flags: ACK | FIN, ..good.clone() },
            Segment { flags: 0, ..good.clone() },
            Segment { flags: 4 | ACK, ..good.clone() },
            Segment { flags: 2 | ACK, ..good.clone() },
            Segment { seq: good.seq.wrapping_add(1), ..good.clone() },
            Segment { ack: good.ack.wrapping_add(1), ..good.clone() },
        ];
        if ![REPLIED, IDLE].contains(&state) {
            others.push(good.clone());
        }
        for mut odd in others {
            let before = frame(&odd.packet());
            assert_eq!(programs.adopt(&before), (NEXT, before));
            assert_eq!(asked.flow().state, state, "{odd:?}");
            odd.to.set_port(54);
            programs.adopt(&frame(&odd.packet()));
        }
    }
    assert_eq!(programs.counts(), []);
}

/// There is no listener here. The end-to-end tests show what follows with one.
#[test]
fn a_first_fragment_counts_as_data_and_others_pass() {
    let Some(programs) = Programs::load_with_tc("fragments of data") else { return };
    for v6 in [false, true] {
        for (state, verdict, counter) in [
            (QUERY, DROP, Some(Counter::Strange)),
            (CLOSING, DROP, Some(Counter::Strange)),
            (REPLIED, NEXT, Some(Counter::AdoptFailed)),
            (IDLE, NEXT, Some(Counter::AdoptFailed)),
            (KERNEL, NEXT, None),
        ] {
            let asked = Asked::changed(&programs, v6, false, |flow| flow.state = state);
            // Within TCP's options, behind them, and within the data.
            for bytes in [24, 32, 40] {
                let before = programs.counts();
                let mtu = bytes + if v6 { 48 } else { 20 };
                let mut parts = fragments(&second(&asked).packet(), mtu);
                let first = frame(&parts.remove(0));
                assert_eq!(programs.adopt(&first), (verdict, first), "{state} {bytes}");
                if let Some(counter) = counter {
                    let counted = before.iter().find(|one| one.0 == counter).map_or(0, |one| one.1);
                    assert_eq!(programs.count(counter), counted + 1, "{state} {bytes}");
                }
                let before = programs.counts();
                for part in parts {
                    assert_eq!(programs.adopt(&frame(&part)), (NEXT, frame(&part)));
                }
                assert_eq!((programs.counts(), asked.flow().state), (before, state));
            }
            // No path makes such ones.
            let tiny = &fragments(&second(&asked).packet(), 16 + if v6 { 48 } else { 20 })[0];
            assert_eq!(programs.adopt(&frame(tiny)), (NEXT, frame(tiny)));
        }
    }
}

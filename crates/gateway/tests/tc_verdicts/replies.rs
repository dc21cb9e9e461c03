//! PROTOCOL.md, "The reply (tc egress)".

use super::*;

#[test]
fn a_reply_in_one_segment_acknowledges_the_query() {
    let Some(programs) = Programs::load_with_tc("one segment") else { return };
    for size in [60, 61, 62, 63, 500, 511, 512, 513, 1024, 1025, 1300] {
        for asked in Asked::kinds(&programs) {
            let message = asked.reply(size);
            let ((verdict, after), others) = sent(|| asked.answer(&message));
            assert_eq!((verdict, others.len()), (NEXT, 0));
            let payload = prefixed(&message);
            let next = QUERY_SEQ.wrapping_add(asked.query.len() as u32);
            let wanted = asked.segment(0, &payload, ACK | PSH, next);
            assert_eq!(Segment::read(&after[14..]), wanted);
            assert_eq!(after[..12], frame(&[0x40])[..12], "link addresses");
            let entry = asked.flow();
            assert_eq!((entry.state, usize::from(entry.reply_length)), (REPLIED, payload.len()));
            assert_eq!(entry.flags & QUERY_UNACKED, 0);
            assert_eq!(programs.ring(entry.stored, payload.len()), payload);
        }
    }
    assert_eq!(programs.counts(), [(Counter::Reply, 44)]);
}

#[test]
fn headers_are_what_the_protocol_says() {
    let Some(programs) = Programs::load_with_tc("headers") else { return };
    let asked = Asked::new(&programs, false, false);
    let (_, after) = asked.answer(&asked.reply(200));
    assert_eq!(after[14..16], [0x45, 0], "no options, TOS 0");
    assert_eq!(after[18..24], [0, 0, 0x40, 0, 64, 6], "ID 0, DF, TTL 64, TCP");
    assert_eq!(after[54..58], [1, 1, 8, 10], "NOP NOP TS");
    let asked = Asked::new(&programs, true, false);
    let (_, after) = asked.answer(&asked.reply(200));
    assert_eq!(after[14..18], [0x60, 0, 0, 0], "class and flow label 0");
    assert_eq!(after[20..22], [6, 64], "TCP, hop limit 64");
}

#[test]
fn an_opt_that_was_added_is_stripped() {
    let Some(programs) = Programs::load_with_tc("OPT stripped") else { return };
    for plain in [false, true] {
        let asked = Asked::changed(&programs, false, plain, |flow| flow.flags |= EDNS_ADDED);
        let message = asked.reply(200);
        let (verdict, after) = asked.answer(&message);
        assert_eq!(verdict, NEXT);
        let mut bare = message[..message.len() - 11].to_vec();
        bare[10..12].copy_from_slice(&[0, 0]);
        assert_eq!(Segment::read(&after[14..]).payload, prefixed(&bare));
    }
}

#[test]
fn an_added_opt_that_is_not_bare_and_last_leaves_the_query_to_the_kernel() {
    let Some(programs) = Programs::load_with_tc("OPT elsewhere") else { return };
    let asked = Asked::changed(&programs, false, false, |flow| flow.flags |= EDNS_ADDED);
    let message = asked.reply(200);
    let mut spoilt = Vec::new();
    for (from_end, value) in [(11, 1), (10, 1), (9, 42), (2, 1), (1, 1)] {
        let mut other = message.clone();
        let at = other.len() - from_end;
        other[at] = value;
        spoilt.push(other);
    }
    let mut none = message.clone();
    none[11] = 0;
    spoilt.push(none);
    for message in spoilt {
        let asked = Asked::changed(&programs, false, false, |flow| flow.flags |= EDNS_ADDED);
        asked.left_to_kernel(asked.answer(&message));
    }
    // An OPT from the client itself may have options.
    let asked = Asked::new(&programs, false, false);
    let mut message = message;
    message.extend([0, 3, 0, 0]);
    let at = message.len() - 5;
    message[at] = 4;
    assert_eq!(asked.answer(&message).0, NEXT);
}

#[test]
fn a_client_that_closed_gets_a_fin_with_the_reply() {
    let Some(programs) = Programs::load_with_tc("FIN noted") else { return };
    let noted = |flow: &mut flow| {
        flow.flags |= CLIENT_FIN;
        flow.client_next = flow.client_next.wrapping_add(1);
    };
    let asked = Asked::changed(&programs, false, false, noted);
    let (_, after) = asked.answer(&asked.reply(200));
    let segment = Segment::read(&after[14..]);
    assert_eq!(segment.flags, ACK | PSH | FIN);
    assert_eq!(segment.ack, QUERY_SEQ.wrapping_add(asked.query.len() as u32 + 1));
    assert_eq!(asked.flow().state, CLOSING);
}

#[test]
fn close_fin_closes_after_each_reply() {
    let Some(programs) = Programs::load_with_tc("close = fin") else { return };
    programs.set(settings { close_fin: 1, ..Programs::settings() });
    let asked = Asked::new(&programs, false, true);
    let (_, after) = asked.answer(&asked.reply(200));
    assert_eq!(Segment::read(&after[14..]).flags, ACK | PSH | FIN);
    assert_eq!(asked.flow().state, CLOSING);

    let asked = Asked::new(&programs, true, false);
    let message = asked.reply(3000);
    let ((_, last), others) = sent(|| asked.answer(&message));
    assert_eq!(Segment::read(&last[14..]).flags, ACK | PSH | FIN);
    assert!(!others.is_empty());
    for other in others {
        assert_eq!(Segment::read(&other[14..]).flags, ACK, "FIN on the last one alone");
    }
}

#[test]
fn a_longer_reply_goes_in_several_segments_that_acknowledge_nothing() {
    let Some(programs) = Programs::load_with_tc("several segments") else { return };
    let mut segments = 0;
    for (client_mss, size) in
        [(1400, 1399), (1400, 3000), (536, 537), (536, 5000), (88, 700), (9000, 12_000)]
    {
        for kind in Asked::kinds(&programs) {
            let asked = Asked::changed(&programs, kind.server.is_ipv6(), kind.plain, |flow| {
                flow.mss = client_mss;
            });
            let ours = if asked.server.is_ipv6() { 1440 } else { 1460 };
            let most = usize::from(client_mss.min(ours)) - if asked.plain { 0 } else { 12 };
            let message = asked.reply(size);
            let payload = prefixed(&message);
            let ((verdict, last), mut frames) = sent(|| asked.answer(&message));
            assert_eq!(verdict, NEXT);
            frames.push(last);
            let wanted: Vec<_> = payload.chunks(most).enumerate().collect();
            assert!(wanted.len() > 1);
            assert_eq!(frames.len(), wanted.len());
            for (frame, &(at, part)) in frames.iter().zip(&wanted) {
                let push = if at + 1 == wanted.len() { PSH } else { 0 };
                let wanted = asked.segment(at * most, part, ACK | push, QUERY_SEQ);
                assert_eq!(Segment::read(&frame[14..]), wanted);
            }
            segments += wanted.len() as u64;
            let entry = asked.flow();
            assert_eq!((entry.state, entry.flags & QUERY_UNACKED), (REPLIED, QUERY_UNACKED));
            assert_eq!((entry.acked, entry.repeats), (REPLY_SEQ, 0));
            assert_eq!(programs.ring(entry.stored, payload.len()), payload);
        }
    }
    let wanted = [(Counter::ReplySegmented, 24), (Counter::ReplySegments, segments)];
    assert_eq!(programs.counts(), wanted);
}

#[test]
fn fragments_of_a_reply_are_gathered() {
    let Some(programs) = Programs::load_with_tc("fragments") else { return };
    for mtu in [600, 1280, 1500] {
        for asked in Asked::kinds(&programs) {
            let message = asked.reply(4001);
            let parts = fragments(&asked.datagram(&message), mtu);
            let (last, first) = parts.split_last().expect("some");
            for part in first {
                assert_eq!(programs.egress(&frame(part)), (REDIRECT, frame(part)));
                assert_eq!(asked.flow().state, QUERY);
            }
            let ((verdict, end), mut frames) = sent(|| programs.egress(&frame(last)));
            assert_eq!(verdict, NEXT);
            frames.push(end);
            let segments: Vec<_> = frames.iter().map(|frame| Segment::read(&frame[14..])).collect();
            assert_eq!(segments[0].seq, REPLY_SEQ);
            let payloads: Vec<_> = segments.into_iter().map(|segment| segment.payload).collect();
            assert_eq!(payloads.concat(), prefixed(&message));
        }
    }
}

#[test]
fn fragments_that_have_left_the_ring_are_no_reply() {
    let Some(programs) = Programs::load_with_tc("fragments gone") else { return };
    let units = common::programs::RING_SIZE / common::programs::RING_UNIT;
    for asked in Asked::kinds(&programs) {
        let parts = fragments(&asked.datagram(&asked.reply(4000)), 1500);
        let (last, first) = parts.split_last().expect("several");
        for part in first {
            programs.egress(&frame(part));
        }
        // Queries and replies of other connections meanwhile.
        programs.set_ring_head(programs.ring_head().wrapping_add(units));
        let ((verdict, _), frames) = sent(|| programs.egress(&frame(last)));
        assert_eq!((verdict, frames.len()), (REDIRECT, 0));
        assert_eq!(asked.flow().state, QUERY, "the client asks again");
    }
    assert_eq!(programs.counts(), [(Counter::ReplyFailed, 4)]);
}

#[test]
fn fragments_of_two_replies_may_mix() {
    let Some(programs) = Programs::load_with_tc("mixed fragments") else { return };
    let (one, other) = (Asked::new(&programs, false, false), Asked::new(&programs, true, false));
    let messages = [one.reply(3000), other.reply(3300)];
    let parts = [
        fragments(&one.datagram(&messages[0]), 1500),
        fragments(&other.datagram(&messages[1]), 1500),
    ];
    assert_eq!((parts[0].len(), parts[1].len()), (3, 3));
    let ((), frames) = sent(|| {
        for at in 0..2 {
            for parts in &parts {
                assert_eq!(programs.egress(&frame(&parts[at])).0, REDIRECT);
            }
        }
    });
    assert_eq!(frames.len(), 0);
    for (parts, message) in parts.iter().zip(&messages) {
        let ((_, end), mut frames) = sent(|| programs.egress(&frame(&parts[2])));
        frames.push(end);
        let payloads = frames.iter().map(|frame| Segment::read(&frame[14..]).payload);
        assert_eq!(payloads.collect::<Vec<_>>().concat(), prefixed(message));
    }
}

#[test]
fn a_truncated_reply_leaves_the_query_to_the_kernel() {
    let Some(programs) = Programs::load_with_tc("TC = 1") else { return };
    for asked in Asked::kinds(&programs) {
        for size in [60, 1300] {
            programs.set_flow(&asked.key, &flow { state: QUERY, ..asked.flow() });
            let mut message = asked.reply(size);
            message[2] |= 2;
            asked.left_to_kernel(asked.answer(&message));
        }
    }
    assert_eq!(programs.counts(), [(Counter::ToKernelReply, 8)]);
    let names = programs.large();
    assert_eq!(names.len(), 1, "the name is remembered");
    let left = names[0].1 - common::programs::boot_ns();
    assert!((50_000_000_000..=60_000_000_000).contains(&left), "for large_ns: {left} ns");
}

/// A rate limit's TC = 1 without a record, BADCOOKIE, a reply without the question.
#[test]
fn a_reply_that_tells_nothing_leaves_the_query_to_the_kernel_and_says_nothing_about_the_name() {
    let Some(programs) = Programs::load_with_tc("refused") else { return };
    for asked in Asked::kinds(&programs) {
        let bare = asked.bare_reply();
        let mut limited = bare.clone();
        limited[2] |= 2;
        let mut cookie = bare.clone();
        cookie[3] |= 7;
        let mut short = bare[..12].to_vec();
        short[3] |= 1;
        short[4..12].fill(0);
        for message in [limited, cookie, short] {
            programs.set_flow(&asked.key, &flow { state: QUERY, ..asked.flow() });
            asked.left_to_kernel(asked.answer(&message));
        }
    }
    assert_eq!(programs.counts(), [(Counter::ToKernelRefused, 12)]);
    assert_eq!(programs.large(), []);
}

/// Somebody asks over UDP in the client's name, with its port and ID.
#[test]
fn a_reply_to_another_question_is_some_udp_clients() {
    let Some(programs) = Programs::load_with_tc("another question") else { return };
    for asked in Asked::kinds(&programs) {
        for state in [QUERY, REPLIED, IDLE, CLOSING, SLOW, KERNEL] {
            programs.set_flow(&asked.key, &flow { state, ..asked.flow() });
            let before = fields(Some(asked.flow()));
            for other in ["www.example.org", "ww.example.com", "example.com"] {
                let message = reply_to(&query(ID, other, 16, None)[2..], 100, 0);
                let packet = frame(&asked.datagram(&message));
                assert_eq!(programs.egress(&packet), (NEXT, packet));
            }
            let other_type = reply_to(&query(ID, "www.example.com", 1, None)[2..], 100, 0);
            let packet = frame(&asked.datagram(&other_type));
            assert_eq!(programs.egress(&packet), (NEXT, packet));
            assert_eq!(fields(Some(asked.flow())), before);
        }
    }
    assert_eq!(programs.counts(), []);
}

/// As from servers that write names in their own way; also if the cookie key has changed since the
/// query.
#[test]
fn a_reply_in_other_letters_is_to_the_same_question() {
    let Some(programs) = Programs::load_with_tc("other letters") else { return };
    let settings = Programs::settings();
    for keys in [settings.keys, [settings.keys[1], settings.keys[0]]] {
        programs.set(narrows_gateway::kernel::types::settings { keys, ..settings });
        for asked in Asked::kinds(&programs) {
            let mut message = asked.reply(200);
            message[12..28].make_ascii_uppercase();
            assert_eq!(asked.answer(&message).0, NEXT);
            assert_eq!(asked.flow().state, REPLIED);
        }
    }
}

#[test]
fn a_fin_noted_goes_to_the_kernel_with_the_query() {
    let Some(programs) = Programs::load_with_tc("FIN to the kernel") else { return };
    let asked = Asked::changed(&programs, false, false, |flow| flow.flags |= CLIENT_FIN);
    let mut message = asked.reply(60);
    message[2] |= 2;
    let answer = asked.answer(&message);
    assert_eq!(Segment::read(&answer.1[14..]).flags, ACK | PSH | FIN);
    asked.left_to_kernel(answer);
}

#[test]
fn a_reply_beyond_the_window_or_too_many_segments_is_the_kernels() {
    let Some(programs) = Programs::load_with_tc("too large") else { return };
    let whole = Asked::new(&programs, false, true).reply(1000).len() as u32 + 2;
    let asked = Asked::changed(&programs, false, true, |flow| flow.window = whole);
    assert_eq!(asked.answer(&asked.reply(1000)).0, NEXT);
    let asked = Asked::changed(&programs, false, false, |flow| flow.window = whole - 1);
    let answer = asked.answer(&asked.reply(1000));
    assert_eq!((answer.0, asked.flow().state), (REDIRECT, SLOW));

    // Ten segments at most.
    for (size, state) in [(10 * 1388 - 2, REPLIED), (10 * 1388 - 1, SLOW)] {
        let asked = Asked::new(&programs, false, false);
        let (_, frames) = sent(|| asked.answer(&asked.reply(size)));
        assert_eq!(asked.flow().state, state);
        assert_eq!(frames.len(), if state == REPLIED { 9 } else { 0 });
    }

    // The first fragment shows it; the others are swallowed.
    let asked = Asked::new(&programs, true, true);
    let parts = fragments(&asked.datagram(&asked.reply(20_000)), 1500);
    asked.left_to_kernel(programs.egress(&frame(&parts[0])));
    for part in &parts[1..] {
        assert_eq!(programs.egress(&frame(part)), (REDIRECT, frame(part)));
    }
    // But not those of the next datagram with this identification.
    let last = parts.last().expect("some");
    assert_eq!(programs.egress(&frame(last)), (NEXT, frame(last)));
}

#[test]
fn a_query_that_left_the_ring_is_not_put_in_again() {
    let Some(programs) = Programs::load_with_tc("query gone") else { return };
    let asked = Asked::new(&programs, false, false);
    programs.set_ring_head(programs.ring_head().wrapping_add(1 << 12));
    let mut message = asked.reply(60);
    message[2] |= 2;
    let before = frame(&asked.datagram(&message));
    assert_eq!(asked.answer(&message), (REDIRECT, before));
    assert_eq!(asked.flow().state, SLOW, "the client sends it again");
}

#[test]
fn a_second_reply_is_swallowed() {
    let Some(programs) = Programs::load_with_tc("second reply") else { return };
    for state in [REPLIED, IDLE, CLOSING, SLOW] {
        let asked = Asked::changed(&programs, false, false, |flow| flow.state = state);
        asked.swallowed(&asked.reply(300), Counter::ReplyRepeated);
        let parts = fragments(&asked.datagram(&asked.reply(3000)), 1500);
        for part in &parts {
            assert_eq!(programs.egress(&frame(part)), (REDIRECT, frame(part)));
        }
        assert_eq!(asked.flow().state, state);
    }
}

#[test]
fn a_second_reply_that_was_asked_for_brings_what_is_missing_of_the_first() {
    let Some(programs) = Programs::load_with_tc("second reply asked for") else { return };
    let first = prefixed(&reply_to(&query(ID, "www.example.com", 16, Some(1232))[2..], 6000, 0));
    let mut segments = 0;
    for (state, acked) in [(REPLIED, 0), (REPLIED, 2001), (CLOSING, 4000), (CLOSING, 5900)] {
        for kind in Asked::kinds(&programs) {
            let asked = Asked::changed(&programs, kind.server.is_ipv6(), kind.plain, |flow| {
                flow.state = state;
                flow.flags |= QUERY_UNACKED | AGAIN;
                flow.stored = programs.ring_store(&first);
                flow.reply_length = first.len() as u16;
                flow.acked = REPLY_SEQ.wrapping_add(acked as u32);
            });
            let most = 1400 - if asked.plain { 0 } else { 12 };
            // Whatever the datagram says: a short one, and the first fragment of a long one.
            let size = if acked == 0 { 3000 } else { 300 };
            let datagram = asked.datagram(&asked.reply(size));
            let parts = fragments(&datagram, if acked == 0 { 1500 } else { 65_535 });
            let ((verdict, last), mut frames) = sent(|| programs.egress(&frame(&parts[0])));
            assert_eq!(verdict, NEXT);
            frames.push(last);
            let mut wanted: Vec<_> =
                (acked..).step_by(most).zip(first[acked..].chunks(most)).collect();
            // A single segment is sent twice.
            if let [only] = wanted[..] {
                wanted.push(only);
            }
            assert_eq!(frames.len(), wanted.len());
            for (frame, &(at, part)) in frames.iter().zip(&wanted) {
                let end = PSH | if state == CLOSING { FIN } else { 0 };
                let flags = ACK | if at + part.len() == first.len() { end } else { 0 };
                let wanted = asked.segment(at, part, flags, QUERY_SEQ);
                assert_eq!(Segment::read(&frame[14..]), wanted);
            }
            segments += wanted.len() as u64;
            let entry = asked.flow();
            assert_eq!(
                (entry.state, entry.flags & (QUERY_UNACKED | AGAIN)),
                (state, QUERY_UNACKED)
            );
            assert_eq!(programs.counts(), [(Counter::Resent, segments)]);
            for part in &parts[1..] {
                assert_eq!(programs.egress(&frame(part)), (REDIRECT, frame(part)));
            }
        }
    }
    // If it was acknowledged meanwhile or is gone from the ring: nothing.
    for (acked, position) in [(first.len() as u32, 0), (0, 1 << 31)] {
        let asked = Asked::changed(&programs, false, false, |flow| {
            flow.state = REPLIED;
            flow.flags |= QUERY_UNACKED | AGAIN;
            flow.stored = programs.ring_store(&first).wrapping_sub(position);
            flow.reply_length = first.len() as u16;
            flow.acked = REPLY_SEQ.wrapping_add(acked);
        });
        let datagram = frame(&asked.datagram(&asked.reply(300)));
        assert_eq!(programs.egress(&datagram), (REDIRECT, datagram));
        assert_eq!(asked.flow().flags & AGAIN, 0);
    }
    assert_eq!(programs.counts(), [(Counter::ReplyRepeated, 2), (Counter::Resent, segments)]);
}

#[test]
fn what_is_no_reply_to_an_entry_passes() {
    let Some(programs) = Programs::load_with_tc("no reply") else { return };
    for asked in Asked::kinds(&programs) {
        let message = asked.reply(300);
        let mut other = message.clone();
        other[0] ^= 1;
        asked.passed(&asked.datagram(&other));
        let mut question = message.clone();
        question[2] &= 0x7f;
        asked.passed(&asked.datagram(&question));
        asked.passed(&asked.datagram(&message[..11]));
        let (mut port, mut to) = (asked.server, asked.client);
        port.set_port(5353);
        asked.passed(&Datagram { from: port, to, message: message.clone() }.packet());
        to.set_port(40_001);
        asked.passed(&Datagram { from: asked.server, to, message: message.clone() }.packet());
        let mut from = asked.client;
        from.set_port(53);
        asked.passed(&Datagram { from, to: asked.client, message: message.clone() }.packet());
        for part in fragments(
            &Datagram { from: asked.server, to, message: asked.reply(3000) }.packet(),
            1500,
        ) {
            asked.passed(&part);
        }
        let segment = asked.segment(0, b"of the kernel's own", ACK, 5);
        asked.passed(&segment.packet());
        // A length beyond the end.
        let mut packet = asked.datagram(&message);
        let at = packet.len() - message.len() - 4;
        packet[at] = 0xff;
        asked.passed(&packet);
    }
    assert_eq!(programs.counts(), []);
    programs.set(settings { active: 0, ..Programs::settings() });
    let asked = Asked::new(&programs, false, false);
    asked.passed(&asked.datagram(&asked.reply(300)));
}

#[test]
fn an_entry_of_a_syn_has_no_reply() {
    let Some(programs) = Programs::load_with_tc("entry SYN") else { return };
    let asked = Asked::changed(&programs, false, false, |flow| flow.state = 1);
    asked.passed(&asked.datagram(&asked.reply(300)));
}

#[test]
fn truncate_over_shortens_replies_to_others() {
    let Some(programs) = Programs::load_with_tc("truncate_over") else { return };
    programs.set(settings { truncate_over: 600, ..Programs::settings() });
    for asked in Asked::kinds(&programs) {
        let mut to = asked.client;
        to.set_port(50_000);
        let from = asked.server;
        let datagram = |message: &[u8]| Datagram { from, to, message: message.to_vec() };

        let exact = asked.reply(600);
        assert_eq!(exact.len(), 600);
        asked.passed(&datagram(&exact).packet());

        let long = asked.reply(601);
        let question = asked.query.len() - 2 - 11;
        let mut short = long[..question].to_vec();
        short[2] |= 2;
        short[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
        short.extend(&long[long.len() - 11..]);
        let (verdict, after) = programs.egress(&frame(&datagram(&long).packet()));
        assert_eq!(verdict, NEXT);
        assert_eq!(Datagram::read(&after[14..]), datagram(&short));

        // Without an OPT at the end.
        let mut odd = long.clone();
        let at = odd.len() - 1;
        odd[at] = 1;
        short[11] = 0;
        short.truncate(question);
        let (_, after) = programs.egress(&frame(&datagram(&odd).packet()));
        assert_eq!(Datagram::read(&after[14..]), datagram(&short));

        // In fragments.
        let parts = fragments(&datagram(&asked.reply(4000)).packet(), 1500);
        let (verdict, after) = programs.egress(&frame(&parts[0]));
        assert_eq!(verdict, NEXT);
        assert_eq!(Datagram::read(&after[14..]), datagram(&short));
        for part in &parts[1..] {
            assert_eq!(programs.egress(&frame(part)), (REDIRECT, frame(part)));
        }

        // A question that cannot be read.
        let mut strange = long;
        strange[12] = 0xc0;
        asked.passed(&datagram(&strange).packet());
    }
    assert_eq!(programs.counts(), [(Counter::Truncated, 12)]);
}

#[test]
fn the_ring_goes_around() {
    let Some(programs) = Programs::load_with_tc("ring") else { return };
    let units = common::programs::RING_SIZE / common::programs::RING_UNIT;
    for before_end in [1, 2, 40] {
        programs.set_ring_head(0u32.wrapping_sub(before_end + 2 * units));
        for _ in 0..3 {
            let asked = Asked::new(&programs, false, false);
            let message = asked.reply(5000);
            let ((_, last), mut frames) = sent(|| asked.answer(&message));
            frames.push(last);
            let payloads = frames.iter().map(|frame| Segment::read(&frame[14..]).payload);
            assert_eq!(payloads.collect::<Vec<_>>().concat(), prefixed(&message));
        }
    }
}

/// Medians of 4000 runs of the egress program, each with cold caches after another call, minus the
/// cost of a segment of the kernel's own. The checksum is completed here. If it is left to the
/// interface, making room before the IP header (a copy of the packet's head) costs instead.
#[test]
#[ignore = "a measurement"]
fn costs() {
    let Some(programs) = Programs::load_with_tc("costs") else { return };
    let median = |frames: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut times: Vec<_> =
            frames.map(|frame| programs.egress_time(&frame).as_nanos()).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let asked = Asked::new(&programs, false, false);
    let segment = frame(&asked.segment(0, &[0; 100], ACK, 5).packet());
    let nothing = median(&mut (0..4000).map(|_| segment.clone()));
    eprintln!("a segment of the kernel's own, with the call {nothing:4} ns");
    let row = |what: &str, cost: u128| eprintln!("{what:44} {:4} ns", cost.saturating_sub(nothing));
    let mut to = asked.client;
    to.set_port(50_000);
    let other = Datagram { from: asked.server, to, message: asked.reply(100) };
    let other = frame(&other.packet());
    row("a datagram to a UDP client", median(&mut (0..4000).map(|_| other.clone())));
    for (v6, plain) in [(false, false), (false, true), (true, false)] {
        for size in [100, 1300, 2700] {
            let cost = median(&mut (0..4000).map(|_| {
                let asked = Asked::new(&programs, v6, plain);
                frame(&asked.datagram(&asked.reply(size)))
            }));
            let family = if v6 { "IPv6" } else { "IPv4" };
            let options = if plain { "" } else { ", timestamps" };
            row(&format!("{size} bytes, {family}{options}"), cost);
        }
    }
}

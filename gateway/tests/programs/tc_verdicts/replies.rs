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
    // A source may fill an eighth of the ring in a second. On a fast machine, all of this is more.
    programs.set(settings { query_interval_ns: 0, ..Programs::settings() });
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
            assert_eq!(verdict, NEXT, "{size} B: {:?}", programs.counts());
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
fn the_ring_goes_around() {
    let Some(programs) = Programs::load_with_tc("ring") else { return };
    // Otherwise one source could not fill it.
    programs.set(settings { query_interval_ns: 0, ..Programs::settings() });
    let units = crate::common::programs::RING_SIZE / crate::common::programs::RING_UNIT;
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
#[ignore = "it prints costs and asserts nothing; run it with --ignored --nocapture"]
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

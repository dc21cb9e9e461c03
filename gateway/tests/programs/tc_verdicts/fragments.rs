//! PROTOCOL.md, "The reply (tc egress)": replies in fragments.

use super::*;

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
    let units = crate::common::programs::RING_SIZE / crate::common::programs::RING_UNIT;
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

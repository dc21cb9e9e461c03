//! PROTOCOL.md, "The reply (tc egress)": replies that leave the query to the kernel.

use super::*;

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
    let left = names[0].1 - crate::common::programs::boot_ns();
    assert!((590_000_000_000..=600_000_000_000).contains(&left), "for large_ns: {left} ns");
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
    assert_eq!(programs.large(), [], "another client may have more room");
    for (size, listed) in [(10 * 1460 - 2, 0), (10 * 1460 - 1, 1)] {
        let asked = Asked::new(&programs, false, false);
        asked.answer(&asked.reply(size));
        assert_eq!((asked.flow().state, programs.large().len()), (SLOW, listed));
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

/// Replies of 10,000 bytes, and an eighth of 256 KiB a second: the fifth finds the source more than a
/// second ahead. Replies of one segment are not counted.
#[test]
fn long_replies_that_fill_a_sources_part_of_the_ring_are_the_kernels() {
    let Some(programs) = Programs::load_with_tc("part of the ring") else { return };
    for (limited, sent) in [(1, 4), (0, 6)] {
        programs.set(settings { query_interval_ns: limited, ..Programs::settings() });
        let states = [(); 6].map(|()| {
            let asked = Asked::new(&programs, false, false);
            asked.answer(&asked.reply(10_000));
            asked.flow().state
        });
        assert_eq!(states.iter().filter(|&&state| state == REPLIED).count(), sent);
        let asked = Asked::new(&programs, false, false);
        assert_eq!(asked.answer(&asked.reply(60)).0, NEXT);
        let other = Asked::new(&programs, true, false);
        other.answer(&other.reply(10_000));
        assert_eq!(other.flow().state, REPLIED, "another source");
    }
    assert_eq!(programs.large(), []);
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

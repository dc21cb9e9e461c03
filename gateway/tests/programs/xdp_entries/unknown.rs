//! PROTOCOL.md: ports that are used again, RSTs, and segments that no entry knows.

use super::*;

#[test]
fn a_port_may_be_used_again() {
    let programs = programs!("a_port_may_be_used_again");
    let reply = reply_bytes(300);
    for state in [QUERY, REPLIED, IDLE, CLOSING, SLOW, KERNEL] {
        for client in Client::kinds(&programs) {
            let old = client.replied(&reply, state, 0);
            let mut client = old.clone();
            client.saying.isn = 0x1357_9bdf;
            let mut client = client.open();
            assert_eq!(fields(client.flow()), fields(old.flow()), "a SYN changes nothing");
            let data = client.saying.data();
            let came = counted(&programs, &[Counter::Query], || client.say(&data));
            assert!(matches!(came, Came::Query(_)), "state {state}");
            let entry = client.flow().unwrap();
            assert_eq!((entry.state, entry.query_seq), (QUERY, client.starts().0));
            assert_eq!(entry.reply_length, 0);
        }
    }
    // If the kernel gets the new connection, the old entry does not get in its way.
    let mut client = Client::new(&programs, false, false).replied(&reply, IDLE, 0);
    client.saying.isn = 0x1357_9bdf;
    let mut client = client.open();
    let data = client.saying.data_at(0, 0, b"\x00");
    assert_eq!(counted(&programs, &[Counter::ToKernelUnusual], || client.say(&data)), Came::Pass);
    assert_eq!(client.flow().map(|_| ()), None);
}

#[test]
fn a_reset_counts_within_what_was_sent() {
    let programs = programs!("a_reset_counts_within_what_was_sent");
    let reset = |client: &Client<'_>, seq| Segment { flags: RST, ..client.saying.ack(seq, 0) };
    for client in Client::kinds(&programs) {
        let mut none = client.clone().open();
        let segment = reset(&none, 0);
        assert_eq!(counted(&programs, &[], || none.say(&segment)), Came::Pass, "the kernel's");
        let client = client.asked();
        let entry = client.flow().unwrap();
        let length = client.saying.length();
        for seq in [u32::MAX, length + 1, 0x8000_0000] {
            let mut client = client.clone();
            let segment = reset(&client, seq);
            assert_eq!(
                counted(&programs, &[Counter::Strange], || client.say(&segment)),
                Came::Drop
            );
            assert!(client.flow().is_some());
        }
        for (seq, flags) in [(0, RST), (1, RST | ACK), (length, RST | FIN)] {
            let mut client = client.clone();
            client.programs.set_flow(&client.key(), &entry);
            let segment = Segment { flags, ..reset(&client, seq) };
            assert_eq!(counted(&programs, &[Counter::Reset], || client.say(&segment)), Came::Drop);
            assert_eq!(client.flow().map(|_| ()), None);
        }
    }
}

/// It may be the second segment of a new connection whose first was lost. A client that has had a
/// timestamp of an entry's segments has an old connection.
#[test]
fn what_nobody_knows_is_dropped_unless_it_is_over() {
    let programs = programs!("what_nobody_knows_is_dropped_unless_it_is_over");
    for heard in [0, HEARD] {
        for client in Client::kinds(&programs) {
            let mut client = client;
            client.saying.cookie = 0x0bad_0bad;
            client.saying.tsecr = 0x2222_2222 & !HEARD | heard;
            let ack = client.saying.ack(5, 6);
            assert_eq!(counted(&programs, &[Counter::UnknownAck], || client.say(&ack)), Came::Drop);
            for (segment, counter) in [
                (client.saying.fin(5, 6), Counter::UnknownFin),
                (client.saying.data_at(5, 6, b"what"), Counter::UnknownData),
            ] {
                let came = counted(&programs, &[counter], || client.say(&segment));
                let reset = Segment {
                    flags: RST,
                    ack: 0,
                    window: 0,
                    timestamps: None,
                    ..client.segment(6, 0)
                };
                let over = heard != 0 && client.saying.tsval.is_some();
                assert_eq!(came, if over { Came::Segment(reset) } else { Came::Drop });
            }
            assert!(programs.flows().is_empty());
        }
    }
}

/// The client opened it but sent its first data after the cookie had expired. It would wait for
/// ever.
#[test]
fn data_whose_cookie_is_too_old_is_answered_with_rst() {
    let programs = programs!("data_whose_cookie_is_too_old_is_answered_with_rst");
    for (before, after) in [(70, false), (300, false), (540, false), (70, true)] {
        for client in Client::kinds(&programs) {
            programs.set(Programs::settings());
            let mut client = client.open();
            let settings = Programs::settings();
            let later = settings.wall_offset_ns + before * 1_000_000_000;
            let mut keys = settings.keys;
            let mut previous_until_ns = 96_000_000_000;
            if after {
                // The key changed half a minute ago, after the handshake.
                keys.swap(0, 1);
                previous_until_ns = later + boot_ns() - 30_000_000_000 + 96_000_000_000;
            }
            programs.set(narrows_gateway::kernel::types::settings {
                wall_offset_ns: later,
                previous_until_ns,
                keys,
                ..settings
            });
            for (segment, counter) in [
                (client.saying.data(), Counter::UnknownData),
                (client.saying.fin(0, 0), Counter::UnknownFin),
            ] {
                let Came::Segment(answer) = counted(&programs, &[counter], || client.say(&segment))
                else {
                    panic!("no RST after {before} s")
                };
                assert_eq!((answer.flags, answer.seq), (RST, segment.ack));
            }
            let second = client.saying.data_at(50, 0, b"data");
            assert_eq!(
                counted(&programs, &[Counter::UnknownData], || client.say(&second)),
                Came::Drop
            );
        }
    }
}

//! PROTOCOL.md, "The reply (tc egress)": datagrams that are no reply to an entry.

use super::*;

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

        // Without an OPT at the end that could be read: a new one.
        let mut odd = long.clone();
        let at = odd.len() - 1;
        odd[at] = 1;
        short.truncate(question);
        short.extend([0, 0, 41, (600_u16 >> 8) as u8, 600_u16 as u8, 0, 0, 0, 0, 0, 0]);
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

        // Without additional records.
        let mut none = [&long[..long.len() - 11], &[0; 4000]].concat();
        none[11] = 0;
        short[11] = 0;
        short.truncate(question);
        let (_, after) = programs.egress(&frame(&datagram(&none[..601]).packet()));
        assert_eq!(Datagram::read(&after[14..]), datagram(&short));
        let parts = fragments(&datagram(&none).packet(), 1500);
        let (_, after) = programs.egress(&frame(&parts[0]));
        assert_eq!(Datagram::read(&after[14..]), datagram(&short));
        for part in &parts[1..] {
            assert_eq!(programs.egress(&frame(part)), (REDIRECT, frame(part)));
        }

        // A question that cannot be read.
        let mut strange = long;
        strange[12] = 0xc0;
        asked.passed(&datagram(&strange).packet());
    }
    assert_eq!(programs.counts(), [(Counter::Truncated, 20)]);
}

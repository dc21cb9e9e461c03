//! Each row of the tables in PROTOCOL.md, as one test named after it.

mod common;

use std::time::Duration;

use common::conversation::{Conversation, Said, settings};
use common::packets::{
    ACK, Datagram, FIN, PSH, RST, SYN, Segment, fragments, prefixed, query, reply,
};
use narrows_gateway::core::{Adoption, Counter, Reason, ReplyVerdict, Settings, State, Verdict};

const DROP: Said = Said::Nothing(Verdict::Drop);
const PASS: Said = Said::Nothing(Verdict::Pass);

fn hand_off(reason: Reason) -> Said {
    Said::Nothing(Verdict::HandOff(reason))
}

/// The core says nothing and counts `counter` once more; the entry stays as it was.
#[track_caller]
fn dropped(conversation: &mut Conversation, segment: &Segment, counter: Counter) {
    let (before, entry) = (conversation.count(counter), conversation.flow());
    assert_eq!(conversation.say(segment), DROP);
    assert_eq!(conversation.count(counter), before + 1, "{}", counter.name());
    assert_eq!(conversation.flow(), entry);
}

#[track_caller]
fn segment(said: Said) -> Segment {
    match said {
        Said::Segment(segment) => segment,
        other => panic!("not a segment: {other:?}"),
    }
}

#[track_caller]
fn state(conversation: &Conversation) -> Option<State> {
    conversation.flow().map(|flow| flow.state)
}

fn close_fin() -> Settings {
    Settings { close_fin: true, ..settings() }
}

mod syn {
    use super::*;

    #[test]
    fn is_answered_with_a_cookie_and_no_state() {
        let mut client = Conversation::new(settings());
        let answer = client.shake_hands();
        assert_eq!((answer.flags, answer.window), (SYN | ACK, 65_535));
        assert_eq!(answer.ack, client.isn.wrapping_add(1));
        assert_eq!((answer.mss, answer.wscale, answer.sack), (Some(1460), Some(7), true));
        assert_eq!(answer.timestamps.map(|(_, echo)| echo), Some(7000));
        assert_eq!(client.core.flows().count(), 0);
        assert_eq!(client.count(Counter::Syn), 1);
    }

    #[test]
    fn without_timestamps_offers_nothing_but_an_mss() {
        let mut client = Conversation::new(settings()).plain();
        client.wscale = Some(7);
        let mut syn = client.syn();
        syn.sack = true;
        let answer = segment(client.say(&syn));
        assert_eq!((answer.mss, answer.wscale, answer.sack), (Some(1460), None, false));
        assert_eq!(answer.timestamps, None);
    }

    #[test]
    fn with_ipv6_is_answered_alike() {
        let answer = Conversation::new(settings()).over_ipv6().shake_hands();
        assert_eq!(answer.mss, Some(1440));
    }

    #[test]
    fn on_an_entry_is_answered_and_the_entry_stays() {
        let mut client = Conversation::asked(settings());
        let entry = client.flow();
        segment(client.say(&client.syn()));
        assert_eq!(client.flow(), entry);
    }

    #[test]
    fn with_another_of_these_is_dropped() {
        for flags in [SYN | ACK, SYN | FIN, SYN | RST, SYN | ACK | FIN | RST] {
            let mut client = Conversation::new(settings());
            let odd = Segment { flags, ..client.syn() };
            dropped(&mut client, &odd, Counter::OddFlags);
        }
    }

    #[test]
    fn above_the_rate_of_its_source_is_dropped() {
        let settings =
            Settings { syn_interval_ns: 1_000_000_000, syn_burst_ns: 2_000_000_000, ..settings() };
        let mut client = Conversation::new(settings);
        for _ in 0..3 {
            segment(client.say(&client.syn()));
        }
        let syn = client.syn();
        dropped(&mut client, &syn, Counter::SynLimited);
        client.client.set_ip([198, 51, 100, 8].into());
        segment(client.say(&client.syn()));
    }
}

mod cache {
    use super::*;

    fn cached() -> Settings {
        Settings { syncache: true, syncache_limit: 3, syncache_bucket_limit: 2, ..settings() }
    }

    #[test]
    fn a_syn_makes_an_entry() {
        let client = Conversation::open(cached());
        let flow = client.flow().expect("an entry");
        assert_eq!(flow.state, State::Syn);
        assert_eq!(flow.query_seq, client.isn.wrapping_add(1));
        assert_eq!(flow.server_seq, client.cookie.wrapping_add(1));
    }

    #[test]
    fn the_handshakes_ack_is_dropped() {
        let mut client = Conversation::open(cached());
        let ack = client.ack(0, 0);
        dropped(&mut client, &ack, Counter::HandshakeAck);
    }

    #[test]
    fn the_query_needs_no_cookie() {
        let mut client = Conversation::open(cached());
        client.now.wall += Duration::from_secs(1000);
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        assert_eq!(state(&client), Some(State::Query));
    }

    #[test]
    fn where_it_is_full_there_is_the_cookie_alone() {
        let mut client = Conversation::new(cached());
        for port in 1..=10 {
            client.client.set_port(port);
            segment(client.say(&client.syn()));
        }
        assert_eq!(client.core.flows().count(), 3);
        assert_eq!(client.count(Counter::SynCacheFull), 7);
        client.shake_hands();
        assert_eq!(state(&client), None);
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
    }

    #[test]
    fn a_bucket_has_its_own_limit() {
        let mut client = Conversation::new(Settings { hashsize: 1, ..cached() });
        for port in 1..=3 {
            client.client.set_port(port);
            segment(client.say(&client.syn()));
        }
        assert_eq!(client.core.flows().count(), 2);
    }

    #[test]
    fn entries_that_go_make_room() {
        let mut client = Conversation::new(cached());
        for round in 0..4 {
            for port in 1..=3 {
                client.client.set_port(100 * round + port);
                client.shake_hands();
            }
            assert_eq!(client.count(Counter::SynCacheFull), 0, "round {round}");
            // Two become queries, of which one expires like the third.
            client.client.set_port(100 * round + 3);
            assert!(matches!(client.say(&client.data()), Said::Query(_)));
            client.now.boot += Duration::from_secs(31);
            client.core.poll(client.now, &mut Vec::new());
            assert_eq!(client.core.flows().count(), 0);
        }
    }

    #[test]
    fn something_else_on_its_entry_is_dropped() {
        let mut client = Conversation::open(cached());
        let ahead = client.data_at(5, 0, b"hello");
        dropped(&mut client, &ahead, Counter::Strange);
    }
}

mod rst {
    use super::*;

    #[test]
    fn in_the_querys_range_removes_the_entry() {
        for seq in [0, 5] {
            let mut client = Conversation::asked(settings());
            let seq = if seq == 0 { client.length() } else { seq };
            let rst = Segment { flags: RST, ..client.ack(seq, 0) };
            assert_eq!(client.say(&rst), DROP);
            assert_eq!(client.flow(), None);
            assert_eq!(client.count(Counter::Reset), 1);
        }
    }

    #[test]
    fn elsewhere_on_an_entry_is_dropped() {
        let mut client = Conversation::asked(settings());
        for seq in [client.length() + 1, u32::MAX] {
            let rst = Segment { flags: RST | ACK, ..client.ack(seq, 0) };
            dropped(&mut client, &rst, Counter::Strange);
        }
    }

    #[test]
    fn without_an_entry_passes() {
        let mut client = Conversation::open(settings());
        let rst = Segment { flags: RST, ..client.ack(0, 0) };
        assert_eq!(client.say(&rst), PASS);
    }
}

mod unknown {
    use super::*;

    #[test]
    fn the_handshakes_ack_is_dropped() {
        let mut client = Conversation::open(settings());
        let ack = client.ack(0, 0);
        dropped(&mut client, &ack, Counter::HandshakeAck);
    }

    #[test]
    fn what_the_kernel_has_passes() {
        let mut client = Conversation::open(settings());
        client.kernel_has = true;
        for segment in [client.ack(9, 9), client.data_at(9, 9, b"x"), client.fin(9, 9)] {
            assert_eq!(client.say(&segment), PASS);
        }
        assert_eq!(client.count(Counter::KernelHasIt), 3);
    }

    #[test]
    fn an_ack_is_dropped() {
        let mut client = Conversation::open(settings());
        let ack = client.ack(9, 9);
        dropped(&mut client, &ack, Counter::UnknownAck);
    }

    fn heard(segment: Segment) -> Segment {
        Segment { timestamps: segment.timestamps.map(|(a, b)| (a, b | 4096)), ..segment }
    }

    #[test]
    fn data_or_a_fin_of_who_has_heard_of_us_is_answered_with_rst() {
        let mut client = Conversation::open(settings());
        for (flags, payload) in [(ACK, &b"data"[..]), (ACK | FIN, b"data"), (ACK | FIN, b"")] {
            let data = heard(Segment { flags, ..client.data_at(50, 90, payload) });
            let answer = segment(client.say(&data));
            assert_eq!((answer.flags, answer.seq, answer.ack), (RST, data.ack, 0));
            assert_eq!((answer.window, answer.timestamps), (0, None));
        }
        assert_eq!(client.count(Counter::UnknownData), 2);
        assert_eq!(client.count(Counter::UnknownFin), 1);
    }

    /// They may belong to a connection whose first data was lost or overtaken.
    #[test]
    fn another_fin_and_other_data_are_dropped() {
        let mut client = Conversation::open(settings());
        let fin = client.fin(50, 90);
        dropped(&mut client, &fin, Counter::UnknownFin);
        for flags in [ACK, ACK | FIN] {
            let data = Segment { flags, ..client.data_at(50, 0, b"data") };
            dropped(&mut client, &data, Counter::UnknownData);
        }
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
    }

    #[test]
    fn neither_syn_nor_rst_nor_ack_is_dropped() {
        let mut client = Conversation::open(settings());
        for flags in [0, FIN, PSH, FIN | PSH] {
            let odd = Segment { flags, ..client.data() };
            dropped(&mut client, &odd, Counter::OddFlags);
        }
    }
}

mod packets {
    use super::*;
    use narrows_gateway::core::Core;

    #[test]
    fn for_others_pass() {
        let mut client = Conversation::new(settings());
        let syn = client.syn();
        let mut elsewhere = syn.clone();
        elsewhere.to.set_port(54);
        let mut other = syn;
        other.to.set_ip([192, 0, 2, 54].into());
        let datagram = Datagram { from: client.client, to: client.server, message: vec![0; 40] };
        for packet in [elsewhere.packet(), other.packet(), datagram.packet()] {
            assert_eq!(client.say_bytes(&packet), PASS);
        }
        assert!(client.core.counters().iter().all(|(_, count)| count == 0));
    }

    #[test]
    fn pass_where_the_gateway_is_not_active() {
        let mut client = Conversation::new(Settings { active: false, ..settings() });
        assert_eq!(client.say(&client.syn()), PASS);
        assert_eq!(client.say_bytes(&[0x45]), PASS);
        assert!(client.core.counters().iter().all(|(_, count)| count == 0));
    }

    #[test]
    fn that_are_malformed_pass_and_are_counted() {
        let mut client = Conversation::new(settings());
        let syn = client.syn().packet();
        let edited = |edits: &[(usize, u8)]| {
            let mut packet = syn.clone();
            for &(at, byte) in edits {
                packet[at] = byte;
            }
            packet
        };
        let malformed = [
            Vec::new(),
            syn[..19].to_vec(),
            syn[..syn.len() - 1].to_vec(),
            edited(&[(0, 0x44)]),
            edited(&[(2, 0), (3, 19)]),
            edited(&[(2, 0), (3, 39)]),
            edited(&[(32, 0x40)]),
            edited(&[(32, 0xf0)]),
        ];
        for (count, packet) in malformed.iter().enumerate() {
            assert_eq!(client.say_bytes(packet), PASS);
            assert_eq!(client.count(Counter::Malformed), count as u64 + 1, "{packet:x?}");
        }
    }

    #[test]
    fn that_are_fragments_pass() {
        let mut client = Conversation::open(settings());
        for ipv6 in [false, true] {
            if ipv6 {
                client = client.over_ipv6();
            }
            for fragment in fragments(&client.data().packet(), 88) {
                assert_eq!(client.say_bytes(&fragment), PASS);
            }
        }
        assert_eq!(client.count(Counter::Malformed), 0);
    }

    #[test]
    fn with_ipv4_options_and_bytes_behind_are_read() {
        let mut client = Conversation::open(settings());
        let plain = client.data().packet();
        let mut packet = [&plain[..20], &[7, 7, 4, 0, 0, 0, 0, 0], &plain[20..], &[0; 9]].concat();
        packet[0] = 0x47;
        packet[3] += 8;
        assert!(matches!(client.say_bytes(&packet), Said::Query(_)));
    }

    #[test]
    fn with_ipv6_extension_headers_are_read() {
        let mut client = Conversation::new(settings()).over_ipv6();
        client.shake_hands();
        let plain = client.data().packet();
        // Hop-by-hop, routing, and destination options, six in all; 8, 24 and 16 bytes.
        let mut extensions = Vec::new();
        for (i, (next, bytes)) in
            [(43, 8), (60, 24), (60, 16), (60, 8), (60, 8), (6, 8)].into_iter().enumerate()
        {
            extensions.extend([next, (bytes / 8 - 1) as u8]);
            extensions.extend(vec![0; bytes - 2]);
            if i == 5 {
                break;
            }
        }
        let with = |extensions: &[u8], first| {
            let mut packet = [&plain[..40], extensions, &plain[40..]].concat();
            let length = (packet.len() - 40) as u16;
            packet[4..6].copy_from_slice(&length.to_be_bytes());
            packet[6] = first;
            packet
        };
        let mut again = client.clone();
        assert!(matches!(client.say_bytes(&with(&extensions, 0)), Said::Query(_)));
        let seven = [&[0, 0, 0, 0, 0, 0, 0, 0], &extensions[..]].concat();
        assert_eq!(again.say_bytes(&with(&seven, 0)), PASS);
        assert_eq!(again.count(Counter::Malformed), 0);
    }

    #[test]
    fn with_vlan_tags_are_read_and_answered_in_kind() {
        let mut core = Core::new(settings());
        let client = Conversation::new(settings());
        for tags in 0..=3 {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            frame.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7].iter().take(4 * tags));
            frame.extend([0x08, 0x00]);
            let header = frame.len();
            frame.extend(client.syn().packet());
            let mut out = Vec::new();
            let verdict = core.on_client_frame(client.now, &frame, |_| false, &mut out);
            if tags > 2 {
                assert_eq!((verdict, out.len()), (Verdict::Pass, 0));
                continue;
            }
            assert_eq!(verdict, Verdict::Transmit);
            assert_eq!(out[0][..6], frame[6..12]);
            assert_eq!(out[0][6..12], frame[..6]);
            assert_eq!(out[0][12..header], frame[12..header]);
            assert_eq!(Segment::read(&out[0][header..]).flags, SYN | ACK);
        }
    }

    #[test]
    fn with_a_wrong_checksum_are_dropped_if_they_have_data() {
        let mut client = Conversation::open(settings());
        let mut packet = client.data().packet();
        let last = packet.len() - 1;
        packet[last] ^= 1;
        assert_eq!(client.say_bytes(&packet), DROP);
        assert_eq!(client.count(Counter::BadChecksum), 1);
        assert_eq!(client.flow(), None);
    }

    #[test]
    fn whose_checksum_is_left_to_an_offload_are_right() {
        let mut client = Conversation::open(settings());
        let mut packet = client.data().packet();
        let words = packet[12..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let mut sum: u32 = words.sum::<u32>() + 6 + (packet.len() - 20) as u32;
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        packet[36..38].copy_from_slice(&(sum as u16).to_be_bytes());
        assert!(matches!(client.say_bytes(&packet), Said::Query(_)));
    }
}

mod first_data {
    use super::*;

    #[test]
    fn a_whole_query_goes_to_the_server() {
        for ipv6 in [false, true] {
            for plain in [false, true] {
                let mut client = Conversation::new(settings());
                client = if ipv6 { client.over_ipv6() } else { client };
                client = if plain { client.plain() } else { client };
                client.shake_hands();
                let Said::Query(datagram) = client.say(&client.data()) else { panic!("no query") };
                // The payload size is raised, the rest is as it was.
                let mut message = client.query[2..].to_vec();
                let at = message.len() - 8;
                message[at..at + 2].copy_from_slice(&65_500_u16.to_be_bytes());
                assert_eq!(datagram.message, message);
                let flow = client.flow().expect("an entry");
                assert_eq!((flow.state, flow.mss), (State::Query, 1460));
                assert_eq!(flow.query_seq, client.isn.wrapping_add(1));
                assert_eq!(flow.client_next, flow.query_seq.wrapping_add(client.length()));
                assert_eq!(flow.server_seq, client.cookie.wrapping_add(1));
                assert_eq!((flow.dns_id, flow.edns_added), (0x1234, false));
                assert_eq!(flow.timestamps, !plain);
                assert_eq!(flow.window, if plain { 65_535 } else { 512 << 9 });
            }
        }
    }

    #[test]
    fn without_edns_an_opt_record_is_added() {
        let mut client = Conversation::open(settings());
        client.query = query(7, "example.com", 1, None);
        let Said::Query(datagram) = client.say(&client.data()) else { panic!("no query") };
        assert_eq!(datagram.message, client.at_server());
        assert!(client.flow().expect("an entry").edns_added);
    }

    #[test]
    fn with_a_larger_edns_size_nothing_changes() {
        let mut client = Conversation::open(Settings { edns_size: 4096, ..settings() });
        client.query = query(7, "example.com", 1, Some(4097));
        let Said::Query(datagram) = client.say(&client.data()) else { panic!("no query") };
        assert_eq!(datagram.message, client.query[2..]);
    }

    #[test]
    fn with_fin_is_a_half_close() {
        let mut client = Conversation::open(settings());
        let data = Segment { flags: ACK | PSH | FIN, ..client.data() };
        assert!(matches!(client.say(&data), Said::Query(_)));
        let flow = client.flow().expect("an entry");
        assert!(flow.client_fin);
        assert_eq!(flow.client_next, data.next());
    }

    #[test]
    fn above_the_rate_of_its_source_is_dropped() {
        let settings = Settings { query_interval_ns: 1_000_000_000, ..settings() };
        let mut client = Conversation::asked(settings);
        client.client.set_port(40_001);
        client.shake_hands();
        let data = client.data();
        dropped(&mut client, &data, Counter::QueryLimited);
        client.now.boot += Duration::from_secs(1);
        assert!(matches!(client.say(&data), Said::Query(_)));
    }

    #[test]
    fn a_bare_fin_is_answered_with_fin_and_ack() {
        let mut client = Conversation::open(settings());
        let answer = segment(client.say(&client.fin(0, 0)));
        assert_eq!((answer.flags, answer.ack), (FIN | ACK, client.isn.wrapping_add(2)));
        assert_eq!(client.flow(), None);
        assert_eq!(client.count(Counter::Closed), 1);
    }

    #[test]
    fn a_zone_transfer_is_left_to_the_kernel() {
        for kind in [251, 252] {
            let mut client = Conversation::open(settings());
            client.query = query(7, "example.com", kind, None);
            assert_eq!(client.say(&client.data()), hand_off(Reason::Transfer));
            assert_eq!(client.flow(), None);
            let mut client = Conversation::open(Settings { axfr_detect: false, ..settings() });
            client.query = query(7, "example.com", kind, None);
            assert!(matches!(client.say(&client.data()), Said::Query(_)));
        }
    }

    #[test]
    fn a_name_with_a_large_reply_is_left_to_the_kernel() {
        let mut client = Conversation::asked(Settings { large_ns: 10_000_000_000, ..settings() });
        assert_eq!(client.answer(20_000).0, ReplyVerdict::HandOff);
        client.client.set_port(40_001);
        client.shake_hands();
        // In any case of letters.
        client.query = query(9, "WWW.eXample.com", 1, None);
        assert_eq!(client.say(&client.data()), hand_off(Reason::Large));
        let mut other = client.clone();
        other.query = query(9, "www.example.com", 28, None);
        assert!(matches!(other.say(&other.data()), Said::Query(_)));
        client.now.boot += Duration::from_secs(11);
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
    }

    /// "Anything else": each condition of a whole query, broken alone.
    #[test]
    fn anything_else_is_left_to_the_kernel() {
        let whole = query(7, "example.com", 1, Some(1232));
        let question = whole.len() - 11;
        let edited = |edits: &[(usize, u8)]| {
            let mut payload = whole.clone();
            for &(at, byte) in edits {
                payload[at] = byte;
            }
            payload
        };
        let prefixed_part = |message: &[u8]| prefixed(message);
        let unusual = [
            whole[..1].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            [&whole[..], &whole[..]].concat(),
            prefixed_part(&whole[2..18]),
            prefixed_part(&[0; 1023]),
            edited(&[(4, 0x80)]),
            edited(&[(4, 0x08)]),
            edited(&[(4, 0x02)]),
            edited(&[(7, 0)]),
            edited(&[(7, 2)]),
            edited(&[(9, 1)]),
            edited(&[(11, 1)]),
            edited(&[(13, 0)]),
            edited(&[(13, 2)]),
            edited(&[(14, 0xc0)]),
            edited(&[(14, 64)]),
            edited(&[(14, 63)]),
            edited(&[(question, 1)]),
            edited(&[(question + 2, 42)]),
            edited(&[(question + 6, 1)]),
            edited(&[(question + 10, 1)]),
            prefixed_part(&[&whole[2..], &[0]].concat()),
            prefixed_part(&whole[2..question + 3]),
        ];
        for payload in unusual {
            let mut client = Conversation::open(settings());
            client.query.clone_from(&payload);
            assert_eq!(client.say(&client.data()), hand_off(Reason::Unusual), "{payload:x?}");
            assert_eq!(client.flow(), None);
        }
    }

    #[test]
    fn names_of_up_to_255_bytes_are_whole() {
        let label = "x".repeat(63);
        for (last, whole) in [(61, true), (62, false)] {
            let mut payload = query(7, "a", 1, None);
            let mut name = Vec::new();
            for label in [&label[..], &label, &label, &label[..last]] {
                name.push(label.len() as u8);
                name.extend(label.bytes());
            }
            name.push(0);
            payload.splice(14..17, name);
            let mut client = Conversation::open(settings());
            client.query = prefixed(&payload[2..]);
            assert_eq!(matches!(client.say(&client.data()), Said::Query(_)), whole);
        }
    }
}

mod data_on_an_entry {
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
    fn query_the_same_goes_to_the_server_again() {
        let mut client = Conversation::asked(settings());
        let entry = client.flow();
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        assert_eq!(client.flow().map(|flow| flow.stored), entry.map(|flow| flow.stored));
        assert_eq!(client.count(Counter::QueryAgain), 1);
        let fin = Segment { flags: ACK | FIN, ..client.data() };
        assert!(matches!(client.say(&fin), Said::Query(_)));
        assert!(client.flow().expect("an entry").client_fin);
    }

    #[test]
    fn query_another_at_its_place_is_dropped() {
        let mut client = Conversation::asked(settings());
        let longer = [&client.query[..], b"x"].concat();
        let other_id = query(0x1235, "www.example.com", 1, Some(1232));
        for payload in [&longer[..], &client.query.clone()[..5], &other_id] {
            let segment = client.data_at(0, 0, payload);
            dropped(&mut client, &segment, Counter::Strange);
        }
    }

    #[test]
    fn query_bare_fin_is_a_half_close() {
        let mut client = Conversation::asked(settings());
        let fin = client.fin(client.length(), 0);
        assert_eq!(client.say(&fin), DROP);
        let flow = client.flow().expect("an entry");
        assert!(flow.client_fin);
        assert_eq!(flow.client_next, fin.next());
        dropped(&mut client, &fin, Counter::Strange);
        // The reply acknowledges it and carries ours.
        let (_, segments) = client.answer(100);
        assert_eq!(segments[0].flags, ACK | PSH | FIN);
        assert_eq!(segments[0].ack, fin.next());
        assert_eq!(state(&client), Some(State::Closing));
    }

    #[test]
    fn query_data_behind_is_pipelined() {
        let mut client = Conversation::asked(settings());
        let second = client.data_at(client.length(), 0, b"second");
        dropped(&mut client, &second, Counter::Pipelined);
    }

    #[test]
    fn replied_the_query_again_gives_the_segment_at_its_ack() {
        for settings in [settings(), close_fin()] {
            let (mut client, segments) = Conversation::replied(settings, 4000);
            let whole: Vec<u8> = segments.iter().flat_map(|s| s.payload.clone()).collect();
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
                    timestamps: second.timestamps.map(|(a, b)| (b, a))
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
            // Ours may be lost: then the client's comes again.
            for _ in 0..2 {
                let fin = client.fin(client.length(), end);
                let answer = segment(client.say(&fin));
                assert_eq!(
                    (answer.flags, answer.seq, answer.ack),
                    (FIN | ACK, fin.ack, fin.next())
                );
                assert_eq!(state(&client), Some(State::Closing));
            }
            assert_eq!(client.say(&client.ack(client.length() + 1, end + 1)), DROP);
            assert_eq!(client.flow(), None);
            assert_eq!(client.count(Counter::Closed), 1);
        }
    }

    #[test]
    fn replied_a_fin_or_data_before_the_end_is_dropped() {
        let (mut client, _) = Conversation::replied(settings(), 100);
        let fin = client.fin(client.length(), 5);
        dropped(&mut client, &fin, Counter::Strange);
        let data = client.data_at(client.length(), 5, b"second");
        dropped(&mut client, &data, Counter::Strange);
    }

    #[test]
    fn closing_a_bare_fin_is_acknowledged() {
        let (mut client, segments) = Conversation::replied(close_fin(), 100);
        let end = segments[0].payload.len() as u32;
        // Before it has our FIN, again, and with it.
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
    fn slow_the_query_is_left_to_the_kernel() {
        let mut client = Conversation::asked(settings());
        assert_eq!(client.answer(20_000).0, ReplyVerdict::HandOff);
        let ahead = client.data_at(client.length(), 0, b"more");
        dropped(&mut client, &ahead, Counter::Strange);
        assert_eq!(client.say(&client.data()), hand_off(Reason::Reply));
    }

    #[test]
    fn a_reply_gone_from_the_ring_ends_the_connection() {
        let (mut client, _) = Conversation::replied(settings(), 100);
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
}

mod acknowledgements {
    use super::*;

    #[test]
    fn note_the_window_and_later_timestamps() {
        let mut client = Conversation::asked(settings());
        client.window = 3;
        let ack = client.ack(client.length(), 0);
        assert_eq!(client.say(&ack), DROP);
        let flow = client.flow().expect("an entry");
        assert_eq!((flow.window, Some(flow.client_tsval)), (3 << 9, ack.timestamps.map(|t| t.0)));
        let old = Segment { timestamps: Some((6999, client.tsecr)), ..ack };
        assert_eq!(client.say(&old), DROP);
        assert_eq!(client.flow().map(|flow| flow.client_tsval), Some(flow.client_tsval));
        assert_eq!(client.count(Counter::Ack), 2);
    }

    #[test]
    fn out_of_range_do_not_count() {
        let (mut client, segments) = Conversation::replied(settings(), 100);
        let end = segments[0].payload.len() as u32;
        let length = client.length();
        for (seq, ack) in [(length + 1, 0), (u32::MAX, 0), (0, end + 2), (0, u32::MAX)] {
            let ack = client.ack(seq, ack);
            dropped(&mut client, &ack, Counter::Strange);
        }
    }

    #[test]
    fn the_third_repeat_sends_the_segment_again() {
        let (mut client, segments) = Conversation::replied(settings(), 12_000);
        let step = segments[0].payload.len() as u32;
        let first = client.ack(client.length(), step);
        assert_eq!(client.say(&first), DROP);
        for _ in 0..2 {
            assert_eq!(client.say(&first), DROP);
        }
        let again = segment(client.say(&first));
        assert_eq!(again.payload, segments[1].payload);
        assert_eq!(client.say(&first), DROP, "repeats are not counted any more");
        // Each acknowledgement of a part is answered with the next one.
        let partial = client.ack(client.length(), 4 * step);
        assert_eq!(segment(client.say(&partial)).payload, segments[4].payload);
        assert_eq!(client.say(&first), DROP, "an old one");
        assert_eq!(client.count(Counter::Resent), 2);
    }

    #[test]
    fn a_new_one_starts_the_count_anew() {
        let (mut client, segments) = Conversation::replied(settings(), 12_000);
        let step = segments[0].payload.len() as u32;
        for ack in [0, 0, step, step, step, 2 * step] {
            assert_eq!(client.say(&client.ack(client.length(), ack)), DROP);
        }
        assert_eq!(client.count(Counter::Resent), 0);
    }

    #[test]
    fn after_a_time_out_each_of_a_part_brings_the_next() {
        let (mut client, segments) = Conversation::replied(settings(), 12_000);
        let step = segments[0].payload.len() as u32;
        segment(client.say(&client.data()));
        for lost in [1, 3, 7] {
            let ack = client.ack(client.length(), lost * step);
            assert_eq!(segment(client.say(&ack)).payload, segments[lost as usize].payload);
        }
    }

    #[test]
    fn of_the_whole_reply_make_it_idle() {
        let (mut client, segments) = Conversation::replied(settings(), 100);
        let end = segments[0].payload.len() as u32;
        assert_eq!(client.say(&client.ack(client.length(), end)), DROP);
        assert_eq!(state(&client), Some(State::Idle));
    }

    #[test]
    fn of_a_reply_of_several_segments_bring_that_of_the_query_once() {
        for (settings, fin, after) in
            [(settings(), 0, State::Idle), (close_fin(), 1, State::Closing)]
        {
            let (mut client, segments) = Conversation::replied(settings, 4000);
            assert!(segments.iter().all(|s| s.ack == client.isn.wrapping_add(1)));
            let end = segments.iter().map(|s| s.payload.len() as u32).sum::<u32>();
            let ack = client.ack(client.length(), end + fin);
            let answer = segment(client.say(&ack));
            assert_eq!((answer.flags, answer.seq, answer.ack), (ACK, ack.ack, ack.seq));
            assert_eq!(client.say(&ack), DROP);
            assert_eq!(state(&client), Some(after));
        }
    }

    #[test]
    fn of_our_fin_remove_the_entry_when_the_clients_has_come() {
        let (mut client, segments) = Conversation::replied(close_fin(), 100);
        let end = segments[0].payload.len() as u32;
        assert_eq!(client.say(&client.ack(client.length(), end + 1)), DROP);
        assert_eq!(state(&client), Some(State::Closing));
        segment(client.say(&client.fin(client.length(), end)));
        assert_eq!(client.say(&client.ack(client.length() + 1, end + 1)), DROP);
        assert_eq!(client.flow(), None);
    }

    #[test]
    fn before_our_fin_send_it_again() {
        let (mut client, segments) = Conversation::replied(close_fin(), 100);
        let ack = client.ack(client.length(), segments[0].payload.len() as u32);
        for _ in 0..3 {
            assert_eq!(client.say(&ack), DROP);
        }
        let again = segment(client.say(&ack));
        assert_eq!((again.flags, again.seq, again.payload.len()), (FIN | ACK, ack.ack, 0));
    }
}

mod replies {
    use super::*;

    #[test]
    fn in_one_segment_acknowledge_the_query() {
        for ipv6 in [false, true] {
            for plain in [false, true] {
                let mut client = Conversation::new(settings());
                client = if ipv6 { client.over_ipv6() } else { client };
                client = if plain { client.plain() } else { client };
                client.shake_hands();
                client.say(&client.data());
                let message = reply(&client.at_server(), 500, 0);
                let (_, segments) = client.answer(500);
                let [segment] = &segments[..] else { panic!("{} segments", segments.len()) };
                assert_eq!(segment.payload, prefixed(&message));
                assert_eq!((segment.flags, segment.ack), (ACK | PSH, client.data().next()));
                assert_eq!(segment.seq, client.cookie.wrapping_add(1));
                assert_eq!(segment.window, if plain { 65_535 } else { 511 });
                assert_eq!(
                    segment.timestamps,
                    client.tsval.map(|next| (client.tsecr | 4096, next - 1))
                );
            }
        }
    }

    #[test]
    fn in_several_segments_fill_all_but_the_last() {
        let (client, segments) = Conversation::replied(settings(), 5000);
        let message = reply(&client.at_server(), 5000, 0);
        let lengths: Vec<_> = segments.iter().map(|s| s.payload.len()).collect();
        assert_eq!(lengths, [1448, 1448, 1448, 5002 - 3 * 1448]);
        let flags: Vec<_> = segments.iter().map(|s| s.flags).collect();
        assert_eq!(flags, [ACK, ACK, ACK, ACK | PSH]);
        let whole: Vec<u8> = segments.iter().flat_map(|s| s.payload.clone()).collect();
        assert_eq!(whole, prefixed(&message));
        assert!(segments.windows(2).all(|pair| pair[0].next() == pair[1].seq));
        assert_eq!(client.count(Counter::ReplySegments), 4);
    }

    #[test]
    fn carry_fin_on_the_last_segment_where_connections_are_closed() {
        let (client, segments) = Conversation::replied(close_fin(), 5000);
        let flags: Vec<_> = segments.iter().map(|s| s.flags).collect();
        assert_eq!(flags, [ACK, ACK, ACK, ACK | PSH | FIN]);
        assert_eq!(state(&client), Some(State::Closing));
    }

    #[test]
    fn lose_an_opt_record_that_was_added() {
        let mut client = Conversation::open(settings());
        client.query = query(7, "example.com", 1, None);
        client.say(&client.data());
        let plain = reply(&client.query[2..], 300, 0);
        let (_, segments) = client.answer(311);
        assert_eq!(segments[0].payload, prefixed(&plain));
    }

    /// Each reason for the kernel to answer in our place.
    #[test]
    fn that_are_not_ours_put_the_query_to_the_kernel() {
        let edns = query(7, "example.com", 1, Some(1232));
        let plain = query(7, "example.com", 1, None);
        type Case<'a> = (&'a [u8], fn(&mut Conversation, &mut Vec<u8>));
        let cases: [Case<'_>; 6] = [
            (&edns, |_, reply| reply[2] |= 2),
            (&edns, |client, _| {
                client.window = 0;
                client.say(&client.ack(client.length(), 0));
            }),
            (&edns, |_, reply| reply.resize(10 * 1448 - 1, 0)),
            (&plain, |_, reply| {
                let last = reply.len() - 1;
                reply[last] = 4;
                reply.extend([0; 4]);
            }),
            (&plain, |_, reply| reply[11] = 0),
            (&plain, |_, reply| {
                let at = reply.len() - 9;
                reply[at] = 42;
            }),
        ];
        for (i, (query, change)) in cases.into_iter().enumerate() {
            let mut client = Conversation::open(settings());
            client.query = query.to_vec();
            client.say(&client.data());
            let mut message = reply(&client.at_server(), 300, 0);
            change(&mut client, &mut message);
            let (verdict, out) = client.answer_with(&message);
            assert_eq!((verdict, out.len()), (ReplyVerdict::HandOff, 1), "case {i}");
            let again = Segment::read(&out[0]);
            assert_eq!(again.payload, query);
            let mut asked = client.data();
            asked.timestamps =
                Some((client.flow().expect("an entry").client_tsval, client.tsecr | 4096));
            assert_eq!(again, asked);
            assert_eq!(state(&client), Some(State::Slow));
            assert_eq!(client.say_bytes(&out[0]), hand_off(Reason::Reply));
            assert!(client.core.adopt(client.now, &out[0]).is_some());
            assert_eq!(client.flow(), None);
        }
    }

    #[test]
    fn of_just_the_most_segments_are_sent() {
        let (_, segments) = Conversation::replied(settings(), 10 * 1448 - 2);
        assert_eq!(segments.len(), 10);
    }

    #[test]
    fn that_come_again_are_dropped() {
        let mut client = Conversation::asked(settings());
        client.answer(100);
        assert_eq!(client.answer(100), (ReplyVerdict::Drop, Vec::new()));
        assert_eq!(client.count(Counter::ReplyRepeated), 1);
    }

    #[test]
    fn to_others_pass() {
        let mut client = Conversation::asked(settings());
        let message = reply(&client.at_server(), 100, 0);
        let mut other_id = message.clone();
        other_id[0] ^= 1;
        let mut no_reply = message.clone();
        no_reply[2] &= 0x7f;
        for message in [&other_id[..], &no_reply, &message[..11], &[]] {
            assert_eq!(client.answer_with(message).0, ReplyVerdict::Pass);
        }
        client.client.set_port(1);
        assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
        client.client.set_port(40_000);
        client.server.set_port(5353);
        assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
        client.server = "192.0.2.99:53".parse().expect("an address");
        assert_eq!(client.answer_with(&message).0, ReplyVerdict::Pass);
    }

    #[test]
    fn in_fragments_are_gathered() {
        for ipv6 in [false, true] {
            for mtu in [1500, 576] {
                let mut client = Conversation::new(settings());
                client = if ipv6 { client.over_ipv6() } else { client };
                client.shake_hands();
                client.say(&client.data());
                let message = reply(&client.at_server(), 5000, 0);
                let datagram =
                    Datagram { from: client.server, to: client.client, message: message.clone() };
                let parts = fragments(&datagram.packet(), mtu);
                let (last, first) = parts.split_last().expect("fragments");
                for part in first {
                    let verdict = client.core.on_reply(client.now, part, &mut Vec::new());
                    assert_eq!(verdict, ReplyVerdict::Drop);
                }
                let mut out = Vec::new();
                assert_eq!(client.core.on_reply(client.now, last, &mut out), ReplyVerdict::Sent);
                let payloads = out.iter().flat_map(|packet| Segment::read(packet).payload);
                assert_eq!(payloads.collect::<Vec<_>>(), prefixed(&message));
            }
        }
    }

    #[test]
    fn fragments_of_others_pass() {
        let mut client = Conversation::asked(settings());
        let mut message = reply(&client.at_server(), 5000, 0);
        message[0] ^= 1;
        let datagram = Datagram { from: client.server, to: client.client, message };
        for part in fragments(&datagram.packet(), 1500) {
            let verdict = client.core.on_reply(client.now, &part, &mut Vec::new());
            assert_eq!(verdict, ReplyVerdict::Pass);
        }
    }
}

/// "With `truncate_over = N`".
mod truncation {
    use super::*;

    fn truncated(query: &[u8], size: usize) -> (ReplyVerdict, Vec<Vec<u8>>, Vec<u8>) {
        let mut client = Conversation::new(Settings { truncate_over: 512, ..settings() });
        let message = reply(&query[2..], size, 0);
        let (verdict, out) = client.answer_with(&message);
        (verdict, out, message)
    }

    #[test]
    fn leaves_header_question_and_opt() {
        for edns in [None, Some(4096)] {
            let asked = query(7, "example.com", 1, edns);
            let (verdict, out, message) = truncated(&asked, 600);
            assert_eq!(verdict, ReplyVerdict::Truncated);
            let mut expected = asked[2..].to_vec();
            expected[2..4].copy_from_slice(&[message[2] | 2, message[3]]);
            if edns.is_some() {
                let at = expected.len() - 11;
                expected[at..].copy_from_slice(&message[message.len() - 11..]);
            }
            assert_eq!(Datagram::read(&out[0]).message, expected);
        }
    }

    #[test]
    fn lets_shorter_replies_pass() {
        let asked = query(7, "example.com", 1, None);
        assert_eq!(truncated(&asked, 512).0, ReplyVerdict::Pass);
        assert_eq!(truncated(&asked, 513).0, ReplyVerdict::Truncated);
    }

    #[test]
    fn of_a_fragmented_reply_takes_the_whole() {
        let mut client = Conversation::new(Settings { truncate_over: 1400, ..settings() });
        let message = reply(&query(7, "example.com", 1, None)[2..], 3000, 0);
        let datagram = Datagram { from: client.server, to: client.client, message };
        let mut verdicts = Vec::new();
        let mut out = Vec::new();
        for part in fragments(&datagram.packet(), 1500) {
            verdicts.push(client.core.on_reply(client.now, &part, &mut out));
        }
        assert_eq!(verdicts, [ReplyVerdict::Truncated, ReplyVerdict::Drop, ReplyVerdict::Drop]);
        assert_eq!(Datagram::read(&out[0]).message.len(), 29);
    }
}

mod adoption {
    use super::*;

    #[test]
    fn of_the_first_data_goes_by_the_cookie() {
        let mut client = Conversation::open(settings());
        let split = client.data_at(0, 0, &client.query.clone()[..1]);
        assert_eq!(client.say(&split), hand_off(Reason::Unusual));
        let adoption = client.core.adopt(client.now, &split.packet()).expect("adopted");
        assert_eq!((adoption.mss, adoption.wscale, adoption.sack), (1460, Some(9), true));
        assert_eq!(client.count(Counter::Adopted), 1);
        client.now.wall += Duration::from_secs(1000);
        assert_eq!(client.core.adopt(client.now, &split.packet()), None);
    }

    #[test]
    fn is_for_nothing_else() {
        let mut client = Conversation::open(settings());
        let rst = Segment { flags: RST, ..client.data() };
        for segment in
            [client.syn(), client.ack(0, 0), client.fin(0, 0), rst, client.data_at(9, 9, b"x")]
        {
            assert_eq!(client.core.adopt(client.now, &segment.packet()), None);
        }
        let mut client = Conversation::asked(settings());
        assert_eq!(client.core.adopt(client.now, &client.data().packet()), None, "with the server");
    }
}

mod time {
    use super::*;

    /// What is put out when nothing was seen for so long; nothing is a millisecond before.
    #[track_caller]
    fn after(client: &mut Conversation, seconds: u64) -> Vec<Segment> {
        let (flow, mut out) = (client.flow(), Vec::new());
        client.now.boot += Duration::from_secs(seconds) - Duration::from_millis(1);
        client.core.poll(client.now, &mut out);
        assert_eq!((client.flow(), out.len()), (flow, 0));
        client.now.boot += Duration::from_millis(1);
        client.core.poll(client.now, &mut out);
        assert_ne!(client.flow(), flow);
        out.iter().map(|packet| Segment::read(packet)).collect()
    }

    #[test]
    fn removes_entries_that_wait_for_others() {
        let cached = Conversation::open(Settings { syncache: true, ..settings() });
        let asked = Conversation::asked(settings());
        let mut slow = asked.clone();
        slow.answer(20_000);
        for mut client in [cached, asked, slow] {
            assert_eq!(after(&mut client, 3), []);
            assert_eq!(client.flow(), None);
            assert_eq!(client.count(Counter::Expired), 1);
        }
    }

    #[test]
    fn closes_idle_connections_and_keeps_them_until_their_cookie_is_dead() {
        let (replied, segments) = Conversation::replied(settings(), 100);
        let mut idle = replied.clone();
        idle.say(&idle.ack(idle.length(), segments[0].payload.len() as u32));
        let query_seq = replied.isn.wrapping_add(1);
        for (mut client, ack) in [(replied, query_seq), (idle, segments[0].ack)] {
            let fins = after(&mut client, 10);
            assert_eq!(fins.len(), 1);
            assert_eq!((fins[0].flags, fins[0].payload.len()), (FIN | ACK, 0));
            assert_eq!((fins[0].seq, fins[0].ack), (segments[0].next(), ack));
            assert_eq!(state(&client), Some(State::Closing));
            assert_eq!(after(&mut client, 64), []);
            assert_eq!(client.flow(), None);
        }
    }

    #[test]
    fn a_table_that_is_full_forgets_what_is_longest_unused() {
        let mut client = Conversation::new(settings());
        for port in 1..=65 {
            client.client.set_port(port);
            client.shake_hands();
            client.say(&client.data());
        }
        assert_eq!(client.core.flows().count(), 64);
        client.client.set_port(1);
        assert_eq!(client.flow(), None);
    }
}

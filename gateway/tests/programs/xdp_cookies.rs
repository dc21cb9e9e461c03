//! The XDP program's cookies, by `bpf_prog_run`: PROTOCOL.md, "The cookie". Needs root; prints SKIP
//! otherwise.

use crate::common::conversation::KEYS;
use crate::common::frames::*;
use crate::common::packets::Segment;
use crate::common::programs::{Programs, XDP_DROP, XDP_TX, boot_ns, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::settings;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// The hash of a cookie, from another implementation of SipHash-2-4.
fn cookie_hash(client: &Client<'_>, key: (u64, u64), slot: u32, class: u32) -> u64 {
    let mut message = Vec::new();
    message.extend(crate::common::programs::mapped(client.saying.client.ip()));
    message.extend(crate::common::programs::mapped(client.saying.server.ip()));
    message.extend(client.saying.client.port().to_be_bytes());
    message.extend(client.saying.server.port().to_be_bytes());
    for word in [client.saying.isn, slot, class] {
        message.extend(word.to_be_bytes());
    }
    let mut hasher = SipHasher24::new_with_keys(key.0, key.1);
    hasher.write(&message);
    hasher.finish()
}

#[test]
fn the_cookie_is_that_of_the_protocol() {
    let programs = programs!("the_cookie_is_that_of_the_protocol");
    let slot = 1_700_000_000 / 32;
    for mut client in Client::kinds(&programs) {
        for (i, mss) in [0, 87, 88, 255, 256, 536, 1219, 1220, 1399, 1460, 8959, 8960, 65_535]
            .into_iter()
            .enumerate()
        {
            client.saying.isn = 0x7531_0246u32.wrapping_mul(i as u32 + 1);
            let syn = Segment { mss: Some(mss), ..client.saying.syn() };
            let Came::Segment(answer) = client.say_packet(&syn.packet()) else {
                panic!("no answer")
            };
            let classes = [
                88, 256, 536, 1200, 1220, 1240, 1300, 1360, 1400, 1412, 1420, 1440, 1452, 1460,
                8940, 8960,
            ];
            let class = classes.iter().rposition(|&class| class <= mss).unwrap_or(0) as u32;
            let hash = cookie_hash(&client, (KEYS[0].k0, KEYS[0].k1), slot, class);
            let parity = (slot & 1) << 31;
            assert_eq!(answer.seq, parity | class << 27 | hash as u32 & 0x07ff_ffff);
            if let Some((tsval, _)) = answer.timestamps {
                let offer = u32::from(mss.clamp(88, 16_383)) << 18 | 9 << 14 | 1 << 13;
                assert_eq!(tsval, offer | (hash >> 32) as u32 & 0xfff);
            }
        }
    }
}

#[test]
fn a_cookie_is_right_in_its_slot_and_the_next() {
    let programs = programs!("a_cookie_is_right_in_its_slot_and_the_next");
    // Two seconds into a slot, with both values of the slot's bit.
    for start in [32 * 53_125_000u64 + 2, 32 * 53_125_001 + 2] {
        let at = |second: u64| settings {
            wall_offset_ns: second * 1_000_000_000 - boot_ns(),
            ..Programs::settings()
        };
        for client in Client::kinds(&programs) {
            programs.set(at(start));
            let client = client.open();
            for (second, right) in
                [(0, true), (27, true), (32, true), (59, true), (64, false), (96, false)]
            {
                programs.set(at(start + second));
                let counter = if right { Counter::HandshakeAck } else { Counter::UnknownAck };
                let ack = client.saying.ack(0, 0).packet();
                assert_eq!(counted(&programs, &[counter], || client.say_packet(&ack)), Came::Drop);
            }
            programs.set(at(start - 32));
            let ack = client.saying.ack(0, 0).packet();
            counted(&programs, &[Counter::UnknownAck], || client.say_packet(&ack));
        }
    }
}

#[test]
fn keys_rotate() {
    let programs = programs!("keys_rotate");
    for client in Client::kinds(&programs) {
        programs.set(Programs::settings());
        let client = client.open();
        let ack = client.saying.ack(0, 0).packet();
        let [now, before] = Programs::settings().keys;
        let next = narrows_gateway::kernel::types::cookie_key { k0: 91, k1: 92 };
        for (keys, counter) in [
            ([now, before], Counter::HandshakeAck),
            ([next, now], Counter::HandshakeAck),
            ([next, next], Counter::UnknownAck),
        ] {
            programs.set(settings { keys, ..Programs::settings() });
            counted(&programs, &[counter], || client.say_packet(&ack));
        }
    }
}

/// Every bit that the cookie contains or covers.
#[test]
fn a_forged_cookie_reaches_nobody() {
    let programs = programs!("a_forged_cookie_reaches_nobody");
    for client in Client::kinds(&programs) {
        let client = client.open();
        let right = client.saying.data();
        let mut forged = Vec::new();
        for bit in 0..32 {
            forged.push(Segment { ack: right.ack ^ 1 << bit, ..right.clone() });
            forged.push(Segment { seq: right.seq ^ 1 << bit, ..right.clone() });
        }
        forged.extend(right.timestamps.map(|(tsval, tsecr)| Segment {
            timestamps: Some((tsval, tsecr | HEARD)),
            ..right.clone()
        }));
        for bit in 0..16 {
            let mut from = right.from;
            from.set_port(from.port() ^ 1 << bit);
            forged.push(Segment { from, ..right.clone() });
        }
        for segment in forged {
            let heard = segment.timestamps.is_some_and(|(_, tsecr)| tsecr & HEARD != 0);
            let (verdict, _) = counted(&programs, &[Counter::UnknownData], || {
                programs.xdp(&client.frame(&segment.packet()))
            });
            assert_eq!(verdict, if heard { XDP_TX } else { XDP_DROP });
        }
        assert!(programs.flows().is_empty());
        let mut client = client;
        assert!(matches!(client.say(&right), Came::Query(_)), "the right cookie is accepted");
        programs.remove_flows();
    }
}

/// The client leaves out its timestamps, sends some that were not agreed on, or a box on the way
/// writes others. Only the MSS is known then.
#[test]
fn without_our_timestamp_the_query_is_served_without_options() {
    let programs = programs!("without_our_timestamp_the_query_is_served_without_options");
    for client in Client::kinds(&programs) {
        let client = client.open();
        let tsecr = client.saying.tsecr;
        let mut others = vec![None, Some((1, 0)), Some((1, tsecr ^ 1))];
        if client.saying.tsval.is_none() {
            others.push(Some((1, 2)));
        }
        for timestamps in others {
            let mut client = client.clone();
            let data = Segment { timestamps, ..client.saying.data() };
            let came = counted(&programs, &[Counter::Query], || client.say(&data));
            assert!(matches!(came, Came::Query(_)), "{timestamps:?}");
            let entry = client.flow().unwrap();
            assert_eq!((entry.flags & (TIMESTAMPS | SACK), entry.client_wscale), (0, 15));
            assert_eq!((entry.mss, entry.window), (1460, client.saying.window.into()));
            assert_eq!((entry.tsval, entry.client_tsval), (0, 0));
            programs.remove_flows();
        }
    }
    // A SYN cache knows what the client offered.
    programs.set(settings {
        syncache: 1,
        syncache_limit: 9,
        syncache_bucket_limit: 9,
        ..Programs::settings()
    });
    let mut client = Client::new(&programs, false, false).open();
    let data = Segment { timestamps: None, ..client.saying.data() };
    assert!(matches!(client.say(&data), Came::Query(_)));
    let entry = client.flow().unwrap();
    assert_eq!((entry.flags & TIMESTAMPS, entry.client_wscale), (TIMESTAMPS, 9));
    assert_eq!((entry.tsval, entry.client_tsval), (client.saying.tsecr | HEARD, 7000));
}

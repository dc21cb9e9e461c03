//! Frames that make no sense to the XDP program, by `bpf_prog_run`: cut anywhere, with false
//! headers, changed at random. Needs root; prints SKIP otherwise.

use crate::common::frames::*;
use crate::common::packets::{RST, Segment, query, with_checksums};
use crate::common::programs::{Programs, XDP_PASS, XDP_TX, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::settings;
use rand_core::Rng;

/// Frames that the program acts on, with the state that each of them needs.
fn valid_frames(client: &Client<'_>) -> Vec<Vec<u8>> {
    let say = &client.saying;
    let mut frames: Vec<_> = [
        say.syn(),
        say.ack(0, 0),
        say.data(),
        say.fin(0, 0),
        Segment { flags: RST, ..say.ack(0, 0) },
        say.data_at(0, 0, &query(3, "a.example", 1, None)),
        say.data_at(say.length(), 100, b"more"),
        say.ack(say.length(), 100),
        say.fin(say.length(), 100),
    ]
    .iter()
    .map(|segment| client.frame(&segment.packet()))
    .collect();
    let mut tagged = client.clone();
    tagged.tags = vec![[0x88, 0xa8, 0, 1], [0x81, 0, 0, 2]];
    frames.push(tagged.frame(&say.data().packet()));
    frames
}

/// A cut frame claims a length that it does not have. It passes unchanged, and nothing else
/// changes.
#[test]
fn every_truncation_of_a_valid_frame_passes_and_changes_nothing() {
    let programs = programs!("every_truncation_of_a_valid_frame_passes_and_changes_nothing");
    for client in Client::kinds(&programs) {
        let client = client.open();
        let with_entry = client.clone().replied(&reply_bytes(100), REPLIED, 0);
        for entry in [None, with_entry.flow()] {
            programs.remove_flows();
            if let Some(entry) = entry {
                programs.set_flow(&client.key(), &entry);
            }
            let (flows, head) = (programs.flows(), programs.ring_head());
            for frame in valid_frames(&client) {
                for length in 14..frame.len() {
                    let cut = &frame[..length];
                    let malformed = programs.count(Counter::Malformed);
                    assert_eq!(programs.xdp(cut), (XDP_PASS, cut.to_vec()), "{length} bytes");
                    // A frame that is cut within the tags shows nothing about its packet.
                    assert_eq!(programs.count(Counter::Malformed), malformed + 1, "{length} bytes");
                }
            }
            assert_eq!((programs.flows(), programs.ring_head()), (flows, head));
        }
    }
}

#[test]
fn headers_that_make_no_sense_pass_and_are_counted() {
    let programs = programs!("headers_that_make_no_sense_pass_and_are_counted");
    let v4 = Client::new(&programs, false, false);
    let v6 = Client::new(&programs, true, false);
    let change = |client: &Client<'_>, changes: &[(usize, u8)]| {
        let mut packet = client.saying.syn().packet();
        for &(at, value) in changes {
            packet[at] = value;
        }
        client.frame(&with_checksums(&packet))
    };
    let malformed = [
        change(&v4, &[(0, 0x44)]),
        change(&v4, &[(0, 0x55)]),
        change(&v4, &[(2, 0), (3, 19)]),
        change(&v4, &[(2, 0), (3, 39)]),
        change(&v4, &[(2, 9)]),
        change(&v4, &[(32, 0x40)]),
        change(&v4, &[(32, 0xf0)]),
        change(&v6, &[(0, 0x50)]),
        change(&v6, &[(5, 19)]),
        change(&v6, &[(4, 9)]),
        change(&v6, &[(52, 0x40)]),
        change(&v6, &[(52, 0xf0)]),
        // An extension header, by number, that is longer than the packet.
        change(&v6, &[(6, 0), (41, 200)]),
        change(&v6, &[(6, 44), (5, 7)]),
    ];
    // The header's checksum.
    let mut spoilt = v4.saying.syn().packet();
    spoilt[10] ^= 1;
    let spoilt = [v4.frame(&spoilt)];
    for frame in malformed.into_iter().chain(spoilt) {
        let (verdict, after) = counted(&programs, &[Counter::Malformed], || programs.xdp(&frame));
        assert_eq!((verdict, after), (XDP_PASS, frame));
    }
    let others = [
        change(&v4, &[(6, 0x20)]),
        change(&v4, &[(7, 1)]),
        change(&v4, &[(9, 17)]),
        change(&v4, &[(23, 54)]),
        change(&v4, &[(19, 54)]),
        change(&v4, &[(19, 54), (32, 0x40)]),
        change(&v6, &[(6, 44)]),
        change(&v6, &[(6, 51)]),
        change(&v6, &[(6, 58)]),
        change(&v6, &[(39, 54)]),
    ];
    for frame in others {
        let (verdict, after) = counted(&programs, &[], || programs.xdp(&frame));
        assert_eq!((verdict, after), (XDP_PASS, frame));
    }
    // Nobody sends as many as seven extension headers.
    let mut packet = v6.saying.syn().packet();
    for _ in 0..7 {
        let next = std::mem::replace(&mut packet[6], 60);
        packet.splice(40..40, [next, 0, 0, 0, 0, 0, 0, 0]);
        packet[5] += 8;
    }
    let frame = v6.frame(&packet);
    assert_eq!(counted(&programs, &[], || programs.xdp(&frame)), (XDP_PASS, frame));
}

/// Random changes to valid frames: each gets a verdict, and answers are packets with valid
/// checksums.
#[test]
fn no_frame_gets_the_program_to_send_nonsense() {
    let programs = programs!("no_frame_gets_the_program_to_send_nonsense");
    let mut random = <rand_pcg::Pcg64Mcg as rand_core::SeedableRng>::seed_from_u64(4);
    let mut answered = 0;
    for client in Client::kinds(&programs) {
        let client = client.open();
        let entry = client.clone().replied(&reply_bytes(3000), REPLIED, QUERY_UNACKED).flow();
        let frames = valid_frames(&client);
        for round in 0..4000 {
            if round % 2 == 0 {
                programs.set_flow(&client.key(), &entry.unwrap());
            } else {
                programs.remove_flows();
            }
            let mut frame = frames[random.next_u32() as usize % frames.len()].clone();
            for _ in 0..=random.next_u32() % 3 {
                let at = random.next_u32() as usize % frame.len();
                frame[at] = random.next_u32() as u8;
            }
            if random.next_u32() % 4 > 0 && frame[12..14] != [0x81, 0] {
                let packet = with_checksums(&frame[14..]);
                frame.splice(14.., packet);
            }
            if random.next_u32() % 4 == 0 {
                frame.truncate(14.max(random.next_u32() as usize % frame.len()));
            }
            if let (XDP_TX, after) = programs.xdp(&frame) {
                let link = match after[12..14] {
                    [0x81 | 0x88, _] if after[16] == 0x81 || after[16] == 0x88 => 22,
                    [0x81 | 0x88, _] => 18,
                    _ => 14,
                };
                Segment::read(&after[link..]);
                answered += 1;
            }
        }
    }
    assert!(answered > 500, "{answered} answers");
    assert_eq!(programs.count(Counter::XdpError), 0);
}

#[test]
fn what_went_to_a_group_passes() {
    let programs = programs!("what_went_to_a_group_passes");
    for client in Client::kinds(&programs) {
        for mut frame in valid_frames(&client) {
            frame[0] |= 1;
            assert_eq!(counted(&programs, &[], || programs.xdp(&frame)), (XDP_PASS, frame));
        }
    }
}

#[test]
fn inactive_is_as_if_not_there() {
    let programs = programs!("inactive_is_as_if_not_there");
    programs.set(settings { active: 0, ..Programs::settings() });
    for client in Client::kinds(&programs) {
        for frame in valid_frames(&client) {
            assert_eq!(counted(&programs, &[], || programs.xdp(&frame)), (XDP_PASS, frame));
        }
    }
}

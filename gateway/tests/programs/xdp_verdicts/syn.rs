//! PROTOCOL.md: SYNs, their options, and the answers to them.

use super::*;

#[test]
fn a_syn_is_answered_with_what_the_client_can_use() {
    let programs = programs!("a_syn_is_answered_with_what_the_client_can_use");
    for client in Client::kinds(&programs) {
        for (mss, wscale, sack) in [
            (Some(1460), Some(9), true),
            (Some(1460), Some(9), false),
            (Some(1460), None, true),
            (None, Some(0), true),
            (None, None, false),
        ] {
            let timestamps = client.saying.tsval.is_some();
            let syn = Segment { mss, wscale, sack, ..client.saying.syn() };
            let came = counted(&programs, &[Counter::Syn], || client.say_packet(&syn.packet()));
            let Came::Segment(answer) = came else { panic!("{came:?}") };
            assert_eq!(answer.flags, SYN | ACK);
            assert_eq!(answer.ack, syn.seq.wrapping_add(1));
            assert_eq!(answer.window, 65_535);
            assert_eq!(answer.mss, Some(if client.saying.server.is_ipv6() { 1440 } else { 1460 }));
            assert_eq!(answer.wscale, wscale.filter(|_| timestamps).map(|_| 7));
            assert_eq!(answer.sack, sack && timestamps);
            assert_eq!(answer.timestamps.map(|(_, tsecr)| tsecr), client.saying.tsval);
            assert!(answer.payload.is_empty());
        }
    }
    assert!(programs.flows().is_empty(), "no state");
}

#[test]
fn no_window_scale_is_agreed_on_that_the_kernel_would_refuse() {
    let programs = programs!("no_window_scale_is_agreed_on_that_the_kernel_would_refuse");
    programs.set(settings { window_scaling: 0, ..Programs::settings() });
    for client in Client::kinds(&programs) {
        let came = client.say_packet(&client.saying.syn().packet());
        let Came::Segment(answer) = came else { panic!("{came:?}") };
        assert_eq!(answer.wscale, None);
        let mut client = client.open();
        assert!(matches!(client.say(&client.saying.data()), Came::Query(_)));
        assert_eq!(client.flow().expect("an entry").client_wscale, 15);
    }
}

/// In the layout of Linux's `net/ipv4/tcp_output.c`, for those who compare bytes.
#[test]
fn the_options_of_a_syn_ack_are_laid_out_as_linux_does() {
    let programs = programs!("the_options_of_a_syn_ack_are_laid_out_as_linux_does");
    let client = Client::new(&programs, false, false);
    let (_, frame) = programs.xdp(&client.frame(&client.saying.syn().packet()));
    let options = &frame[14 + 20 + 20..];
    assert_eq!(
        options[..8],
        [2, 4, 1460u16.to_be_bytes()[0], 1460u16.to_be_bytes()[1], 4, 2, 8, 10]
    );
    assert_eq!(options[16..], [1, 3, 3, 7]);
    let syn = Segment { sack: false, wscale: None, ..client.saying.syn() };
    let (_, frame) = programs.xdp(&client.frame(&syn.packet()));
    let options = &frame[14 + 20 + 20..];
    assert_eq!(options[4..8], [1, 1, 8, 10]);
    assert_eq!(options.len(), 16);
}

#[test]
fn what_else_a_syn_says_is_not_looked_at() {
    let programs = programs!("what_else_a_syn_says_is_not_looked_at");
    let client = Client::new(&programs, false, false);
    let plain = client.say_packet(&client.saying.syn().packet());
    // PSH, URG, ECE, CWR, and data.
    for flags in [8, 32, 64, 128, 0xe8] {
        let mut packet = client.saying.syn().packet();
        packet[33] |= flags;
        assert_eq!(client.say_packet(&with_checksums(&packet)), plain);
    }
    let syn = Segment { payload: b"early".to_vec(), ..client.saying.syn() };
    let mut packet = syn.packet();
    assert_eq!(client.say_packet(&packet), plain);
    *packet.last_mut().unwrap() ^= 1;
    assert_eq!(
        counted(&programs, &[Counter::BadChecksum], || client.say_packet(&packet)),
        Came::Drop
    );
}

#[test]
fn a_syn_with_ack_fin_or_rst_is_dropped() {
    let programs = programs!("a_syn_with_ack_fin_or_rst_is_dropped");
    for client in Client::kinds(&programs) {
        for flags in [ACK, FIN, RST, ACK | FIN, ACK | RST, FIN | RST, ACK | FIN | RST] {
            let syn = Segment { flags: SYN | flags, ..client.saying.syn() };
            let came =
                counted(&programs, &[Counter::OddFlags], || client.say_packet(&syn.packet()));
            assert_eq!(came, Came::Drop);
        }
        for flags in [0, FIN, PSH, FIN | PSH] {
            let segment = Segment { flags, ..client.saying.data() };
            let came =
                counted(&programs, &[Counter::OddFlags], || client.say_packet(&segment.packet()));
            assert_eq!(came, Came::Drop, "a segment without ACK");
        }
    }
}

/// RFC 9293, section 3.1, and how Linux handles invalid options.
#[test]
fn options_are_read_as_linux_reads_them() {
    let programs = programs!("options_are_read_as_linux_reads_them");
    let client = Client::new(&programs, false, false);
    // MSS, window scale, SACK and timestamps as they were read.
    type Read = (u16, Option<u8>, bool, bool);
    let ts = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0];
    let with_ts = |before: &[u8]| [before, &ts].concat();
    let cases: [(Vec<u8>, Read); 12] = [
        (with_ts(&[3, 3, 20, 2, 4, 5, 0xb4]), (1460, Some(14), false, true)),
        (with_ts(&[4, 2]), (536, None, true, true)),
        // With a wrong length: skipped.
        (with_ts(&[2, 3, 5, 2, 4, 2, 0x18]), (536, None, false, true)),
        (with_ts(&[3, 2, 4, 3, 1]), (536, None, false, true)),
        (with_ts(&[254, 6, 1, 2, 3, 4]), (536, None, false, true)),
        // With length 0 or 1, or beyond the end: reading stops.
        (with_ts(&[254, 0]), (536, None, false, false)),
        (with_ts(&[254, 1]), (536, None, false, false)),
        (vec![2, 4, 5, 0xb4, 8, 10, 0, 0], (1460, None, false, false)),
        (vec![2, 4, 5, 0xb4, 1, 1, 1, 8], (1460, None, false, false)),
        // An end of options before the rest.
        (with_ts(&[0]), (536, None, false, false)),
        // The last one counts.
        (with_ts(&[2, 4, 5, 0, 2, 4, 4, 0]), (1024, None, false, true)),
        (with_ts(&[2, 4, 0, 0]), (88, None, false, true)),
    ];
    for (mut options, (mss, wscale, sack, timestamps)) in cases {
        options.resize(options.len().next_multiple_of(4), 0);
        let mut packet = Segment {
            mss: None,
            wscale: None,
            sack: false,
            timestamps: None,
            ..client.saying.syn()
        }
        .packet();
        packet.extend(&options);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[32] = ((20 + options.len()) / 4 * 16) as u8;
        let came = client.say_packet(&with_checksums(&packet));
        let Came::Segment(answer) = came else { panic!("{came:?}") };
        assert_eq!(answer.timestamps.is_some(), timestamps, "{options:?}");
        assert_eq!((answer.wscale, answer.sack), (wscale.map(|_| 7), sack), "{options:?}");
        if let Some((tsval, _)) = answer.timestamps {
            assert_eq!((tsval >> 18) as u16, mss, "{options:?}");
            assert_eq!((tsval >> 14 & 15) as u8, wscale.unwrap_or(15), "{options:?}");
        } else {
            let class = if mss == 1460 { 13 } else { 2 };
            assert_eq!(answer.seq >> 27 & 15, class, "{options:?}");
        }
    }
}

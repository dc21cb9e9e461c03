//! PROTOCOL.md, "Keep-alive probes".

use super::*;

/// A probe, without data and with one byte, `sent` bytes behind the SYN and with `ack` bytes of the
/// reply acknowledged.
fn probes(client: &Client<'_>, sent: u32, ack: u32) -> [Segment; 2] {
    [&b""[..], b"?"].map(|garbage| Segment {
        payload: garbage.to_vec(),
        ..client.saying.ack(sent.wrapping_sub(1), ack)
    })
}

/// Checks what both probes bring: the flags, our sequence number behind the SYN/ACK, what is
/// acknowledged behind the SYN, and the state afterwards.
#[track_caller]
fn answered(client: &Client<'_>, sent: u32, ack: u32, expected: (u8, u32, u32, Option<u8>)) {
    let before = client.flow();
    for probe in probes(client, sent, ack) {
        let mut client = client.clone();
        if let Some(before) = before {
            client.programs.set_flow(&client.key(), &before);
        }
        let came = counted(client.programs, &[Counter::Probe], || client.say(&probe));
        let (flags, seq, acked, state) = expected;
        let mut answer = Segment { flags, ..client.segment(seq, acked) };
        if before.is_none() {
            answer.timestamps = answer.timestamps.map(|(tsval, tsecr)| (tsval & !HEARD, tsecr));
        }
        assert_eq!(came, Came::Segment(answer));
        let after = client.flow();
        assert_eq!(after.map(|flow| flow.state), state);
        assert_eq!(after.map(|flow| flow.seen_ms), before.map(|flow| flow.seen_ms));
    }
}

#[test]
fn keep_alive_probes_are_answered_in_every_state() {
    let programs = programs!("keep_alive_probes_are_answered_in_every_state");
    let reply = reply_bytes(100);
    for client in Client::kinds(&programs) {
        let open = client.clone().open();
        answered(&open, 0, 0, (ACK, 0, 0, None));
        let length = client.saying.length();
        let client = || {
            programs.remove_flows();
            client.clone()
        };
        let asked = client().asked();
        answered(&asked, length, 0, (ACK, 0, 0, Some(QUERY)));
        let mut slow = asked.flow().unwrap();
        slow.state = SLOW;
        programs.set_flow(&asked.key(), &slow);
        answered(&asked, length, 0, (ACK, 0, 0, Some(SLOW)));
        for flags in [0, QUERY_UNACKED] {
            let replied = client().replied(&reply, REPLIED, flags);
            answered(&replied, length, 60, (ACK, 100, 0, Some(REPLIED)));
            answered(&replied, length, 100, (ACK, 100, length, Some(IDLE)));
            let idle = client().replied(&reply, IDLE, 0);
            answered(&idle, length, 100, (ACK, 100, length, Some(IDLE)));
            let closing = client().replied(&reply, CLOSING, flags);
            answered(&closing, length, 60, (ACK, 101, 0, Some(CLOSING)));
            answered(&closing, length, 100, (ACK | FIN, 100, length, Some(CLOSING)));
            answered(&closing, length, 101, (ACK, 101, length, Some(CLOSING)));
        }
    }
}

#[test]
fn what_shows_no_cookie_is_no_probe() {
    let programs = programs!("what_shows_no_cookie_is_no_probe");
    for client in Client::kinds(&programs) {
        let mut client = client.open();
        for (sent, ack) in [(0, 1), (0, u32::MAX), (2, 0), (u32::MAX, 0)] {
            for (probe, counter) in
                probes(&client, sent, ack).iter().zip([Counter::UnknownAck, Counter::UnknownData])
            {
                let came = counted(&programs, &[counter], || client.say(probe));
                assert_eq!(came, Came::Drop);
            }
        }
        for segment in [client.saying.data_at(u32::MAX, 0, b"??"), client.saying.fin(u32::MAX, 0)] {
            assert_eq!(client.say(&segment), Came::Drop);
        }
        let mut wrong = probes(&client, 0, 0)[0].packet();
        *wrong.last_mut().unwrap() ^= 1;
        let came = counted(&programs, &[Counter::BadChecksum], || client.say_packet(&wrong));
        assert_eq!(came, Came::Drop);
    }
}

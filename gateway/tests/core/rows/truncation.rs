//! PROTOCOL.md, "With `truncate_over = N`".

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

/// RFC 6891, section 6.1.1: a reply to a query with OPT has an OPT. If the reply's own is not
/// found, it gets a new one of `size` bytes (section 6.1.2: root, 41, size; no extended RCODE,
/// version or DO).
fn new_opt(size: u16) -> Vec<u8> {
    let [high, low] = size.to_be_bytes();
    vec![0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]
}

#[test]
fn has_a_new_opt_if_that_of_the_reply_has_options_or_is_not_last() {
    let asked = query(7, "example.com", 1, Some(4096));
    let question = asked.len() - 2 - 11;
    // RFC 7873, section 4: a cookie of 8 and 16 bytes.
    let mut cookie = reply(&asked[2..], 600, 0);
    let at = cookie.len() - 1;
    cookie[at] = 28;
    cookie.extend([0, 10, 0, 24]);
    cookie.extend(1..=24);
    // An address of some name behind OPT.
    let mut address = reply(&asked[2..], 600, 0);
    address[11] = 2;
    address.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    for message in [cookie, address] {
        let mut client = Conversation::new(Settings { truncate_over: 512, ..settings() });
        let (verdict, out) = client.answer_with(&message);
        assert_eq!(verdict, ReplyVerdict::Truncated);
        let mut expected = message[..question].to_vec();
        expected[2] |= 2;
        expected[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
        expected.extend(new_opt(512));
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
    for edns in [None, Some(4096)] {
        let mut client = Conversation::new(Settings { truncate_over: 1400, ..settings() });
        let message = reply(&query(7, "example.com", 1, edns)[2..], 3000, 0);
        let mut expected = message[..29].to_vec();
        expected[2] |= 2;
        expected[7] = 0;
        if edns.is_some() {
            expected.extend(new_opt(1400));
        }
        let datagram = Datagram { from: client.server, to: client.client, message };
        let mut verdicts = Vec::new();
        let mut out = Vec::new();
        for part in fragments(&datagram.packet(), 1500) {
            verdicts.push(client.core.on_reply(client.now, &part, &mut out));
        }
        assert_eq!(verdicts, [ReplyVerdict::Truncated, ReplyVerdict::Drop, ReplyVerdict::Drop]);
        assert_eq!(Datagram::read(&out[0]).message, expected);
    }
}

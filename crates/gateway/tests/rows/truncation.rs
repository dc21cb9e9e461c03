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

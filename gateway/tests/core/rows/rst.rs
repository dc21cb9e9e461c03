//! PROTOCOL.md, a RST.

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

#[test]
fn with_a_wrong_checksum_removes_nothing() {
    let mut client = Conversation::asked(settings());
    let entry = client.flow();
    let mut packet = Segment { flags: RST, ..client.ack(5, 0) }.packet();
    packet[27] ^= 1; // the sequence number's last byte: still in range
    assert_eq!(client.say_bytes(&packet), DROP);
    assert_eq!((client.flow(), client.count(Counter::BadChecksum)), (entry, 1));
}

//! PROTOCOL.md, "Adoption": what the kernel takes over.

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

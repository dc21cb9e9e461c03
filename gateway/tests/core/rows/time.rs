//! PROTOCOL.md, "Time": when entries are removed.

use super::*;

/// Returns what the core sends when nothing was seen for this long. A millisecond earlier, it sends
/// nothing.
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
    let mut slow = Conversation::asked(settings());
    slow.answer(20_000);
    let mut kernel = slow.clone();
    assert!(kernel.core.adopt(kernel.now, &kernel.data().packet()).is_some());
    for (mut client, seconds) in [(cached, 3), (slow, 64), (kernel, 3)] {
        assert_eq!(after(&mut client, seconds), []);
        assert_eq!(client.flow(), None);
        assert_eq!(client.count(Counter::Expired), 1);
    }
}

/// A client with a long timeout of its own still gets its answer, from the kernel's TCP.
#[test]
fn leaves_queries_without_an_answer_to_the_kernel() {
    let mut client = Conversation::asked(settings());
    assert_eq!(after(&mut client, 3), []);
    assert_eq!(state(&client), Some(State::Slow));
    assert_eq!(client.say(&client.data()), hand_off(Reason::Left));
}

#[test]
fn closes_idle_connections_and_keeps_them_until_their_cookie_is_dead() {
    let (replied, segments) = Conversation::replied(settings(), 100);
    let mut idle = replied.clone();
    idle.say(&idle.ack(idle.length(), segments[0].payload.len() as u32));
    let query_seq = replied.isn.wrapping_add(1);
    for (mut client, ack) in [(replied, query_seq), (idle, segments[0].ack)] {
        let fins = after(&mut client, super::idle().as_secs());
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

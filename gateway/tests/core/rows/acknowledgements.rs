//! PROTOCOL.md, "Acknowledgements": acknowledgements and FINs without data.

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
    for (seq, ack) in [(length + 1, 0), (u32::MAX - 1, 0), (0, end + 2), (0, u32::MAX)] {
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
    assert_eq!(client.say(&first), DROP, "repeated acknowledgements no longer count");
    // Each acknowledgement of a part brings the next part.
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
fn after_a_timeout_each_of_a_part_brings_the_next() {
    let (mut client, segments) = Conversation::replied(settings(), 12_000);
    let step = segments[0].payload.len() as u32;
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
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
    for (settings, fin, after) in [(settings(), 0, State::Idle), (close_fin(), 1, State::Closing)] {
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

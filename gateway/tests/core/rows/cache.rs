//! PROTOCOL.md, `syncache`: a SYN makes an entry.

use super::*;

fn cached() -> Settings {
    Settings { syncache: true, syncache_limit: 3, syncache_bucket_limit: 2, ..settings() }
}

#[test]
fn a_syn_makes_an_entry() {
    let client = Conversation::open(cached());
    let flow = client.flow().expect("an entry");
    assert_eq!(flow.state, State::Syn);
    assert_eq!(flow.query_seq, client.isn.wrapping_add(1));
    assert_eq!(flow.server_seq, client.cookie.wrapping_add(1));
}

#[test]
fn the_handshakes_ack_is_dropped() {
    let mut client = Conversation::open(cached());
    let ack = client.ack(0, 0);
    dropped(&mut client, &ack, Counter::HandshakeAck);
}

#[test]
fn the_query_needs_no_cookie() {
    let mut client = Conversation::open(cached());
    client.now.wall += Duration::from_secs(1000);
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
    assert_eq!(state(&client), Some(State::Query));
}

#[test]
fn where_it_is_full_there_is_the_cookie_alone() {
    let mut client = Conversation::new(cached());
    for port in 1..=10 {
        client.client.set_port(port);
        segment(client.say(&client.syn()));
    }
    assert_eq!(client.core.flows().count(), 3);
    assert_eq!(client.count(Counter::SynCacheFull), 7);
    client.shake_hands();
    assert_eq!(state(&client), None);
    assert!(matches!(client.say(&client.data()), Said::Query(_)));
}

#[test]
fn a_bucket_has_its_own_limit() {
    let mut client = Conversation::new(Settings { hashsize: 1, ..cached() });
    for port in 1..=3 {
        client.client.set_port(port);
        segment(client.say(&client.syn()));
    }
    assert_eq!(client.core.flows().count(), 2);
}

#[test]
fn entries_that_go_make_room() {
    let mut client = Conversation::new(cached());
    for round in 0..4 {
        for port in 1..=3 {
            client.client.set_port(100 * round + port);
            client.shake_hands();
        }
        assert_eq!(client.count(Counter::SynCacheFull), 0, "round {round}");
        // Two entries get a query. One of these expires, and so does the third entry.
        client.client.set_port(100 * round + 3);
        assert!(matches!(client.say(&client.data()), Said::Query(_)));
        for seconds in [31, 64] {
            client.now.boot += Duration::from_secs(seconds);
            client.core.poll(client.now, &mut Vec::new());
        }
        assert_eq!(client.core.flows().count(), 0);
    }
}

#[test]
fn something_else_on_its_entry_is_dropped() {
    let mut client = Conversation::open(cached());
    let ahead = client.data_at(5, 0, b"hello");
    dropped(&mut client, &ahead, Counter::Strange);
}

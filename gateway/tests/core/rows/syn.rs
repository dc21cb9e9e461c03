//! PROTOCOL.md, a SYN: answered with a cookie and no state.

use super::*;

#[test]
fn is_answered_with_a_cookie_and_no_state() {
    let mut client = Conversation::new(settings());
    let answer = client.shake_hands();
    assert_eq!((answer.flags, answer.window), (SYN | ACK, 65_535));
    assert_eq!(answer.ack, client.isn.wrapping_add(1));
    assert_eq!((answer.mss, answer.wscale, answer.sack), (Some(1460), Some(7), true));
    assert_eq!(answer.timestamps.map(|(_, echo)| echo), Some(7000));
    assert_eq!(client.core.flows().count(), 0);
    assert_eq!(client.count(Counter::Syn), 1);
}

#[test]
fn without_timestamps_offers_nothing_but_an_mss() {
    let mut client = Conversation::new(settings()).plain();
    client.wscale = Some(7);
    let mut syn = client.syn();
    syn.sack = true;
    let answer = segment(client.say(&syn));
    assert_eq!((answer.mss, answer.wscale, answer.sack), (Some(1460), None, false));
    assert_eq!(answer.timestamps, None);
}

#[test]
fn with_ipv6_is_answered_alike() {
    let answer = Conversation::new(settings()).over_ipv6().shake_hands();
    assert_eq!(answer.mss, Some(1440));
}

#[test]
fn on_an_entry_is_answered_and_the_entry_stays() {
    let mut client = Conversation::asked(settings());
    let entry = client.flow();
    segment(client.say(&client.syn()));
    assert_eq!(client.flow(), entry);
}

#[test]
fn with_another_of_these_is_dropped() {
    for flags in [SYN | ACK, SYN | FIN, SYN | RST, SYN | ACK | FIN | RST] {
        let mut client = Conversation::new(settings());
        let odd = Segment { flags, ..client.syn() };
        dropped(&mut client, &odd, Counter::OddFlags);
    }
}

#[test]
fn of_a_client_beyond_the_share_is_passed() {
    // fmix32 (MurmurHash3) of FNV-1a in 32 bits (draft-eastlake-fnv) over the address as 16 bytes,
    // computed in Python.
    for (address, hash) in [("198.51.100.7", 0xd6aa_8729_u32), ("2001:db8:7::7", 0x5c8e_cac4)] {
        for (share, served) in [(hash, false), (hash + 1, true), (0, false), (u32::MAX, true)] {
            let mut client = Conversation::new(Settings { share, ..settings() });
            if address.contains(':') {
                client = client.over_ipv6();
            }
            client.client.set_ip(address.parse().expect("an address"));
            let syn = client.syn();
            if served {
                segment(client.say(&syn));
            } else {
                assert_eq!(client.say(&syn), PASS);
                assert_eq!(client.count(Counter::SynAside), 1);
            }
        }
    }
}

#[test]
fn above_the_rate_of_its_source_is_dropped() {
    let settings =
        Settings { syn_interval_ns: 1_000_000_000, syn_burst_ns: 2_000_000_000, ..settings() };
    let mut client = Conversation::new(settings);
    for _ in 0..3 {
        segment(client.say(&client.syn()));
    }
    let syn = client.syn();
    dropped(&mut client, &syn, Counter::SynLimited);
    client.client.set_ip([198, 51, 100, 8].into());
    segment(client.say(&client.syn()));
}

/// A client that was switched off, or a router's port that is used again: the kernel ends its old
/// connection.
#[test]
fn on_a_connection_of_the_kernels_passes() {
    for beside in [Beside::Connection, Beside::TimeWait] {
        let mut client = Conversation::new(settings());
        client.beside = beside;
        assert_eq!(client.say(&client.syn()), PASS);
        assert_eq!((client.count(Counter::KernelHasIt), client.count(Counter::Syn)), (1, 0));
    }
}

/// The kernel refuses if nobody listens, and serves a listener whose connections only the kernel
/// can begin.
#[test]
fn to_a_server_that_is_not_there_passes() {
    let mut client = Conversation::new(settings());
    client.beside = Beside::NoServer;
    assert_eq!(client.say(&client.syn()), PASS);
    assert_eq!((client.count(Counter::SynPassed), client.count(Counter::Syn)), (1, 0));
    client.beside = Beside::Server;
    segment(client.say(&client.syn()));
}

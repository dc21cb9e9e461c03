//! The XDP program's limits, by `bpf_prog_run`: the rates of each source, and the sizes of the SYN
//! cache. Needs root; prints SKIP otherwise.

use crate::common::frames::*;
use crate::common::packets::{ACK, FIN, RST, Segment};
use crate::common::programs::{Programs, counted, programs};
use narrows_gateway::core::{Counter, in_share};
use narrows_gateway::kernel::types::settings;

#[test]
fn a_share_of_the_clients_is_served() {
    let programs = programs!("a_share_of_the_clients_is_served");
    // fmix32 (MurmurHash3) of FNV-1a in 32 bits (draft-eastlake-fnv) over 198.51.100.7 and
    // 2001:db8:7::7 as 16 bytes, computed in Python.
    for (ipv6, hash) in [(false, 0xd6aa_8729_u32), (true, 0x5c8e_cac4)] {
        let client = Client::new(&programs, ipv6, false);
        let syn = client.saying.syn().packet();
        for share in [hash, 0] {
            programs.set(settings { share, ..Programs::settings() });
            let came = counted(&programs, &[Counter::SynAside], || client.say_packet(&syn));
            assert_eq!(came, Came::Pass);
        }
        for share in [hash + 1, u32::MAX] {
            programs.set(settings { share, ..Programs::settings() });
            assert!(matches!(client.say_packet(&syn), Came::Segment(_)));
        }
        // Clients that were answered continue, whatever the share is now.
        let mut client = client.open();
        programs.set(settings { share: 0, ..Programs::settings() });
        let data = client.saying.data();
        assert!(matches!(client.say(&data), Came::Query(_)));
    }
}

/// The program serves the clients whom `status --address` names, and no whole block of a network.
#[test]
fn neighbours_are_served_as_status_says() {
    let programs = programs!("neighbours_are_served_as_status_says");
    let share = u32::MAX / 2;
    programs.set(settings { share, ..Programs::settings() });
    for ipv6 in [false, true] {
        let mut client = Client::new(&programs, ipv6, false);
        let network = if ipv6 { "2001:db8:7::" } else { "198.51.100." };
        let mut served = 0;
        for host in 0..64 {
            let address = format!("{network}{host}").parse().unwrap();
            client.saying.client.set_ip(address);
            let answered = client.say_packet(&client.saying.syn().packet()) != Came::Pass;
            assert_eq!(answered, in_share(address, share), "{address}");
            served += u32::from(answered);
        }
        // The expected number is 32, with a standard deviation of 4.
        assert!((12..=52).contains(&served), "{served} of 64");
    }
}

#[test]
fn sources_have_rates_of_their_own() {
    let programs = programs!("sources_have_rates_of_their_own");
    // The rate is one per minute, and three more may come at once.
    let minute = 60_000_000_000;
    let slow = settings {
        syn_interval_ns: minute,
        syn_burst_ns: 2 * minute + minute / 2,
        query_interval_ns: minute,
        query_burst_ns: minute / 2,
        ..Programs::settings()
    };
    programs.set(slow);
    for ipv6 in [false, true] {
        let client = Client::new(&programs, ipv6, false);
        let syn = client.saying.syn().packet();
        for _ in 0..3 {
            assert!(matches!(client.say_packet(&syn), Came::Segment(_)));
        }
        // The limit also covers other ports and, in IPv6, other addresses of the same network.
        let mut same = client.clone();
        same.saying.client.set_port(1024);
        if ipv6 {
            same.saying.client.set_ip("2001:db8:7::ffff:1".parse().unwrap());
        }
        for client in [&client, &same] {
            let syn = client.saying.syn().packet();
            let came = counted(&programs, &[Counter::SynLimited], || client.say_packet(&syn));
            assert_eq!(came, Came::Drop);
        }
        let mut other = client.clone();
        let address = if ipv6 { "2001:db8:7:1::7" } else { "198.51.100.8" };
        other.saying.client.set_ip(address.parse().unwrap());
        let mut other = other.open();
        let data = other.saying.data();
        assert!(matches!(other.say(&data), Came::Query(_)));
        // A second connection's query, from the same source.
        other.saying.client.set_port(5353);
        let mut other = other.open();
        let (data, head) = (other.saying.data(), programs.ring_head());
        let came = counted(&programs, &[Counter::QueryLimited], || other.say(&data));
        assert_eq!(came, Came::Pass);
        assert_eq!((other.flow().map(|_| ()), programs.ring_head()), (None, head));
        // Neither what goes to the kernel nor what only closes counts as a query.
        let half = other.saying.data_at(0, 0, &other.saying.query[..9]);
        assert_eq!(other.say(&half), Came::Pass);
    }
    assert_eq!(programs.sources().len(), 4);
}

/// SYN-cache mode: 4 buckets of 2 entries each, 5 entries in all.
#[test]
fn a_syn_cache_is_limited_in_all_and_in_each_bucket() {
    let programs = programs!("a_syn_cache_is_limited_in_all_and_in_each_bucket");
    let cache = settings {
        syncache: 1,
        syncache_limit: 5,
        syncache_bucket_limit: 2,
        ..Programs::settings()
    };
    programs.set(cache);
    let mut clients = Vec::new();
    for port in 2000..2100 {
        let mut client = Client::new(&programs, port % 2 == 0, port % 3 == 0);
        client.saying.client.set_port(port);
        let client = client.open();
        clients.push(client);
        let (buckets, all) = programs.syncache();
        assert_eq!(buckets.iter().sum::<u32>(), all);
        assert!(all <= 5 && buckets.iter().all(|&bucket| bucket <= 2), "{buckets:?}");
        let entries = clients.iter().filter(|client| client.flow().is_some()).count();
        assert_eq!(entries as u32, all);
    }
    assert_eq!(programs.syncache().1, 5);
    assert_eq!(programs.count(Counter::SynCacheFull), 95);
    let kept: Vec<_> = clients.iter().filter(|client| client.flow().is_some()).cloned().collect();
    for (left, mut client) in (0..5).rev().zip(kept) {
        // The same SYN again makes no second entry.
        client.saying.isn = 77;
        let mut client = client.open();
        let entry = client.flow().unwrap();
        assert_eq!((entry.state, entry.query_seq), (1, 78));
        assert_eq!((entry.server_seq, entry.tsval), (client.starts().1, client.saying.tsecr));
        let ack = client.saying.ack(0, 0);
        assert_eq!(counted(&programs, &[Counter::HandshakeAck], || client.say(&ack)), Came::Drop);
        match left {
            // The cookie, which is a day old here, is not checked.
            4 => {
                let day = 86_400_000_000_000;
                let now = Programs::settings().wall_offset_ns;
                programs.set(settings { wall_offset_ns: now + day, ..cache });
                assert!(matches!(client.say(&client.saying.data()), Came::Query(_)));
                assert_eq!(client.flow().unwrap().state, QUERY);
                programs.set(cache);
            }
            3 => assert!(matches!(client.say(&client.saying.data()), Came::Query(_))),
            2 => {
                let came = client.say(&client.saying.fin(0, 0));
                assert!(matches!(came, Came::Segment(segment) if segment.flags == FIN | ACK));
                assert_eq!(client.flow().map(|_| ()), None);
            }
            1 => {
                let reset = Segment { flags: RST, ..client.saying.ack(0, 0) };
                assert_eq!(client.say(&reset), Came::Drop);
            }
            _ => assert_eq!(client.say(&client.saying.data_at(0, 0, b"\x00\x20")), Came::Pass),
        }
        assert_eq!(programs.syncache().1, left, "it has left the cache");
    }
    // A client that found no room can only use its cookie.
    let mut client = clients.into_iter().find(|client| client.flow().is_none()).unwrap();
    assert!(matches!(client.say(&client.saying.data()), Came::Query(_)));
}

/// A server's rate limit leaves queries over UDP unanswered. The client's next ones go over TCP at
/// once, and no longer wait for `patience`.
#[test]
fn a_source_whose_queries_stay_unanswered_goes_over_tcp() {
    let programs = programs!("a_source_whose_queries_stay_unanswered_goes_over_tcp");
    // A rate that nobody here reaches, and half a second of it at once.
    let rate = settings {
        patience_us: 0,
        query_interval_ns: 1,
        query_burst_ns: 500_000_000,
        ..Programs::settings()
    };
    programs.set(rate);
    for ipv6 in [false, true] {
        let mut silent = 0;
        for port in 3000..3010 {
            let mut client = Client::new(&programs, ipv6, false);
            client.saying.client.set_port(port);
            let mut client = client.open();
            let data = client.saying.data();
            let limited = programs.count(Counter::QueryLimited);
            if client.say(&data) == Came::Pass {
                assert_eq!(programs.count(Counter::QueryLimited), limited + 1);
                continue;
            }
            silent += 1;
            let came = counted(&programs, &[Counter::ToKernelSilent], || client.say(&data));
            assert_eq!(came, Came::Pass);
        }
        // Each costs a tenth of a second; the test may take as long as two of them.
        assert!((6..=8).contains(&silent), "{silent}");
    }
}

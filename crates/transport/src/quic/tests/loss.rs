//! Losses, marks, and the acknowledgements that show them.

use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// RFC 9002, 6.2.2: without a sample the round trip counts as 333 ms. The probe comes after three
/// of them, and the next one after twice as long (6.2.1).
#[test]
fn a_lost_hello_comes_again_after_a_second() {
    let mut line = Line::new(Config::default(), false);
    line.loses[0] = vec![0, 1, 2];
    line.ask(60, 800);
    let sent = line.sent(0);
    // Two probes each time (6.2.4).
    let times: Vec<Time> = sent.iter().take(4).map(|&(at, _)| at).collect();
    assert_eq!(times, [at(0), at(999), at(999), at(999 + 1998)]);
    assert_eq!(line.opened, Some(at(3 * 999 + 100)));
}

/// RFC 9002, 6.2.1: no packet follows the last one, so a probe finds out.
#[test]
fn a_lost_query_comes_again_after_a_probe_timeout() {
    let mut line = Line::new(Config::default(), false);
    let mut without = Line::new(Config::default(), false);
    without.ask(60, 800);
    let is_query = |bytes: u32| (89..200).contains(&bytes);
    let query = without.sent(0).iter().position(|&(_, bytes)| is_query(bytes));
    line.loses[0] = vec![query.expect("it was sent")];
    line.ask(60, 800);
    let sent = line.sent(0);
    let queries: Vec<Time> =
        sent.iter().filter(|&&(_, bytes)| is_query(bytes)).map(|&(at, _)| at).collect();
    assert_eq!(queries[0], at(100));
    // There is one sample of 100 ms, and half of it is the variation; the peer's delay is 25 ms.
    assert_eq!(queries[1], at(100 + 100 + 4 * 50 + 25));
    assert!(line.answered_at().is_some());
}

/// quinn-proto 0.11: a probe without new data is a PING. Its acknowledgement shows that the query is
/// lost, so the query leaves a round trip after the probe.
#[test]
fn behind_quinns_probes_a_lost_query_waits_for_the_acknowledgement_of_a_probe() {
    let config = Config { probes: Probes::Quinn, ..Config::default() };
    let mut without = Line::new(config, false);
    without.ask(60, 800);
    let is_query = |bytes: u32| (89..200).contains(&bytes);
    let query = without.sent(0).iter().position(|&(_, bytes)| is_query(bytes));
    let mut line = Line::new(config, false);
    line.loses[0] = vec![query.expect("it was sent")];
    line.ask(60, 800);
    let sent = line.sent(0);
    let queries: Vec<Time> =
        sent.iter().filter(|&&(_, bytes)| is_query(bytes)).map(|&(at, _)| at).collect();
    let probe_at = at(100 + 100 + 4 * 50 + 25);
    assert!(sent.iter().any(|&(at, bytes)| at == probe_at && bytes < 89), "{sent:?}");
    assert_eq!(queries[..2], [at(100), probe_at + DELAY * 2]);
    assert_eq!(line.answered_at(), Some(probe_at + DELAY * 4));
}

/// RFC 9002, 6.2.4: without new data, the second probe carries different data from the first, so if
/// both packets of a reply were lost, both are repeated at once.
#[test]
fn two_probes_carry_different_data() {
    let mut clean = Line::new(Config::default(), false);
    clean.ask(60, 2_000);
    let is_reply = |&(sent, bytes): &(Time, u32)| sent >= at(150) && bytes > 500;
    let reply = clean.sent(1).iter().position(is_reply).expect("a reply");
    let mut line = Line::new(Config::default(), false);
    line.loses[1] = vec![reply, reply + 1];
    line.ask(60, 2_000);
    let sent: Vec<_> = line.sent(1).into_iter().filter(is_reply).collect();
    let lengths = |sent: &[(Time, u32)]| sent.iter().map(|&(_, bytes)| bytes).collect::<Vec<_>>();
    assert_eq!(lengths(&sent[..2]), [1200, sent[1].1]);
    // After four samples of 100 ms, the variation is 27/64 of half of that; the client's delay is
    // 25 ms.
    let probe_at = at(150) + Span::from_us((100_000 + 4 * 50_000 * 27 / 64) + 25_000);
    assert_eq!(sent[2].0, probe_at);
    assert_eq!(sent[3].0, probe_at);
    assert!(sent[2].1.abs_diff(sent[0].1) < 20 && sent[3].1.abs_diff(sent[1].1) < 20, "{sent:?}");
    assert_eq!(line.answered_at(), Some(probe_at + DELAY));
}

/// 6.2.4: a probe also carries what is in flight under other keys. A query that is lost together
/// with Finished, or with the hello, is therefore answered a round trip after the probe.
#[test]
fn probes_carry_what_is_in_flight_under_other_keys() {
    let server = Server { certificate: 400, ..SERVER };
    let mut line = Line::with(Config::default(), server, false);
    line.loses[0] = vec![1, 2];
    line.ask(60, 800);
    let [.., lost, probe] = line.sent(0)[..4] else { panic!("{:?}", line.sent(0)) };
    // The client has one sample of 100 ms; acknowledgements of Handshake packets are not delayed.
    assert_eq!((lost.0, probe.0), (at(100), at(100 + 100 + 4 * 50)));
    let probe_at = probe.0;
    assert_eq!(line.answered_at(), Some(probe_at + DELAY * 2));
    let mut line = Line::new(Config::default(), true);
    line.loses[0] = vec![0];
    line.ends[0].write(0, 60);
    let mut answered = false;
    line.run(at(3_000), |line| {
        if !answered && line.whole.iter().any(|&(_, side, _)| side == 1) {
            answered = true;
            line.ends[1].write(0, 800);
            line.flush(1);
        }
    });
    assert_eq!(line.answered_at(), Some(at(999 + 100)));
}

/// RFC 9002, 5.2 and 7.6: after persistent congestion, the minimum round trip is the newest one.
#[test]
fn persistent_congestion_forgets_the_least_round_trip() {
    let mut clean = Line::new(Config::default(), false);
    clean.ask(60, 30_000);
    let first = clean.sent(1).iter().position(|&(sent, _)| sent >= at(150)).expect("a reply");
    let mut line = Line::new(Config::default(), false);
    // The first window, three timeouts with two probes each, and two acknowledgements of the
    // client's probes.
    line.loses[1] = (first..first + 10 + 6 + 2).collect();
    let mut after = None;
    let answer = |line: &mut Line| {
        assert_eq!(line.ends[1].least_round_trip(), Some(Span::from_ms(100)));
        line.delay = Span::from_ms(80);
        line.ends[1].write(0, 30_000);
    };
    line.talk(Some(60), answer, |line| {
        let window = line.ends[1].window();
        if line.is_asked() && after.is_none() && window == 2 * 1200 {
            after = Some(line.ends[1].least_round_trip());
        }
    });
    assert_eq!(after, Some(Some(Span::from_ms(160))));
    assert!(line.answered_at().is_some());
}

/// RFC 9000, 13.2.4: an end that only acknowledges keeps no record of that. It asks now and then
/// whether the other end has the acknowledgements, so these stay short however much is lost.
#[test]
fn acknowledgements_stay_short_and_few() {
    let mut random = Random(1);
    let mut line = Line::new(Config::default(), false);
    line.loses[1] = (10..3_000).filter(|_| random.uniform() < 0.1).collect();
    let mut kept = 0;
    let answer = |line: &mut Line| line.ends[1].write(0, 1_000_000);
    line.talk(Some(60), answer, |line| {
        kept = kept.max(line.ends[0].packets_kept());
    });
    assert!(line.answered_at().is_some());
    let acks: Vec<u32> =
        line.sent(0).into_iter().filter(|&(sent, _)| sent > at(300)).map(|(_, b)| b).collect();
    assert!(acks.len() > 200, "{}", acks.len());
    assert!(kept < 50, "{kept}");
    // Header, tag, and a handful of ranges of two or three bytes.
    let longest = acks.iter().max().expect("there are some");
    assert!(*longest < 80, "{longest}");
}

/// RFC 9002, 6.1.1: a packet counts as lost when the third one after it is acknowledged, so one
/// loss among many packets costs a round trip.
#[test]
fn a_loss_among_many_is_found_by_what_comes_behind() {
    let mut clean = Line::new(Config::default(), false);
    clean.ask(60, 9_000);
    let mut line = Line::new(Config::default(), false);
    let first = clean.sent(1).iter().position(|&(sent, _)| sent >= at(150)).expect("a reply");
    line.loses[1] = vec![first + 1];
    line.ask(60, 9_000);
    let [clean, lossy] = [&clean, &line].map(|line| line.answered_at().expect("an answer"));
    assert_eq!(clean, at(200));
    assert_eq!(lossy, at(300));
}

/// RFC 9000, 13.2.1 and 13.2.2: every second packet is acknowledged at once, a lone one after 25
/// ms.
#[test]
fn acknowledgements_wait_for_a_second_packet() {
    let mut line = Line::new(Config::default(), false);
    line.ask(60, 4_000);
    let late: Vec<Time> =
        line.sent(0).iter().map(|&(at, _)| at).filter(|&sent| sent >= at(200)).collect();
    // Tickets and four packets of reply come at 200 ms.
    assert_eq!(late, [at(200), at(200), at(225)]);
    let mut line = Line::new(Config::default(), false);
    line.ask(60, 800);
    let late: Vec<Time> =
        line.sent(0).iter().map(|&(at, _)| at).filter(|&sent| sent >= at(200)).collect();
    assert!(!late.is_empty());
    assert!(late.iter().all(|&sent| sent == at(200) || sent == at(225)), "{late:?}");
}

/// RFC 9002, 7.1: a mark halves the window as a loss does, and nothing is retransmitted. This also
/// holds if the end that counts marks sends no ECN-capable packets itself (RFC 9000, 13.4.1).
#[test]
fn marks_are_counted_and_halve_the_window() {
    let config = Config { ecn: true, ..Config::default() };
    let ask = |client: Config, marks: &[usize]| {
        let messages = Tls::new(CLIENT, SERVER, false).messages([60, 60]);
        let end = |is_client, configs| Endpoint::new(Time::ZERO, is_client, configs, messages);
        let mut line = Line::between([end(true, [client, config]), end(false, [config, client])]);
        line.marks[1] = marks.to_vec();
        line.ask(60, 60_000);
        line
    };
    let clean = ask(config, &[]);
    assert_eq!(clean.windows.iter().filter(|pair| pair[1] < pair[0]).count(), 0);
    let first = clean.sent(1).iter().position(|&(sent, _)| sent >= at(150)).expect("a reply");
    for client in [config, Config::default()] {
        let line = ask(client, &[first]);
        let falls: Vec<_> = line.windows.iter().filter(|pair| pair[1] < pair[0]).collect();
        assert_eq!(falls.len(), 1, "{falls:?}");
        assert_eq!(falls[0][1], falls[0][0] / 2);
        let bytes = |line: &Line| line.sent(1).iter().map(|&(_, bytes)| bytes).sum::<u32>();
        assert!(bytes(&line).abs_diff(bytes(&clean)) < 300);
        assert!(line.answered_at() > clean.answered_at());
    }
}

/// Whatever is lost, everything arrives in the end, and packets are never longer than allowed.
#[test]
fn whatever_is_lost_comes_in_the_end() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut line = Line::new(Config::default(), false);
        for loses in &mut line.loses {
            *loses = (0..60).filter(|_| random.uniform() < 0.25).collect();
        }
        line.ask(200, 5_000);
        assert!(line.answered_at().is_some(), "{seed}: {:?} {:?}", line.loses, line.left);
        assert!(line.left.iter().all(|left| left.bytes <= 1200));
    }
}

/// The same with early data, and with replies of many windows.
#[test]
fn nothing_stalls_for_long() {
    for (seed, early, reply) in
        (0..200).flat_map(|seed| [(seed, false, 30_000), (seed, true, 30_000), (seed, true, 100)])
    {
        let mut random = Random(seed);
        let mut line = Line::new(Config::default(), early);
        for loses in &mut line.loses {
            *loses = (0..300).filter(|_| random.uniform() < 0.15).collect();
        }
        if early {
            line.ends[0].write(0, 60);
        }
        let query = (!early).then_some(60);
        line.talk(query, |line| line.ends[1].write(0, reply), |_| ());
        let answered = line.answered_at();
        // RFC 9002, 6.2: the first probe comes after 999 ms, each further one after twice as long;
        // here there are at most four.
        let most = at(999 * (1 + 2 + 4 + 8));
        assert!(answered.is_some_and(|at| at <= most), "{seed} {early} {reply}: {answered:?}");
    }
}

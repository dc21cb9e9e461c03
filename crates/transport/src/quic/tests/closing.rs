//! How connections end.

use super::*;
use alloc::vec;

/// RFC 9000, 10.1: both ends forget a silent connection without sending anything.
#[test]
fn silence_ends_a_connection() {
    let config = Config { idle_timeout: Span::from_secs(2), ..Config::default() };
    let mut line = Line::new(config, false);
    line.ask(60, 800);
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::Silence); 2]);
    assert!(line.left.iter().all(|left| left.at < at(400)));
}

#[test]
fn an_end_that_closes_says_so() {
    let mut line = Line::new(Config::default(), false);
    line.run(at(400), |_| ());
    line.ends[0].close();
    line.run(at(1_000), |_| ());
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::Here), Some(End::There)]);
}

/// Everything that a server has written before it closes reaches the client, even if it is lost at
/// first. Only then does the server announce that it closes.
#[test]
fn a_server_closes_behind_its_last_reply() {
    let mut clean = Line::new(Config::default(), false);
    clean.ask(60, 800);
    let reply = clean.sent(1).iter().position(|&(_, bytes)| (800..900).contains(&bytes));
    let reply = reply.expect("it was sent");
    for loses in [vec![], vec![reply], vec![reply, reply + 1]] {
        let mut line = Line::new(Config::default(), false);
        line.loses[1].clone_from(&loses);
        let answer = |line: &mut Line| {
            line.ends[1].write(0, 800);
            line.ends[1].close();
        };
        line.talk(Some(60), answer, |_| ());
        let found = line.answered_at();
        assert_eq!(found.is_some_and(|found| found == at(200)), loses.is_empty(), "{found:?}");
        assert!(found.is_some());
        assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::There), Some(End::Here)]);
    }
}

/// RFC 9000, 10.2.3: a client that cannot read 1-RTT yet still learns of the close. This holds if
/// part of the server's flight is lost, and if the limit of bytes holds back the rest and the close
/// with it.
#[test]
fn a_server_that_closes_early_is_heard() {
    for (certificate, lost) in [(1800, vec![1]), (9000, vec![]), (9000, vec![0])] {
        let server = Server { certificate, ..SERVER };
        let mut line = Line::with(Config::default(), server, false);
        line.loses[1].clone_from(&lost);
        line.run(at(60), |_| ());
        line.ends[1].abort();
        line.run(at(5_000), |_| ());
        assert_eq!(line.opened, None);
        let ends = line.ends.each_ref().map(Endpoint::end);
        assert_eq!(ends, [Some(End::There), Some(End::Here)], "{certificate} {lost:?}");
    }
}

/// An end that aborts sends none of what it has written.
#[test]
fn an_end_that_aborts_drops_what_it_has_written() {
    let mut line = Line::new(Config::default(), false);
    line.run(at(400), |_| ());
    line.ends[1].write(1, 800);
    line.ends[1].abort();
    line.run(at(1_000), |_| ());
    assert_eq!(line.answered_at(), None);
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::There), Some(End::Here)]);
}

//! Two ends with a line between them that loses the datagrams that a test names.

use narrows_units::{Span, Time};

use super::config::Config;
use super::endpoint::{End, Endpoint};
use super::frames::{Datagram, Level};
use crate::random::Random;
use crate::transport::tls::{Client, Server, Tls};

/// The one-way delay.
pub(super) const DELAY: Span = Span::from_ms(50);

const CLIENT: Client = Client {
    hello: 225,
    pads_hello: false,
    key_share: 32,
    alpn: 3,
    apart: false,
    resume: true,
    early_data: true,
    close_notify: false,
};
pub(super) const SERVER: Server = Server {
    certificate: 1800,
    signature: 71,
    hash: 32,
    groups: 0,
    alpn: true,
    ticket: 255,
    tickets: 2,
    tickets_resumed: 1,
    tickets_apart: false,
    early_data: true,
    write: None,
    close_notify: false,
    service: Span::ZERO,
};

/// A datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    at: Time,
    side: usize,
    bytes: u32,
}

pub(super) struct Line {
    now: Time,
    /// The one-way delay.
    delay: Span,
    ends: [Endpoint; 2],
    on_way: Vec<(Time, usize, Datagram, bool)>,
    left: Vec<Left>,
    /// The length of each end's first packet.
    first: [Option<u32>; 2],
    /// The longest datagram that the line takes.
    takes: u32,
    /// The datagrams of each end that are lost, counted from zero.
    pub(super) loses: [Vec<usize>; 2],
    /// The datagrams of each end that are marked.
    marks: [Vec<usize>; 2],
    /// The streams that are complete: when, at which end, which stream.
    whole: Vec<(Time, usize, u64)>,
    opened: Option<Time>,
    /// The server's congestion window before and after each datagram that reached it.
    windows: Vec<[u64; 2]>,
}

impl Line {
    pub(super) fn new(config: Config, resumed: bool) -> Self {
        Self::with(config, SERVER, resumed)
    }

    pub(super) fn with(config: Config, server: Server, resumed: bool) -> Self {
        let tls = Tls::new(CLIENT, server, resumed);
        let messages = tls.messages([60, 60]);
        let end = |is_client| Endpoint::new(Time::ZERO, is_client, [config; 2], messages);
        Self::between([end(true), end(false)])
    }

    fn between(ends: [Endpoint; 2]) -> Self {
        Self {
            now: Time::ZERO,
            delay: DELAY,
            ends,
            on_way: Vec::new(),
            left: Vec::new(),
            first: [None; 2],
            takes: u32::MAX,
            loses: Default::default(),
            marks: Default::default(),
            whole: Vec::new(),
            opened: None,
            windows: Vec::new(),
        }
    }

    /// Sends what an end has to send, and reads the streams that are complete.
    fn flush(&mut self, side: usize) {
        while let Some((stream, _)) = self.ends[side].next_whole() {
            self.whole.push((self.now, side, stream));
        }
        while let Some(datagram) = self.ends[side].poll_transmit(self.now) {
            let number = self.left.iter().filter(|left| left.side == side).count();
            self.left.push(Left { at: self.now, side, bytes: datagram.bytes() });
            self.first[side].get_or_insert(datagram.packets[0].bytes);
            if datagram.bytes() <= self.takes && !self.loses[side].contains(&number) {
                let marked = self.marks[side].contains(&number);
                self.on_way.push((self.now + self.delay, 1 - side, datagram, marked));
            }
        }
    }

    /// Lets time pass. Calls `act` each time that something has happened.
    fn run(&mut self, until: Time, mut act: impl FnMut(&mut Self)) {
        self.flush(0);
        self.flush(1);
        loop {
            let landing = self.on_way.iter().map(|&(at, ..)| at).min();
            let timers = self.ends.iter().filter_map(Endpoint::next_timeout).min();
            let next = [landing, timers].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= until) else { return };
            self.now = self.now.max(next);
            if landing.is_some_and(|at| at <= self.now) {
                let place = self.on_way.iter().position(|&(at, ..)| at <= self.now);
                let (_, side, datagram, marked) =
                    self.on_way.remove(place.expect("something lands now"));
                let before = self.ends[1].window();
                self.ends[side].handle_datagram(self.now, &datagram, marked);
                self.windows.push([before, self.ends[1].window()]);
                self.flush(side);
            } else {
                for side in 0..2 {
                    if self.ends[side].next_timeout().is_some_and(|at| at <= self.now) {
                        self.ends[side].handle_timeout(self.now);
                        self.flush(side);
                    }
                }
            }
            if self.opened.is_none() && self.ends[0].is_open() {
                self.opened = Some(self.now);
            }
            act(self);
        }
    }

    /// Lets a client ask as soon as it may, and a server answer at once, until nothing more
    /// happens.
    pub(super) fn ask(&mut self, query: u64, reply: u64) {
        self.talk(Some(query), |line| line.ends[1].write(0, reply), |_| ());
    }

    /// Lets a client ask as soon as it may, and a server do `answer` when it is asked. Calls `act`
    /// each time that something has happened.
    fn talk(
        &mut self,
        mut query: Option<u64>,
        answer: impl FnOnce(&mut Self),
        mut act: impl FnMut(&mut Self),
    ) {
        let mut answer = Some(answer);
        self.run(at(200_000), |line| {
            if line.ends[0].is_open()
                && let Some(bytes) = query.take()
            {
                line.ends[0].write(0, bytes);
                line.flush(0);
            }
            if line.is_asked()
                && let Some(answer) = answer.take()
            {
                answer(line);
                line.flush(1);
            }
            act(line);
        });
    }

    fn is_asked(&self) -> bool {
        self.whole.iter().any(|&(_, side, _)| side == 1)
    }

    pub(super) fn answered_at(&self) -> Option<Time> {
        self.whole.iter().find(|&&(_, side, _)| side == 0).map(|&(at, ..)| at)
    }

    fn sent(&self, side: usize) -> Vec<(Time, u32)> {
        let of_side = self.left.iter().filter(|left| left.side == side);
        of_side.map(|left| (left.at, left.bytes)).collect()
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// RFC 9000, 14.1: datagrams with ack-eliciting Initial packets have 1200 bytes.
#[test]
fn the_handshake_takes_a_round_trip_and_full_datagrams() {
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.ask(60, 800);
    assert_eq!(line.opened, Some(at(100)));
    assert_eq!(line.answered_at(), Some(at(200)));
    assert_eq!(line.sent(0)[0], (at(0), 1200));
    let flight: Vec<u32> =
        line.sent(1).iter().filter(|(sent, _)| *sent == at(50)).map(|&(_, bytes)| bytes).collect();
    assert_eq!(flight[0], 1200);
    assert_eq!(flight.len(), 2);
    // A header of one byte and the ID, number, type, ID of the stream, length, tag.
    let query =
        line.sent(0).iter().map(|&(_, bytes)| bytes).find(|&b| b == 1 + 8 + 1 + 3 + 60 + 16);
    assert!(query.is_some(), "{:?}", line.sent(0));
}

/// RFC 9000, 14.3 and 14.4: once the handshake is confirmed, padded PINGs find out what the path
/// takes. The window does not shrink when they are lost.
#[test]
fn longer_datagrams_are_found() {
    for (takes, longest) in [(1200, 1200), (1372, 1372), (1452, 1452), (9000, 1472)] {
        let config = Config { search_to: Some(1472), ..Config::RECOMMENDED };
        let mut line = Line::new(config, false);
        line.takes = takes;
        line.run(at(20_000), |_| ());
        let confirmed = at(150);
        let probes: Vec<u32> = line
            .sent(1)
            .into_iter()
            .filter(|&(sent, bytes)| sent >= confirmed && bytes > 1200)
            .map(|(_, bytes)| bytes)
            .collect();
        assert_eq!(probes[0], 1472, "{takes}");
        assert!(line.ends[1].window() >= 12_000, "{takes}");
        // A reply of many datagrams uses what was found.
        let before = line.left.len();
        line.ends[0].write(0, 60);
        line.run(at(20_100), |_| ());
        line.ends[1].write(0, 10_000);
        line.run(at(20_500), |_| ());
        assert!(line.answered_at().is_some(), "{takes}");
        let found = line.left[before..].iter().map(|left| left.bytes).max();
        assert!(found.is_some_and(|found| found <= longest && longest - found <= 20), "{found:?}");
    }
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.run(at(20_000), |_| ());
    assert!(line.left.iter().all(|left| left.bytes <= 1200));
}

/// RFC 9000, 8.1: until the address is validated, a server sends at most three times what arrived.
#[test]
fn a_server_sends_three_times_what_came() {
    let mut line = Line::with(Config::RECOMMENDED, Server { certificate: 9000, ..SERVER }, false);
    line.run(at(99), |_| ());
    assert_eq!(line.sent(1).iter().map(|&(_, bytes)| bytes).sum::<u32>(), 3600);
    // The acknowledgement at 100 ms allows the rest.
    line.run(at(400), |_| ());
    assert_eq!(line.opened, Some(at(200)));
}

/// RFC 9000, 8.1, counts bytes: longer datagrams do not delay a flight that fits its round trip,
/// and an end that is held back uses all that it may send.
#[test]
fn the_limit_counts_bytes_whatever_the_payload_is() {
    for payload in [1200, 1232, 1419, 1801, 3601, 9000] {
        let config = Config { payload, ..Config::RECOMMENDED };
        let mut line = Line::with(config, Server { certificate: 2800, ..SERVER }, false);
        line.run(at(400), |_| ());
        assert_eq!(line.opened, Some(at(100)), "{payload}");
        let mut line = Line::with(config, Server { certificate: 9000, ..SERVER }, false);
        line.run(at(99), |_| ());
        assert_eq!(line.sent(1).iter().map(|&(_, bytes)| bytes).sum::<u32>(), 3600, "{payload}");
        line.run(at(400), |_| ());
        assert_eq!(line.opened, Some(at(200)), "{payload}");
    }
}

/// A server that may send only little stays silent, and goes on when the client's next bytes
/// arrive. Whatever is lost, no timer runs forever.
#[test]
fn a_server_that_is_held_back_waits() {
    for (seed, payload) in (0..50).flat_map(|seed| [1200, 1232, 3500, 9000].map(|p| (seed, p))) {
        let mut random = Random::new(seed, "losses");
        let config = Config { payload, ..Config::RECOMMENDED };
        for early in [false, true] {
            let mut line = Line::with(config, Server { certificate: 12_000, ..SERVER }, early);
            for loses in &mut line.loses {
                *loses = (0..40).filter(|_| random.uniform() < 0.2).collect();
            }
            line.ask(60, 5_000);
            assert!(line.answered_at().is_some(), "{seed} {payload}: {:?}", line.left);
            assert!(line.left.iter().all(|left| left.bytes <= payload.into()));
        }
    }
}

/// RFC 9002, 6.2.2: without a sample the round trip counts as 333 ms. The probe comes after three
/// of them, and the next one after twice as long (6.2.1).
#[test]
fn a_lost_hello_comes_again_after_a_second() {
    let mut line = Line::new(Config::RECOMMENDED, false);
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
    let mut line = Line::new(Config::RECOMMENDED, false);
    let mut without = Line::new(Config::RECOMMENDED, false);
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

/// RFC 9002, 6.2.4: without new data, the second probe carries different data from the first, so if
/// both packets of a reply were lost, both are repeated at once.
#[test]
fn two_probes_carry_different_data() {
    let mut clean = Line::new(Config::RECOMMENDED, false);
    clean.ask(60, 2_000);
    let is_reply = |&(sent, bytes): &(Time, u32)| sent >= at(150) && bytes > 500;
    let reply = clean.sent(1).iter().position(is_reply).expect("a reply");
    let mut line = Line::new(Config::RECOMMENDED, false);
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
    let mut line = Line::with(Config::RECOMMENDED, server, false);
    line.loses[0] = vec![1, 2];
    line.ask(60, 800);
    let [.., lost, probe] = line.sent(0)[..4] else { panic!("{:?}", line.sent(0)) };
    // The client has one sample of 100 ms; acknowledgements of Handshake packets are not delayed.
    assert_eq!((lost.0, probe.0), (at(100), at(100 + 100 + 4 * 50)));
    let probe_at = probe.0;
    assert_eq!(line.answered_at(), Some(probe_at + DELAY * 2));
    let mut line = Line::new(Config::RECOMMENDED, true);
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
    let mut clean = Line::new(Config::RECOMMENDED, false);
    clean.ask(60, 30_000);
    let first = clean.sent(1).iter().position(|&(sent, _)| sent >= at(150)).expect("a reply");
    let mut line = Line::new(Config::RECOMMENDED, false);
    // The first window, three time-outs with two probes each, and two acknowledgements of the client's probes.
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
    let mut random = Random::new(1, "losses");
    let mut line = Line::new(Config::RECOMMENDED, false);
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

/// RFC 9001, 4: the signature of a full handshake takes time, in which the server sends nothing. A
/// resumed session saves this time.
#[test]
fn a_server_works_on_its_answer() {
    let server = Server { service: Span::from_ms(30), ..SERVER };
    for (resumed, opened) in [(false, 130), (true, 100)] {
        let mut line = Line::with(Config::RECOMMENDED, server, resumed);
        line.ask(60, 800);
        assert_eq!(line.opened, Some(at(opened)));
        assert_eq!(line.sent(1)[0].0, at(opened - 50));
    }
    // An end that has to close meanwhile does not wait for its own answer.
    let mut line = Line::with(Config::RECOMMENDED, server, false);
    line.run(at(60), |_| ());
    line.ends[1].abort();
    line.run(at(5_000), |_| ());
    assert_eq!(line.sent(1).len(), 1);
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::There), Some(End::Here)]);
}

/// RFC 9002, 6.1.1: a packet counts as lost when the third one after it is acknowledged, so one
/// loss among many packets costs a round trip.
#[test]
fn a_loss_among_many_is_found_by_what_comes_behind() {
    let mut clean = Line::new(Config::RECOMMENDED, false);
    clean.ask(60, 9_000);
    let mut line = Line::new(Config::RECOMMENDED, false);
    let first = clean.sent(1).iter().position(|&(sent, _)| sent >= at(150)).expect("a reply");
    line.loses[1] = vec![first + 1];
    line.ask(60, 9_000);
    let [clean, lossy] = [&clean, &line].map(|line| line.answered_at().expect("an answer"));
    assert_eq!(clean, at(200));
    assert_eq!(lossy, at(300));
}

/// RFC 9001, 4.6: the query is in the first flight.
#[test]
fn early_data_go_with_the_hello() {
    let mut line = Line::new(Config::RECOMMENDED, true);
    line.ends[0].write(0, 60);
    let mut answered = false;
    line.run(at(1_000), |line| {
        if !answered && line.whole.iter().any(|&(_, side, _)| side == 1) {
            answered = true;
            line.ends[1].write(0, 800);
            line.flush(1);
        }
    });
    assert_eq!(line.whole[0], (at(50), 1, 0));
    assert_eq!(line.answered_at(), Some(at(100)));
}

/// RFC 9000, 13.2.1 and 13.2.2: every second packet is acknowledged at once, a lone one after 25
/// ms.
#[test]
fn acknowledgements_wait_for_a_second_packet() {
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.ask(60, 4_000);
    let late: Vec<Time> =
        line.sent(0).iter().map(|&(at, _)| at).filter(|&sent| sent >= at(200)).collect();
    // Tickets and four packets of reply come at 200 ms.
    assert_eq!(late, [at(200), at(200), at(225)]);
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.ask(60, 800);
    let late: Vec<Time> =
        line.sent(0).iter().map(|&(at, _)| at).filter(|&sent| sent >= at(200)).collect();
    assert!(!late.is_empty());
    assert!(late.iter().all(|&sent| sent == at(200) || sent == at(225)), "{late:?}");
}

/// RFC 9000, 10.1: both ends forget a silent connection without sending anything.
#[test]
fn silence_ends_a_connection() {
    let config = Config { idle_timeout: Span::from_secs(2), ..Config::RECOMMENDED };
    let mut line = Line::new(config, false);
    line.ask(60, 800);
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::Silence); 2]);
    assert!(line.left.iter().all(|left| left.at < at(400)));
}

#[test]
fn an_end_that_closes_says_so() {
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.run(at(400), |_| ());
    line.ends[0].close();
    line.run(at(1_000), |_| ());
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::Here), Some(End::There)]);
}

/// Everything that a server has written before it closes reaches the client, even if it is lost at
/// first. Only then does the server announce that it closes.
#[test]
fn a_server_closes_behind_its_last_reply() {
    let mut clean = Line::new(Config::RECOMMENDED, false);
    clean.ask(60, 800);
    let reply = clean.sent(1).iter().position(|&(_, bytes)| (800..900).contains(&bytes));
    let reply = reply.expect("it was sent");
    for loses in [vec![], vec![reply], vec![reply, reply + 1]] {
        let mut line = Line::new(Config::RECOMMENDED, false);
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
        let mut line = Line::with(Config::RECOMMENDED, server, false);
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
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.run(at(400), |_| ());
    line.ends[1].write(1, 800);
    line.ends[1].abort();
    line.run(at(1_000), |_| ());
    assert_eq!(line.answered_at(), None);
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::There), Some(End::Here)]);
}

/// RFC 9002, 7.1: a mark halves the window as a loss does, and nothing is retransmitted. This also
/// holds if the end that counts marks sends no ECN-capable packets itself (RFC 9000, 13.4.1).
#[test]
fn marks_are_counted_and_halve_the_window() {
    let config = Config { ecn: true, ..Config::RECOMMENDED };
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
    for client in [config, Config::RECOMMENDED] {
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
        let mut random = Random::new(seed, "losses");
        let mut line = Line::new(Config::RECOMMENDED, false);
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
        let mut random = Random::new(seed, "losses");
        let mut line = Line::new(Config::RECOMMENDED, early);
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

/// RFC 9000, 17.2: Initial, Handshake, and 1-RTT packets come one after the other in a datagram.
#[test]
fn packets_are_coalesced_in_order() {
    let mut line = Line::new(Config::RECOMMENDED, false);
    line.flush(0);
    let (_, _, hello, _) = line.on_way.remove(0);
    line.ends[1].handle_datagram(at(50), &hello, false);
    let first = line.ends[1].poll_transmit(at(50)).expect("an answer");
    let levels: Vec<Level> = first.packets.iter().map(|packet| packet.level).collect();
    assert_eq!(levels, [Level::Initial, Level::Handshake]);
}

/// kdig and Knot DNS 3.2.6, as captured (docs/dns-quic.md): a query of 128 bytes and a reply of
/// 468, both padded, with two bytes of length; IDs of 20 and 18 bytes.
#[test]
fn packets_have_the_lengths_of_kdigs_and_knots() {
    // GnuTLS 3.7: P-256, SHA-256, and hellos of 361 and 123 bytes with transport parameters of 55.
    let client =
        Client { hello: 361 - 4 - 55 + 5 + 32, key_share: 65, early_data: false, ..CLIENT };
    let knot = Config { id: 18, ..Config::RECOMMENDED };
    let kdig = Config { id: 20, parameters: 55, ..knot };
    let messages =
        Tls::new(client, Server { certificate: 400, ..SERVER }, false).messages([55, 60]);
    assert_eq!((messages.hello, messages.server_hello), (361, 123));
    let end = |is_client, configs| Endpoint::new(Time::ZERO, is_client, configs, messages);
    let mut line = Line::between([end(true, [kdig, knot]), end(false, [knot, kdig])]);
    line.ask(130, 470);
    let [asked, answered] = [0, 1].map(|side| line.sent(side));
    assert_eq!(asked[0], (at(0), 1200));
    assert_eq!(answered[0], (at(50), 1200));
    // Acknowledgement and Finished, with padding; then the query.
    assert_eq!(asked[1..3], [(at(100), 1200), (at(100), 170)]);
    // With an acknowledgement of five bytes.
    assert!(answered.contains(&(at(150), 517)), "{answered:?}");
    // The server's first packet, an Initial, has 199 bytes, with an acknowledgement whose delay is
    // longer than here.
    let first = line.first[1].expect("it has answered");
    assert!(first.abs_diff(199) <= 3, "{first}");
}

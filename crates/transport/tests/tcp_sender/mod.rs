//! The sending half: slow start, fast retransmit, SACK recovery, RACK, TLP, RTO, F-RTO, undo, ECN,
//! Nagle. Times follow from Linux's constants: jiffies of 4 ms, and a timer wheel that fires at
//! the jiffy after the one asked for.

mod classic;

use narrows_transport::tcp::{Config, Congestion, Flags, RestartAfterIdle, Segment};
use narrows_units::Span;

use crate::tcp_script::{self, MSS, Script, linux, parse, show, stamp};

/// Data segment number `k`, counted from 0, as the endpoint shows it.
fn data(k: u32) -> String {
    format!(". {}:{} ack 1", 1 + k * MSS, 1 + (k + 1) * MSS)
}

/// The first byte of segment `k`.
fn byte(k: u32) -> u32 {
    1 + k * MSS
}

/// Cumulative acknowledgement of everything before segment `k`.
fn ack(k: u32) -> String {
    format!(". 1:1 ack {}", byte(k))
}

/// The same with segments `from..to` SACKed.
fn sack(k: u32, from: u32, to: u32) -> String {
    format!(". 1:1 ack {} sack {}:{}", byte(k), byte(from), byte(to))
}

impl Script {
    /// Checks that exactly these segments went out, in order.
    #[track_caller]
    fn sends_data(&mut self, segments: &[u32]) -> &mut Self {
        let expected: Vec<String> = segments.iter().map(|&k| data(k)).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        self.sends(&expected)
    }
}

/// A bulk sender at 100 ms with its first window of ten segments out.
fn bulk(config: &Config) -> Script {
    let mut client = Script::connected(config, 100.0);
    client.write_forever().sends_data(&(0..10).collect::<Vec<_>>());
    client
}

fn reno() -> Config {
    Config { congestion: Congestion::Reno, ..linux() }
}

fn legacy() -> Config {
    Config { initial_window: 10, ..Config::profile("legacy").expect("a known profile") }
}

#[test]
fn rfc6928_ten_segments_start_and_slow_start_adds_one_for_each_acknowledged() {
    let mut client = bulk(&linux());
    client.at(200.0).gets(&ack(2)).sends_data(&[10, 11, 12, 13]);
    client.at(201.0).gets(&ack(4)).sends_data(&[14, 15, 16, 17]);
    assert_eq!(client.endpoint.cwnd(), 14);
}

#[test]
fn the_window_does_not_grow_where_the_application_limits() {
    let mut client = Script::connected(&linux(), 100.0);
    for round in 0..20u32 {
        client.write(2 * u64::from(MSS));
        client.at(200.0 + 100.0 * f64::from(round)).gets(&ack(2 * (round + 1)));
    }
    assert_eq!(client.endpoint.cwnd(), 10);
}

/// `tcp_write_xmit` and `tcp_chrono_stop`: the receiver limits only a sender that has data and room
/// in its congestion window, and a sender with nothing to send or to be acknowledged is not busy.
#[test]
fn time_counts_while_data_wait_and_while_only_the_receiver_holds_them_back() {
    let mut client = Script::connected(&linux(), 100.0);
    let times = |client: &Script, at| {
        let endpoint = &client.endpoint;
        [endpoint.busy(tcp_script::ms(at)), endpoint.rwnd_limited(tcp_script::ms(at))]
            .map(|span| span.as_ms())
    };
    // The window of segments from the peer, in bytes.
    let acks = |client: &mut Script, k: u32, window: u32| {
        let mut segment = parse(&ack(k));
        segment.window = (window / 128) as u16;
        segment.timestamps = Some((stamp(client.now), stamp(client.now) - 100));
        client.gets_segment(&segment);
    };
    client.write(2 * u64::from(MSS)).forget();
    client.at(200.0);
    acks(&mut client, 2, 5 * MSS + 100);
    assert_eq!(times(&client, 300.0), [100, 0]);
    // Five segments of thirty fill the window, though the congestion window has room for ten.
    client.at(300.0).write(30 * u64::from(MSS)).sends_data(&[2, 3, 4, 5, 6]);
    assert_eq!(times(&client, 400.0), [200, 100]);
    // The congestion window is full, and data wait.
    client.at(400.0);
    acks(&mut client, 7, 1 << 20);
    client.sends_data(&(7..17).collect::<Vec<_>>());
    assert_eq!(times(&client, 500.0), [300, 100]);
    // Nothing is in flight, and the window is closed.
    client.at(500.0);
    acks(&mut client, 17, 0);
    assert_eq!(times(&client, 600.0), [400, 200]);
    client.at(600.0);
    acks(&mut client, 17, 1 << 20);
    client.forget().at(700.0);
    acks(&mut client, 27, 1 << 20);
    client.at(800.0);
    acks(&mut client, 32, 1 << 20);
    assert_eq!(times(&client, 900.0), [600, 200]);
    // A connection that was given up has nothing to send.
    client.at(1000.0).write(u64::from(MSS)).forget();
    client.at(1050.0);
    client.gets_segment(&Segment { flags: Flags::RST, ..parse(&ack(32)) });
    assert_eq!(times(&client, 5000.0), [650, 200]);
}

/// RFC 5681, 3.2 in SACK's form: the third SACKed segment above the hole starts recovery. RACK
/// without reordering seen does the same (`tcp_rack_reo_wnd` is 0 from three SACKs on).
#[test]
fn rfc8985_three_sacked_segments_start_fast_retransmit() {
    for config in [linux(), legacy()] {
        let mut client = bulk(&config);
        // Limited transmit (RFC 3042): each SACK lets one new segment out.
        client.at(200.0).gets(&sack(0, 1, 2)).sends_data(&[10]);
        client.at(200.1).gets(&sack(0, 1, 3)).sends_data(&[11]);
        client.at(200.2).gets(&sack(0, 1, 4)).sends_data(&[0]);
        assert_eq!(client.endpoint.counters().fast_recoveries, 1);
        assert_eq!(client.endpoint.ssthresh(), Some(7), "CUBIC: 0.7 of 10");
    }
}

/// RFC 6937: while more than ssthresh is in flight, 7 segments go for every 10 delivered; then the
/// window is ssthresh.
#[test]
fn rfc6937_the_window_comes_down_in_proportion() {
    let mut client = bulk(&linux());
    client.at(200.0).gets(&sack(0, 1, 4)).sends_data(&[0]);
    let mut sent = 1;
    for k in 5..=10 {
        client.at(200.0 + f64::from(k)).gets(&sack(0, 1, k));
        sent += client.take_sent().len();
    }
    // 9 delivered: 9 * 7 / 10 rounded up, at most one more from the slow-start bound.
    assert!((6..=8).contains(&sent), "{sent} segments for 9 delivered");
    client.at(300.0).gets(&ack(10));
    assert_eq!(client.endpoint.cwnd(), 7);
    assert_eq!(client.endpoint.counters().fast_recoveries, 1, "one reduction an episode");
}

#[test]
fn every_hole_is_filled_once_and_in_order() {
    let mut client = bulk(&reno());
    // 0, 2 and 4 are lost.
    client.at(200.0).gets(&sack(0, 1, 2)).forget();
    client.at(200.1);
    let mut segment = parse(&format!(
        ". 1:1 ack 1 sack {}:{},{}:{},{}:{}",
        byte(5),
        byte(10),
        byte(3),
        byte(4),
        byte(1),
        byte(2)
    ));
    segment.timestamps = Some((200, stamp(tcp_script::ms(100.0))));
    client.gets_segment(&segment);
    let mut resent: Vec<String> = client.take_sent().iter().map(|(_, s)| show(s)).collect();
    for k in 0..6 {
        client.at(300.0 + f64::from(k)).gets(&sack(2 * (k / 2) + 2, 5, 10));
        resent.extend(client.take_sent().iter().map(|(_, s)| show(s)));
    }
    let old: Vec<&String> =
        resent.iter().filter(|text| [data(0), data(2), data(4)].contains(text)).collect();
    assert_eq!(old, [&data(0), &data(2), &data(4)]);
}

/// RFC 8985, 6.2: with reordering seen, a quarter of the minimum RTT passes before a loss.
#[test]
fn rfc8985_reordering_delays_the_verdict() {
    let mut client = bulk(&linux());
    // 0 arrives after 1: reordering without a loss.
    client.at(200.0).gets(&sack(0, 1, 2)).forget();
    client.at(202.0).gets(&ack(2)).forget();
    assert_eq!(client.endpoint.counters().fast_recoveries, 0);
    // Now 2 is missing; 3, 4, 5 and 6 arrive.
    for k in 4..=7 {
        client.at(203.0).gets(&sack(2, 3, k));
    }
    let early: Vec<String> = client.take_sent().iter().map(|(_, s)| show(s)).collect();
    assert!(!early.contains(&data(2)), "{early:?}");
    client.at(250.0);
    let late: Vec<String> = client.take_sent().iter().map(|(_, s)| show(s)).collect();
    assert_eq!(late.first(), Some(&data(2)));
    assert_eq!(client.endpoint.counters().timeouts, 0, "the reordering timer, not the RTO");
}

/// RFC 8985, 7.2: the probe comes 2 SRTT after the last segment, and 200 ms later if one segment
/// waits alone.
#[test]
fn rfc8985_7_a_tail_loss_is_probed() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write(3 * u64::from(MSS)).forget();
    // SRTT 100 ms: 202 ms are 51 jiffies, from jiffy 25; the wheel fires at 77.
    client.at(500.0);
    let sent = client.take_sent();
    let probe = &sent[0];
    assert_eq!(tcp_script::in_ms(probe.0), 308.0);
    assert_eq!(show(&probe.1), format!("P. {}:{} ack 1", byte(2), byte(3)));
    assert_eq!(client.endpoint.counters().tail_probes, 1);

    let mut client = Script::connected(&linux(), 100.0);
    client.write(100).forget();
    // 50 + 50 jiffies would be level 1 of the wheel; the RTO of 300 ms (75 jiffies) comes first.
    client.at(500.0);
    let sent = client.take_sent();
    assert_eq!(tcp_script::in_ms(sent[0].0), 416.0);
    assert_eq!(client.endpoint.counters().timeouts + client.endpoint.counters().tail_probes, 1);
}

/// Linux since 6.1.60 (`TCP_TIMEOUT_MIN_US`): the slack is 2 ms, whatever a jiffy is.
#[test]
fn a_probe_s_slack_is_two_milliseconds_at_any_granularity() {
    // 21 jiffies of 10 ms from jiffy 10, and the wheel fires one later. 202 jiffies of 1 ms from
    // jiffy 100 are in level 1 of the wheel: 304 is the next multiple of 8 after 302.
    for (tick_ms, probe_ms) in [(10, 320.0), (1, 304.0)] {
        let config = Config { timer_granularity: Span::from_ms(tick_ms), ..linux() };
        let mut client = Script::connected(&config, 100.0);
        client.write(3 * u64::from(MSS)).forget();
        client.at(500.0);
        assert_eq!(tcp_script::in_ms(client.take_sent()[0].0), probe_ms, "{tick_ms} ms");
    }
}

#[test]
fn rfc8985_7_a_probe_that_repaired_a_loss_costs_window() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write(3 * u64::from(MSS)).forget();
    client.at(200.0).gets(&ack(2));
    client.at(600.0).forget();
    assert_eq!(client.endpoint.counters().tail_probes, 1);
    client.write(u64::from(MSS));
    client.at(700.0).gets(&ack(4));
    assert_eq!(client.endpoint.cwnd(), 7);
}

#[test]
fn rfc8985_7_a_probe_of_what_had_arrived_costs_nothing() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write(3 * u64::from(MSS)).forget();
    client.at(350.0).forget();
    assert_eq!(client.endpoint.counters().tail_probes, 1);
    // The acknowledgement of the originals was late; the probe brings a D-SACK.
    client.at(400.0).gets(&ack(3));
    client.at(412.0).gets(&sack(3, 2, 3));
    assert_eq!(client.endpoint.cwnd(), 10);
}

/// `tcp_enter_loss` forgets the probe: its acknowledgement must not reduce the window again.
#[test]
fn a_probe_and_then_a_timeout_are_one_reduction() {
    let mut client = Script::connected(&Config { frto: false, ..linux() }, 100.0);
    client.write(5 * u64::from(MSS)).forget();
    client.at(1000.0);
    assert_eq!(client.endpoint.counters().tail_probes, 1);
    assert!(client.endpoint.counters().timeouts >= 1);
    assert_eq!(client.endpoint.ssthresh(), Some(7));
    client.write(20 * u64::from(MSS)).forget();
    client.at(1100.0).gets(&ack(5));
    client.at(1200.0).gets(&ack(7));
    assert_eq!(client.endpoint.ssthresh(), Some(7));
}

/// RFC 6298 (5.4) to (5.6): the first segment is sent again, and the timeout doubles each time.
#[test]
fn rfc6298_5_the_timeout_doubles() {
    let config = Config { tlp: false, ..linux() };
    let mut client = Script::connected(&config, 100.0);
    client.write(100).forget();
    client.at(4000.0);
    let times: Vec<u64> =
        client.take_sent().iter().map(|(at, _)| at.as_ps() / 1_000_000_000).collect();
    // SRTT 100 + 4 * 50 = 300 ms = 75 jiffies, then 150, 300 and 600.
    assert_eq!(times, [416, 1024, 2240]);
    assert_eq!(client.endpoint.counters().timeouts, 3);
    assert_eq!(client.endpoint.cwnd(), 1);
}

/// RFC 6298 (5.5) allows a maximum, `TCP_RTO_MAX` in Linux.
#[test]
fn rfc6298_5_5_the_timeout_doubles_up_to_the_maximum() {
    let config = Config { tlp: false, max_rto: Span::from_secs(1), ..linux() };
    let mut client = Script::connected(&config, 100.0);
    client.write(100).forget();
    client.at(4100.0);
    let times: Vec<u64> =
        client.take_sent().iter().map(|(at, _)| at.as_ps() / 1_000_000_000).collect();
    // 75 and 150 jiffies as above, and then 250 each.
    assert_eq!(times, [416, 1024, 2048, 3072, 4096]);
}

/// `tcp_rto_min`: at least 200 ms are added to SRTT.
#[test]
fn the_variance_term_is_never_below_the_minimum_rto() {
    let config = Config { tlp: false, ..linux() };
    let mut client = Script::connected(&config, 10.0);
    client.write(100).forget();
    client.at(220.0).sends(&[]);
    client.at(230.0).sends(&["P. 1:101 ack 1"]);
}

#[test]
fn a_timeout_sends_again_what_is_lost_as_the_window_opens() {
    let config = Config { tlp: false, frto: false, ..linux() };
    let mut client = bulk(&config);
    client.at(600.0).sends_data(&[0]);
    assert_eq!((client.endpoint.cwnd(), client.endpoint.ssthresh()), (1, Some(7)));
    client.at(700.0).gets(&ack(1)).sends_data(&[1, 2]);
    client.at(800.0).gets(&ack(3)).sends_data(&[3, 4, 5, 6]);
}

/// RFC 5682, 3.1: the first acknowledgement lets two new segments out; if they are acknowledged,
/// the timeout was needless.
#[test]
fn rfc5682_a_spurious_timeout_is_detected_and_undone() {
    let config = Config { tlp: false, timestamps: false, ..linux() };
    let mut client = Script::client(&config);
    client.connect().at(100.0).gets_syn_ack().forget();
    client.write_forever();
    let segments: Vec<u32> = client.take_sent().iter().map(|(_, s)| s.seq.0).collect();
    let size = segments[1] - segments[0];
    client.at(600.0);
    assert_eq!(client.take_sent()[0].1.seq.0, 1);
    assert_eq!(client.endpoint.cwnd(), 1);
    // The originals were only late.
    client.at(620.0).gets(&format!(". 1:1 ack {}", 1 + size));
    let fresh: Vec<u32> = client.take_sent().iter().map(|(_, s)| s.seq.0).collect();
    assert_eq!(fresh, [1 + 10 * size, 1 + 11 * size], "new data, and no retransmission");
    client.at(621.0).gets(&format!(". 1:1 ack {}", 1 + 2 * size));
    assert_eq!(client.endpoint.counters().spurious_timeouts, 1);
    assert!(client.endpoint.cwnd() >= 10, "the window is restored");
}

#[test]
fn rfc5682_a_real_loss_goes_on_with_retransmissions() {
    let config = Config { tlp: false, ..linux() };
    let mut client = bulk(&config);
    client.at(600.0).sends_data(&[0]);
    client.at(700.0).gets(&ack(1)).sends_data(&[10, 11]);
    // The new data are SACKed above the holes.
    client.at(800.0).gets(&sack(1, 10, 11));
    let sent = client.take_sent();
    assert_eq!(show(&sent[0].1), data(1));
    assert_eq!(client.endpoint.counters().spurious_timeouts, 0);
}

/// RFC 3522 (Eifel): the acknowledgement echoes a timestamp from before the retransmission.
#[test]
fn rfc3522_timestamps_undo_a_needless_fast_retransmit() {
    let mut client = bulk(&linux());
    client.echo(100.0).at(200.0).gets(&sack(0, 1, 4)).sends_data(&[0]);
    assert_eq!(client.endpoint.ssthresh(), Some(7));
    client.at(210.0).gets(&ack(10));
    assert_eq!(client.endpoint.counters().undos, 1);
    assert_eq!((client.endpoint.cwnd() >= 10, client.endpoint.ssthresh()), (true, None));
}

#[test]
fn rfc3708_d_sack_undoes_a_needless_fast_retransmit() {
    let mut client = bulk(&linux());
    client.echo(100.0).at(200.0).gets(&sack(0, 1, 4)).sends_data(&[0]);
    client.echo(200.0).at(210.0).gets(&ack(6)).forget();
    // The copy of 0 arrives as well.
    let text = format!(". 1:1 ack {} sack {}:{}", byte(6), byte(0), byte(1));
    client.at(300.0).gets(&text);
    assert_eq!(client.endpoint.counters().undos, 1);
}

/// RFC 8985, 6.2: a D-SACK widens the reordering window by a quarter of the minimum RTT, and 16
/// recoveries without another one narrow it again (`TCP_RACK_RECOVERY_THRESH`).
#[test]
fn rfc8985_6_2_the_reordering_window_widens_and_narrows() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write(2 * u64::from(MSS)).forget();
    // Reordering, without a loss.
    client.at(200.0).gets(&sack(0, 1, 2)).at(202.0).gets(&ack(2));
    let (mut start, mut next) = (1000.0, 2);
    let mut lose_one = |client: &mut Script| {
        client.at(start).write(2 * u64::from(MSS)).forget();
        client.at(start + 100.0).gets(&sack(next, next + 1, next + 2)).at(start + 190.0);
        let sent = client.take_sent();
        assert_eq!((sent.len(), sent[0].1.seq.0), (1, byte(next)));
        client.at(start + 300.0).gets(&ack(next + 2));
        (start, next) = (start + 1000.0, next + 2);
        sent[0].0.since(tcp_script::ms(start - 900.0)).as_us() / 1000
    };
    // 25 ms and 2 ms of slack are 7 jiffies, and 50 ms and 2 ms are 13; the wheel fires at the next.
    assert_eq!(lose_one(&mut client), 32);
    client.at(1310.0).gets(&sack(4, 2, 3));
    let waits: Vec<u64> = (0..17).map(|_| lose_one(&mut client)).collect();
    assert_eq!(waits, [[56; 16].as_slice(), &[32]].concat());
    assert_eq!(client.endpoint.counters().timeouts, 0);
}

#[test]
fn a_lost_retransmission_is_found_by_rack_before_the_timeout() {
    let mut client = bulk(&linux());
    client.at(200.0).gets(&sack(0, 1, 4)).sends_data(&[0]);
    client.at(200.5).gets(&sack(0, 1, 8)).forget();
    // New data sent after the retransmission arrive, the retransmission does not.
    client.at(310.0).gets(&sack(0, 1, 12));
    let sent: Vec<String> = client.take_sent().iter().map(|(_, s)| show(s)).collect();
    assert!(sent.contains(&data(0)), "{sent:?}");
    assert_eq!(client.endpoint.counters().timeouts, 0);
}

fn ecn_bulk() -> Script {
    ecn_bulk_with(linux())
}

fn ecn_bulk_with(config: Config) -> Script {
    use narrows_transport::tcp::{Flags, Segment, Seq, SynOptions};
    let mut client = Script::client(&Config { ecn: true, ..config });
    client.connect().sends(&["SEW 0:0"]);
    let syn_ack = Segment {
        ack: Seq(1),
        window: 65_535,
        flags: Flags::SYN.with(Flags::ACK).with(Flags::ECE),
        timestamps: Some((1, 1)),
        syn: Some(SynOptions {
            mss: 1460,
            window_scale: Some(7),
            sack_permitted: true,
            ..SynOptions::default()
        }),
        ..Segment::default()
    };
    client.at(100.0).gets_segment(&syn_ack).sends(&[". 1:1 ack 1"]);
    assert!(client.endpoint.ecn_negotiated());
    client.write_forever();
    let first = show(&client.take_sent()[0].1);
    assert_eq!(first, format!("{} ect0", data(0)), "data carry ECT(0), the handshake does not");
    client
}

#[test]
fn rfc3168_6_1_2_an_echo_reduces_the_window_once_and_is_answered_with_cwr() {
    let mut client = ecn_bulk();
    for k in 1..=10 {
        client.at(200.0 + f64::from(k)).gets(&format!("E{}", ack(k)));
    }
    assert_eq!(client.endpoint.counters().ecn_reductions, 1);
    assert_eq!(client.endpoint.ssthresh(), Some(7));
    let sent: Vec<String> = client.take_sent().iter().map(|(_, s)| show(s)).collect();
    assert!(sent[0].starts_with("W."), "{sent:?}");
    assert_eq!(sent.iter().filter(|text| text.starts_with('W')).count(), 1);
    assert_eq!(client.endpoint.counters().segments_retransmitted, 0);
    // Above high_seq the window is ssthresh, and a new echo counts again.
    client.at(310.0).gets(&ack(12));
    assert!(client.endpoint.cwnd() >= 7);
    client.at(311.0).gets(&format!("E{}", ack(13)));
    assert_eq!(client.endpoint.counters().ecn_reductions, 2);
}

/// `tcp_fastretrans_alert`, A: an echo during recovery means congestion, so a D-SACK that shows the
/// retransmission to be needless does not bring the old window back.
#[test]
fn an_echo_during_recovery_rules_out_the_old_window() {
    for (echo, ssthresh) in [("", None), ("E", Some(7))] {
        let mut client = ecn_bulk();
        client.echo(100.0).at(200.0).gets(&sack(0, 1, 4)).forget();
        assert_eq!(client.endpoint.counters().fast_recoveries, 1);
        client.echo(200.0).at(210.0).gets(&format!("{echo}{}", ack(6))).forget();
        let text = format!(". 1:1 ack {} sack {}:{}", byte(6), byte(0), byte(1));
        client.at(300.0).gets(&text);
        assert_eq!(client.endpoint.counters().undos, 1);
        assert_eq!(client.endpoint.ssthresh(), ssthresh);
    }
}

/// `tcp_init_undo` starts `undo_retrans` at -1 if nothing has been retransmitted: 0 would mean that
/// D-SACKs have reported every retransmission. In a reduction after an echo, recovery may begin
/// without a retransmission (RFC 6937 lets nothing out).
#[test]
fn a_recovery_that_has_sent_nothing_is_not_undone() {
    let mut client = ecn_bulk();
    client.at(200.0).gets(&format!("E{}", ack(1)));
    // 7 segments may go for 10 delivered, and 3 have gone for 4.
    for k in 3..=5 {
        client.at(200.0 + f64::from(k)).gets(&sack(1, 2, k));
    }
    assert_eq!(client.endpoint.counters().fast_recoveries, 1);
    assert_eq!(client.endpoint.counters().segments_retransmitted, 0);
    client.forget();
    for k in 6..=8 {
        client.at(200.0 + f64::from(k)).gets(&sack(1, 2, k));
    }
    assert_eq!(client.endpoint.counters().undos, 0);
    assert_eq!(show(&client.take_sent()[0].1), data(1));
}

#[test]
fn rfc3168_6_1_5_retransmissions_carry_no_ect() {
    let mut client = ecn_bulk();
    client.at(200.0).gets(&sack(0, 1, 4)).sends(&[&data(0)]);
}

/// RFC 8511: 0.85 of the window for CUBIC, 0.8 for Reno; losses cost as ever.
#[test]
fn rfc8511_alternative_backoff_is_gentler_for_echoes() {
    use narrows_transport::tcp::EcnResponse;
    for (congestion, expected) in [(Congestion::Cubic, 8), (Congestion::Reno, 8)] {
        let ecn_response = EcnResponse::Abe;
        let mut client = ecn_bulk_with(Config { congestion, ecn_response, ..linux() });
        client.at(200.0).gets(&format!("E{}", ack(1)));
        assert_eq!(client.endpoint.ssthresh(), Some(expected));
    }
}

/// RFC 9293, 3.7.4, with Minshall's change: one small segment in flight, full ones always.
#[test]
fn nagle_holds_the_second_small_segment_back() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write(100).sends(&["P. 1:101 ack 1"]);
    client.write(100).sends(&[]);
    client.at(200.0).gets(". 1:1 ack 101").sends(&["P. 101:201 ack 1"]);

    let mut client = Script::connected(&Config { nagle: false, ..linux() }, 100.0);
    client.write(100).sends(&["P. 1:101 ack 1"]);
    client.write(100).sends(&["P. 101:201 ack 1"]);
}

#[test]
fn minshall_lets_the_tail_of_a_large_write_go() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write(u64::from(MSS) + 100);
    client.sends(&[&data(0), &format!("P. {}:{} ack 1", byte(1), byte(1) + 100)]);
}

#[test]
fn the_peer_s_window_limits_and_a_probe_asks_again() {
    let mut client = Script::connected(&linux(), 100.0);
    client.write_forever().forget();
    let mut closed = parse(&ack(10));
    closed.window = 0;
    closed.timestamps = Some((200, stamp(tcp_script::ms(100.0))));
    client.at(200.0).gets_segment(&closed).sends(&[]);
    client.at(1200.0);
    let probes = client.take_sent();
    assert!(!probes.is_empty() && probes.iter().all(|(_, s)| s.len == 0), "{probes:?}");
    client.at(1210.0).gets(&ack(10));
    assert!(!client.take_sent().is_empty(), "the window is open again");
}

/// RFC 2861 as in Linux: one halving for each RTO of silence, not below the initial window.
#[test]
fn idle_time_decays_the_window() {
    let grow = |restart| {
        let config = Config { restart_after_idle: restart, ..linux() };
        let mut client = Script::connected(&config, 100.0);
        client.write(40 * u64::from(MSS));
        for k in 1..=20u32 {
            client.at(200.0 + 10.0 * f64::from(k)).gets(&ack(2 * k));
        }
        assert!(client.endpoint.cwnd() > 20);
        client.at(5000.0).write(u64::from(MSS));
        client.endpoint.cwnd()
    };
    assert_eq!(grow(RestartAfterIdle::Decay), 10);
    assert!(grow(RestartAfterIdle::Keep) > 20);
    assert_eq!(grow(RestartAfterIdle::SlowStart), 10);
    assert_eq!(grow(RestartAfterIdle::Fresh), 10);
}

#[test]
fn without_sack_duplicates_stand_for_segments_that_arrived() {
    let config = Config { sack: false, ..reno() };
    let mut client = bulk(&config);
    // The first acknowledgement after the handshake's widens the window and is not a duplicate.
    client.at(199.0).gets(&ack(0)).sends(&[]);
    client.at(200.0).gets(&ack(0)).sends_data(&[10]);
    client.at(200.1).gets(&ack(0)).sends_data(&[11]);
    client.at(200.2).gets(&ack(0)).sends_data(&[0]);
    // RFC 6582: a partial acknowledgement sends the next hole.
    for k in 0..6 {
        client.at(201.0 + f64::from(k)).gets(&ack(0));
    }
    client.forget();
    client.at(300.0).gets(&ack(3));
    let sent = client.take_sent();
    assert_eq!(show(&sent[0].1), data(3));
    assert_eq!(client.endpoint.counters().fast_recoveries, 1);
}

//! The effects of single settings: HyStart, limited transmit, rate halving, window scaling, the
//! receive buffer.

use narrows_transport::tcp::{Config, Congestion, SynOptions};
use narrows_units::Bytes;

use crate::tcp_script::{MSS, Script, linux, parse};

/// Cumulative acknowledgement of everything before segment `k`.
fn ack(k: u32) -> String {
    format!(". 1:1 ack {}", 1 + k * MSS)
}

/// Nothing new, with segments `from..to` SACKed.
fn sack(from: u32, to: u32) -> String {
    format!(". 1:1 ack 1 sack {}:{}", 1 + from * MSS, 1 + to * MSS)
}

/// A bulk sender at 100 ms whose first window is out.
fn bulk(config: &Config) -> Script {
    let mut client = Script::connected(config, 100.0);
    client.write_forever().forget();
    client
}

/// Plays a round of 20 acknowledgements at 200 ms, and one whose round trips take `rtt_ms`. Returns
/// ssthresh.
fn slow_start_with(config: &Config, rtt_ms: f64) -> Option<u32> {
    let mut client = bulk(&Config { initial_window: 20, ..config.clone() });
    for k in 1..=20 {
        client.at(200.0).gets(&ack(k));
    }
    assert_eq!(client.endpoint.ssthresh(), None, "the first round tells nothing");
    for k in 21..=40 {
        client.at(200.0 + rtt_ms).gets(&ack(k));
    }
    client.endpoint.ssthresh()
}

/// RFC 9406, 4.2: an eighth more than the smallest round trip, between 4 and 16 ms, after eight
/// samples.
#[test]
fn rfc9406_4_2_hystart_leaves_slow_start_when_round_trips_grow_by_an_eighth() {
    assert_eq!(slow_start_with(&linux(), 112.0), None);
    let ssthresh = slow_start_with(&linux(), 113.0).expect("slow start is over");
    // The ninth sample of the round decides, at one segment an acknowledgement.
    assert!((48..=50).contains(&ssthresh), "{ssthresh}");
    assert_eq!(slow_start_with(&Config { hystart: false, ..linux() }, 150.0), None);
    let reno = Config { congestion: Congestion::Reno, ..linux() };
    assert_eq!(slow_start_with(&reno, 150.0), None, "HyStart is CUBIC's");
}

/// Linux `hystart_update`: acknowledgements at most 2 ms apart for half the smallest round trip.
#[test]
fn hystart_leaves_slow_start_when_an_acknowledgement_train_is_half_a_round_trip_long() {
    for (apart_ms, leaves_after_ms) in [(1.5, Some(51.0)), (2.5, None)] {
        let mut client = bulk(&Config { initial_window: 40, ..linux() });
        let mut left_after_ms = None;
        for k in 1..=40_u32 {
            let after_ms = apart_ms * f64::from(k - 1);
            client.at(200.0 + after_ms).gets(&ack(k));
            if client.endpoint.ssthresh().is_some() {
                left_after_ms.get_or_insert(after_ms);
            }
        }
        // Half of 100 ms, and of at most 1 ms for the sender's own bursts: the acknowledgement
        // after 51 ms is the first beyond it.
        assert_eq!(left_after_ms, leaves_after_ms, "{apart_ms} ms apart");
    }
}

#[test]
fn rfc3042_limited_transmit_sends_new_data_on_the_first_two_duplicates() {
    for (limited_transmit, new) in [(true, 1), (false, 0)] {
        let mut client = bulk(&Config { limited_transmit, ..linux() });
        for k in [2, 3] {
            client.at(200.0).gets(&sack(1, k));
            assert_eq!(client.take_sent().len(), new, "{limited_transmit}");
        }
        client.gets(&sack(1, 4));
        let sent = client.take_sent();
        assert_eq!(sent[0].1.seq.0, 1, "the third starts recovery either way");
    }
}

/// Linux 2.6.30 `tcp_cwnd_down`; Mathis and Mahdavi, "TCP rate-halving with bounding parameters".
#[test]
fn rate_halving_sends_one_segment_for_two_acknowledgements() {
    let profile = Config::profile("linux-2.6.30").expect("a known profile");
    let config = Config { initial_window: 20, congestion: Congestion::Reno, ..profile };
    let mut client = bulk(&config);
    client.at(200.0).gets(&sack(1, 4)).forget();
    let mut sent = Vec::new();
    for k in 5..=20 {
        client.at(200.0 + f64::from(k)).gets(&sack(1, k));
        sent.push(client.take_sent().len());
    }
    assert!(sent.iter().all(|&n| n <= 1), "{sent:?}");
    assert!(sent.windows(2).all(|pair| pair[0] + pair[1] <= 1), "never two in a row: {sent:?}");
    assert_eq!(sent.iter().sum::<usize>(), 8, "half of 16 acknowledgements: {sent:?}");
}

/// RFC 7323, 2.2: the window of a SYN is never scaled; later ones are, if both ends offered it.
#[test]
fn rfc7323_2_2_windows_are_scaled_where_both_ends_offer_it() {
    for (window_scaling, more) in [(true, true), (false, false)] {
        let config = Config { initial_window: 100, window_scaling, ..linux() };
        let mut client = Script::connected(&config, 100.0);
        client.write_forever();
        // 65535 bytes hold 45 segments of 1448.
        assert_eq!(client.take_sent().len(), 45);
        // The window is 32768, times 128 if scaled. Unscaled it takes 22 segments, fewer than are
        // out.
        client.at(200.0).gets(&ack(1));
        assert_eq!(!client.take_sent().is_empty(), more, "{window_scaling}");
    }
}

#[test]
fn the_receive_buffer_bounds_the_window() {
    let config = Config { receive_buffer: Bytes::new(20_000), ..linux() };
    let mut server = Script::server(&config);
    server.gets_syn();
    let opening = server.take_sent();
    let SynOptions { window_scale, .. } = opening[0].1.syn.expect("a SYN has options");
    assert!(opening[0].1.window <= 20_000);
    server.at(100.0).gets(". 1:1 ack 1");
    for k in 0..20_u32 {
        let segment = parse(&format!(". {}:{} ack 1", 1 + k * MSS, 1 + (k + 1) * MSS));
        server.at(101.0 + f64::from(k)).gets_segment(&segment);
    }
    let answers = server.take_sent();
    assert!(answers.len() >= 10, "{}", answers.len());
    for (_, answer) in answers {
        let window = u32::from(answer.window) << window_scale.unwrap_or(0);
        assert!((2 * MSS..=20_000).contains(&window), "{window}");
    }
}

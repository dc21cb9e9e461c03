//! A half that is silent and one that has sent something, as others see them.

use alloc::vec::Vec;

use narrows_units::Bytes;

use super::*;
use crate::tcp::Flags;

fn linux() -> Config {
    Config { receive_buffer: Bytes::new(1 << 20), ..Config::default() }
}

fn at(config: &Config, ms: u64) -> Context<'_> {
    Context::new(config, Time::ZERO + Span::from_ms(ms))
}

const START: Start = Start {
    at: Time::from_ps(100_000_000_000),
    mss: 1448,
    peer_scale: 7,
    sack: true,
    ecn: Negotiated::Nothing,
    window: 64_000,
    peer_seq: Seq(1),
    rtt_us: NonZeroU32::new(80_000),
    handshake_lost: false,
    restart_window: false,
};

/// A half whose first byte is 500, after a handshake of 80 ms.
fn started(config: &Config) -> Half {
    let mut half = Half::new(config, Seq(500));
    half.start(&at(config, 100), START);
    half
}

fn counters(half: &Half) -> Counters {
    let mut counters = Counters::default();
    half.count(&mut counters);
    counters
}

fn poll(half: &mut Half, config: &Config, ms: u64) -> Vec<(u32, u16)> {
    core::iter::from_fn(|| half.poll(&at(config, ms))).map(|sent| (sent.seq.0, sent.len)).collect()
}

fn ack(ack: u32, window: u16) -> Header {
    let (seq, flags) = (Seq(1), Flags::ACK);
    let ecn = narrows_units::Ecn::NotEct;
    Header { seq, ack: Seq(ack), window, len: 0, flags, ecn, timestamps: None }
}

#[test]
fn a_silent_half_knows_what_the_handshake_measured() {
    let config = Config { initial_ssthresh: Some(77), ..linux() };
    let half = started(&config);
    assert!(half.is_silent() && half.is_done() && !half.is_failed());
    assert!(!half.is_fin_sent() && !half.is_fin_acked());
    assert_eq!((half.snd_una(), half.snd_nxt(), half.write_seq()), (Seq(500), Seq(500), Seq(500)));
    assert_eq!((half.srtt_us(), half.min_rtt_us()), (Some(80_000), Some(80_000)));
    // 80 + 200 ms are 70 jiffies.
    let window = half.window(&config);
    assert_eq!((half.rto(), window.cwnd, window.ssthresh), (70, 10, 77));
    assert_eq!((half.bytes_acked(), half.heap_bytes()), (0, 0));
    let now = Time::ZERO + Span::from_ms(900);
    assert_eq!((half.busy(now), half.rwnd_limited(now)), (Span::ZERO, Span::ZERO));
    assert_eq!((half.deadline(), counters(&half)), (MaybeTime::NONE, Counters::default()));
}

#[test]
fn an_active_half_knows_what_it_has_sent() {
    let config = linux();
    let mut half = started(&config);
    half.write(&at(&config, 200), 3000);
    assert_eq!(half.write_seq(), Seq(3500));
    assert_eq!(poll(&mut half, &config, 200), [(500, 1448), (1948, 1448), (3396, 104)]);
    assert!(!half.is_silent() && !half.is_done());
    assert_eq!(
        (half.snd_una(), half.snd_nxt(), half.write_seq()),
        (Seq(500), Seq(3500), Seq(3500))
    );
    assert!(half.deadline() != MaybeTime::NONE && half.heap_bytes() >= 3 * 16);
    assert!(half.handle_ack(&at(&config, 260), &ack(3396, 500), &[]));
    let now = Time::ZERO + Span::from_ms(260);
    assert_eq!(half.busy(now), Span::from_ms(60));
    assert_eq!((half.snd_una(), half.bytes_acked()), (Seq(3396), 2896));
    // 7/8 of 80 and 1/8 of 60.
    assert_eq!((half.srtt_us(), half.min_rtt_us()), (Some(77_500), Some(60_000)));
    assert!(half.handle_ack(&at(&config, 270), &ack(3500, 500), &[]));
    assert!(half.is_done() && !half.is_fin_acked());
    half.close(&config);
    assert!(!half.is_done() && !half.is_fin_sent());
    assert_eq!(poll(&mut half, &config, 280), [(3500, 0)]);
    assert!(half.is_fin_sent() && !half.is_fin_acked());
    assert!(half.handle_ack(&at(&config, 350), &ack(3501, 500), &[]));
    assert!(half.is_fin_acked() && half.is_done());
    assert_eq!(half.bytes_acked(), 3000, "a FIN is no payload");
    half.release_memory();
    assert_eq!(half.heap_bytes(), 0);
}

/// A handshake's round trip counts for 300 s from the handshake on, however long the half was silent
/// and however late in the run it is: 5000 s are more than 32 bits of microseconds.
#[test]
fn the_handshakes_round_trip_is_as_old_as_the_handshake() {
    let config = linux();
    let began_ms = 5_000_000;
    let mut half = Half::new(&config, Seq(500));
    half.start(&at(&config, began_ms), Start { at: at(&config, began_ms).now, ..START });
    for (number, since_ms, shortest_ms) in [(1, 200_000, 80), (2, 300_000, 90)] {
        let sent_ms = began_ms + since_ms;
        half.write(&at(&config, sent_ms), 2 * 1448);
        assert_eq!(poll(&mut half, &config, sent_ms).len(), 2);
        let all = ack(500 + number * 2 * 1448, 500);
        assert!(half.handle_ack(&at(&config, sent_ms + 90), &all, &[]));
        assert_eq!(half.min_rtt_us(), Some(1000 * shortest_ms), "{since_ms}");
    }
}

/// What is written before the connection is established leaves after it.
#[test]
fn writing_and_closing_wait_for_the_handshake() {
    let config = linux();
    let mut half = Half::new(&config, Seq(500));
    half.write(&at(&config, 0), 100);
    half.close(&config);
    assert!(half.is_silent() && !half.is_done());
    assert_eq!(half.write_seq(), Seq(600));
    half.start(&at(&config, 100), START);
    assert!(!half.is_silent());
    assert_eq!(poll(&mut half, &config, 100), [(500, 100)]);
    assert!(half.is_fin_sent() && half.snd_nxt() == Seq(601));
    for closes in [false, true] {
        let mut half = Half::new(&config, Seq(500));
        half.write(&at(&config, 0), u64::MAX);
        assert_eq!(half.write_seq(), Seq(500));
        half.end_forever();
        assert!(half.is_done());
        if closes {
            half.close(&config);
        }
        half.start(&at(&config, 100), START);
        assert_eq!(half.is_silent(), !closes);
        half.end_forever();
    }
    let mut half = started(&config);
    half.write(&at(&config, 100), u64::MAX);
    half.end_forever();
    assert!(poll(&mut half, &config, 100).is_empty() && half.is_done());
}

#[test]
fn repetitions_of_a_syn_are_counted_before_and_after_data() {
    let config = linux();
    let mut half = Half::new(&config, Seq(500));
    for _ in 0..2 {
        half.count_syn_timeout();
        half.count_syn_repeated();
    }
    half.count_syn_repeated();
    let expected = |retransmitted, timeouts| Counters {
        segments_retransmitted: retransmitted,
        timeouts,
        ..Counters::default()
    };
    assert_eq!(counters(&half), expected(3, 2));
    let at_ms = |ms| MaybeTime::from(Time::ZERO + Span::from_ms(ms));
    half.repeat_syn_at(at_ms(1000));
    assert_eq!(half.deadline(), at_ms(1000));
    half.start_unconfirmed(&at(&config, 100), Start { rtt_us: None, ..START });
    assert_eq!((half.deadline(), half.srtt_us()), (MaybeTime::NONE, None));
    half.repeat_syn_at(at_ms(1000));
    half.write(&at(&config, 100), 100);
    assert_eq!(poll(&mut half, &config, 100).len(), 1);
    assert_eq!(half.deadline(), at_ms(1000), "the timer serves the SYN-ACK");
    half.count_syn_timeout();
    half.count_syn_repeated();
    assert_eq!(counters(&half), expected(4, 3));
    half.repeat_syn_at(at_ms(3000));
    assert_eq!(half.deadline(), at_ms(3000));
    half.confirm(&at(&config, 150), NonZeroU32::new(50_000));
    // 50 + 200 ms are 63 jiffies.
    assert_eq!((half.srtt_us(), half.rto()), (Some(50_000), 63));
    assert!(half.deadline() != at_ms(3000));
    let mut silent = Half::new(&config, Seq(500));
    silent.start_unconfirmed(&at(&config, 100), Start { rtt_us: None, ..START });
    silent.confirm(&at(&config, 150), NonZeroU32::new(50_000));
    assert!(silent.is_silent());
    assert_eq!((silent.srtt_us(), silent.rto()), (Some(50_000), 63));
}

/// `tcp_may_update_window`: newer data or acknowledgements, or the same with a larger window or
/// none.
#[test]
fn a_segment_updates_the_window_if_it_is_newer() {
    let config = linux();
    for active in [false, true] {
        // The window is 64000, and the peer's next byte 1.
        for (seq, acked, window, updates) in [
            (1, 500, 501, true),
            (1, 500, 500, false),
            (1, 500, 499, false),
            (1, 500, 0, true),
            (2, 500, 499, true),
            (0, 500, 501, false),
            (0, 501, 499, true),
        ] {
            let mut half = started(&config);
            if active {
                half.write(&at(&config, 100), 0);
            }
            assert_eq!(half.is_silent(), !active);
            let header = Header { seq: Seq(seq), ..ack(acked, window) };
            assert_eq!(half.may_update_window(&header), updates, "{active} {seq} {acked} {window}");
            if acked == 500 {
                assert!(half.handle_ack(&at(&config, 110), &header, &[]));
                half.write(&at(&config, 120), 200_000);
                let sent: u64 =
                    poll(&mut half, &config, 120).iter().map(|&(_, len)| u64::from(len)).sum();
                let now = if updates { u64::from(window) * 128 } else { 64_000 };
                assert_eq!(sent > 0, now >= 1448);
                assert!(sent <= now);
            }
        }
    }
}

#[test]
fn a_half_that_has_failed_sends_nothing() {
    let config = linux();
    for active in [false, true] {
        let mut half = started(&config);
        half.repeat_syn_at(MaybeTime::from(Time::MAX));
        if active {
            half.write(&at(&config, 100), 100);
        }
        half.fail(&at(&config, 110));
        assert!(half.is_failed() && half.deadline() == MaybeTime::NONE);
        assert!(poll(&mut half, &config, 110).is_empty());
    }
}

/// A timer of a half that has sent something is handled there.
#[test]
fn timers_and_messages_about_the_path_reach_the_sender() {
    let config = Config { tlp: false, ..linux() };
    let mut half = started(&config);
    half.handle_timeout(&at(&config, 5000));
    half.handle_too_big(&at(&config, 5000), Seq(500), 1000);
    assert!(half.is_silent());
    half.write(&at(&config, 5000), 1448);
    assert_eq!(poll(&mut half, &config, 5000), [(500, 1448)]);
    half.handle_too_big(&at(&config, 5050), Seq(500), 1000);
    assert_eq!(poll(&mut half, &config, 5050), [(500, 1000), (1500, 448)]);
    half.handle_timeout(&at(&config, 60_000));
    assert_eq!(counters(&half).timeouts, 1);
    assert_eq!(poll(&mut half, &config, 60_000), [(500, 1000)]);
}

//! The kernel's rules for windows and buffers, worked out by hand. With `tcp_adv_win_scale` 1, half
//! of a buffer is window. The default `tcp_rmem` is 4096, 131072 and 6291456 bytes.

use narrows_units::{Bytes, Span, Time};

use super::*;
use crate::tcp::Flags;

mod linux_7;

fn linux() -> Config {
    Config::profile("linux-6").expect("a known profile")
}

/// The settings whose `tcp_rmem[2]` is twice these bytes.
fn with_buffer(bytes: u64) -> Config {
    Config { receive_buffer: Bytes::new(bytes), ..linux() }
}

fn at(config: &Config, us: u64) -> Context<'_> {
    Context::new(config, Time::ZERO + Span::from_us(us))
}

/// The buffer of an end with a window of 64 KB and segments of 1448 bytes: `tcp_rmem[1]` bytes, half
/// of it window, and one segment reserved.
fn buffer(config: &Config) -> Buffer {
    Buffer::new(&at(config, 0), 65_160, true, 1448, Seq(1))
}

/// A receiver with such a buffer, whose windows are multiples of `1 << scale`.
fn receiver(config: &Config, scale: u8) -> Receiver {
    let mut receiver = Receiver::new(config);
    receiver.start(Seq(1), scale > 0);
    receiver.scale = scale;
    receiver.timestamps = true;
    receiver.sack = true;
    receiver.rcv_mss = 1448;
    receiver.more.get_or_insert_default().buffer = Some(buffer(config));
    receiver
}

fn segment(len: u16) -> Header {
    Header {
        seq: Seq(1),
        ack: Seq(1),
        window: 500,
        len,
        flags: Flags::ACK,
        ecn: narrows_units::Ecn::NotEct,
        timestamps: None,
    }
}

/// `tcp_select_initial_window`: from 15 on, each doubling of the larger of `tcp_rmem[2]` and
/// `rmem_max` (212992) adds one, up to 14 (RFC 7323, 2.3).
#[test]
fn the_scale_follows_the_largest_buffer() {
    let scale = |bytes| scale_for(&with_buffer(bytes));
    for (bytes, expected) in [
        (1, 2),
        (131_071, 2),
        (131_072, 3),
        (2_097_151, 6),
        (2_097_152, 7),
        (3_145_728, 7),
        (1 << 27, 13),
        (1 << 28, 14),
        (1 << 30, 14),
    ] {
        assert_eq!(scale(bytes), expected, "{bytes}");
    }
    let off = Config { window_scaling: false, ..linux() };
    assert_eq!(scale_for(&off), 0);
}

/// RFC 7323, 2.2: the field has 16 bits, so the shift must leave no more than 65535.
#[test]
fn a_window_that_does_not_grow_fits_its_field() {
    for (bytes, expected) in
        [(65_535, 0), (65_536, 1), (131_071, 1), (131_072, 2), ((1 << 30) - 1, 14), (1 << 30, 14)]
    {
        let config = Config { receive_autotuning: false, ..with_buffer(bytes) };
        assert_eq!(scale_for(&config), expected, "{bytes}");
        let receiver = Receiver::new(&config);
        let field = u64::from(receiver.window_field()) << expected;
        let most = 65_535 << expected;
        assert!(field >= bytes.min(most) && field < bytes + (1 << expected), "{bytes}");
        assert_eq!(u64::from(receiver.syn_window_field()), bytes.min(65_535));
    }
}

/// Linux's SYNs offer 64240 bytes, and its SYN-ACKs with timestamps 65160: the full segments that
/// half of `tcp_rmem[1]` holds.
#[test]
fn the_first_window_is_a_number_of_full_segments() {
    for (bytes, mss, expected) in [
        (3_145_728, 1460, 64_240),
        (3_145_728, 1448, 65_160),
        (3_145_728, 536, 65_392),
        (3_145_728, 8960, 62_720),
        // 65536 bytes do not fit the field of a SYN.
        (3_145_728, 128, 65_535),
        (20_000, 1460, 18_980),
        (65_535, 1460, 64_240),
        (2920, 1460, 2920),
        (2919, 1460, 1460),
    ] {
        let config = with_buffer(bytes);
        let mut receiver = Receiver::new(&config);
        receiver.offer_first_window(&config, mss);
        assert_eq!(receiver.window, expected, "{bytes} {mss}");
    }
    let fixed = Config { receive_autotuning: false, ..with_buffer(20_000) };
    let mut receiver = Receiver::new(&fixed);
    receiver.offer_first_window(&fixed, 1460);
    assert_eq!(receiver.window, 20_000);
}

/// `tcp_init_buffer_space`: one segment is reserved, but two may always be offered.
#[test]
fn a_segment_of_the_first_buffer_is_reserved() {
    for (room, scaled, expected) in [
        (131_072, true, 64_088),
        (131_072, false, 64_088),
        (262_144, true, 129_624),
        // 65535 and a segment are 66983.
        (2 * 66_983, false, 65_535),
        (2 * 66_982, false, 65_534),
        (2 * 70_000, false, 65_535),
        (2 * 1000, true, 1000),
        (2 * 2896, true, 2896),
        (2 * 2897, true, 2896),
        (2 * 4344, true, 2896),
        (2 * 4345, true, 2897),
    ] {
        assert_eq!(first_clamp(room, scaled, 1448), expected, "{room} {scaled}");
    }
    assert_eq!([4, 5, 6].map(window_of), [2, 3, 3]);
}

/// `rcvq_space.space`: the least of the threshold, the window and ten segments.
#[test]
fn reading_is_first_compared_with_ten_segments() {
    let config = linux();
    let made = |window, mss| {
        let made = Buffer::new(&at(&config, 7000), window, true, mss, Seq(50));
        assert_eq!((made.space_us, made.rtt_from_us, made.space_seq), (7000, 7000, Seq(50)));
        assert_eq!(made.rtt_seq, Seq(50 + window));
        (made.ssthresh, made.space)
    };
    assert_eq!(made(65_160, 1448), (64_088, 14_480));
    assert_eq!(made(14_000, 1448), (14_000, 14_000));
    assert_eq!(made(62_720, 8948), (56_588, 56_588));
}

#[test]
fn what_is_unread_or_waits_takes_room() {
    let config = linux();
    let mut buffer = buffer(&config);
    (buffer.unread, buffer.waiting) = (10_000, 20_001);
    assert_eq!((buffer.used(), buffer.free()), (30_001, 50_536));
    buffer.waiting = 200_000;
    assert_eq!(buffer.free(), 0);
}

/// `tcp_rcv_rtt_update` (6.1.192): the minimum counts at once, and a longer time by an eighth if
/// timestamps measured it.
#[test]
fn round_trips_fall_at_once_and_rise_by_an_eighth() {
    let config = linux();
    let mut buffer = buffer(&config);
    for (sample_us, by_window, expected) in [
        (100_000, true, 800_000),
        (140_000, true, 800_000),
        (140_000, false, 840_000),
        (105_000, false, 840_000),
        (104_999, false, 839_992),
        (60_000, true, 480_000),
        (50_000, false, 400_000),
    ] {
        buffer.update_rtt(sample_us, by_window);
        assert_eq!(buffer.rtt_us, expected, "{sample_us} {by_window}");
    }
}

/// `tcp_rcv_rtt_measure_ts`: full segments only, each echo once, a millisecond at least, and less
/// than `INT_MAX` microseconds.
#[test]
fn timestamps_measure_the_round_trip_of_full_segments() {
    let config = linux();
    let cx = at(&config, 5_000_500);
    // Timestamps count milliseconds from 1.
    for (len, echo, last, expected) in [
        (1448, 4901, 0, 100_000),
        (1449, 4901, 0, 100_000),
        (1447, 4901, 0, 0),
        (1448, 4901, 4901, 0),
        (1448, 5001, 0, 1000),
        (1448, 5000, 0, 1000),
        (1448, 4999, 0, 2000),
        (1448, 5001_u32.wrapping_sub(2_147_482), 0, 2_147_482_000),
        (1448, 5001_u32.wrapping_sub(2_147_483), 0, 0),
        // From the future.
        (1448, 5002, 0, 0),
    ] {
        let mut buffer = buffer(&config);
        (buffer.last_echo, buffer.space_us) = (last, 4_000_000);
        let header = Header { timestamps: Some((9, echo)), ..segment(len) };
        buffer.measure_by_stamps(&cx, &header, 1448);
        let sample: u32 = expected;
        assert_eq!(buffer.rtt_us, sample.saturating_mul(8), "{len} {echo}");
        // What came before the first sample counts as read in this round trip.
        assert_eq!(buffer.space_us, 4_000_000_u32.wrapping_sub(sample));
        assert_eq!(buffer.last_echo, echo);
        let before = (buffer.rtt_us, buffer.space_us);
        let next = Header { timestamps: Some((9, 4000)), ..header };
        buffer.measure_by_stamps(&cx, &next, 1448);
        if expected > 0 {
            assert_eq!(buffer.space_us, before.1, "only the first sample moves it");
        }
        buffer.measure_by_stamps(&cx, &segment(1448), 1448);
        assert_eq!(buffer.last_echo, 4000, "no option");
    }
}

/// `tcp_rcv_rtt_measure`: the time in which a window arrives.
#[test]
fn a_window_s_arrival_measures_the_round_trip() {
    let config = linux();
    let mut buffer = buffer(&config);
    buffer.measure_by_window(&at(&config, 70_000), Seq(65_160), 60_000);
    assert_eq!((buffer.rtt_us, buffer.rtt_seq), (0, Seq(65_161)));
    buffer.measure_by_window(&at(&config, 80_000), Seq(65_161), 60_000);
    assert_eq!((buffer.rtt_us, buffer.rtt_seq), (640_000, Seq(125_161)));
    buffer.measure_by_window(&at(&config, 80_000), Seq(125_161), 60_000);
    assert_eq!(buffer.rtt_us, 8, "a microsecond at least");
}

/// `tcp_grow_window`: two segments for each one whose payload is at least half of what it occupies,
/// as far as there is room. A small one counts only while the window is small
/// (`__tcp_grow_window`: it may be half of `tcp_rmem[2]`'s window if a quarter of the segment's
/// memory is payload, a quarter if an eighth is, and so on).
#[test]
fn the_window_grows_by_two_segments() {
    const HALF: u32 = 1_572_864;
    // Payload, whether it is in order, its memory's owner's MSS, the window, room above it, growth.
    for (len, in_order, rcv_mss, ssthresh, room, growth) in [
        (1448, true, 1448, 20_000, 9000, 2896),
        (1448, true, 1448, 20_000, 2895, 2895),
        (1448, true, 1448, 20_000, 1, 1),
        (1448, true, 1448, 20_000, 0, 0),
        (128, true, 536, 20_000, 9000, 2896),
        (1460, true, 1460, 20_000, 9000, 2920),
        // 768 bytes of overhead.
        (768, false, 536, HALF + 1, 9000, 2896),
        (767, false, 536, HALF + 1, 9000, 0),
        (767, false, 536, HALF, 9000, 1534),
        (767, false, 1000, HALF, 9000, 2000),
        // (400 + 768) / 4 is 292, and (200 + 768) / 8 is 121.
        (400, false, 1448, HALF, 9000, 2896),
        (400, false, 1448, HALF + 1, 9000, 0),
        (200, false, 1448, HALF / 2, 9000, 2896),
        (200, false, 1448, HALF / 2 + 1, 9000, 0),
        (256, false, 536, HALF, 9000, 1072),
        (255, false, 536, HALF / 2, 9000, 1072),
        (255, false, 536, HALF / 2 + 1, 9000, 0),
        (1, false, 536, 12_288, 9000, 1072),
        (1, false, 536, 12_289, 9000, 0),
    ] {
        let config = linux();
        let mut buffer = buffer(&config);
        (buffer.ssthresh, buffer.clamp) = (ssthresh, ssthresh + room);
        buffer.room = 6_291_456;
        let grows = buffer.grow(&config, len, in_order, rcv_mss);
        let case = (len, in_order, rcv_mss, ssthresh, room);
        assert_eq!((buffer.ssthresh - ssthresh, grows), (growth, growth > 0), "{case:?}");
    }
}

/// `tcp_rcv_space_adjust`: the application has read more than in the round trip before.
#[test]
fn the_buffer_grows_with_what_is_read_in_a_round_trip() {
    let config = linux();
    // A segment needs 2984 bytes of buffer: 1448 and 768, and steps of 128 until half is enough.
    // The window is 2 * read and 16 segments, and twice that again in proportion to the growth.
    for (read, room) in [
        (14_480, 131_072),
        (14_481, 131_072),
        // 2 * 28960 + 23168 = 81088 = 56 segments; three times as many.
        (28_960, 168 * 2984),
        // 83168 + 2 * (83168 * 15520 / 14480) = 261450: 180 segments.
        (30_000, 180 * 2984),
        (300_000, 6_291_456),
    ] {
        let mut buffer = buffer(&config);
        buffer.rtt_us = 800_000;
        buffer.adjust(&at(&config, 99_999), Seq(1 + read));
        assert_eq!((buffer.room, buffer.space_seq), (131_072, Seq(1)), "too early");
        buffer.adjust(&at(&config, 100_000), Seq(1 + read));
        assert_eq!(buffer.room, room, "{read}");
        assert_eq!(buffer.clamp, if room > 131_072 { room / 2 } else { 64_088 });
        assert_eq!((buffer.space_seq, buffer.space_us), (Seq(1 + read), 100_000));
        assert_eq!(buffer.space, read.max(14_480));
        // Less was read in the next.
        buffer.adjust(&at(&config, 200_000), Seq(1 + read + 5000));
        assert_eq!((buffer.room, buffer.space), (room, read.max(14_480)));
    }
    let mut unmeasured = buffer(&config);
    unmeasured.adjust(&at(&config, 900_000), Seq(50_000));
    assert_eq!((unmeasured.space_seq, unmeasured.room), (Seq(1), 131_072));
}

/// `__tcp_select_window` with window scaling.
#[test]
fn a_scaled_window_is_what_is_free_and_may_be_offered() {
    let config = linux();
    // Bytes that are unread, a full segment, the window, and what is left of five quick
    // acknowledgements. Of 131072 bytes, 65536 are window, and at most 64088 are offered: 501 units
    // of 128.
    for (unread, mss, expected, quick) in [
        (0, 1448, 64_128, 5),
        // Half of 64088 is free.
        (66_984, 1448, 32_128, 5),
        (66_986, 1448, 32_000, 0),
        // A sixteenth of 65536.
        (122_880, 1448, 4096, 0),
        (122_882, 1448, 0, 0),
        // A segment.
        (113_152, 8948, 8960, 0),
        (113_154, 8948, 0, 0),
        (113_152, 8960, 8960, 0),
        (113_152, 8961, 0, 0),
    ] {
        let mut receiver = receiver(&config, 7);
        (receiver.rcv_mss, receiver.quick) = (mss, 5);
        receiver.buffer_mut().expect("made above").unread = unread;
        assert_eq!((receiver.next_window(), receiver.quick), (expected, quick), "{unread} {mss}");
    }
}

/// `__tcp_select_window` without: it moves by whole segments, or not at all.
#[test]
fn an_unscaled_window_moves_by_whole_segments() {
    let config = linux();
    for (window, ssthresh, expected) in [
        (10_000, 11_448, 10_136),
        (10_000, 11_447, 10_000),
        (10_000, 10_000, 10_000),
        (10_000, 9999, 8688),
        (0, 1448, 1448),
        (0, 1447, 0),
    ] {
        let mut receiver = receiver(&config, 0);
        receiver.window = window;
        receiver.buffer_mut().expect("made above").ssthresh = ssthresh;
        assert_eq!(receiver.next_window(), expected, "{window} {ssthresh}");
    }
    // A first estimate of the segment (536 bytes) that is above the real one does not keep it closed.
    let mut small = receiver(&config, 0);
    small.window = 12;
    small.rcv_mss = 536;
    let buffer = small.buffer_mut().expect("made above");
    (buffer.advmss, buffer.ssthresh) = (76, 2 * 76);
    assert_eq!(small.next_window(), 2 * 76);
    // The buffer is smaller than a segment: it moves if it grows by more than half of the buffer.
    for (window, ssthresh, expected) in
        [(400, 901, 901), (400, 900, 400), (0, 1000, 1000), (500, 1000, 500), (499, 1000, 1000)]
    {
        let mut receiver = receiver(&config, 0);
        receiver.window = window;
        let buffer = receiver.buffer_mut().expect("made above");
        (buffer.room, buffer.clamp, buffer.ssthresh) = (2000, 64_088, ssthresh);
        assert_eq!(receiver.next_window(), expected, "{window} {ssthresh}");
    }
}

/// RFC 9293, 3.8.6: a window does not shrink. `tcp_select_window` rounds up what is still open.
#[test]
fn the_right_edge_never_moves_back() {
    let config = linux();
    for (arrived, unread, window, field) in [
        // 50000 of 64128 are open, and nothing is free.
        (14_128, 131_072, 50_048, 391),
        // More is free than is open.
        (14_128, 0, 64_128, 501),
        // All of it has arrived.
        (64_128, 131_072, 0, 0),
        (64_127, 131_072, 128, 1),
        (64_129, 131_072, 0, 0),
    ] {
        let mut receiver = receiver(&config, 7);
        (receiver.window, receiver.rcv_nxt) = (64_128, Seq(1 + arrived));
        receiver.buffer_mut().expect("made above").unread = unread;
        assert_eq!(receiver.open_window(), 64_128_u32.saturating_sub(arrived));
        assert_eq!((receiver.advertise(), receiver.window), (field, window), "{arrived} {unread}");
    }
    let mut receiver = receiver(&config, 7);
    for (window, field) in [(64_000, 500), (64_001, 501), (64_128, 501), (128, 1), (1, 1), (0, 0)] {
        receiver.window = window;
        assert_eq!(
            (receiver.round_up(window), receiver.window_field()),
            (field * 128, field as u16)
        );
    }
}

/// `__tcp_cleanup_rbuf`: reading is reported if it doubles a window of at most half of what it may
/// be (64088).
#[test]
fn a_window_that_has_doubled_is_reported() {
    let config = linux();
    for (open, ssthresh, unread, expected) in [
        (32_044, 64_088, 0, true),
        (32_045, 64_088, 0, false),
        // 40000 are 313 units of 128.
        (20_032, 40_000, 0, true),
        (20_033, 40_000, 0, false),
        (0, 64_088, 0, true),
        // Nothing is free.
        (0, 64_088, 131_072, false),
    ] {
        let mut receiver = receiver(&config, 7);
        receiver.window = open;
        let buffer = receiver.buffer_mut().expect("made above");
        (buffer.ssthresh, buffer.unread) = (ssthresh, unread);
        assert_eq!(receiver.has_opened(), expected, "{open} {ssthresh} {unread}");
    }
    assert!(!Receiver::new(&config).has_opened());
    let mut receiver = receiver(&config, 7);
    for (window, keeps) in [(64_128, true), (64_129, false), (0, true)] {
        receiver.window = window;
        assert_eq!(receiver.keeps_window(), keeps, "{window}");
    }
}

/// `tcp_ofo_queue` moves data, with their memory, to what the application reads.
#[test]
fn data_that_come_into_order_take_their_memory_along() {
    let config = linux();
    for (bytes, all, left) in [
        (500, false, (1250, 2250, 1500)),
        (2000, false, (3500, 0, 0)),
        (4000, false, (3500, 0, 0)),
        (500, true, (3500, 0, 0)),
        (0, false, (500, 3000, 2000)),
    ] {
        let mut receiver = receiver(&config, 7);
        let buffer = receiver.buffer_mut().expect("made above");
        (buffer.unread, buffer.waiting, buffer.waiting_payload) = (500, 3000, 2000);
        receiver.stop_waiting(bytes, all);
        let buffer = receiver.buffer().expect("made above");
        assert_eq!((buffer.unread, buffer.waiting, buffer.waiting_payload), left, "{bytes} {all}");
    }
}

/// `tcp_event_data_recv`: segments of 128 bytes and more let the window grow; a payload takes 768
/// bytes more of the buffer, and `tcp_clamp_window` comes first.
#[test]
fn data_in_order_fill_the_buffer() {
    let config = linux();
    for (len, grows) in [(127, false), (128, true), (1448, true)] {
        let mut receiver = receiver(&config, 7);
        receiver.buffer_mut().expect("made above").ssthresh = 20_000;
        receiver.fill(&at(&config, 1000), &segment(len), false);
        let buffer = receiver.buffer().expect("made above");
        assert_eq!(buffer.unread, u32::from(len) + 768);
        assert_eq!((buffer.ssthresh > 20_000, receiver.quick), (grows, u8::from(grows)), "{len}");
    }
}

/// `tcp_data_queue_ofo`: data out of order fill the buffer too, but without SACK they do not change
/// the window.
#[test]
fn data_out_of_order_let_the_window_grow_only_with_sack() {
    let config = linux();
    for (sack, growth) in [(true, 2896), (false, 0)] {
        let mut receiver = receiver(&config, 7);
        receiver.sack = sack;
        receiver.buffer_mut().expect("made above").ssthresh = 20_000;
        for n in 1..=2 {
            receiver.keep_waiting(&at(&config, 1000), &segment(1448));
            let buffer = receiver.buffer().expect("made above");
            assert_eq!((buffer.waiting, buffer.waiting_payload), (n * 2216, n * 1448));
            assert_eq!(buffer.ssthresh, 20_000 + n * growth);
        }
        assert_eq!(receiver.quick, u8::from(sack));
    }
}

/// The buffer is needed after ten segments (`TCP_INIT_CWND`). Until then the window is what
/// `tcp_init_buffer_space` leaves: 64088, in units of 128.
#[test]
fn the_first_ten_segments_need_no_buffer() {
    let config = linux();
    for (received, made) in [(14_600, false), (14_601, true)] {
        let mut receiver = Receiver::new(&config);
        receiver.start(Seq(1), true);
        receiver.timestamps = true;
        receiver.window = 65_160;
        (receiver.bytes_received, receiver.rcv_nxt) = (received, Seq(1 + received as u32));
        receiver.fill(&at(&config, 1000), &segment(1448), false);
        assert_eq!(receiver.buffer().is_some(), made, "{received}");
        if let Some(buffer) = receiver.buffer() {
            assert_eq!((buffer.space_seq, buffer.advmss), (Seq(1), 1448));
        } else {
            assert_eq!(receiver.window, 64_128);
        }
    }
}

/// `tcp_clamp_window`: more has arrived than the buffer holds, which therefore grows up to
/// `tcp_rmem[2]`; beyond that, the window falls to two segments.
#[test]
fn a_buffer_that_is_too_full_grows_or_closes_the_window() {
    let config = linux();
    for (unread, room, ssthresh, quick) in [
        (131_072, 131_072, 64_088, 5),
        (131_073, 131_073, 64_088, 0),
        (6_291_456, 6_291_456, 64_088, 0),
        (6_291_457, 6_291_456, 2896, 0),
    ] {
        let mut receiver = receiver(&config, 7);
        receiver.quick = 5;
        receiver.buffer_mut().expect("made above").unread = unread;
        receiver.clamp_window(&config);
        let buffer = receiver.buffer().expect("made above");
        assert_eq!((buffer.room, buffer.ssthresh, receiver.quick), (room, ssthresh, quick));
    }
}

/// What the application reads after an acknowledgement may open the window, which is asked once.
#[test]
fn reading_after_an_acknowledgement_is_noted_once() {
    let config = linux();
    let mut receiver = receiver(&config, 7);
    receiver.read_after_ack();
    assert!(!receiver.has_read_after_ack(), "nothing was there");
    receiver.buffer_mut().expect("made above").unread = 1;
    receiver.read_after_ack();
    assert_eq!(receiver.buffer().expect("made above").unread, 0);
    assert!(receiver.has_read_after_ack() && !receiver.has_read_after_ack());
    receiver.buffer_mut().expect("made above").unread = 1;
    receiver.read();
    assert_eq!(receiver.buffer().expect("made above").unread, 0);
    assert!(!receiver.has_read_after_ack());
    receiver.buffer_mut().expect("made above").rtt_us = 80_007;
    assert_eq!(receiver.rtt_us(), Some(10_000));
}

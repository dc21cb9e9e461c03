//! The rules of Linux 7.3, worked out by hand.

use super::*;

fn linux_7() -> Config {
    Config::profile("linux-7").expect("a known profile")
}

/// `tcp_measure_rcv_mss` of Linux 7.3: a segment that is longer than all before says which part of the
/// buffer is window, and shorter ones do not. 1448 of 2280 bytes are 162 of 256.
#[test]
fn full_segments_say_which_part_of_the_buffer_is_window() {
    let config = linux_7();
    let mut receiver = receiver(&config, 7);
    receiver.rcv_mss = 536;
    let learnt = |receiver: &Receiver| {
        let buffer = receiver.buffer().expect("made above");
        (buffer.ratio, buffer.clamp, buffer.space)
    };
    assert_eq!(learnt(&receiver), (Some(128), 64_088, 14_480));
    for (len, longest) in [(1448, true), (600, false)] {
        receiver.fill(&at(&config, 1000), &segment(len), longest);
        assert_eq!(learnt(&receiver), (Some(162), 82_944, 14_480), "{len}");
    }
    // What was read in a round trip counts no more than the window.
    receiver.buffer_mut().expect("made above").space = 90_000;
    receiver.fill(&at(&config, 1000), &segment(88), true);
    assert_eq!(learnt(&receiver), (Some(24), 12_288, 12_288));
}

/// `tcp_rcvbuf_grow` of Linux 7.3.
#[test]
fn the_buffer_of_linux_7_grows_less() {
    let config = linux_7();
    for (read, rtt_us, highest, room) in [
        // 2 * 30000 + 2 * 60000 * 15520 / 14480 = 188618.
        (30_000, 100_000, 0, 188_618),
        // The same, and 5000 bytes beyond what was read.
        (30_000, 100_000, 35_001, 193_618),
        // 2 * 100000, and half of it.
        (100_000, 500, 0, 300_000),
        (u32::MAX / 2, 100_000, 0, 3_145_728),
    ] {
        let mut buffer = buffer(&config);
        buffer.rtt_us = 8 * rtt_us;
        (buffer.waiting, buffer.highest) = (u32::from(highest > 0), Seq(highest));
        buffer.adjust(&at(&config, rtt_us.into()), Seq(1 + read));
        // Half of it is window.
        assert_eq!(buffer.room, 2 * room, "{read} {rtt_us} {highest}");
    }
}

/// Where data out of order once ended does not count later, when sequence numbers have wrapped.
#[test]
fn a_hole_that_was_filled_makes_no_room() {
    let config = linux_7();
    let mut receiver = receiver(&config, 7);
    let far = (1 << 31) + 5000;
    receiver.rcv_nxt = Seq(far);
    let buffer = receiver.buffer_mut().expect("made above");
    buffer.rtt_us = 800_000;
    buffer.space_seq = Seq(far - 20_000);
    buffer.adjust(&at(&config, 100_000), Seq(far));
    // 2 * 20000 + 2 * 40000 * 5520 / 14480 = 70497, and half of the buffer is window.
    assert_eq!(buffer.room, 140_994);
    receiver.keep_waiting(&at(&config, 1000), &Header { seq: Seq(far + 1448), ..segment(1448) });
    assert_eq!(receiver.buffer().expect("made above").highest, Seq(far + 2896));
}

/// A round trip shorter than a tick of the timestamps is measured as 1 ms by Linux 6.1 only.
#[test]
fn linux_7_does_not_measure_a_round_trip_below_a_tick() {
    for (config, rtt_us) in [(linux(), 8000), (linux_7(), 0)] {
        let mut buffer = buffer(&config);
        let cx = at(&config, 5000);
        let echo = cx.timestamp();
        let header = Header { timestamps: Some((1, echo)), ..segment(1448) };
        buffer.measure_by_stamps(&cx, &header, 1448);
        assert_eq!(buffer.rtt_us, rtt_us);
    }
}

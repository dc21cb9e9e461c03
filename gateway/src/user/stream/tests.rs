use super::*;

const CLIENT: u32 = 0xffff_ff00; // so that the sequence numbers wrap
const SERVER: u32 = 0xffff_0000;

fn start(timestamps: bool) -> Start {
    Start {
        client_next: CLIENT,
        server_next: SERVER,
        window: 65_535,
        mss: 1460,
        scale: None,
        timestamps: timestamps.then_some((500, 900)),
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns the segments that a stream sends now, with owned payloads.
fn sent(stream: &mut Stream, now: Duration) -> Vec<(Segment<'static>, Vec<u8>)> {
    let mut out = Vec::new();
    stream.transmit(now, |segment| {
        let bytes = [segment.payload.0, segment.payload.1].concat();
        out.push((Segment { payload: (&[], &[]), ..*segment }, bytes));
    });
    out
}

fn from_client(seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
    Segment { seq, ack, flags, window: 65_535, timestamps: None, payload: (payload, &[]) }
}

#[test]
fn data_in_order_is_given_on_and_acknowledged_at_once() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.handle_segment(&from_client(CLIENT, SERVER, ACK, b"abc"), ms(1));
    assert_eq!(stream.received(), b"abc");
    let out = sent(&mut stream, ms(1));
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].0.flags, out[0].0.ack), (ACK, CLIENT.wrapping_add(3)));
}

#[test]
fn an_overlap_is_cut_off_and_a_gap_is_told() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.handle_segment(&from_client(CLIENT, SERVER, ACK, b"abc"), ms(1));
    stream.handle_segment(&from_client(CLIENT.wrapping_add(1), SERVER, ACK, b"bcde"), ms(1));
    assert_eq!(stream.received(), b"abcde");
    stream.handle_segment(&from_client(CLIENT.wrapping_add(7), SERVER, ACK, b"hi"), ms(1));
    assert_eq!(stream.received(), b"abcde");
    assert_eq!(sent(&mut stream, ms(1))[0].0.ack, CLIENT.wrapping_add(5));
    stream.handle_segment(&from_client(CLIENT.wrapping_add(4), SERVER, ACK, b"efg"), ms(1));
    assert_eq!(stream.received(), b"abcdefghi", "what came before its turn has been kept");
    assert_eq!(sent(&mut stream, ms(1))[0].0.ack, CLIENT.wrapping_add(9));
}

/// RFC 6928: ten segments, and no more before an acknowledgement comes.
#[test]
fn the_initial_window_is_ten_segments() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    assert_eq!(stream.write(&[7; 40_000]), 40_000);
    let out = sent(&mut stream, ms(0));
    assert_eq!(out.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [1460; 10]);
    assert!(sent(&mut stream, ms(1)).is_empty());
}

#[test]
fn the_clients_window_is_kept() {
    let at = Start { window: 3000, ..start(false) };
    let mut stream = Stream::adopt(&at, ms(0));
    stream.write(&[7; 10_000]);
    let out = sent(&mut stream, ms(0));
    // RFC 9293, 3.8.6.2.1: the remaining 80 bytes of the window are too few for a segment.
    assert_eq!(out.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [1460, 1460]);
}

/// RFC 5681, 3.2: the third duplicate sends the lost segment again before any timeout.
#[test]
fn three_duplicates_send_again() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.write(&[7; 14_600]);
    sent(&mut stream, ms(0));
    for n in 0..3 {
        stream.handle_segment(&from_client(CLIENT, SERVER, ACK, b""), ms(20 + n));
        let again = sent(&mut stream, ms(20 + n));
        assert_eq!(again.first().map(|(segment, _)| segment.seq), (n == 2).then_some(SERVER));
    }
}

/// RFC 1191: the missing data comes again at once in shorter segments, once for all segments that
/// were too long. RFC 5927, 7: messages about segments that are not in flight, or with no new
/// information, change nothing.
#[test]
fn what_is_too_long_for_the_path_comes_again_shorter() {
    for timestamps in [false, true] {
        let options = if timestamps { 12 } else { 0 };
        let mut stream = Stream::adopt(&start(timestamps), ms(0));
        assert!(!stream.shorten(SERVER, 1240, ms(0)), "nothing was sent");
        stream.write(&[7; 6000]);
        sent(&mut stream, ms(0));
        for (seq, mss) in
            [(SERVER - 1, 1240), (SERVER + 6000, 1240), (SERVER, 1460), (SERVER, 9000)]
        {
            assert!(!stream.shorten(seq, mss, ms(1)), "{seq} {mss}");
        }
        assert!(sent(&mut stream, ms(2)).is_empty());
        assert!(stream.shorten(SERVER + 2900, 1240, ms(3)));
        assert!(!stream.shorten(SERVER, 1240, ms(3)), "one of the others");
        let again = sent(&mut stream, ms(3));
        assert_eq!(again[0].0.seq, SERVER);
        assert!(again[..4].iter().all(|(_, bytes)| bytes.len() == 1240 - options));
        assert_eq!(again.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), 6000);
        assert!(sent(&mut stream, ms(4)).is_empty());
    }
}

/// RFC 6298 (5.5): the timeout doubles.
#[test]
fn timeouts_double() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.write(b"answer");
    sent(&mut stream, ms(0));
    let mut at = Vec::new();
    for _ in 0..4 {
        let due = stream.timeout().expect("something is in flight");
        at.push(due.as_millis());
        stream.handle_timeout(due);
        let out = sent(&mut stream, due);
        assert_eq!((out.len(), out[0].0.seq, &out[0].1[..]), (1, SERVER, &b"answer"[..]));
    }
    assert_eq!(at, [1000, 3000, 7000, 15_000]);
}

#[test]
fn a_silent_client_is_given_up_with_a_reset() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.write(b"answer");
    sent(&mut stream, ms(0));
    let mut last = Vec::new();
    let mut end = ms(0);
    while let Some(due) = stream.timeout() {
        stream.handle_timeout(due);
        last = sent(&mut stream, due);
        end = due;
    }
    assert!(stream.is_closed());
    assert_eq!(last[0].0.flags & RST, RST);
    assert!(end >= STALLED && end < STALLED * 2, "{end:?}");
}

/// RFC 9293, 3.8.6.1. The answer to a probe opens the window.
#[test]
fn a_closed_window_is_probed() {
    let at = Start { window: 0, ..start(false) };
    let mut stream = Stream::adopt(&at, ms(0));
    stream.write(b"answer");
    assert!(sent(&mut stream, ms(0)).is_empty());
    let due = stream.timeout().expect("a probe is due");
    stream.handle_timeout(due);
    let probe = sent(&mut stream, due);
    assert_eq!((probe.len(), &probe[0].1[..]), (1, &b"a"[..]));
    let opens = from_client(CLIENT, SERVER.wrapping_add(1), ACK, b"");
    stream.handle_segment(&opens, due + ms(5));
    let rest = sent(&mut stream, due + ms(5));
    assert_eq!((rest.len(), &rest[0].1[..]), (1, &b"nswer"[..]));
}

/// RFC 5961, 3.2: only the exact number resets. Others inside the window are challenged.
#[test]
fn only_an_exact_reset_resets() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.handle_segment(&from_client(CLIENT.wrapping_add(100), 0, RST, b""), ms(0));
    assert!(!stream.is_closed());
    assert_eq!(sent(&mut stream, ms(0))[0].0.flags, ACK);
    stream.handle_segment(&from_client(CLIENT, 0, RST, b""), ms(0));
    assert!(stream.is_closed());
}

#[test]
fn half_close_still_answers_and_then_closes() {
    let mut stream = Stream::adopt(&start(false), ms(0));
    stream.handle_segment(&from_client(CLIENT, SERVER, ACK | FIN, b"query"), ms(0));
    assert!(!stream.client_finished(), "the query is not read yet");
    stream.consume(5);
    assert!(stream.client_finished());
    stream.write(b"answer");
    stream.finish();
    let out = sent(&mut stream, ms(1));
    assert_eq!(out.len(), 1, "the FIN rides on the answer");
    assert_eq!(out[0].0.flags, ACK | PSH | FIN);
    assert_eq!(out[0].0.ack, CLIENT.wrapping_add(6));
    let last = from_client(CLIENT.wrapping_add(6), SERVER.wrapping_add(7), ACK, b"");
    stream.handle_segment(&last, ms(2));
    sent(&mut stream, ms(2));
    assert!(stream.is_closed());
    assert_eq!(stream.timeout(), None);
}

/// RFC 7323: our clock continues from its last value, the client's value is echoed, and old values
/// are refused.
#[test]
fn timestamps_go_on() {
    let mut stream = Stream::adopt(&start(true), ms(100));
    let data = Segment { timestamps: Some((950, 500)), ..from_client(CLIENT, SERVER, ACK, b"q") };
    stream.handle_segment(&data, ms(140));
    stream.write(&[1; 1460]);
    let out = sent(&mut stream, ms(150));
    assert_eq!(out[0].0.timestamps, Some((550, 950)));
    assert_eq!(out[0].1.len(), 1448, "12 bytes of options");
    let old = Segment {
        timestamps: Some((949, 500)),
        ..from_client(CLIENT.wrapping_add(1), SERVER, ACK, b"r")
    };
    stream.handle_segment(&old, ms(160));
    assert_eq!(stream.received(), b"q");
}

/// A small generator (xorshift64*, Marsaglia 2003, Vigna 2016) for the lossy link.
struct Chance(u64);
impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// Whatever arrives, nothing panics, buffers stay within their limits, and acknowledged data stays
/// acknowledged.
#[test]
fn any_segment_is_survived() {
    for seed in 1..=300 {
        let mut chance = Chance(seed * 0x9e37_79b9);
        let at = Start { window: chance.below(3) as u32 * 3000, ..start(seed % 2 == 0) };
        let mut stream = Stream::adopt(&at, ms(0));
        let bytes = vec![7; 3000];
        let (mut now, mut known) = (ms(0), SERVER);
        for _ in 0..200 {
            now += ms(chance.below(400));
            let near = |chance: &mut Chance, number: u32| match chance.below(8) {
                0 => chance.below(1 << 32) as u32,
                _ => number.wrapping_add(chance.below(4000) as u32).wrapping_sub(1000),
            };
            let payload = &bytes[..chance.below(4) as usize * chance.below(1000) as usize];
            let segment = Segment {
                seq: near(&mut chance, stream.rcv_nxt),
                ack: near(&mut chance, stream.snd_una),
                // Most of them have no RST or SYN.
                flags: chance.below(256) as u8 & if chance.below(20) > 0 { 0x19 } else { 0xff },
                window: chance.below(65_536) as u16 * chance.below(2) as u16,
                timestamps: (chance.below(2) == 0).then(|| (near(&mut chance, 900), 500)),
                payload: (payload, &[]),
            };
            stream.handle_segment(&segment, now);
            match chance.below(6) {
                0 => drop(stream.write(&bytes)),
                1 => stream.consume(stream.received().len()),
                2 if chance.below(20) == 0 => stream.finish(),
                _ => {}
            }
            stream.handle_timeout(now);
            for (out, data) in sent(&mut stream, now) {
                assert!(data.len() <= 1460 && !before(out.seq, known), "{seed}: {out:?}");
            }
            assert!(stream.received.len() <= RECEIVE_BUFFER && stream.ahead.len() <= AHEAD);
            assert!(stream.unsent.len() <= SEND_BUFFER && !before(stream.snd_una, known));
            known = stream.snd_una;
        }
    }
}

/// A link with a delay of 5 ms and up to `jitter` more in each direction.
#[derive(Clone, Copy, Debug)]
struct Link {
    seed: u64,
    loss_percent: u64,
    duplicate_percent: u64,
    jitter: u64,
}

/// Each end sends its bytes and a FIN. Returns what each received, and when both were closed.
fn exchange(link: Link, timestamps: bool, bytes: [&[u8]; 2]) -> ([Vec<u8>; 2], Duration) {
    let Link { seed, loss_percent, duplicate_percent, jitter } = link;
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let there = start(timestamps);
    let here = Start {
        client_next: SERVER,
        server_next: CLIENT,
        timestamps: there.timestamps.map(|(a, b)| (b, a)),
        ..there
    };
    let mut ends = [Stream::adopt(&there, ms(0)), Stream::adopt(&here, ms(0))];
    let mut rest = bytes;
    let mut got = [Vec::new(), Vec::new()];
    let mut wire: Vec<(Duration, usize, Segment<'static>, Vec<u8>)> = Vec::new();
    let mut now = ms(0);
    for _ in 0..1_000_000 {
        for side in 0..2 {
            let taken = ends[side].write(rest[side]);
            rest[side] = &rest[side][taken..];
            if rest[side].is_empty() {
                ends[side].finish();
            }
            let piece = ends[side].received().to_vec();
            ends[side].consume(piece.len());
            got[side].extend(piece);
            ends[side].handle_timeout(now);
            for (segment, payload) in sent(&mut ends[side], now) {
                for _ in 0..1 + u64::from(chance.below(100) < duplicate_percent) {
                    let arrives = now + ms(5 + chance.below(jitter + 1));
                    if chance.below(100) >= loss_percent {
                        wire.push((arrives, 1 - side, segment, payload.clone()));
                    }
                }
            }
        }
        let arrival = wire.iter().map(|(at, ..)| *at).min();
        let timer = ends.iter().filter_map(Stream::timeout).min();
        let unread = ends.iter().any(|end| !end.received().is_empty());
        match arrival.into_iter().chain(timer).min() {
            _ if unread => {}
            Some(next) => now = now.max(next),
            None => return (got, now),
        }
        let due: Vec<_> = wire.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, to, segment, payload) in due {
            ends[to].handle_segment(&Segment { payload: (&payload, &[]), ..segment }, now);
        }
    }
    panic!("{link:?}: still not closed at {now:?}: {ends:?}");
}

/// Whatever is lost, duplicated or reordered, both sides get every byte once and in order, and
/// close. The last ACK may be lost, so a side may end by giving up after it has everything.
#[test]
fn every_byte_arrives_at_any_loss() {
    let long: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    for (loss, size) in [(0, 300_000), (1, 300_000), (10, 100_000), (25, 40_000)] {
        for seed in 1..=20 {
            for timestamps in [false, true] {
                let bytes = [&long[..size], &long[size / 3..size / 2]];
                let link = Link { seed, loss_percent: loss, duplicate_percent: 2, jitter: 10 };
                let (got, _) = exchange(link, timestamps, bytes);
                assert!(got[1] == bytes[0], "{link:?}: the answer, {}", got[1].len());
                assert!(got[0] == bytes[1], "{link:?}: the query, {}", got[0].len());
            }
        }
    }
}

/// 60 kB in windows that double from ten segments of 1448 bytes (14, 29 kB, ...) take three round
/// trips of 10 ms, the last for the acknowledgement of the FIN.
#[test]
fn without_loss_slow_start_sets_the_time() {
    let link = Link { seed: 7, loss_percent: 0, duplicate_percent: 0, jitter: 0 };
    let (_, end) = exchange(link, true, [&[3; 60_000], b""]);
    assert_eq!(end, ms(30));
}

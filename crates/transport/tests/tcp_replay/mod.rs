//! Replays what the senders of a Linux kernel got and sent, segment by segment. The sending half
//! gets the same acknowledgements at the same times, and must send the same segments.
//!
//! The files in kernel/ are from a guest of Linux 6.1.192, and those of accurate ECN from one of Linux
//! 7.3.4. `tools/kernel_replay.py` makes them, and says what their lines mean. The files of BBR,
//! pacing, DCTCP and accurate ECN have up to three connections over a path without jitter. The others
//! have eight connections of 8 s over 2 Mbit/s, with a delay that varies, so that acknowledgements
//! overtake each other. A tenth of the packets is lost or marked there.
//!
//! If a connection differs once, everything after it may differ, because the acknowledgements
//! answer what the kernel sent. So the test counts what is equal up to the first difference. The
//! reason for the rest is known: Linux stamps the segments of a burst two by two, as they leave the
//! host (`tcp_small_queue_check`), which moves RACK's verdicts by microseconds, and in some cases
//! by a jiffy.

use narrows_transport::tcp::{
    AccurateEcn, Config, Congestion, EcnBytes, Endpoint, Flags, Order, Recovery, SackBlocks,
    Segment, Seq, SynOptions,
};
use narrows_units::{Ecn, Span, Time};

/// A segment: its time in microseconds, first byte and payload; the first byte of a bare
/// acknowledgement is not compared.
type Sent = (u64, Option<u32>, u16);

/// Replays one connection, with an initial sequence number of its own. Returns what the kernel
/// sent, and what this sender does.
fn replay(config: &Config, isn: u32, lines: &[&str]) -> (Vec<Sent>, Vec<Sent>) {
    let mut end = Endpoint::server(config.clone(), Seq(isn));
    let (mut expected, mut sent) = (Vec::new(), Vec::new());
    let mut written = false;
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let us: u64 = fields[1].parse().expect("a time");
        if fields[0] == "o" {
            let len: u16 = fields[4].parse().expect("a length");
            let seq = (len > 0).then(|| number(fields[3]));
            expected.push((us, seq, len));
            continue;
        }
        while let Some(due) = end.next_timeout().filter(|&due| due < at(us)) {
            end.handle_timeout(due);
            drain(&mut end, due, isn, &mut sent);
        }
        end.handle_segment(at(us), &segment(config, isn, &fields));
        if end.is_established() && !written {
            written = true;
            end.write_forever(at(us));
        }
        drain(&mut end, at(us), isn, &mut sent);
    }
    let last = at(expected.last().map_or(0, |sent| sent.0) + 100);
    while let Some(due) = end.next_timeout().filter(|&due| due < last) {
        end.handle_timeout(due);
        drain(&mut end, due, isn, &mut sent);
    }
    (expected, sent)
}

fn drain(end: &mut Endpoint, now: Time, isn: u32, sent: &mut Vec<Sent>) {
    while let Some(segment) = end.poll_transmit(now) {
        let seq = (segment.len > 0).then_some(segment.seq.0.wrapping_sub(isn));
        sent.push((now.as_ps() / 1_000_000, seq, segment.len));
    }
    end.check_invariants();
}

fn segment(config: &Config, isn: u32, fields: &[&str]) -> Segment {
    let syn = fields[2].contains('S');
    let mut flags = if syn { Flags::SYN } else { Flags::ACK };
    for (letter, flag) in [('E', Flags::ECE), ('W', Flags::CWR), ('A', Flags::AE)] {
        if fields[2].contains(letter) {
            flags = flags.with(flag);
        }
    }
    let mut sack = SackBlocks::default();
    let mut accurate = None;
    for block in &fields[7..] {
        if let Some(counters) = block.strip_prefix("174:") {
            accurate = Some(option(counters));
            continue;
        }
        let (start, end) = block.split_once(':').expect("a block");
        sack.push(Seq(isn) + number(start), Seq(isn) + number(end));
    }
    Segment {
        seq: Seq(u32::from(!syn)),
        ack: Seq(if syn { 0 } else { isn.wrapping_add(number(fields[3])) }),
        window: fields[4].parse().expect("a window"),
        flags,
        timestamps: Some((number(fields[5]), number(fields[6]))),
        sack,
        accurate,
        syn: syn.then(|| SynOptions {
            mss: 1460,
            window_scale: Some(7),
            sack_permitted: config.sack,
            ..SynOptions::default()
        }),
        ..Segment::default()
    }
}

/// An AccECN option of order 1, from the hexadecimal digits of its counters.
fn option(digits: &str) -> AccurateEcn {
    let counter = |at: usize| {
        digits.get(at..at + 6).map_or(0, |digits| u32::from_str_radix(digits, 16).expect("digits"))
    };
    let bytes = EcnBytes { ect1: counter(0), ce: counter(6), ect0: counter(12) };
    AccurateEcn::new(Order::One, bytes, digits.len() / 6)
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number below 2^32")
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Returns, for each connection, how many segments are equal before the first that differs, and how
/// many the kernel sent. Times may differ by what a jiffy's timers and the kernel's computing leave
/// open.
fn equal(config: &Config, text: &str) -> Vec<(usize, usize)> {
    let connections = text.split("connection\n").skip(1);
    connections
        .map(|lines| {
            let (expected, sent) = replay(config, 0, &lines.lines().collect::<Vec<_>>());
            (count_equal(&expected, &sent), expected.len())
        })
        .collect()
}

fn count_equal(expected: &[Sent], sent: &[Sent]) -> usize {
    let pairs = expected.iter().zip(sent);
    pairs.take_while(|(a, b)| a.1 == b.1 && a.2 == b.2 && a.0.abs_diff(b.0) < 1000).count()
}

fn linux() -> Config {
    let config = Config::profile("linux-6").expect("a known profile");
    Config { timer_granularity: Span::from_ms(10), ..config }
}

fn linux_7() -> Config {
    let config = Config::profile("linux-7").expect("a known profile");
    Config { timer_granularity: Span::from_ms(10), ..config }
}

#[test]
fn a_sender_sends_what_linux_sends() {
    let no_rack = Config { rack: false, tlp: false, ..linux() };
    let variants: [(&str, Config, &str); 6] = [
        ("cubic", linux(), include_str!("kernel/cubic.txt")),
        (
            "reno",
            Config { congestion: Congestion::Reno, ..linux() },
            include_str!("kernel/reno.txt"),
        ),
        ("ecn", Config { ecn: true, ..linux() }, include_str!("kernel/ecn.txt")),
        ("fifo", linux(), include_str!("kernel/fifo.txt")),
        ("no-rack", no_rack.clone(), include_str!("kernel/no-rack.txt")),
        (
            "no-sack",
            Config { sack: false, recovery: Recovery::NewReno, ..no_rack },
            include_str!("kernel/no-sack.txt"),
        ),
    ];
    let (mut whole, mut segments) = (0, 0);
    for (name, config, text) in variants {
        let connections = equal(&config, text);
        assert_eq!(connections.len(), 8, "{name}");
        for (number, (same, of)) in connections.into_iter().enumerate() {
            assert!(of > 60, "{name} {number}: {of} segments are too few to tell");
            if (name, number) == OTHER_VERDICT {
                assert!(same >= 18, "{name} {number}: {same} of {of}");
                continue;
            }
            assert_eq!(same, of, "{name}, connection {number}: segments until they differ");
            (whole, segments) = (whole + 1, segments + of);
        }
    }
    assert_eq!(whole, 47);
    assert!(segments > 8500, "{segments}");
}

/// Here the kernel's RACK waits for its timer: it stamped a lost segment two microseconds later
/// than another of the same burst.
const OTHER_VERDICT: (&str, usize) = ("ecn", 7);

/// Pacing and BBR: the same acknowledgements, the same segments within a millisecond.
///
/// BBR draws the phase in which it begins to probe. Here the initial sequence number decides it, so
/// the replay tries several, and the best counts.
#[test]
fn a_paced_sender_sends_what_linux_sends() {
    let paced = Config { pacing: true, ..linux() };
    let bbr = Config { congestion: Congestion::Bbr, ..linux() };
    let mut segments = 0;
    for (name, config, text) in [
        ("paced", paced, include_str!("kernel/paced.txt")),
        ("bbr-alone", bbr.clone(), include_str!("kernel/bbr-alone.txt")),
        ("bbr", bbr, include_str!("kernel/bbr.txt")),
    ] {
        for (number, connection) in text.split("connection\n").skip(1).enumerate() {
            let lines = connection.lines().collect::<Vec<_>>();
            let replays = (0..DRAWS).map(|isn| replay(&config, isn, &lines));
            let (same, of) = replays
                .map(|(expected, sent)| (count_equal(&expected, &sent), expected.len()))
                .max_by_key(|&(same, _)| same)
                .expect("it was replayed");
            assert!(of > 200, "{name} {number}: {of} segments are too few to tell");
            assert_eq!(same, of, "{name}, connection {number}: segments until they differ");
            segments += of;
        }
    }
    assert!(segments > 9000, "{segments}");
}

/// DCTCP: what the acknowledgements say about marks decides the window.
#[test]
fn a_sender_with_dctcp_sends_what_linux_sends() {
    let config = Config { congestion: Congestion::Dctcp, ..linux() };
    let connections = equal(&config, include_str!("kernel/dctcp.txt"));
    let mut segments = 0;
    for (number, &(same, of)) in connections.iter().enumerate() {
        assert_eq!(same, of, "connection {number}: segments until they differ");
        segments += of;
    }
    assert!(connections.len() == 2 && segments > 2000, "{segments}");
}

/// CUBIC over accurate ECN (RFC 9768): the counts that arrive decide the window.
#[test]
fn a_sender_with_accurate_ecn_sends_what_linux_sends() {
    let config = Config { accurate_ecn: true, ..linux() };
    let connections = equal(&config, include_str!("kernel/accecn.txt"));
    assert_eq!(connections, [(1136, 1136), (1311, 1311)]);
}

/// A bare acknowledgement: its time in microseconds, its number, whether it has ECE, the counts of its
/// AccECN option, and its window field.
type Acknowledged = (u64, u32, bool, Option<EcnBytes>, u16);

/// Replays what arrives at a receiver, which opens the connection. Returns what the kernel
/// acknowledged, and what this receiver does.
fn replay_receiver(config: &Config, lines: &[&str]) -> (Vec<Acknowledged>, Vec<Acknowledged>) {
    let mut end = Endpoint::client(config.clone(), Seq(0));
    let (mut expected, mut sent) = (Vec::new(), Vec::new());
    let drain = |end: &mut Endpoint, now: Time, sent: &mut Vec<Acknowledged>| {
        while let Some(segment) = end.poll_transmit(now) {
            let ece = segment.flags.contains(Flags::ECE);
            if segment.syn.is_none() {
                assert_eq!((segment.len, segment.ecn), (0, Ecn::Ect0));
                let counts = segment.accurate.map(|option| option.counters(EcnBytes::INITIAL));
                let us = now.as_ps() / 1_000_000;
                sent.push((us, segment.ack.0, ece, counts, segment.window));
            }
        }
    };
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (us, syn) = (u64::from(number(fields[1])), fields[2].contains('S'));
        while let Some(due) = end.next_timeout().filter(|&due| due < at(us)) {
            end.handle_timeout(due);
            drain(&mut end, due, &mut sent);
        }
        match fields[0] {
            "o" if syn => end.connect(at(us)),
            "o" => {
                let counts = fields.iter().find_map(|field| field.strip_prefix("174:"));
                let counts = counts.map(|digits| option(digits).counters(EcnBytes::INITIAL));
                let window = number(fields[4]) as u16;
                expected.push((us, number(fields[3]), fields[2].contains('E'), counts, window));
                continue;
            }
            _ => {
                let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][number(fields[7]) as usize];
                let mut segment = segment(config, 0, &fields[..7]);
                segment.seq = Seq(number(fields[3]));
                (segment.ack, segment.len) = (Seq(1), number(fields[4]) as u16);
                (segment.ecn, segment.window) = (ecn, 500);
                segment.flags = segment.flags.with(Flags::ACK);
                if fields[2].contains('P') {
                    segment.flags = segment.flags.with(Flags::PSH);
                }
                end.handle_segment(at(us), &segment);
            }
        }
        drain(&mut end, at(us), &mut sent);
    }
    (expected, sent)
}

/// Compares what the kernel and this receiver acknowledge at each change of marks. Returns the number
/// of changes, and in how many the acknowledgements are equal.
///
/// Other acknowledgements may differ: the kernel's window, whose growth is a reason for one, depends
/// on how it stores segments.
fn changes_of_marks(config: &Config, text: &str) -> (u32, u32) {
    let (mut same, mut changes) = (0, 0);
    for lines in text.split("connection\n").skip(1) {
        let lines = lines.lines().collect::<Vec<_>>();
        let (expected, sent) = replay_receiver(config, &lines);
        let at_time = |all: &[Acknowledged], us: u64| -> Vec<(u32, bool, Option<EcnBytes>)> {
            let then = all.iter().filter(|&&(at, ..)| (us..us + 50).contains(&at));
            then.map(|&(_, ack, ece, counts, _)| (ack, ece, counts)).collect()
        };
        let mut marked = false;
        for line in lines.iter().filter(|line| line.starts_with('i') && !line.contains('S')) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let now = fields[7] == "3";
            if core::mem::replace(&mut marked, now) == now {
                continue;
            }
            let us = number(fields[1]).into();
            let (kernel, ours) = (at_time(&expected, us), at_time(&sent, us));
            // Both report the new state at once, for the same data.
            assert_eq!(kernel.last(), ours.last(), "{line}");
            if !config.accurate_ecn {
                assert_eq!(kernel.last().map(|&(_, ece, _)| ece), Some(now), "{line}");
            }
            changes += 1;
            same += u32::from(kernel == ours);
        }
    }
    (changes, same)
}

/// RFC 8257, 3.2: what a receiver acknowledges when marks begin or end, and with which state.
#[test]
fn a_receiver_with_dctcp_acknowledges_changes_of_marks_as_linux_does() {
    let config = Config { congestion: Congestion::Dctcp, ..linux() };
    let (changes, same) = changes_of_marks(&config, include_str!("kernel/dctcp-receiver.txt"));
    assert_eq!((changes, same), (546, 546));
}

/// The same with accurate ECN, whose counts stand on every acknowledgement.
#[test]
fn a_receiver_with_dctcp_and_accurate_ecn_acknowledges_changes_of_marks_as_linux_does() {
    let config = Config { congestion: Congestion::Dctcp, accurate_ecn: true, ..linux_7() };
    let text = include_str!("kernel/accecn-dctcp-receiver.txt");
    let (changes, same) = changes_of_marks(&config, text);
    assert_eq!((changes, same), (582, 582));
}

/// RFC 9768, 3.2: what a receiver reports when it acknowledges the same data as Linux. Linux 7 sends
/// more acknowledgements than Linux 6.1 at the start of a connection, and others may differ by what
/// the window says, so not all are there in both.
#[test]
fn a_receiver_with_accurate_ecn_reports_what_linux_does() {
    let config = Config { accurate_ecn: true, ..linux() };
    let text = include_str!("kernel/accecn-receiver.txt");
    for lines in text.split("connection\n").skip(1) {
        let (expected, sent) = replay_receiver(&config, &lines.lines().collect::<Vec<_>>());
        let mut same = 0;
        for kernel in &expected {
            let ours =
                sent.iter().find(|ours| ours.1 == kernel.1 && ours.0.abs_diff(kernel.0) < 50);
            if let Some(ours) = ours {
                // A third SACK block leaves no room for the option.
                let both = kernel.3.is_some() && ours.3.is_some();
                assert_eq!(ours.2, kernel.2, "{kernel:?} {ours:?}");
                assert!(!both || ours.3 == kernel.3, "{kernel:?} {ours:?}");
                same += usize::from(both);
            }
        }
        assert!(same > 400 && same * 10 > expected.len() * 9, "{same} of {}", expected.len());
    }
}

/// Linux 7.3's window: how it grows, and which acknowledgements its growth is a reason for.
///
/// In the last connection, a measurement of what was read in a round trip ends one segment later than
/// on the kernel, whose window is then larger by an eighth.
#[test]
fn a_receiver_offers_the_windows_of_linux_7() {
    let (mut windows, mut numbers, mut of) = (Vec::new(), Vec::new(), Vec::new());
    for (congestion, text) in [
        (Congestion::Cubic, include_str!("kernel/accecn-receiver.txt")),
        (Congestion::Dctcp, include_str!("kernel/accecn-dctcp-receiver.txt")),
    ] {
        let config = Config { congestion, accurate_ecn: true, ..linux_7() };
        for lines in text.split("connection\n").skip(1) {
            let (expected, sent) = replay_receiver(&config, &lines.lines().collect::<Vec<_>>());
            let same = |kernel: &&Acknowledged, with_window: bool| {
                sent.iter().any(|ours| {
                    let window = !with_window || ours.4 == kernel.4;
                    window && ours.1 == kernel.1 && ours.0.abs_diff(kernel.0) < 50
                })
            };
            windows.push(expected.iter().filter(|kernel| same(kernel, true)).count());
            numbers.push(expected.iter().filter(|kernel| same(kernel, false)).count());
            of.push(expected.len());
        }
    }
    assert_eq!(of, [481, 960, 1165, 775]);
    assert_eq!(numbers, [481, 960, 1165, 772]);
    assert_eq!(windows, [479, 960, 1110, 159]);
}

/// Initial sequence numbers to try. Two draws out of seven have 49 outcomes.
const DRAWS: u32 = 80;

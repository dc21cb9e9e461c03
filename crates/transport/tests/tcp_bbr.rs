//! BBR and pacing over a bottleneck: a FIFO of a given rate and length, and a delay.

use narrows_transport::tcp::{AckPolicy, Config, Congestion};
use narrows_units::{Span, Time};

use crate::tcp_line::{Line, at_secs, linux};

/// The draft, 4.3.2 and 4.3.3: the startup finds the bandwidth within 2 %. Then the queue drains.
#[test]
fn the_startup_finds_the_bandwidth_and_drains_its_queue() {
    for (rate, rtt_ms) in [(1e6, 50), (10e6, 40), (100e6, 10), (100e6, 100)] {
        let rtt = Span::from_ms(rtt_ms);
        let config = linux(Congestion::Bbr);
        let mut line = Line::new(&config, rate, 10_000, rtt);
        let mut phases: Vec<(&str, Time, u64)> = Vec::new();
        line.run(at_secs(8.0), |end, now| {
            let (Some(phase), Some(rate)) = (end.control_phase(), end.pacing_rate()) else {
                return;
            };
            if phases.last().is_none_or(|last| last.0 != phase) {
                phases.push((phase, now, rate));
            }
        });
        let names: Vec<&str> = phases.iter().map(|phase| phase.0).collect();
        assert_eq!(names, ["startup", "drain", "probe-bw"], "{rate} {rtt_ms}");
        // In drain, the pace is 88/256 of the bandwidth, less 1 %.
        let payload_rate = rate / 8.0 * 1448.0 / 1500.0;
        let bandwidth = phases[1].2 as f64 / 0.99 * 256.0 / 88.0;
        let error = bandwidth / payload_rate - 1.0;
        assert!(error.abs() < 0.02, "{rate} {rtt_ms}: {error}");
    }
}

/// One BBR connection fills the link and keeps no more than a bandwidth-delay product queued
/// afterwards.
#[test]
fn it_fills_the_link_with_a_short_queue() {
    let product = (10e6 * 0.04 / 8.0 / 1500.0) as usize;
    let mut line = Line::new(&linux(Congestion::Bbr), 10e6, 10 * product, Span::from_ms(40));
    line.run(at_secs(5.0), |_, _| {});
    let before = line.ends[1].bytes_received();
    line.longest_queue = 0;
    line.run(at_secs(35.0), |_, _| {});
    let share =
        (line.ends[1].bytes_received() - before) as f64 * 8.0 / 30.0 / (10e6 * 1448.0 / 1500.0);
    assert!(share > 0.95, "it has {share} of the link");
    assert!(line.longest_queue <= product, "{} packets queued", line.longest_queue);
    assert_eq!(line.dropped, 0);
}

/// Section 4.3.5: after 10 s without a shorter round trip, four segments in flight for 200 ms.
#[test]
fn it_probes_for_the_round_trip_every_ten_seconds() {
    let mut line = Line::new(&linux(Congestion::Bbr), 10e6, 1000, Span::from_ms(40));
    let mut probes: Vec<(Time, Time)> = Vec::new();
    let mut before = "startup";
    line.run(at_secs(45.0), |end, now| {
        let phase = end.control_phase().unwrap_or(before);
        if phase == "probe-rtt" {
            assert!(end.cwnd() <= 4);
            if before != phase {
                probes.push((now, now));
            }
            probes.last_mut().expect("it has begun").1 = now;
        }
        before = phase;
    });
    assert_eq!(probes.len(), 4, "{probes:?}");
    for pair in probes.windows(2) {
        let apart = pair[1].0.since(pair[0].1).as_secs_f64();
        // The shortest round trip may come a few round trips after a probe.
        assert!((10.0..10.3).contains(&apart), "{apart} s apart");
    }
    for (begins, ends) in probes {
        let lasts = ends.since(begins).as_secs_f64();
        assert!((0.2..0.4).contains(&lasts), "it lasts {lasts} s");
    }
}

/// `tcp_update_pacing_rate`: after the first ten segments, a window is spread over half of a round
/// trip in slow start, and over 1/1.2 of it afterwards.
#[test]
fn a_paced_sender_spreads_its_window() {
    let config = Config { pacing: true, acks: AckPolicy::EverySegment, ..linux(Congestion::Reno) };
    let mut line = Line::new(&config, 1e9, 10_000, Span::from_ms(100));
    line.run(at_secs(0.45), |_, _| {});
    let rate = line.ends[0].pacing_rate().expect("it paces") as f64;
    let cwnd = f64::from(line.ends[0].cwnd());
    let expected = 2.0 * cwnd * 1448.0 / 0.1;
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate} and not {expected}");
    let gaps: Vec<Span> = line.departures.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(gaps[..9].iter().all(|&gap| gap == Span::ZERO), "the first ten leave at once");
    let at_once = gaps[10..].iter().filter(|&&gap| gap == Span::ZERO).count();
    assert_eq!(at_once, 0, "no two leave together");
}

/// `tcp_tso_autosize`: with segmentation offload, a millisecond's segments leave together, at least
/// two.
#[test]
fn offload_makes_bursts_of_a_millisecond() {
    for (rate, rtt_ms, burst) in [(10e6, 40, 2), (100e6, 40, 8), (1e9, 40, 45)] {
        let config = Config { segmentation_offload: true, ..linux(Congestion::Bbr) };
        let mut line = Line::new(&config, rate, 10_000, Span::from_ms(rtt_ms));
        line.run(at_secs(3.0), |_, _| {});
        let times = &line.departures[line.departures.len() - 2000..];
        let mut bursts: Vec<usize> = Vec::new();
        for (index, time) in times.iter().enumerate() {
            if index > 0 && *time == times[index - 1] {
                *bursts.last_mut().expect("it is not the first") += 1;
            } else {
                bursts.push(1);
            }
        }
        bursts.sort_unstable();
        let median = bursts[bursts.len() / 2];
        assert!(median.abs_diff(burst) <= burst / 4, "{rate}: bursts of {median}, not {burst}");
    }
}

/// The application limits the sender: its samples do not lower the bandwidth.
#[test]
fn an_application_that_writes_little_does_not_lower_the_bandwidth() {
    let config = linux(Congestion::Bbr);
    let mut line = Line::new(&config, 10e6, 1000, Span::from_ms(40));
    line.run(at_secs(3.0), |_, _| {});
    line.ends[0].end_forever();
    line.run(at_secs(4.0), |_, _| {});
    let before = line.ends[0].pacing_rate().expect("it paces");
    for step in 0..50 {
        line.ends[0].write(line.now, 2000);
        line.flush(0);
        line.run(at_secs(4.0 + 0.05 * f64::from(step + 1)), |_, _| {});
    }
    let after = line.ends[0].pacing_rate().expect("it paces");
    assert!(after as f64 > 0.7 * before as f64, "{after} after {before} B/s");
}

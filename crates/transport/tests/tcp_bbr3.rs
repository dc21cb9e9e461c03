//! BBR v3 over a bottleneck: the test cases of draft-ietf-ccwg-bbr-06, appendix A, for whole
//! connections. `A.1` and so on are its sections. Those about single steps are in the crate's own
//! tests of the control.

use narrows_transport::tcp::Congestion;
use narrows_units::{Span, Time};

use crate::tcp_line::{Line, at_secs, linux};

/// A phase: its name, when it began, and the pacing rate in bytes a second then.
#[derive(Clone, Debug)]
struct Phase {
    name: &'static str,
    since: Time,
    rate: f64,
}

fn v3(rate: f64, room: usize, rtt_ms: f64) -> Line {
    Line::new(&linux(Congestion::BbrV3), rate, room, Span::from_secs_f64(rtt_ms / 1000.0))
}

/// Lets a line run until `seconds`, and returns its phases.
fn phases(line: &mut Line, seconds: f64) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    line.run(at_secs(seconds), |end, since| {
        let (Some(name), Some(rate)) = (end.control_phase(), end.pacing_rate()) else { return };
        if phases.last().is_none_or(|last| last.name != name) {
            phases.push(Phase { name, since, rate: rate as f64 });
        }
    });
    phases
}

/// Lets a line run until a phase begins.
fn until(line: &mut Line, name: &str) {
    for step in 1..100_000 {
        line.run(line.now + Span::from_ms(1), |_, _| {});
        if line.ends[0].control_phase().is_some_and(|phase| phase.starts_with(name)) {
            return;
        }
        assert!(step < 60_000, "{name} does not begin");
    }
}

/// Returns the share of the link at `rate` bit/s that the payload of `seconds` has, from now on.
fn share(line: &mut Line, rate: f64, seconds: f64) -> f64 {
    let before = line.ends[1].bytes_received();
    line.run(line.now + Span::from_secs_f64(seconds), |_, _| {});
    (line.ends[1].bytes_received() - before) as f64 * 8.0 / seconds / payload(rate)
}

/// Returns the part of a rate that payload has.
fn payload(rate: f64) -> f64 {
    rate * 1448.0 / 1500.0
}

/// Returns how long each phase of this name lasts, in seconds.
fn lengths(phases: &[Phase], name: &str) -> Vec<f64> {
    let pairs = phases.windows(2).filter(|pair| pair[0].name == name);
    pairs.map(|pair| pair[1].since.since(pair[0].since).as_secs_f64()).collect()
}

/// Returns how long each cycle waits until it probes, in seconds. After PROBE_RTT the wait begins anew,
/// in CRUISE.
fn waits(phases: &[Phase]) -> Vec<f64> {
    let mut waits = Vec::new();
    let mut begun = None;
    for pair in phases.windows(2) {
        let is_new = pair[0].name == "probe-rtt" || pair[0].name == "drain";
        match pair[1].name {
            "probe-bw-down" => begun = Some(pair[1].since),
            "probe-bw-cruise" if is_new => begun = Some(pair[1].since),
            "probe-bw-refill" => {
                waits.extend(begun.take().map(|begun| pair[1].since.since(begun).as_secs_f64()));
            }
            _ => {}
        }
    }
    waits
}

/// A.1, A.3 (B1): STARTUP finds the bandwidth within 2 %, from 64 kbit/s to 10 Gbit/s and for round
/// trips from half a millisecond to a second. Then the queue drains, within a few round trips.
#[test]
fn the_startup_finds_the_bandwidth_and_drains_its_queue() {
    for (rate, rtt_ms, seconds) in [
        (64e3, 40.0, 120.0),
        (1e6, 50.0, 4.0),
        (10e6, 40.0, 2.0),
        (10e6, 1000.0, 60.0),
        (100e6, 0.5, 0.5),
        (100e6, 10.0, 1.0),
        (100e6, 100.0, 4.0),
        (10e9, 1.0, 0.05),
    ] {
        let mut line = v3(rate, 10_000, rtt_ms);
        let mut phases = phases(&mut line, seconds);
        // Where rounds take a second or more, PROBE_RTT comes before STARTUP is over (A.20).
        while phases[1].name == "probe-rtt" && phases[2].name == "startup" {
            phases.drain(..2);
        }
        let names: Vec<&str> = phases.iter().take(3).map(|phase| phase.name).collect();
        // On a short path, three bursts of a millisecond are more than the window of two products, so
        // that nothing has to drain.
        let is_short = rtt_ms < 1.0;
        let (second, gain) = if is_short { ("probe-bw-cruise", 1.0) } else { ("drain", 0.5) };
        assert_eq!(names[..2], ["startup", second], "{rate} {rtt_ms}");
        assert!(names[2].starts_with("probe-"), "{rate} {rtt_ms}: {}", names[2]);
        // The pace is the gain times the bandwidth, less 1 %.
        let bandwidth = phases[1].rate / 0.99 / gain * 8.0;
        let error = bandwidth / payload(rate) - 1.0;
        assert!(error.abs() < 0.02, "{rate} {rtt_ms}: {error}");
        // The queue of a BDP drains at half of the rate, in a round trip that was twice as long.
        let drains = phases[2].since.since(phases[1].since).as_secs_f64();
        let packet = 12_000.0 / rate;
        let most = 4.0 * rtt_ms / 1000.0 + 8.0 * packet;
        assert!(is_short || drains < most, "{rate} {rtt_ms}: {drains} s");
        assert_eq!(line.dropped, 0);
    }
}

/// A.2, A.7: an application that limits the sender does not end STARTUP. Losses of more than 2 % do.
#[test]
fn losses_end_startup_even_if_the_application_limits_it() {
    for (loses, ends) in [(None, false), (Some(100), false), (Some(10), true)] {
        let mut line = Line::idle(&linux(Congestion::BbrV3), 100e6, 1000, Span::from_ms(40));
        let mut last = "";
        for step in 1..=400 {
            line.loses = loses.filter(|_| step > 20);
            line.ends[0].write(line.now, 30_000);
            line.flush(0);
            line.run(at_secs(0.01 * f64::from(step)), |end, _| {
                last = end.control_phase().unwrap_or(last);
            });
            if !last.is_empty() && last != "startup" {
                break;
            }
        }
        assert_eq!(last != "startup", ends, "{loses:?}: {last}");
    }
}

/// A.4: if the bandwidth falls by 10 % as DRAIN begins, it ends after three round trips all the same.
#[test]
fn drain_ends_after_three_rounds() {
    for rate in [20e6, 18e6, 2e6] {
        let mut line = v3(20e6, 10_000, 50.0);
        until(&mut line, "drain");
        line.set_rate(rate);
        let since = line.now;
        until(&mut line, "probe-bw");
        let sample = line.ends[0].sample();
        let srtt = sample.srtt.expect("it is measured").as_secs_f64();
        let lasts = line.now.since(since).as_secs_f64();
        assert!(lasts < 4.5 * srtt.max(0.1), "{rate}: {lasts} s, {srtt} s");
    }
}

/// A.5, A.8: PROBE_UP ends after three rounds without growth, and DRAIN's product then ends
/// PROBE_DOWN. REFILL lasts a round. Cruising lasts 2 to 3 s here, where 63 rounds take longer.
#[test]
fn a_cycle_probes_every_two_to_three_seconds() {
    let mut line = v3(10e6, 1000, 100.0);
    let phases = phases(&mut line, 60.0);
    let names: Vec<&str> = phases.iter().map(|phase| phase.name).collect();
    let cycle = ["probe-bw-cruise", "probe-bw-refill", "probe-bw-up", "probe-bw-down"];
    assert!(names.windows(4).filter(|window| *window == cycle).count() > 8, "{names:?}");
    for refill in lengths(&phases, "probe-bw-refill") {
        assert!((0.09..0.2).contains(&refill), "a round takes {refill} s");
    }
    let ups = phases.windows(2).filter(|pair| pair[0].name == "probe-bw-up");
    for pair in ups {
        let up = pair[1].since.since(pair[0].since).as_secs_f64();
        // Three rounds, of which the last takes 25 % longer, unless PROBE_RTT cuts it short.
        let is_cut = pair[1].name == "probe-rtt";
        assert!(is_cut || (0.3..0.5).contains(&up), "it goes up for {up} s");
    }
    for wait in waits(&phases) {
        assert!((2.0..3.2).contains(&wait), "{wait} s");
    }
    assert_eq!(line.dropped, 0, "there is room for what probes add");
    for phase in phases.iter().filter(|phase| phase.name == "probe-bw-up") {
        let expected = payload(10e6) / 8.0 * 0.99 * 1.25;
        assert!((phase.rate / expected - 1.0).abs() < 0.03, "{} B/s", phase.rate);
    }
    for phase in phases.iter().skip(3).filter(|phase| phase.name == "probe-bw-down") {
        let expected = payload(10e6) / 8.0 * 0.99 * 0.9;
        assert!((phase.rate / expected - 1.0).abs() < 0.03, "{} B/s", phase.rate);
    }
}

/// The T_reno of section 5.3.3.8.2: where 63 rounds are shorter than 2 s, they decide.
#[test]
fn short_round_trips_are_probed_after_63_rounds() {
    let mut line = v3(100e6, 2000, 10.0);
    let phases = phases(&mut line, 20.0);
    let waits = waits(&phases);
    assert!(waits.len() > 10, "{waits:?}");
    for wait in waits {
        assert!((0.6..0.9).contains(&wait), "62 or 63 rounds take {wait} s");
    }
}

/// A.6, A.21: in a buffer of a third of a BDP, losses end PROBE_UP early. The loss rate of the whole
/// connection stays below 1 % (B5), and the link is used.
#[test]
fn losses_end_a_probe_and_stay_rare() {
    let product = (20e6 * 0.05 / 12_000.0) as usize;
    let mut line = v3(20e6, product / 3, 50.0);
    let _ = phases(&mut line, 5.0);
    let (dropped, sent) = (line.dropped, line.departures.len());
    let used = share(&mut line, 20e6, 40.0);
    let lost = f64::from(line.dropped - dropped) / (line.departures.len() - sent) as f64;
    assert!(lost > 0.0 && lost < 0.01, "{lost} is lost");
    assert!(used > 0.85, "{used} of the link is used");
}

/// A.10 (B5): after 5 s without a shorter round trip, half of a BDP is in flight for 200 ms and a
/// round. This costs about 2 % of the throughput.
#[test]
fn it_probes_for_the_round_trip_every_five_seconds() {
    let mut line = v3(10e6, 1000, 40.0);
    let phases = phases(&mut line, 42.0);
    let probes: Vec<&Phase> = phases.iter().filter(|phase| phase.name == "probe-rtt").collect();
    assert!((7..=8).contains(&probes.len()), "{}", probes.len());
    for pair in probes.windows(2) {
        let apart = pair[1].since.since(pair[0].since).as_secs_f64();
        assert!((5.0..5.9).contains(&apart), "{apart} s apart");
    }
    for lasts in lengths(&phases, "probe-rtt") {
        assert!((0.2..0.45).contains(&lasts), "it lasts {lasts} s");
    }
    let after = phases.windows(2).filter(|pair| pair[0].name == "probe-rtt");
    assert!(after.map(|pair| pair[1].name).all(|name| name == "probe-bw-cruise"));
    let used = share(&mut line, 10e6, 50.0);
    assert!(used > 0.955, "{used} of the link is used");
}

/// A.11: a silence of more than 5 s takes the place of PROBE_RTT.
#[test]
fn a_silence_takes_the_place_of_a_probe_for_the_round_trip() {
    for (silence, probes) in [(0.5, true), (6.0, false)] {
        let mut line = v3(10e6, 1000, 40.0);
        line.run(at_secs(3.0), |_, _| {});
        line.ends[0].end_forever();
        line.run(at_secs(4.0 + silence), |_, _| {});
        line.ends[0].write(line.now, 4_000_000);
        line.flush(0);
        let phases = phases(&mut line, 4.0 + silence + 2.5);
        let found = phases.iter().any(|phase| phase.name == "probe-rtt");
        // After the short silence, 5 s are over before the second transfer is.
        assert_eq!(found, probes, "{silence}: {phases:?}");
        if !probes {
            let rate = phases[0].rate * 8.0 / payload(10e6);
            assert!(rate > 0.9, "it goes on at {rate} of the rate");
        }
    }
}

/// A connection does the same whenever it begins: nothing counts from the start of the run.
#[test]
fn the_time_at_which_it_begins_changes_nothing() {
    let departures = |begins: Time| {
        let config = linux(Congestion::BbrV3);
        let mut line = Line::begun_at(begins, &config, 50e6, 200, Span::from_ms(20));
        line.run(begins + Span::from_secs(8), |_, _| {});
        line.departures.iter().map(|at| at.since(begins)).collect::<Vec<_>>()
    };
    let from_zero = departures(Time::ZERO);
    assert!(from_zero.len() > 20_000);
    assert!(departures(at_secs(20.0)) == from_zero);
}

/// A.12, A.13: acknowledgements that come every 20 ms at a round trip of 20 ms do not hide the
/// bandwidth, and the window has room for them beyond two BDP.
#[test]
fn acknowledgements_in_bunches_do_not_slow_it_down() {
    let mut line = v3(50e6, 2000, 20.0);
    line.slot = Some(Span::from_ms(20));
    line.run(at_secs(2.0), |_, _| {});
    let used = share(&mut line, 50e6, 10.0);
    assert!(used > 0.93, "{used} of the link is used");
    until(&mut line, "probe-bw-cruise");
    line.run(line.now + Span::from_ms(200), |_, _| {});
    let sample = line.ends[0].sample();
    let least = sample.min_rtt.expect("it is measured").as_secs_f64();
    let product = 50e6 * least / 12_000.0;
    assert!(f64::from(line.ends[0].cwnd()) > 2.0 * product, "{} {product}", line.ends[0].cwnd());
}

/// A.14: a path that carries less than a packet keeps its window above four, and is used.
#[test]
fn a_path_of_less_than_a_packet_is_used() {
    let mut line = v3(64e3, 100, 10.0);
    line.run(at_secs(20.0), |_, _| {});
    let used = share(&mut line, 64e3, 40.0);
    assert!(line.ends[0].cwnd() >= 4);
    assert!(used > 0.9, "{used} of the link is used");
}

/// A.15: ten times the bandwidth is found within a few probes, as each of them grows by a quarter a
/// round.
#[test]
fn ten_times_the_bandwidth_is_found() {
    let mut line = v3(10e6, 2000, 40.0);
    line.run(at_secs(8.0), |_, _| {});
    line.set_rate(100e6);
    let since = line.now;
    let mut found = None;
    for _ in 0..300 {
        if share(&mut line, 100e6, 0.1) > 0.9 {
            found = Some(line.now.since(since).as_secs_f64());
            break;
        }
    }
    let found = found.expect("the bandwidth is found");
    assert!(found < 8.0, "it takes {found} s");
}

/// A.16: a tenth of the bandwidth is what max_bw has after two cycles of probes.
#[test]
fn a_tenth_of_the_bandwidth_is_found() {
    let mut line = v3(100e6, 400, 40.0);
    line.run(at_secs(8.0), |_, _| {});
    line.set_rate(10e6);
    line.run(at_secs(20.0), |_, _| {});
    let rate = line.ends[0].pacing_rate().expect("it paces") as f64 * 8.0 / payload(10e6);
    assert!((0.5..1.3).contains(&rate), "it paces at {rate} of the rate");
    let used = share(&mut line, 10e6, 10.0);
    assert!(used > 0.9, "{used} of the link is used");
}

/// A.17: behind a policer, it comes close to the rate of the tokens, and few packets are lost.
#[test]
fn a_policer_gets_what_it_lets_through() {
    let mut line = v3(100e6, 1000, 30.0);
    line.policer = Some((10e6 / 8.0, 30_000.0, 30_000.0, Time::ZERO));
    line.run(at_secs(10.0), |_, _| {});
    let (dropped, sent) = (line.dropped, line.departures.len());
    let used = share(&mut line, 10e6, 30.0);
    let lost = f64::from(line.dropped - dropped) / (line.departures.len() - sent) as f64;
    assert!(used > 0.7, "{used} of the rate is used");
    assert!(lost < 0.03, "{lost} is lost");
}

/// B5: random losses of 1 % are tolerated, and Reno uses a part of the link with them.
#[test]
fn random_losses_of_a_hundredth_do_not_slow_it_down() {
    let used = |congestion| {
        let mut line = Line::new(&linux(congestion), 20e6, 1000, Span::from_ms(40));
        line.loses = Some(101);
        line.run(at_secs(3.0), |_, _| {});
        share(&mut line, 20e6, 30.0)
    };
    let (v3, reno) = (used(Congestion::BbrV3), used(Congestion::Reno));
    assert!(v3 > 0.8 && reno < 0.3, "{v3} {reno}");
}

/// A.22, and 5.5.4: an application that writes little does not lower the bandwidth.
#[test]
fn an_application_that_writes_little_does_not_lower_the_bandwidth() {
    let mut line = v3(10e6, 1000, 40.0);
    line.run(at_secs(3.0), |_, _| {});
    line.ends[0].end_forever();
    line.run(at_secs(4.0), |_, _| {});
    let before = line.ends[0].pacing_rate().expect("it paces");
    for step in 0..100 {
        line.ends[0].write(line.now, 2000);
        line.flush(0);
        line.run(at_secs(4.0 + 0.05 * f64::from(step + 1)), |_, _| {});
    }
    let after = line.ends[0].pacing_rate().expect("it paces");
    assert!(after as f64 > 0.7 * before as f64, "{after} after {before} B/s");
}

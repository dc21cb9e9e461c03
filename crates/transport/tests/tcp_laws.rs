//! Laws: closed forms, what every congestion control obeys, and what no input may break.

use narrows_transport::tcp::{
    AccurateEcn, AckPolicy, Acknowledgement, Config, Congestion, CongestionControl, EcnBytes,
    Endpoint, Flags, Order, Recovery, Reduction, SackBlocks, Segment, Seq, Window,
};
use narrows_units::{Ecn, Span, Time};

use crate::tcp_pipe::{Path, Pipe, Random};

fn linux() -> Config {
    Config::profile("linux-6").expect("a known profile")
}

fn secs(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

/// Mean goodput in segments a round trip.
fn segments_per_rtt(config: &Config, path: Path, seconds: u64) -> f64 {
    let mut pipe = Pipe::new(config, path, 4);
    pipe.write(u64::MAX);
    pipe.run(secs(seconds), |_, _| {});
    let rtts = seconds as f64 / (2.0 * path.one_way.as_secs_f64());
    pipe.ends[1].bytes_received() as f64 / 1448.0 / rtts
}

/// Mathis et al. 1997: W = sqrt(3 / (2 b p)); b = 1 if every segment is acknowledged.
#[test]
fn reno_obeys_the_inverse_square_root_law() {
    let config = Config { congestion: Congestion::Reno, acks: AckPolicy::EverySegment, ..linux() };
    for p in [0.0005, 0.002, 0.005] {
        let path = Path { loss: p, ..Path::lossless(Span::from_ms(100)) };
        let window = segments_per_rtt(&config, path, 1500);
        let law = (1.5 / p).sqrt();
        let ratio = window / law;
        assert!((0.85..1.15).contains(&ratio), "p = {p}: {window} segments, the law says {law}");
    }
}

/// RFC 9438, 5.1: under deterministic loss, CUBIC's mean window is
/// (C (3 + beta) / (4 (1 - beta)))^(1/4) RTT^(3/4) / p^(3/4), with C = 0.4 and beta = 0.7.
#[test]
fn rfc9438_5_1_cubic_obeys_its_response_function() {
    let config = Config { acks: AckPolicy::EverySegment, ..linux() };
    let (p, rtt) = (0.0002, 0.1f64);
    let path = Path { loss: p, ..Path::lossless(Span::from_ms(100)) };
    let window = segments_per_rtt(&config, path, 1500);
    let law = libm::pow(0.4 * 3.7 / 1.2, 0.25) * libm::pow(rtt / p, 0.75);
    let ratio = window / law;
    assert!((0.75..1.25).contains(&ratio), "{window} segments, the law says {law}");
}

/// Slow start doubles the window each round trip (RFC 5681, 3.1), so n round trips carry 10, 30, 70,
/// 150 and 310 segments from an initial window of 10 (RFC 6928), if the receiver delays no
/// acknowledgement. One segment more takes another round trip. The handshake takes one as well.
#[test]
fn slow_start_takes_a_logarithmic_number_of_round_trips() {
    let config = Config { hystart: false, acks: AckPolicy::EverySegment, ..linux() };
    for trips in 1..=5 {
        let carried = 10 * ((1 << trips) - 1);
        for (segments, trips) in [(carried, trips), (carried + 1, trips + 1)] {
            let mut pipe = Pipe::new(&config, Path::lossless(Span::from_ms(100)), 1);
            pipe.write(segments * 1448);
            let mut done = None;
            pipe.run(secs(10), |now, end| {
                if end.all_acked() && done.is_none() {
                    done = Some(now);
                }
            });
            let done = done.expect("all is acknowledged").as_secs_f64();
            let law = 0.1 * f64::from(1 + trips);
            assert!((done - law).abs() < 0.001, "{segments} segments: {done} s, not {law} s");
        }
    }
}

/// All congestion controls, recoveries and reductions that go together.
fn variants() -> Vec<Config> {
    let mut variants: Vec<Config> =
        Config::PROFILES.iter().map(|name| Config::profile(name).expect("listed")).collect();
    let dctcp = Config { congestion: Congestion::Dctcp, ..linux() };
    variants.push(Config { accurate_ecn: true, ..dctcp.clone() });
    variants.push(Config { recovery: Recovery::NewReno, pacing: true, ..dctcp.clone() });
    variants.push(dctcp);
    variants.extend([false, true].map(|prague_rtt_scaling| Config {
        congestion: Congestion::Prague,
        prague_rtt_scaling,
        prague_rtt_transition: 50,
        ..linux()
    }));
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for reduction in [Reduction::Prr, Reduction::RateHalving] {
            for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
                for rack in [false, true] {
                    let ecn = rack;
                    variants.push(Config {
                        congestion: congestion.clone(),
                        reduction,
                        recovery,
                        rack,
                        tlp: rack,
                        ecn,
                        ..linux()
                    });
                }
            }
        }
        let paced = [false, true].map(|segmentation_offload| Config {
            congestion: congestion.clone(),
            pacing: true,
            segmentation_offload,
            ..linux()
        });
        variants.extend(paced);
        for (recovery, reduction, timestamps) in [
            (Recovery::Sack, Reduction::Prr, true),
            (Recovery::Sack, Reduction::Prr, false),
            (Recovery::NewReno, Reduction::RateHalving, true),
        ] {
            variants.push(Config {
                congestion: congestion.clone(),
                reduction,
                recovery,
                timestamps,
                accurate_ecn: true,
                ..linux()
            });
        }
        for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno] {
            variants.push(Config {
                congestion: congestion.clone(),
                recovery,
                reduction: Reduction::AtOnce,
                ..Config::profile("ns-2").expect("listed")
            });
        }
    }
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
        for rack in [false, true] {
            for congestion in [Congestion::Bbr, Congestion::BbrV3] {
                let model = Config { congestion, recovery, rack, tlp: rack, ..linux() };
                variants.push(Config { ecn: rack, ..model });
            }
        }
    }
    for pacing in [false, true] {
        variants.push(Config { congestion: custom(true), pacing, ecn: pacing, ..linux() });
        variants.push(Config {
            congestion: custom(false),
            pacing,
            accurate_ecn: pacing,
            ..linux()
        });
    }
    variants
}

/// A control from outside with the defaults of the trait; one that owns the window keeps a tenth of a
/// second's deliveries in flight.
fn custom(owns: bool) -> Congestion {
    #[derive(Debug)]
    struct Mine(bool);

    impl CongestionControl for Mine {
        fn owns_window(&self) -> bool {
            self.0
        }

        fn on_ack(&mut self, _now: Time, window: &mut Window, ack: &Acknowledgement) {
            if self.0
                && let Some(rate) = ack.rate
            {
                let in_a_tenth = rate.delivered as f64 / rate.interval.as_secs_f64() / 10.0;
                window.cwnd = (1.2 * in_a_tenth) as u32;
            }
        }
    }
    Congestion::custom(if owns { "owns" } else { "plain" }, move |_| Mine(owns))
}

#[test]
fn every_variant_delivers_every_byte_over_a_bad_path() {
    for (n, config) in variants().iter().enumerate() {
        assert_eq!(config.check(), Ok(()));
        for (seed, jitter) in [(1, Span::ZERO), (2, Span::from_ms(30))] {
            let path = Path {
                loss: 0.08,
                ack_loss: 0.05,
                mark: 0.05,
                jitter,
                ..Path::lossless(Span::from_ms(60))
            };
            let mut pipe = Pipe::new(config, path, seed);
            let bytes = 400 * 1448 + 17;
            pipe.write(bytes);
            pipe.close();
            pipe.run(secs(3000), |_, end| assert!(end.cwnd() >= 1));
            assert_eq!(pipe.ends[1].bytes_received(), bytes, "variant {n}: {config:?}");
            assert_eq!(pipe.ends[0].bytes_acked(), bytes, "variant {n}: {config:?}");
            assert!(pipe.ends[0].is_closed(), "variant {n}: {config:?}");
        }
    }
}

/// One reduction in each episode: between two reductions of ssthresh, a round trip has passed, or
/// what was in flight at the first has been acknowledged (the acknowledgement that ends a recovery
/// may carry an echo, which begins the next episode), or a timer has fired. The threshold of BBR, and
/// of a control that owns the window, says nothing, and Prague lowers its own a segment at a time.
#[test]
fn every_variant_reduces_once_an_episode() {
    let by_itself = [Congestion::Bbr, Congestion::BbrV3, Congestion::Prague];
    let owns = |congestion: &Congestion| matches!(congestion, Congestion::Custom(custom) if custom.name() == "owns");
    let reducing = variants()
        .into_iter()
        .filter(|config| !by_itself.contains(&config.congestion) && !owns(&config.congestion));
    for (n, config) in reducing.enumerate() {
        let path = Path { loss: 0.02, mark: 0.02, ..Path::lossless(Span::from_ms(100)) };
        let mut pipe = Pipe::new(&config, path, 9);
        pipe.write(u64::MAX);
        let segment = if config.timestamps { 1448 } else { 1460 };
        let (mut last_drop, mut last) = (Time::ZERO, (u32::MAX, 0, 0));
        let (mut sent, mut in_flight_to, mut reductions) = (0, 0, 0);
        pipe.run(secs(200), |now, end| {
            let counters = end.counters();
            let timers = counters.timeouts + counters.tail_probes;
            let state = (end.ssthresh().unwrap_or(u32::MAX), timers, counters.undos);
            if state.0 < last.0 {
                let since = now.since(last_drop);
                assert!(
                    since >= Span::from_ms(99)
                        || (state.1, state.2) != (last.1, last.2)
                        || end.bytes_acked() / segment >= in_flight_to,
                    "variant {n}: {since} at {now}: {config:?}"
                );
                (last_drop, in_flight_to) = (now, sent);
                reductions += 1;
            }
            // All that has been sent by now, less the two segments of a handshake.
            sent = (counters.segments_sent - counters.segments_retransmitted).saturating_sub(2);
            last = state;
        });
        // Some thousand segments in 200 s, of which 2 % are lost.
        assert!(reductions > 20, "variant {n}: {reductions} reductions: {config:?}");
    }
}

#[test]
fn reordering_alone_costs_linux_little() {
    let path = Path { jitter: Span::from_ms(10), ..Path::lossless(Span::from_ms(100)) };
    let mut pipe = Pipe::new(&linux(), path, 3);
    pipe.write(20_000 * 1448);
    pipe.run(secs(300), |_, _| {});
    let counters = pipe.ends[0].counters();
    assert!(pipe.ends[0].all_acked());
    assert!(
        counters.segments_retransmitted * 50 < counters.segments_sent,
        "{} of {} segments were sent again",
        counters.segments_retransmitted,
        counters.segments_sent
    );
    assert_eq!(counters.timeouts, 0);
}

#[test]
fn the_same_events_give_the_same_segments() {
    let digest = |seed| {
        let path = Path {
            loss: 0.05,
            mark: 0.05,
            jitter: Span::from_ms(20),
            ..Path::lossless(Span::from_ms(80))
        };
        let mut pipe = Pipe::new(&Config { ecn: true, ..linux() }, path, seed);
        pipe.write(u64::MAX);
        pipe.run(secs(60), |_, _| {});
        pipe.digest
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// Segments near enough to the state to be taken seriously, and far enough to be nonsense.
fn random_segment(random: &mut Random, base: Seq, ack_base: Seq) -> Segment {
    let near = |random: &mut Random, seq: Seq| {
        let far = if random.below(50) == 0 { random.bits() } else { random.below(30_000) };
        Seq(seq.0.wrapping_add(far).wrapping_sub(6000))
    };
    let mut sack = SackBlocks::default();
    for _ in 0..random.below(4) {
        let start = near(random, ack_base);
        sack.push(start, start + random.below(6) * 1448);
    }
    let flags = [Flags::ACK, Flags::ACK.with(Flags::PSH), Flags::ACK.with(Flags::ECE)];
    let mut flags = flags[random.below(3) as usize];
    match random.below(400) {
        0 => flags = flags.with(Flags::FIN),
        1 => flags = Flags::SYN,
        2..40 => flags = flags.with(Flags::CWR),
        40..200 => flags = flags.with(Flags::AE),
        _ => {}
    }
    let accurate = (random.below(3) == 0).then(|| {
        let [ect0, ce, ect1] = [(); 3].map(|()| random.bits());
        let order = if random.below(2) == 0 { Order::Zero } else { Order::One };
        AccurateEcn::new(order, EcnBytes { ect0, ce, ect1 }, random.below(4) as usize)
    });
    Segment {
        seq: near(random, base),
        ack: near(random, ack_base),
        window: if random.below(20) == 0 { 0 } else { random.bits() as u16 },
        len: if random.below(2) == 0 { 0 } else { random.below(1460) as u16 },
        flags,
        ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ce][random.below(3) as usize],
        timestamps: (random.below(10) > 0).then(|| (random.bits() >> 20, random.bits() >> 20)),
        sack,
        accurate,
        syn: None,
    }
}

#[test]
fn no_segment_breaks_an_endpoint() {
    for (n, config) in variants().iter().enumerate() {
        for seed in 0..6 {
            let mut random = Random(1000 * n as u64 + seed);
            let mut now = Time::ZERO;
            let mut client = Endpoint::client(config.clone(), Seq(u32::MAX - 20_000));
            let mut last = (Seq(0), Seq(0));
            client.connect(now);
            client.write_forever(now);
            let mut server = Endpoint::server(config.clone(), Seq(5));
            // A handshake by hand; then noise.
            for _ in 0..3 {
                while let Some(segment) = client.poll_transmit(now) {
                    last = (segment.end(), segment.ack);
                    server.handle_segment(now, &segment);
                }
                while let Some(segment) = server.poll_transmit(now) {
                    client.handle_segment(now, &segment);
                }
            }
            assert!(client.is_established());
            for _ in 0..3000 {
                now += Span::from_us(u64::from(random.below(20_000)));
                if random.below(10) == 0 {
                    if let Some(due) = client.next_timeout() {
                        now = now.max(due);
                    }
                    client.handle_timeout(now);
                } else {
                    let segment = random_segment(&mut random, last.1, last.0);
                    client.handle_segment(now, &segment);
                }
                client.check_invariants();
                while let Some(segment) = client.poll_transmit(now) {
                    last = (segment.end(), segment.ack);
                }
                client.check_invariants();
            }
        }
    }
}

#[test]
fn an_endpoint_is_small() {
    assert!(size_of::<Endpoint>() <= 448, "{} bytes", size_of::<Endpoint>());
    // A connection with four segments in flight, both ends, with its heap.
    let mut pipe = Pipe::new(&linux(), Path::lossless(Span::from_ms(100)), 1);
    pipe.write(4 * 1448);
    pipe.run(secs(1), |_, _| {});
    let heap: usize = pipe.ends.iter().map(Endpoint::heap_bytes).sum();
    assert!(2 * size_of::<Endpoint>() + heap <= 1024, "{heap} bytes of heap");
}

/// Bytes of heap over segments in flight, at the fullest moment.
#[test]
fn a_segment_in_flight_costs_at_most_32_bytes() {
    let config = Config { hystart: false, ..linux() };
    let mut pipe = Pipe::new(&config, Path::lossless(Span::from_ms(100)), 1);
    pipe.write(u64::MAX);
    let mut checked = 0;
    pipe.run(Time::ZERO + Span::from_ms(850), |_, end| {
        let window = end.cwnd() as usize;
        if window >= 100 {
            assert!(end.heap_bytes() <= 32 * window, "{} for {window}", end.heap_bytes());
            checked += 1;
        }
    });
    assert!(checked > 100);
}

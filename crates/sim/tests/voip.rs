//! Telephone calls: what happens to their packets, and how the calls sound.

use crate::common::{add_resolvers, dumbbell, fingerprint, numbers, on_off, pfifo, run, table};
use narrows_sim::Simulation;
use narrows_sim::plan::{
    Application, Distribution, Draw, Jitter, Kind, Plan, Stream,
    voip::{Codec, Playout, Talk, Voip},
};
use narrows_units::{Span, Time};

fn call(codec: Codec) -> Voip {
    Voip {
        calls: vec![Stream {
            name: "call".into(),
            there: 0,
            back: 1,
            start: Time::ZERO,
            stop: Some(Time::ZERO + Span::from_secs(99)),
        }],
        codec,
        packet_time: Span::from_ms(20),
        talk: None,
        playout: Playout::Fixed(Span::from_ms(40)),
    }
}

fn quiet(pairs: usize) -> Plan {
    let mut plan = dumbbell(pairs, 10, pfifo(1000));
    plan.applications.clear();
    plan.end = Time::ZERO + Span::from_secs(100);
    plan
}

fn with(mut plan: Plan, calls: Voip) -> Plan {
    plan.applications.push(Application { name: "calls".into(), kind: Kind::Voip(calls) });
    plan
}

/// ITU-T P.59, Table 1: exponential, with these means.
fn p_59() -> Talk {
    let mean = |ms| Draw::Exponential { mean: Span::from_ms(ms) };
    Talk { spurt: mean(1004), pause: mean(1587) }
}

#[test]
fn a_call_through_an_empty_network_is_as_good_as_its_codec() {
    // 20 ms of speech: 160 or 20 bytes, 40 of headers, 38 of Ethernet's. A packet is sent at 20,
    // 40, ... ms, before 99 s.
    for (codec, payload, codec_ms, mos) in
        [(Codec::G711, 160.0, 20.125, 4.34), (Codec::G729a, 20.0, 35.0, 4.03)]
    {
        let rows = table(&run(with(quiet(1), call(codec))), "voip");
        let wire_ms = (payload + 78.0) * 8.0 * (2.0 / 100e6 + 1.0 / 10e6) * 1e3;
        for side in 0..2 {
            let row = |column| numbers(&rows, column)[side];
            assert_eq!((row("sent_packets"), row("received_packets")), (4949.0, 4949.0));
            assert_eq!((row("late_packets"), row("missing_percent")), (0.0, 0.0));
            assert!((row("delay_mean_ms") - 30.0 - wire_ms).abs() < 1e-6);
            assert!((row("mouth_to_ear_ms") - codec_ms - 70.0 - wire_ms).abs() < 1e-6);
            assert!(row("jitter_mean_ms") < 1e-6);
            // Annex B of G.107 gives these for R = 90 and 80; 90 and 105 ms cost some 2.3 of 93.2
            // and 82.2.
            assert!((row("mos") - mos).abs() < 0.05, "{codec:?} {}", row("mos"));
        }
    }
}

#[test]
fn the_wire_s_losses_are_random_and_cost_what_g_113_says() {
    let mut plan = quiet(1);
    plan.end = Time::ZERO + Span::from_secs(1000);
    plan.links[2].loss = 0.04.into();
    let mut calls = call(Codec::G729a);
    calls.calls[0].stop = None;
    let rows = table(&run(with(plan, calls)), "voip");
    let [missing, ratio, r] =
        ["missing_percent", "burst_ratio", "r"].map(|column| numbers(&rows, column));
    // Five standard errors of 50,000 packets: 0.44 %.
    assert!((missing[0] - 4.0).abs() < 0.44 && missing[1] == 0.0);
    assert!((ratio[0] - 1.0).abs() < 0.1, "{}", ratio[0]);
    // G.113, Appendix I, Table I.2: Ie is 26 at 4 % where it is 11 without.
    assert!((r[1] - r[0] - 15.0).abs() < 1.5, "{} {}", r[0], r[1]);
}

#[test]
fn talk_spurts_have_p_59_s_activity() {
    let mut plan = quiet(1);
    plan.end = Time::ZERO + Span::from_secs(5000);
    let mut calls = call(Codec::G711);
    calls.calls[0].stop = None;
    calls.talk = Some(p_59());
    let rows = table(&run(with(plan, calls)), "voip");
    // 38.53 % of the time (P.59, Table 1), and half a packet more a spurt: 1.014 of 2.601 s. Five
    // standard errors over some 1900 spurts: 7 %.
    for sent in numbers(&rows, "sent_packets") {
        assert!((sent / (50.0 * 5000.0 * 1.014 / 2.601) - 1.0).abs() < 0.07, "{sent}");
    }
}

#[test]
fn what_varies_more_than_the_buffer_holds_comes_too_late() {
    // Delays are uniform over 60 ms. The first packet of a spurt sets the buffer, so another one is
    // too late if its delay is more than 20 ms above the first one's. If the first delay is x above
    // the shortest, the probability is (60 - 20 - x) / 60, or zero from x = 40 on. Its mean is the
    // integral of (40 - x) / 60 dx / 60 from 0 to 40, which is 0.222. Spurts have two packets, of
    // which only the second can be late.
    let mut plan = quiet(1);
    plan.end = Time::ZERO + Span::from_secs(10_000);
    plan.links[2].jitter = Some(Jitter {
        deviation: Span::from_ms(30),
        correlation: 0.0,
        distribution: Distribution::Uniform,
        reorder: true,
    });
    plan.links[2].delay = Span::from_ms(50);
    let mut calls = call(Codec::G711Plc);
    calls.calls[0].stop = None;
    calls.packet_time = Span::from_ms(100);
    calls.talk = Some(Talk {
        spurt: Draw::Constant(Span::from_ms(200)),
        pause: Draw::Constant(Span::from_ms(300)),
    });
    calls.playout = Playout::Fixed(Span::from_ms(20));
    let rows = table(&run(with(plan.clone(), calls.clone())), "voip");
    let late = numbers(&rows, "late_packets")[0] / numbers(&rows, "received_packets")[0];
    // Five standard errors of 20,000 pairs: 0.008 of the half that counts.
    assert!((late - 0.222 / 2.0).abs() < 0.008, "{late}");
    // The adaptive buffer: the mean deviation of the uniform distribution is 15 ms, so the buffer
    // holds 60 ms above the mean, and every delay is within 30 ms of it.
    calls.playout = Playout::Adaptive;
    let rows = table(&run(with(plan, calls)), "voip");
    let late = numbers(&rows, "late_packets")[0] / numbers(&rows, "received_packets")[0];
    assert!(late < 0.005, "{late}");
    let mouth_to_ear = numbers(&rows, "mouth_to_ear_ms")[0];
    assert!((mouth_to_ear - 103.875 - (75.0 + 0.2 + 60.0)).abs() < 4.0, "{mouth_to_ear}");
}

#[test]
fn a_call_that_nobody_hears_is_rated_as_bad_and_shortcuts_change_nothing() {
    let mut plan = with(quiet(1), call(Codec::G711));
    plan.links[2].loss = 1.0.into();
    let rows = table(&run(plan), "voip");
    assert_eq!((numbers(&rows, "r")[0], numbers(&rows, "mos")[0]), (0.0, 1.0));
    assert!(numbers(&rows, "delay_mean_ms")[0].is_nan());

    let mut plan = dumbbell(3, 10, pfifo(60));
    on_off(&mut plan, 40);
    add_resolvers(&mut plan, 3, 5);
    let mut calls = call(Codec::G729a);
    calls.talk = Some(p_59());
    calls.playout = Playout::Adaptive;
    let plan = with(plan, calls);
    let mut plain = plan.clone();
    plain.modes.collapse = false;
    assert_eq!(fingerprint(&run(plan)), fingerprint(&run(plain)));
}

#[test]
fn impossible_calls_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Voip)| {
        let mut calls = call(Codec::G711);
        change(&mut calls);
        Simulation::new(with(quiet(1), calls)).expect_err("the plan is not sound").to_string()
    };
    assert_eq!(
        refused(&|calls| calls.playout = Playout::Adaptive),
        "calls: playout: adapts between talk spurts, and there are none"
    );
    assert_eq!(
        refused(&|calls| calls.packet_time = Span::from_ms(25)),
        "calls: packet_time: must be a multiple of 10 ms"
    );
}

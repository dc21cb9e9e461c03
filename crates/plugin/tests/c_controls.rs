//! Congestion controls in C: the examples obey the laws, and each abuse ends with a sentence.
#![allow(clippy::unwrap_used, reason = "tests")]

mod compiler;

use narrows_plugin::Faults;
use narrows_transport::tcp::laws;

use compiler::{library, setting};

#[test]
fn the_examples_obey_the_laws() {
    let faults = Faults::default();
    let Some(aimd) = library("examples/aimd.c") else { return };
    for settings in [&[][..], &[setting("increase", 0.3), setting("decrease", 0.9)]] {
        laws::check(&aimd.control("aimd").unwrap().congestion(settings, &faults).unwrap());
    }
    let westwood = library("examples/westwood.c").unwrap();
    laws::check(&westwood.control("westwood").unwrap().congestion(&[], &faults).unwrap());
    assert!(faults.take().is_none());
}

#[test]
fn each_abuse_is_named_and_the_connection_goes_on() {
    let Some(abuse) = library("tests/c/abuse.c") else { return };
    for (name, why) in [
        ("nan-window", "on_ack set cwnd to NaN; a window has 1 to 2147483647 segments"),
        ("no-window", "grow set cwnd to 0.5; a window"),
        ("negative-window", "on_loss set cwnd to -3; a window"),
        ("huge-window", "on_start set cwnd to 1000"),
        ("nan-threshold", "on_timeout set ssthresh to NaN; a threshold is above 0 segments"),
        ("no-threshold", "on_ecn set ssthresh to 0; a threshold"),
        ("nan-rate", "on_undo set pacing_rate to NaN; a pace has 1e3 to 1e15 bit/s, or none"),
        ("no-rate", "on_ack set pacing_rate to 0; a pace"),
        ("negative-rate", "on_restart set pacing_rate to -inf; a pace"),
        ("slow-rate", "on_ack set pacing_rate to 1; a pace"),
        ("fast-rate", "on_ack set pacing_rate to 10000000000000000; a pace"),
    ] {
        let faults = Faults::default();
        laws::check(&abuse.control(name).unwrap().congestion(&[], &faults).unwrap());
        let fault = faults.take().unwrap_or_else(|| panic!("{name}: no fault")).to_string();
        assert!(fault.starts_with(name) && fault.contains(why), "{fault}");
    }
    assert_eq!(abuse.controls().count(), 12);
}

#[test]
fn a_control_refuses_its_settings_in_one_line() {
    let Some(abuse) = library("tests/c/abuse.c") else { return };
    let refused = abuse.control("refuse").unwrap().congestion(&[], &Faults::default());
    assert_eq!(refused.unwrap_err(), "wants nothing");
    assert!(abuse.control("absent").is_none());
    let aimd = library("examples/aimd.c").unwrap();
    let wrong =
        aimd.control("aimd").unwrap().congestion(&[setting("decrease", 2.0)], &Faults::default());
    assert!(wrong.unwrap_err().starts_with("has the settings increase"));
}

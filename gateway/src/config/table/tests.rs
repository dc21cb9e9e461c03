//! What the table says of each key is what reading and showing do.

use super::*;

#[test]
fn each_default_reads_back_as_itself() {
    let defaults = Config::default();
    for key in KEYS {
        let shown = key.show(&defaults);
        let mut other = defaults.clone();
        if key.name == "interface" || key.name == "server" {
            continue; // these have none
        }
        let text = format!("{} = {shown}\n", key.name);
        other = crate::config::parse_file("test", &text, other)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(other, defaults, "{}", key.name);
    }
}

/// SETTINGS.md and --help show it.
#[test]
fn a_meaning_is_one_sentence() {
    for key in KEYS {
        let about = key.about();
        assert!(about.ends_with('.') && !about.contains(". "), "{}: {about}", key.name);
        assert!(about.starts_with(char::is_uppercase), "{}: {about}", key.name);
    }
    assert_eq!(key("port").expect("it exists").help(), "the DNS port");
    assert!(key("limits.syn_rate").expect("it exists").help().starts_with("SYNs a second"));
}

#[test]
fn a_restart_keeps_what_only_it_can_change() {
    let old = Config { interfaces: vec!["eth0".into(), "eth1".into()], ..Config::default() };
    let mut new = Config { interfaces: vec!["eth2".into()], port: 5353, ..Config::default() };
    for key in KEYS.iter().filter(|key| !key.live) {
        key.copy(&old, &mut new);
    }
    assert_eq!(new, Config { port: 5353, ..old });
}

/// The core's settings are the configuration's.
#[test]
fn the_settings_follow_from_the_configuration() {
    let config = Config { close: super::super::Close::Fin, ..Config::default() };
    let settings = super::super::Settings::of(&config, Default::default());
    assert_eq!((settings.timeout.as_secs(), settings.idle_ms), (3, 30_000));
    assert_eq!((settings.port, settings.edns_size, settings.ring), (53, 4096, 16 << 20));
    assert_eq!((settings.syn_interval_ns, settings.query_interval_ns), (0, 500_000));
    assert_eq!((settings.patience_us, settings.large_ns), (500_000, 600_000_000_000));
    assert!(settings.close_fin && settings.active && !settings.syncache);
}

#[test]
fn names_and_flags_are_unique() {
    for (at, key) in KEYS.iter().enumerate() {
        assert!(KEYS[..at].iter().all(|other| other.flag() != key.flag()), "{}", key.name);
    }
}

#[test]
fn flags_and_file_take_the_same_values() {
    let mut by_flag = Config::default();
    key("timeout").expect("it exists").set(&mut by_flag, &Raw::Flag("5 s".into())).expect("a span");
    key("port").expect("it exists").set(&mut by_flag, &Raw::Flag("5353".into())).expect("a port");
    key("active")
        .expect("it exists")
        .set(&mut by_flag, &Raw::Flag("false".into()))
        .expect("a truth value");
    let text = "timeout = \"5 s\"\nport = 5353\nactive = false\n";
    assert_eq!(crate::config::parse_file("test", text, Config::default()), Ok(by_flag));
}

#[test]
fn values_out_of_range_or_of_another_kind_are_refused() {
    let refused = |name: &str, raw: Raw| {
        key(name).expect("it exists").set(&mut Config::default(), &raw).expect_err("out of range")
    };
    refused("port", Raw::Whole(0));
    refused("port", Raw::Whole(65_536));
    refused("port", Raw::Text("53".into()));
    refused("loglevel", Raw::Whole(4));
    refused("timeout", Raw::Text("3".into()));
    refused("timeout", Raw::Text("0 s".into()));
    assert_eq!(refused("timeout", Raw::Whole(3)).hint, "such as \"3 s\"");
    refused("active", Raw::Whole(1));
    refused("active", Raw::Text("101 %".into()));
    refused("active", Raw::Text("10".into()));
    refused("active", Raw::Text("0.001 %".into()));
    refused("close", Raw::Text("rst".into()));
    refused("metrics", Raw::Text("192.0.2.1:9053".into()));
    refused("truncate_over", Raw::Text("511 B".into()));
    refused("cache.ring", Raw::Text("3 MiB".into()));
    refused("server", Raw::Text("0.0.0.0".into()));
    refused("server", Raw::Text("ns1.example".into()));
    refused("bpffs", Raw::Text("bpf".into()));
}

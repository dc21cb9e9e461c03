//! Programs in C against the static library: the header and the library agree, the example prints
//! what the page has, and no abuse does harm.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use narrowslink::{ABI, CConfig, CCounters, COutcome, CPacket};

/// Compiles a program and returns what it prints; `None`: there is no compiler, which is said.
fn printed(source: &str) -> Option<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let made = Command::new("cc")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join(source))
        .arg(library())
        .args(["-o", out.to_str().unwrap(), "-lm", "-lpthread", "-ldl"])
        .output();
    let Ok(made) = made else {
        assert!(std::env::var_os("CI").is_none(), "no C compiler cc");
        println!("SKIP {source}: no C compiler cc; hint: apt-get install gcc");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let done = Command::new(&out).output().unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{printed}{}", String::from_utf8_lossy(&done.stderr));
    Some(printed)
}

/// The static library, which cargo builds beside this test.
fn library() -> PathBuf {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let found = beside.join("libnarrowslink.a");
    assert!(found.exists(), "{} is not there", found.display());
    found
}

#[test]
fn the_header_and_this_crate_agree() {
    let Some(printed) = printed("tests/c/layout.c") else { return };
    let expected = [
        ("abi", ABI as usize),
        ("narrows_link_packet", size_of::<CPacket>()),
        ("narrows_link_packet.destination_port", offset_of!(CPacket, destination_port)),
        ("narrows_link_packet.protocol", offset_of!(CPacket, protocol)),
        ("narrows_link_outcome", size_of::<COutcome>()),
        ("narrows_link_outcome.fate", offset_of!(COutcome, fate)),
        ("narrows_link_outcome.packet", offset_of!(COutcome, packet)),
        ("narrows_link_counters", size_of::<CCounters>()),
        ("narrows_link_counters.lost", offset_of!(CCounters, lost)),
        ("narrows_link_config", size_of::<CConfig>()),
        ("narrows_link_config.queue_overhead", offset_of!(CConfig, queue_overhead)),
        ("narrows_link_config.turns_good", offset_of!(CConfig, turns_good)),
        ("narrows_link_config.rates", offset_of!(CConfig, rates)),
        ("narrows_link_config.release", offset_of!(CConfig, release)),
    ];
    let expected: String = expected.map(|(name, value)| format!("{name} {value}\n")).concat();
    assert_eq!(printed, expected);
}

#[test]
fn the_example_prints_what_the_page_has() {
    let Some(printed) = printed("examples/loop.c") else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/test-loops.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&printed), "docs/test-loops.md needs\n{printed}");
}

#[test]
fn no_abuse_does_harm() {
    let Some(printed) = printed("tests/c/abuse.c") else { return };
    assert_eq!(printed, "nothing broke\n");
}

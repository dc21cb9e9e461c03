//! Writes the header of the programs' settings, compiles the eBPF programs, where the feature `ebpf`
//! asks for them, and makes a digest of what the program is built from.

use std::fs;
use std::path::{Path, PathBuf};

/// How the laboratory's crates find their code and make a digest of it.
#[allow(dead_code)]
#[path = "../crates/units/build.rs"]
mod sources;

/// What the program is built from, seen from this folder.
const SOURCES: [&str; 9] = [
    "build.rs",
    "Cargo.toml",
    "bpf",
    "src",
    "../crates/units/Cargo.toml",
    "../crates/units/src",
    "../crates/wire/Cargo.toml",
    "../crates/wire/src",
    "../Cargo.lock",
];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // The same for the same sources and features, in a checkout, a tarball or a package's build.
    let mut digest = sources::START;
    sources::add(if cfg!(feature = "ebpf") { "ebpf" } else { "" }, &mut digest);
    SOURCES.iter().for_each(|source| read(source, &mut digest));
    println!("cargo::rustc-env=NARROWS_BUILD={digest:016x}");
    write_settings();
    #[cfg(feature = "ebpf")]
    compile();
}

/// The fields of the programs' `struct settings`, each with its type, that `src/config/keys.rs`
/// declares; `src/config/declare.rs` says in which form.
macro_rules! declare {
    ($($([$($table:tt)*])?
        $(#[$about:meta])+
        $field:ident $(as $name:literal)?: $type:ty = $default:expr, $kind:expr, $placeholder:literal,
        $when:ident $(, sample $sample:literal)?
        $(=> $(#[$means:meta])* $map:ident: $map_type:ident = $of:expr)*
        $(, core $(#[$in_core:meta])* $core:ident: $core_type:ty = $core_of:expr)?;
    )+) => {
        &[$($((stringify!($map), stringify!($map_type)),)*)+]
    };
}
const SETTINGS: &[(&str, &str)] = include!("src/config/keys.rs");

/// Writes `settings.h`, the widest fields first, so that there is no padding.
fn write_settings() {
    let bytes = |kind: &str| match kind {
        "u64" => 8,
        "u32" => 4,
        "u16" => 2,
        "u8" | "bool" => 1,
        other => panic!("src/config/keys.rs: the programs have no type for {other}"),
    };
    let mut fields = SETTINGS.to_vec();
    fields.sort_by_key(|(_, kind)| std::cmp::Reverse(bytes(kind)));
    let mut text =
        String::from("#pragma once\n\n/* Made from src/config/keys.rs. */\n#define SETTINGS");
    for (name, kind) in &fields {
        text += &format!(" \\\n\t__u{} {name};", 8 * bytes(kind));
    }
    let rest = fields.iter().map(|(_, kind)| bytes(kind)).sum::<usize>() % 8;
    if rest > 0 {
        text += &format!(" \\\n\t__u8 zeros[{}];", 8 - rest);
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it for build scripts"));
    fs::write(out.join("settings.h"), text + "\n").expect("the folder is there");
}

/// Adds the name and the content of a file, or of each file of a folder. Comments count: those of
/// settings are in `--help`.
fn read(source: &str, digest: &mut u64) {
    let files = if Path::new(source).is_dir() {
        sources::files(source, &["rs", "c", "h"])
    } else {
        vec![source.into()]
    };
    for file in files {
        let text = fs::read_to_string(&file).expect("it is there, and is UTF-8");
        sources::add(&file, digest);
        sources::add(&text, digest);
    }
}

#[cfg(feature = "ebpf")]
fn compile() {
    use std::env;

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it for build scripts"));
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it for build scripts");
    // clang takes long, and the programs change less often than the rest.
    let mut digest = sources::START;
    ["build.rs", "bpf", "src/config/keys.rs", "../Cargo.lock"]
        .iter()
        .for_each(|it| read(it, &mut digest));
    let (made, digest) = (out.join("gateway.digest"), format!("{digest:016x}"));
    if fs::read_to_string(&made).is_ok_and(|before| before == digest) {
        return;
    }
    libbpf_cargo::SkeletonBuilder::new()
        .source("bpf/gateway.bpf.c")
        .clang_args([
            "-Wall",
            "-Werror",
            "-mcpu=v3",
            &format!("-I/usr/include/{architecture}-linux-gnu"),
            &format!("-I{}", out.display()),
        ])
        .build_and_generate(out.join("gateway.skel.rs"))
        .unwrap_or_else(|error| {
            // A build script has no other way to tell the user than to end with a message.
            panic!("bpf/gateway.bpf.c does not compile (clang 14 or newer and libelf-dev are needed): {error:#}")
        });
    fs::write(made, digest).expect("the folder is there");
}

//! Compiles the eBPF programs, where the feature `ebpf` asks for them, and makes a digest of what
//! the program is built from.

use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher13;

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
    let mut digest = SipHasher13::new();
    digest.write_u8(cfg!(feature = "ebpf").into());
    SOURCES.iter().for_each(|source| read(Path::new(source), &mut digest));
    println!("cargo::rustc-env=NARROWS_BUILD={:016x}", digest.finish());
    #[cfg(feature = "ebpf")]
    compile();
}

/// Adds the names and contents of these files, in the order of their names.
fn read(path: &Path, digest: &mut SipHasher13) {
    if let Ok(entries) = fs::read_dir(path) {
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().for_each(|path| read(path, digest));
    } else if let Ok(bytes) = fs::read(path) {
        digest.write(path.as_os_str().as_encoded_bytes());
        digest.write_u64(bytes.len() as u64);
        digest.write(&bytes);
    }
}

#[cfg(feature = "ebpf")]
fn compile() {
    use std::env;

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it for build scripts"));
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it for build scripts");
    // clang takes long, and the programs change less often than the rest.
    let mut digest = SipHasher13::new();
    ["build.rs", "bpf", "../Cargo.lock"].iter().for_each(|it| read(Path::new(it), &mut digest));
    let (made, digest) = (out.join("gateway.digest"), format!("{:016x}", digest.finish()));
    if fs::read_to_string(&made).is_ok_and(|before| before == digest) {
        return;
    }
    libbpf_cargo::SkeletonBuilder::new()
        .source("bpf/gateway.bpf.c")
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", &format!("-I/usr/include/{architecture}-linux-gnu")])
        .build_and_generate(out.join("gateway.skel.rs"))
        .unwrap_or_else(|error| {
            // A build script has no other way to tell the user than to end with a message.
            panic!("bpf/gateway.bpf.c does not compile (clang 14 or newer and libelf-dev are needed): {error:#}")
        });
    fs::write(made, digest).expect("the folder is there");
}

//! Makes a digest of this crate's sources, `SOURCES`: programs compare these digests to see whether
//! they contain the same simulator.
//!
//! The digest is that of the code below `src`. Comments, tests and the ends of lines do not count.
//! So it is the same on every machine and for every profile, and in a checkout, a source
//! distribution and a package. Of the manifest, only the versions that it fixes (`"=1.2.3"`) count,
//! because cargo writes another manifest into a package.
//!
//! All crates that decide what a run gives have this file. In a checkout, the other crates have
//! symbolic links to the one of `units`.

// A crate must not read files, but its build script may.
#![allow(clippy::disallowed_methods)]

use std::fs;

fn main() {
    let mut digest = START;
    for file in files("src", &["rs"]) {
        // Not the folder: it also holds tests, whose changes would build the crate again.
        println!("cargo::rerun-if-changed={file}");
        let text = fs::read_to_string(&file).expect("it was found, and is UTF-8 as all Rust is");
        add(&file, &mut digest);
        add(&code(&text), &mut digest);
    }
    println!("cargo::rerun-if-changed=Cargo.toml");
    let manifest = fs::read_to_string("Cargo.toml").expect("cargo has read it");
    let behind = manifest.split("\"=").skip(1);
    let mut fixed: Vec<_> = behind.filter_map(|rest| rest.split('"').next()).collect();
    fixed.sort_unstable();
    fixed.iter().for_each(|version| add(version, &mut digest));
    println!("cargo::rustc-env=NARROWS_SOURCES={digest:016x}");
}

/// Returns the files below a folder whose names end in one of `kinds`, in order of their paths,
/// without tests and hidden files.
pub(crate) fn files(folder: &str, kinds: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("cargo starts this in the crate's folder") {
        let name = entry.expect("the folder can be read").file_name();
        let name = name.to_str().expect("names of files are UTF-8");
        let path = format!("{folder}/{name}");
        if name.starts_with('.') || ["tests", "tests.rs"].contains(&name) {
            continue;
        }
        if fs::metadata(&path).is_ok_and(|entry| entry.is_dir()) {
            found.extend(files(&path, kinds));
        } else if name.rsplit_once('.').is_some_and(|(_, kind)| kinds.contains(&kind)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the code of a file, without comments and tests.
fn code(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace("#[cfg(test)]\nmod tests;\n", "");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    text.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

/// The digest of nothing.
pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds a text to the digest (FNV-1a).
pub(crate) fn add(text: &str, digest: &mut u64) {
    for byte in text.bytes().chain([0]) {
        *digest = (*digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
}

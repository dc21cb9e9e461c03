//! Compiles C for tests.

#![allow(dead_code, unreachable_pub, reason = "each test file uses the part it needs")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use narrows_plugin::Library;
use narrows_units::settings::Given;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Compiles a file of C, or returns `None` (and says SKIP) if there is no compiler.
pub fn compiled(source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    // Each test loads an object of its own.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let out = folder.join(format!("{name}-{}-{number}.so", std::process::id()));
    let made = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .args(arguments)
        .arg(here.join(source))
        .arg("-o")
        .arg(&out)
        .arg("-lm")
        .output();
    match made {
        Ok(made) => {
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            Some(out)
        }
        Err(_) => {
            println!("SKIP: no C compiler cc");
            None
        }
    }
}

pub fn library(source: &str) -> Option<Library> {
    Some(Library::load(&compiled(source, &["-shared", "-fPIC"])?).unwrap())
}

pub fn setting(key: &str, number: f64) -> Given {
    Given { key: key.into(), text: number.to_string(), number: Some(number) }
}

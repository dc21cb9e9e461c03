//! Compiles the eBPF programs, where the feature `ebpf` asks for them.

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    #[cfg(feature = "ebpf")]
    compile();
}

#[cfg(feature = "ebpf")]
fn compile() {
    use std::{env, path::PathBuf};

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it for build scripts"));
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it for build scripts");
    libbpf_cargo::SkeletonBuilder::new()
        .source("bpf/gateway.bpf.c")
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", &format!("-I/usr/include/{architecture}-linux-gnu")])
        .build_and_generate(out.join("gateway.skel.rs"))
        .unwrap_or_else(|error| {
            // A build script has no other way to tell the user than to end with a message.
            panic!("bpf/gateway.bpf.c does not compile (clang 14 or newer and libelf-dev are needed): {error:#}")
        });
}

//! The programs' SipHash-2-4 against its authors' test vectors (Aumasson, Bernstein, "SipHash: a
//! fast short-input PRF", 2012: appendix A, and `vectors.h` of their reference code). Needs root;
//! prints SKIP otherwise.

use std::process::Command;

use libbpf_rs::{ObjectBuilder, ProgramInput};

/// For the message 00 01 02 ... of the given length, under the key 00 01 ... 0f.
const VECTORS: [(usize, u64); 10] = [
    (0, 0x726f_db47_dd0e_0e31),
    (1, 0x74f8_39c5_93dc_67fd),
    (2, 0x0d6c_8009_d9a9_4f5a),
    (3, 0x8567_6696_d7fb_7e2d),
    (7, 0xab02_00f5_8b01_d137),
    (8, 0x93f5_f579_9a93_2462),
    (9, 0x9e00_82df_0ba9_e4b0),
    (15, 0xa129_ca61_49be_45e5),
    (16, 0x3f2a_cc7f_57c2_9bdb),
    (63, 0x958a_324c_eb06_4572),
];

#[test]
fn the_authors_vectors() {
    if !crate::common::programs::may_run("siphash::the_authors_vectors") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("siphash.o");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let built = Command::new(clang)
        .args([
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-mcpu=v3",
            "-c",
            "tests/programs/siphash.bpf.c",
            "-o",
        ])
        .arg(&object)
        .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        // settings.h is made by the build.
        .arg(concat!("-I", env!("OUT_DIR")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("clang, which built the programs");
    assert!(built.success());
    let loaded = ObjectBuilder::default().open_file(&object).and_then(|open| open.load());
    let loaded = loaded.expect("the verifier accepts it");
    let program = loaded.progs_mut().next().expect("one program");
    for (length, hash) in VECTORS {
        let mut packet: Vec<u8> = (0..16).collect();
        packet.extend((0..length as u8).chain(std::iter::repeat_n(0, 8 - length % 8)));
        *packet.last_mut().unwrap() = length as u8;
        let mut out = packet.clone();
        let input =
            ProgramInput { data_in: Some(&packet), data_out: Some(&mut out), ..Default::default() };
        let result = program.test_run(input).expect("it runs");
        assert_eq!(result.return_value, crate::common::programs::XDP_PASS, "{length} bytes");
        assert_eq!(u64::from_le_bytes(out[..8].try_into().unwrap()), hash, "{length} bytes");
    }
}

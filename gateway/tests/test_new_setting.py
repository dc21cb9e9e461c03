"""A new setting touches two files: its declaration, and its use in the programs.

All else follows from the declaration: `Config`, the key in the file, the flag, the core's settings,
the map's layout, and the documents' tables, which the command writes that the documents name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCH = {
    "src/config/keys.rs": (
        "    /// The most segments of one reply (1 to 64)",
        """    /// The longest query that may come together with others.
    longest_query: u16 = 1024, bytes(64, 1024), "BYTES", live
        => longest_query: u16 = |it| it.longest_query;

""",
    ),
    "bpf/ingress.h": ("length <= QUERY_MAX &&", "length <= v->s->longest_query && "),
}
RUST_TEST = """
use narrows_gateway::config::{Config, Settings, parse_file};
use narrows_gateway::kernel::types::settings;

#[test]
fn the_setting_is_read_and_reaches_the_programs() {
    assert_eq!(Config::default().longest_query, 1024);
    assert_eq!(Settings::default().longest_query, 1024);
    let read = |text| parse_file("it.toml", text, Config::default());
    let config = read("longest_query = \\"512 B\\"").expect("it is right");
    let core = Settings::of(&config, Default::default());
    assert_eq!((core.longest_query, settings::from(&core).longest_query), (512, 512));
    let refused = read("longest_query = \\"2 KiB\\"").expect_err("it is too long");
    assert!(refused.to_string().contains("\\\"64 B\\\" to \\\"1024 B\\\""), "{refused}");
    let program = env!("CARGO_BIN_EXE_narrows-gateway");
    let help = std::process::Command::new(program).args(["run", "--help"]).output();
    let help = String::from_utf8(help.expect("it runs").stdout).expect("text");
    assert!(help.contains("--longest-query <BYTES>"), "{help}");
}
"""


@pytest.mark.slow
def test_two_files_are_all_that_a_setting_needs(tmp_path: Path) -> None:
    if not shutil.which("clang"):
        pytest.skip("clang is not installed; hint: sh tools/install_test_tools.sh")
    copy = copied(tmp_path)
    for name, (before, added) in PATCH.items():
        text = (copy / name).read_text()
        assert text.count(before) == 1, f"{name} has {before!r} {text.count(before)} times"
        (copy / name).write_text(text.replace(before, added + before))
    (copy / "tests" / "new_setting.rs").write_text(RUST_TEST)
    tests = ("--test", "new_setting", "--test", "documents", "--", "setting")
    done = subprocess.run(
        ["cargo", "test", "-q", "--offline", "-p", "narrows-gateway", "--features=ebpf", *tests],
        cwd=tmp_path,
        env={
            **os.environ,
            "CARGO_TARGET_DIR": str(ROOT / "target" / "new-setting"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
            "NARROWS_WRITE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stdout + done.stderr
    assert "1 passed" in done.stdout, done.stdout
    for document in ("SETTINGS.md", "man/narrows-gateway.8", "narrows-gateway.toml"):
        assert "longest_query" in (copy / document).read_text(), document


def copied(folder: Path) -> Path:
    """A copy of the gateway, in a workspace without the laboratory; of its tests only one."""
    for crate in ("units", "wire"):
        shutil.copytree(ROOT / "crates" / crate, folder / "crates" / crate)
    without = shutil.ignore_patterns("tests", "examples", "benchmarks", "__pycache__")
    copy = folder / "gateway"
    shutil.copytree(ROOT / "gateway", copy, ignore=without)
    (copy / "tests").mkdir()
    shutil.copy(ROOT / "gateway/tests/documents.rs", copy / "tests")
    shutil.copy(ROOT / "Cargo.lock", folder)
    workspace = (ROOT / "Cargo.toml").read_text()
    members = 'members = ["crates/units", "crates/wire", "gateway"]'
    workspace = re.sub(r"(?m)^(default-)?members = \[[^]]*\]", "", workspace)
    (folder / "Cargo.toml").write_text(
        workspace.replace("[workspace]\n", f"[workspace]\n{members}\n", 1)
    )
    manifest = (copy / "Cargo.toml").read_text()
    (copy / "Cargo.toml").write_text(re.sub(r"(?m)^narrows-(sim|qdisc)\b.*\n", "", manifest))
    return copy

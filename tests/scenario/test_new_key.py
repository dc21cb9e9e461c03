"""A new key of TCP or QUIC is a line of its declaration, and what it does; nothing in Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Where the key goes, and the key before it.
CONFIGS = {
    "tcp": ("tcp/config.rs", "        skip_handshake: bool = false, any();\n"),
    "quic": ("quic/config.rs", "        ecn: bool = false, any();\n"),
}
KEY = """        /// The most segments that leave at once.
        most_at_once: u32 = 64, whole(2, 1000);
"""
RUST_TEST = """
use narrows_transport::{tcp, quic};
use narrows_units::settings::{Declared, Table};

fn has(table: Table) {
    let key = table.keys.iter().find(|key| key.name == "most_at_once").expect("it is a key");
    assert!(key.about.contains("leave at once"));
    assert_eq!((key.rule.least, key.rule.most), (Some(2.0), Some(1000.0)));
}

#[test]
fn both_have_it_and_check_it() {
    has(tcp::Config::TABLE);
    has(quic::Config::TABLE);
    let tcp = tcp::Config { most_at_once: 1, ..tcp::Config::default() };
    let quic = quic::Config { most_at_once: 1, ..quic::Config::default() };
    let said = "most_at_once: must be at least 2";
    assert_eq!(tcp.check().map_err(|why| why.to_string()), Err(said.into()));
    assert_eq!(quic.check().map_err(|why| why.to_string()), Err(said.into()));
}
"""
TOUR = """
import json

from narrows import _core

tables = json.loads(_core.settings())
for name in ("Tcp", "Quic"):
    keys = tables[name]["keys"]
    key = {**next(key for key in keys if key["kind"] == "whole"), "name": "most_at_once"}
    key |= {"about": "The most segments.", "default": 64, "least": 2.0, "most": 1000.0}
    keys.append(key | {"optional": False})
text = json.dumps(tables)
_core.settings = lambda: text

from narrows.errors import ScenarioError
from narrows.scenario import Scenario, Tcp, json_schema
from narrows.scenario.dns_quic import Quic

assert Tcp(most_at_once=3).config(_core.tcp_profile)["most_at_once"] == 3
assert Quic().plan()["most_at_once"] == 64
assert Quic(most_at_once=5).plan()["most_at_once"] == 5
assert json.dumps(json_schema()).count('"most_at_once"') >= 2
try:
    Scenario.load("scenarios/dns-behind-red.toml", {"traffic.tcp.most_at_once": 1})
except ScenarioError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_line_is_all_that_rust_needs(tmp_path: Path) -> None:
    for name in ("units", "qdisc", "transport"):
        shutil.copytree(ROOT / "crates" / name, tmp_path / "crates" / name)
    for name in ("Cargo.toml", "Cargo.lock"):
        lines = (ROOT / name).read_text().splitlines()
        if name == "Cargo.toml":
            lines = [
                line.split(" = ")[0] + ' = ["crates/units", "crates/qdisc", "crates/transport"]'
                if "members = [" in line
                else line
                for line in lines
            ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    crate = tmp_path / "crates" / "transport"
    for file, before in CONFIGS.values():
        path = crate / "src" / file
        text = path.read_text()
        assert text.count(before) == 1, f"{before} is not in {file} once"
        path.write_text(text.replace(before, before + KEY))
    (crate / "tests" / "all.rs").write_text(RUST_TEST)
    done = subprocess.run(
        ["cargo", "test", "-q", "--offline", "-p", "narrows-transport", "--test", "all"],
        cwd=tmp_path,
        env={
            **os.environ,
            "CARGO_TARGET_DIR": str(ROOT / "target" / "new-discipline"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_what_the_extension_declares_is_all_that_python_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOUR], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    assert "traffic.tcp.most_at_once: must be at least 2" in done.stdout, done.stdout

"""A new queue discipline is one file and its line in Rust, and nothing in Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from narrows.scenario import queues
from narrows.scenario.queues import kinds

ROOT = Path(__file__).parents[2]
FILES = Path(__file__).parent / "new_discipline"


def test_python_has_a_name_for_each_discipline() -> None:
    named = {name for name in vars(kinds) if name[0].isupper()} - {"DISCIPLINES", "TABLES"}
    made = {made.__name__ for made in (*queues.DISCIPLINES.values(), *queues.TABLES.values())}
    assert named == made


@pytest.mark.slow
def test_what_the_extension_declares_is_all_that_python_needs() -> None:
    done = subprocess.run(
        [sys.executable, FILES / "tour.py", ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "everything knows it\n", done.stderr


@pytest.mark.slow
def test_a_file_and_its_line_are_all_that_rust_needs(tmp_path: Path) -> None:
    """A copy of the crate, with the file, `mod` and the line in the list: it obeys the laws."""
    for name in ("units", "qdisc"):
        shutil.copytree(ROOT / "crates" / name, tmp_path / "crates" / name)
    for name in ("Cargo.toml", "Cargo.lock"):
        text = (ROOT / name).read_text()
        if name == "Cargo.toml":
            members = [line for line in text.splitlines() if "members = [" in line]
            for line in members:
                key = line.split(" = ")[0]
                text = text.replace(line, f'{key} = ["crates/units", "crates/qdisc"]')
        (tmp_path / name).write_text(text)
    source = tmp_path / "crates" / "qdisc" / "src"
    shutil.copy(FILES / "early_drop.rs", source)
    _replace(source / "lib.rs", "pub mod drr;", "pub mod drr;\npub mod early_drop;")
    _replace(
        source / "disciplines.rs",
        "        Pfifo(Inline ",
        '        EarlyDrop(Boxed crate::early_drop::Config) = "early-drop",\n        Pfifo(Inline ',
    )
    done = subprocess.run(
        ["cargo", "test", "-q", "--offline", "-p", "narrows-qdisc", "--lib", "early_drop"],
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


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old} is not in {path.name} once"
    path.write_text(text.replace(old, new))

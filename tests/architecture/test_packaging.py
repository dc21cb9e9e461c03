"""The scripts that package crates and build wheels name what is missing, and exit with 2."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def with_program(folder: Path, name: str, says: str, *words: str) -> tuple[int, str]:
    """Runs a script of tools/ where a program only prints a text; its exit code and output."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", *words],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_cargo_that_is_too_old_is_named_or_skipped(tmp_path: Path) -> None:
    says = "cargo 1.89.0 (c24e10642 2025-06-23)"
    code, text = with_program(tmp_path, "cargo", says, "tools/package_crates.sh")
    assert (code, text.count("\n")) == (2, 1)
    assert "1.90" in text
    assert "1.89.0; hint: rustup update stable" in text
    code, text = with_program(tmp_path, "cargo", says, "tools/package_crates.sh", "--may-skip")
    assert code == 0
    assert text.startswith("SKIP ")


def test_all_targets_that_rust_lacks_are_named_at_once(tmp_path: Path) -> None:
    bin = str(Path(sys.executable).parent)
    code, text = with_program(tmp_path, "rustup", "none", "tools/build_wheels.sh", bin)
    assert code == 2
    assert text.count("\n") == 1
    _, _, remedy = text.partition("hint: rustup target add ")
    assert len(remedy.split()) == 2

"""The container file takes only what exists, and leaves a small image without root."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """The instructions with their arguments, in order, without comments."""
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines()]


def test_it_builds_in_one_stage_and_installs_in_another() -> None:
    found = instructions()
    stages = [rest for word, rest in found if word == "FROM"]
    assert stages == ["docker.io/library/debian:12 AS build", "docker.io/library/debian:12-slim"]
    known = {"FROM", "ARG", "RUN", "ENV", "WORKDIR", "COPY", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in found} <= known
    last = found[[word for word, _ in found].index("FROM", 1) :]
    # Nothing of the source but texts, and no compiler.
    assert all(rest.startswith("--from=build ") for word, rest in last if word == "COPY")
    assert not re.search(r"\b(gcc|make|curl|cargo)\b", " ".join(rest for _, rest in last))
    assert [rest for word, rest in last if word == "USER"] == ["narrows"]
    assert ("ENTRYPOINT", '["narrows"]') in last


def test_what_it_calls_and_copies_exists() -> None:
    tasks = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    called = [task for _, rest in instructions() for task in re.findall(r"^make ([a-z-]+)", rest)]
    assert called == ["wheel"]
    assert set(called) <= tasks
    for pattern in re.findall(r"/source/(\S+)", TEXT):
        assert list(ROOT.glob(pattern)), pattern
    for _, script in instructions():
        if script.startswith(("apt-get", "curl", "sed", "make")):
            done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
            assert done.returncode == 0, done.stderr


def test_its_rust_is_new_enough_for_all_that_is_packaged() -> None:
    (version,) = re.findall(r"^ARG RUST=1\.(\d+)\.\d+$", TEXT, flags=re.M)
    script = (ROOT / "tools/package_crates.sh").read_text(encoding="utf-8")
    (least,) = re.findall(r"^needed=(\d+)$", script, flags=re.M)
    assert int(version) >= int(least)


def test_the_versions_of_packages_are_those_of_the_tests() -> None:
    (filter_,) = re.findall(r"sed '([^']*)' requirements-dev.txt", TEXT)
    done = subprocess.run(
        ["sed", filter_, "requirements-dev.txt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) > 50
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+( ; .*[^\\ ])?", line) for line in lines)


def test_what_was_built_here_stays_out_of_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "target", "dist", "runs", "**/*.so"} <= set(ignored)
    # Each is built anew in the image, or belongs to this machine alone.
    tracked = subprocess.run(
        ["git", "ls-files", *(f":(glob){each}" for each in ignored)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert tracked.stdout == ""

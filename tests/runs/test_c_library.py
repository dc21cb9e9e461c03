"""Runs have the same bytes whatever the C library says of logarithms and powers.

Their last bits differ between C libraries, and within one: on x86, glibc has other code for
processors with fused multiply-adds (FMA).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from .test_determinism import contents, document

# Another Debian release's library, from tools/install_test_tools.sh.
OTHER = Path("/usr/local/lib/narrows-tests/libc6")
WITHOUT_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2"}

# What takes a logarithm, a root or a power: draws, normal jitter, the E-model, QUIC's CUBIC, RED.
ALL = """
name = "all"
seed = 3
duration = "10 s"

[[links]]
name = "line"
between = ["here", "there"]
rate = "5 Mbit/s"
delay = "20 ms"
jitter = { deviation = "2 ms", distribution = "normal" }
loss = 0.005
queue = { kind = "red", limit = "90 kB", min = "15 kB", max = "45 kB", avpkt = "1400 B" }

[[traffic]]
kind = "voip"
name = "calls"
sender = "here"
receiver = "there"
calls = 2

[[traffic]]
kind = "page"
name = "pages"
client = "there"
server = "here"
loads = 5
transport = "quic"
objects = [{ name = "html", size = "1 MB" }]

[[dns]]
name = "stubs"
client = "there"
server = "here"
workers = 10
queries = 50
think_mean = "300 ms"
"""

# 15,000 pauses of hours: their picoseconds are the last bits of a power.
DAYS = """
name = "days"
duration = "800000 s"

[[links]]
name = "line"
between = ["here", "there"]
rate = "5 Mbit/s"

[[traffic]]
kind = "on-off"
name = "bursts"
sender = "here"
receiver = "there"
connections = 300
burst = "1 kB"
idle = { distribution = "pareto", mean = "15000 s", shape = 1.5 }

[monitor]
goodput = { rate = 0.001 }
"""

# What the C library's own functions give, and then a run folder of each scenario.
PROGRAM = """
import hashlib, math, sys
from narrows import Scenario, run
from narrows.report import write_run_report

numbers = [n / 40_000 for n in range(1, 40_000)]
values = [f(n) for f in (math.log, math.exp, lambda n: math.pow(n, -1 / 1.5)) for n in numbers]
print(hashlib.md5(repr(values).encode()).hexdigest())
out = sys.argv[1]
write_run_report(run(Scenario.load("all.toml"), out=f"{out}/all"), f"{out}/all")
run(Scenario.load("days.toml"), out=f"{out}/days")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    (made / "all.toml").write_text(ALL)
    (made / "days.toml").write_text(DAYS)
    return made


@pytest.fixture(scope="module")
def usual(folder: Path) -> tuple[str, Path]:
    return simulated(folder, "usual")


def simulated(
    folder: Path, name: str, settings: dict[str, str] | None = None, loader: tuple[str, ...] = ()
) -> tuple[str, Path]:
    """What the C library gives under these settings, and the folder of the runs."""
    done = subprocess.run(
        [*loader, sys.executable, "-c", PROGRAM, name],
        cwd=folder,
        env={**os.environ, **(settings or {})},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout, folder / name


def compare(usual: tuple[str, Path], other: tuple[str, Path]) -> None:
    assert contents(usual[1]) == contents(other[1])
    for name in ("all", "days"):
        assert document(usual[1] / name) == document(other[1] / name)


def test_a_c_library_that_rounds_otherwise_gives_the_same_bytes(
    folder: Path, usual: tuple[str, Path]
) -> None:
    other = simulated(folder, "without-fma", WITHOUT_FMA)
    if usual[0] == other[0]:
        pytest.skip(f"on this {platform.machine()}, the C library rounds in one way alone")
    compare(usual, other)


def test_the_c_library_of_another_release_gives_the_same_bytes(
    folder: Path, usual: tuple[str, Path]
) -> None:
    """With its code for processors without FMA, which also differs from this one's."""
    loaders = sorted(OTHER.glob("usr/lib/*/ld-linux-*.so.*"))
    if not loaders:
        pytest.skip("no C library of another release: run tools/install_test_tools.sh (Debian)")
    loader = (str(loaders[0]), "--library-path", str(loaders[0].parent))
    found = [sys.executable, "-c", "import platform; print(*platform.libc_ver())"]
    shown = subprocess.run([*loader, *found], check=True, capture_output=True, text=True)
    assert shown.stdout.split() != list(platform.libc_ver()), (
        "the loader took this release's library"
    )
    compare(usual, simulated(folder, "other-release", WITHOUT_FMA, loader))

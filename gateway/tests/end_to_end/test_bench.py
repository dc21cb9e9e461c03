"""The whole `make bench-gateway`, killed in the middle: namespaces, NSD, the gateway."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from narrows.results.gateway_bench import JOURNAL, GatewayBench

from . import gateway

PROGRAM = "gateway.benchmarks.bench_gateway"
FORM = ("--quick", "--servers", "nsd", "--rounds", "1", "--interval", "0.3")
PATIENCE = 300.0
"""The most seconds that a sitting may take on a busy machine."""
INSTALL = "install it with: sh tools/install_test_tools.sh"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The bench in its smallest form, with the programs that were built for other tests."""
    for tool in ("kxdpgun", "clang", "bpftool"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed; {INSTALL}")
    built = gateway.program()
    if built is None:
        pytest.skip(gateway.absent())
    if not (built.parent / "examples/dnsload").exists():
        pytest.skip("dnsload is not built; build it with: sh gateway/test.sh")
    words = [sys.executable, "-m", PROGRAM, *FORM]
    return [*words, "--target", str(built.parent), "--out", str(tmp_path / "gateway-1")]


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment without the bench's own variables."""
    own = {"QUICK", "ROUNDS", "INTERVAL", "OUT", "RESUME", "BUDGET", "SERVERS"}
    return {name: value for name, value in os.environ.items() if name not in own}


def steps(journal: Path) -> int:
    """The number of complete rounds in a journal."""
    return journal.read_text().count('{"step":') if journal.exists() else 0


@pytest.mark.slow
@pytest.mark.alone
def test_a_bench_that_is_killed_goes_on_where_it_was(
    command: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "gateway-1"
    journal = folder / JOURNAL
    first = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert first.stderr is not None
    try:
        end = time.monotonic() + PATIENCE
        while steps(journal) < 1:
            assert first.poll() is None, first.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stderr.close()
    kept = steps(journal)
    before = journal.read_text()

    other = subprocess.run(
        [*command, "--rounds", "2"], env=environment, capture_output=True, text=True
    )
    assert other.returncode == 2
    assert "holds a bench with rounds 1, and this one has 2; hint: " in other.stderr
    assert journal.read_text() == before

    second = subprocess.run(
        [*command, "--resume"], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert second.returncode == 0, second.stderr
    bench = GatewayBench.load(folder)
    assert bench.complete
    assert bench.sittings == 2
    assert bench.wall["sittings"][0]["pid"] == first.pid
    assert not journal.exists()
    # Each arm at each rate once: the plan has 4 arms at 500 and 5000, and 2 at saturation.
    key = ["server", "transport", "rate_per_s", "round"]
    assert not bench.intervals.select(key).is_duplicated().any()
    assert bench.intervals.height == 4 + 4 + 2
    # What was measured before the kill was not measured again.
    lost = second.stderr.count(": round 1 of 1, ")
    assert lost == 3 - kept
    # Nothing is left of either process.
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"nrw-bench-{first.pid}-" not in spaces
    assert not list(Path("/sys/fs/bpf").glob(f"narrows-gateway/b{first.pid}s*"))

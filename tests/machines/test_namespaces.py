"""A run on four machines, which are network namespaces here: each command is its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from narrows import Run, Scenario
from narrows import run as simulated
from narrows.backends.kernel.available import missing_tools
from narrows.cli import main
from tests.machines.scenario import SCENARIO

HOSTS = ("server", "client", "stubs")
ADDRESSES = {"server": "10.77.1.2", "client": "10.77.2.2", "stubs": "10.77.3.2"}

DEADLINE_S = 240.0
"""Seconds that a run may take: it needs 12 s, and more on a very busy machine."""


def sh(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def spaces() -> Iterator[Mapping[str, str]]:
    """Names of the namespaces: three hosts around a router with narrow links to two of them."""
    if os.geteuid() != 0 or missing_tools():
        pytest.skip("namespaces need root and iproute2: apt-get install iproute2")
    start = f"nrwm{uuid.uuid4().hex[:6]}"
    found = {node: f"{start}-{node}" for node in (*HOSTS, "router")}
    try:
        for name in found.values():
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        router = found["router"]
        sh("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for number, node in enumerate(HOSTS, 1):
            name = found[node]
            ends = ["type", "veth", "peer", "name", "eth0", "netns", name]
            sh("ip", "-n", router, "link", "add", node, *ends)
            for space, device, last in ((router, node, 1), (name, "eth0", 2)):
                address = f"10.77.{number}.{last}/24"
                sh("ip", "-n", space, "addr", "add", address, "dev", device)
                sh("ip", "-n", space, "link", "set", device, "up")
            sh("ip", "-n", name, "route", "add", "default", "via", f"10.77.{number}.1")
        words = "root tbf rate 20mbit burst 10000 limit 60000"
        for device in ("client", "server"):
            sh("tc", "-n", router, "qdisc", "add", "dev", device, *words.split())
        yield found
    finally:
        for name in found.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.slow
def test_four_machines_make_one_run(
    spaces: Mapping[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, machines = tmp_path / "lab.toml", tmp_path / "machines.toml"
    scenario.write_text(SCENARIO)
    lines = "\n".join(f'{node} = "{address}"' for node, address in ADDRESSES.items())
    machines.write_text(f'monitors = ["router"]\n[machines]\n{lines}\n')
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    common = ["--machines", str(machines), "--wait", "120", "--secret-file", str(secret)]
    file, watched = str(scenario), "access.forward=client"
    commands = {
        "monitor": ("router", ["monitor", "--scenario", file, "--link", watched]),
        "drive": ("client", ["traffic", "drive", file, "--tcp", "set"]),
        "resolve": ("stubs", ["resolve", file, "--tcp", "set"]),
        "serve": ("server", ["traffic", "serve", file, "--tcp", "set"]),
    }
    secret.write_text("a3f1c5d7e9b2a4c6d8e0f1a3b5c7d9e1\n")
    running = {}
    for role, (node, words) in commands.items():
        program = [sys.executable, "-m", "narrows", *words, "--node", node]
        running[role] = subprocess.Popen(
            ["ip", "netns", "exec", spaces[node], *program, *common, "--out", str(tmp_path / role)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        for role, process in running.items():
            said, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, f"{role}: {said}"
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    records = [str(tmp_path / role) for role in commands]
    assert main(["merge", *records, "--out", str(tmp_path / "run"), "--bound", "1000"]) == 0
    capsys.readouterr()
    run = Run.load(tmp_path / "run")
    _check(run)
    simulated(Scenario.parse(SCENARIO), out=tmp_path / "simulated")
    assert main(["compare", str(tmp_path / "simulated"), str(tmp_path / "run")]) == 0


def _check(run: Run) -> None:
    assert (run.backend, run.status, run.stopped) == ("machines", "complete", "dns-done")
    # What the scenario asks: five workers with eight queries each, and five connections.
    assert run.queries.height == 5 * 8
    assert set(run.queries["worker"]) == set(range(5))
    assert run.queries["attempt"].null_count() == 0, "each was answered"
    assert run.flows["group"].to_list() == 4 * ["downloads"] + ["upload"]
    assert run.flows["sender"].to_list() == 4 * ["server"] + ["client"]
    for row in run.flows.iter_rows(named=True):
        assert row["established_s"] >= row["start_s"] >= 1.0, "by the scenario's time"
        assert row["bytes_acked"] > 0
        assert row["bytes_received"] > 0
    # The bottleneck holds 60 kB and lets 20 Mbit/s pass: no more than that.
    downloads = run.flows.filter(run.flows["group"] == "downloads")
    assert downloads["bytes_received"].sum() <= 20e6 / 8 * (run.end_s + 1.0)
    assert set(run.queues["link"]) == {"access.forward"}
    assert 0 < run.queues["backlog_bytes"].max() <= 60_000
    assert run.queues["t_s"].is_sorted()
    for facts in run.host["machines"].values():
        # They share a clock, so the offset is zero within its uncertainty.
        for when in ("before", "after"):
            assert abs(facts["clock_ahead_ms"][when]) <= facts["times_off_at_most_ms"] + 1e-2
        assert facts["differs"] == []
    json.dumps(run.document())

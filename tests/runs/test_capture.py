"""What Wireshark's tshark says of the captures of a real run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from narrows import Run, Scenario, run


def tshark(capture: Path, *arguments: str) -> list[str]:
    """Lines that tshark prints of a capture, checksums verified."""
    protocols = ("ip", "tcp", "udp")
    verify = [word for p in protocols for word in ("-o", f"{p}.check_checksum:TRUE")]
    command = ["tshark", "-n", "-r", str(capture), *verify, *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return result.stdout.splitlines()


@pytest.fixture
def finished(scenario_file: Path, tmp_path: Path) -> Run:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed: apt-get install tshark")
    return run(Scenario.load(scenario_file), out=tmp_path / "run")


def test_tshark_reads_a_run_without_complaint(finished: Run) -> None:
    folder = finished.folder
    assert folder is not None
    forward = folder / "captures" / "bottleneck.forward.pcapng"
    backward = folder / "captures" / "bottleneck.backward.pcapng"
    bad = (
        "_ws.malformed or ip.checksum.status==0 or tcp.checksum.status==0 or udp.checksum.status==0"
    )
    for capture in (forward, backward):
        assert tshark(capture, "-Y", bad) == []
    # As many packets as the link counted as transmitted, but for the time after the last sample.
    count = len(tshark(forward, "-T", "fields", "-e", "frame.number"))
    assert count >= finished.links["packets"].max()
    marked = len(tshark(forward, "-Y", "ip.dsfield.ecn==3"))
    marks = finished.queues.select("marked_early", "marked_forced").tail(1).row(0)
    assert 0 < marked <= sum(marks)


def test_every_answer_is_in_the_capture(finished: Run) -> None:
    folder = finished.folder
    assert folder is not None
    forward = folder / "captures" / "bottleneck.forward.pcapng"
    replies = tshark(forward, "-Y", "dns.flags.response==1", "-T", "fields", "-e", "dns.id")
    attempts = finished.attempts
    received = attempts["received_s"].drop_nulls().len()
    assert received > 100
    assert len(replies) >= received

"""The laboratory works as docs/probe.md shows, and its path has the given delays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from narrows.probe import plan, probe
from narrows.results import Measurement
from narrows.testbed import SERVER, Link, OldServer, bed, missing
from narrows.testbed.servers import PROGRAM
from tests.docs.test_documents import CHECKOUT, blocks

pytestmark = pytest.mark.alone
"""A busy machine can delay five answers by more than a verdict tolerates."""


def test_the_example_of_the_page_on_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := missing(["nsd"]):
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    page = (CHECKOUT / "docs" / "probe.md").read_text(encoding="utf-8")
    (shown,) = (
        block.text
        for block in blocks(page)
        if block.kind == "python" and "narrows.testbed" in block.text
    )
    names: dict[str, Any] = {}
    exec(compile(shown, "docs/probe.md", "exec"), names)
    found = Measurement.load("runs/lab")
    assert set(found.exchanges["outcome"]) == {"answered"}
    # One round trip over UDP, two over TCP; the fastest exchange waited least for the machine.
    for link in (names["near"], names["far"]):
        for transport, trips in (("udp", 1), ("tcp", 2)):
            rows = found.exchanges.filter(vantage=link.client, transport=transport)
            assert rows["total_ms"].min() == pytest.approx(trips * link.rtt_ms, rel=0.15)
    assert [verdict["name"] for verdict in found.findings["verdicts"]] == ["one-write"] * 2


def test_a_server_of_ones_own_stands_at_the_far_end() -> None:
    if reason := missing():
        pytest.skip(reason)
    # A server without a configuration: it answers what `narrows.probe` asks on 10.8.0.1.
    words = [sys.executable, "-c", PROGRAM, OldServer(writing="once").text()]
    link = Link("10.9.0.1", rtt_ms=10.0)
    with bed([link]) as lab, lab.server.running(words), lab.client.inside():
        for _ in range(1000):
            found = probe(plan([SERVER], count=1, timeout_s=0.2))
            if found.summary["answered"] == 2:
                break
        assert found.summary["answered"] == 2


def test_help_says_what_a_link_takes() -> None:
    for text in (bed.__doc__, Link.__doc__):
        assert text is not None
        for name in ("client", "rtt_ms", "loss", "tcp_rtt_ms"):
            assert name in text

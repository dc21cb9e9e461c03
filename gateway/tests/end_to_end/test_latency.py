"""How long the server took, as `status` and `top` show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import gateway
from .clients import ask, query
from .conftest import laboratory


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_the_servers_time_is_told(tmp_path: Path, mode: str) -> None:
    """Nine replies at once, and one after 0.6 s."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    # The gateway waits that long for the server, so that nothing goes to the kernel.
    options = ("--mode", mode, "--patience", "5 s", "--timeout", "5 s")
    with laboratory(tmp_path / "lab", (), options=options) as lab:
        address = lab.address("unruly", "gateway")
        for id in range(9):
            ask(lab.network.client, address, query("plain.200.test", id=id))
        ask(lab.network.client, address, query("slow.300.test"))
        assert lab.gateway is not None
        words = ("--interface", lab.gateway.link, "--interval", "0.2 s")
        answers = json.loads(lab.gateway.command("status", *words, "--json"))["answers"]
        assert answers["count"] == 10
        assert answers["p50_us"] < 100_000
        # Precise to a quarter of an octave.
        assert 600_000 <= answers["p99_us"] <= 1_000_000
        said = lab.gateway.command("status", *words)
        assert "answers      10 over UDP: half within" in said
        # `top` shows what came since its previous display.
        assert "answers" not in lab.gateway.command("top", *words, "--times", "1")

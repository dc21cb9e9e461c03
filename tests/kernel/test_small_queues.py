"""Groups whose senders are at the bottleneck: where Linux's TCP keeps its own queue small."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import Scenario, run
from narrows.backends import get
from narrows.cli import main
from tests.kernel.scenarios import dumbbell

DIRECT = """
name = "direct"
duration = "20 s"

[[links]]
name = "line"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { kind = "codel" }

[[traffic]]
kind = "bulk"
name = "up"
sender = "a"
receiver = "b"
connections = 8

[monitor]
queues = { links = ["line.forward"], rate = 10 }
"""

ROUTED = DIRECT.replace('sender = "a"', 'sender = "host"').replace(
    "[[traffic]]",
    '[[links]]\nname = "lan"\nbetween = ["host", "a"]\nrate = "1 Gbit/s"\n[[traffic]]',
)


def test_a_sender_at_the_bottleneck_is_named() -> None:
    (found,) = get("kernel").differences(Scenario.parse(DIRECT))
    assert found.startswith("up: a sends directly into the slowest link")
    both = DIRECT.replace('sender = "a"\nreceiver = "b"', 'pairs = [["a", "b"], ["b", "a"]]')
    (found,) = get("kernel").differences(Scenario.parse(both))
    assert found.startswith("up: a, b send directly into the slowest link")
    assert not get("kernel").differences(Scenario.parse(ROUTED))
    assert not get("kernel").differences(dumbbell())
    assert not get("sim").differences(Scenario.parse(DIRECT))


def test_check_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "direct.toml"
    path.write_text(DIRECT, encoding="utf-8")
    assert main(["check", str(path), "--backend", "kernel-virtual"]) == 0
    assert "warning: up: a sends directly into the slowest link" in capsys.readouterr().out
    assert main(["check", str(path)]) == 0
    assert "warning" not in capsys.readouterr().out


@pytest.mark.slow
def test_it_is_so_on_the_kernel(guest: str) -> None:
    """The queue at the sender is indeed shorter, as the warning says."""

    def backlog(text: str) -> float:
        result = run(Scenario.parse(text), backend=guest)
        assert bool(result.flags) is (text == DIRECT)
        return float(result.queues["backlog_bytes"].mean())  # type: ignore[arg-type]

    assert backlog(DIRECT) < 0.95 * backlog(ROUTED)

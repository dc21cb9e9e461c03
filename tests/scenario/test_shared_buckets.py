"""What `narrows check` says about workers that keep their port if queues hash flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import Scenario
from narrows.cli.schedules import schedules

FILE = Path(__file__).parents[2] / "scenarios" / "dns-behind-fq-codel.toml"


@pytest.mark.parametrize(
    ("queue", "dns", "is_said"),
    [
        ('{ kind = "fq-codel" }', {}, True),
        ('{ kind = "fq-codel" }', {"transport.retry": "glibc"}, True),
        ('{ kind = "fq-codel" }', {"transport.new_port": True}, False),
        # A user who sets the key means it; a profile says what its client does.
        ('{ kind = "fq-codel" }', {"transport.new_port": False}, False),
        ('{ kind = "fq-codel" }', {"profile": "unbound"}, False),
        ('{ kind = "fq-codel" }', {"transport": "tcp"}, False),
        # The resolver's queries and replies no longer pass the bottleneck.
        ('{ kind = "fq-codel" }', {"client": "downloads"}, False),
        ('{ kind = "pfifo", limit = 100 }', {}, False),
        ('{ kind = "sfq" }', {}, True),
        ('{ kind = "fq" }', {}, True),
        ('{ kind = "sfq", perturb = "10 s" }', {}, False),
        # Without buckets, each flow has a queue of its own.
        ('{ kind = "drr", limit = 100 }', {}, False),
        ('{ kind = "drr", limit = 100, buckets = 16 }', {}, True),
        ('{ kind = "tdrr", limit = 100, buckets = 16 }', {}, True),
        ('{ kind = "qsdrr", limit = 100, buckets = 16 }', {}, True),
        (
            '{ kind = "prio", bands = [{ name = "a", match = [{ protocol = "tcp" }], '
            'queue = { kind = "pfifo", limit = 9 } }, '
            '{ name = "b", queue = { kind = "fq-codel" } }] }',
            {},
            True,
        ),
    ],
)
def test_a_worker_that_keeps_its_bucket_is_said(
    queue: str, dns: dict[str, object], is_said: bool
) -> None:
    changes = {f"dns.stubs.{key}": value for key, value in dns.items()}
    scenario = Scenario.load(FILE, set={"links.bottleneck.forward.queue": queue, **changes})
    said = [line for line in schedules(scenario) if "keeps its port" in line]
    assert len(said) == is_said
    if is_said:
        assert said[0].startswith("warning: stubs: ")
        assert "bottleneck.forward" in said[0] and "hint: transport.new_port = true" in said[0]

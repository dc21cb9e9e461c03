"""The page's numbers are those of the library."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, run
from narrows.results.intervals import paired

from .test_engine import ROOT, node

EXAMPLE = ROOT / "scenarios/dns-behind-red.toml"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("metrics")
    return numbers_of(EXAMPLE, folder)


def numbers_of(scenario: Path, folder: Path) -> dict[str, Any]:
    (folder / "plan.json").write_text(json.dumps(Scenario.load(scenario).plan()))
    (folder / "pairs.json").write_text(json.dumps(PAIRS))
    script = Path(__file__).with_name("metrics.mjs")
    said: dict[str, Any] = json.loads(node(script, folder / "plan.json", folder / "pairs.json"))
    return said


CHANCE = random.Random(1)
PAIRS = [
    [[CHANCE.gauss(mean, 3.0) for _ in range(count)] for mean in (10.0, 14.0)]
    for count in (2, 3, 4, 5, 5, 5)
]


def test_intervals_are_those_of_compare(found: dict[str, Any]) -> None:
    for (first, second), ours in zip(PAIRS, found["intervals"], strict=True):
        theirs = paired(first, second)
        assert ours["mean"] - ours["half"] == pytest.approx(theirs.low, rel=1e-7)
        assert ours["mean"] + ours["half"] == pytest.approx(theirs.high, rel=1e-7)


def test_numbers_are_those_of_the_summary(found: dict[str, Any]) -> None:
    summary = run(EXAMPLE).summary
    ours = {each["name"]: each["value"] for each in found["numbers"]}
    dns = summary["dns"]
    queue = summary["queues"]["bottleneck.forward"]["run"]
    link = summary["links"]["bottleneck.forward"]["run"]
    theirs = {
        "DNS answered at the first attempt": dns["first_attempt_percent"],
        "DNS response time, median": dns["response_median_ms"],
        "DNS response time, 95 %": dns["response_p95_ms"],
        "Wait in the queue, mean": queue["sojourn_mean_ms"],
        "Packets dropped": queue["loss_percent"],
        "Link in use": link["utilisation_percent"],
    }
    # The summary rounds to nine digits.
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, rel=1e-8)


def test_several_groups_have_a_median_each(tmp_path: Path) -> None:
    """Over UDP and over TCP, for instance, where one median of both says little."""
    example = ROOT / "scenarios/dns-over-tcp.toml"
    found = {each["name"]: each["value"] for each in numbers_of(example, tmp_path)["numbers"]}
    name = "DNS response time, median"
    groups = run(example).summary["dns_groups"]
    assert len(groups) > 1
    theirs = {f"{name} of {group}": of["response_median_ms"] for group, of in groups.items()}
    ours = {key: value for key, value in found.items() if key.startswith(f"{name} of ")}
    assert ours == pytest.approx(theirs, rel=1e-8)

"""How long TCP queries wait if the server limits its replies over UDP.

    sudo python -m gateway.benchmarks.rate_limit

One address asks NSD for names that do not exist, each on a connection of its own: over the kernel's
TCP, and through the gateway. NSD has the rate limit that it has by itself (200 replies a second of
a kind). It prints one line of JSON: for each arm, the lost queries, and how long the others took.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gateway.tests.end_to_end import gateway, servers, zones
from gateway.tests.end_to_end.clients import query
from gateway.tests.end_to_end.conftest import ARMS, address, laboratory
from gateway.tests.end_to_end.crowd import Job, Outcome, ask_all

from .lab import LabError, require

LONG_S = 0.5
"""A query that takes longer has waited for a timeout."""


def limited(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """NSD with its own limit, which the tests' configuration switches off."""
    words = servers.nsd(folder, files, addresses)
    config = folder / "nsd.conf"
    text = config.read_text()
    if "rrl-ratelimit: 0" not in text:
        raise LabError("the tests' nsd.conf no longer switches the rate limit off")
    config.write_text(text.replace("rrl-ratelimit: 0", "rrl-ratelimit: 200"))
    return words


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts, and times in milliseconds."""
    took = np.array([outcome.seconds for outcome in outcomes if outcome.replies])
    found: dict[str, Any] = {"queries": len(outcomes), "lost": len(outcomes) - len(took)}
    if len(took):
        parts = np.quantile(took, [0.5, 0.75, 0.9, 1]) * 1000
        found |= dict(zip(("p50_ms", "p75_ms", "p90_ms", "most_ms"), parts.round(2), strict=True))
        found["waited_percent"] = round(100 * float((took > LONG_S).mean()), 1)
    return found


def main() -> int:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rate", type=float, default=300, help="queries a second")
    parser.add_argument("--seconds", type=float, default=8, help="of load in each arm")
    words = parser.parse_args()
    if not 0 < words.rate <= 5000 or not 0 < words.seconds <= 600:
        parser.error("rate must be above 0 and at most 5000, seconds at most 600")
    require("python -m gateway.benchmarks.rate_limit", ["nsd"])
    if gateway.program() is None:
        raise LabError(gateway.absent())
    count = round(words.rate * words.seconds)
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        laboratory(Path(folder) / "lab", ("nsd",), configure=limited) as lab,
    ):
        for arm in ARMS:
            messages = [query(f"n{number}.{zones.ZONE}", "A") for number in range(count)]
            jobs = [Job(address("nsd", arm), message) for message in messages]
            found[arm] = summary(ask_all(lab.network.client, jobs, 10, apart=1 / words.rate))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LabError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

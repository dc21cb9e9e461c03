"""How many connections a second the kernel's TCP takes over, and how long a start takes.

    sudo python -m gateway.benchmarks.take_overs --rounds 5

The server is NSD, and each connection asks one query. With `limits.query_rate = 1`, the gateway
answers the SYN and hands the connection over with its first data. The same load on NSD alone is the
comparison. Rates rise by a tenth until fewer than 99 % of the queries have an answer in time; the
figure is the last rate before that.

A start is timed until the line that says that everything is in place: with nothing there (`new`),
and with the programs that an earlier run has left serving (`over`).
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import front
from .beds import Bed, Beds
from .lab import Lab, LabError, require
from .load import Generator, build, built

FIRST, STEP = 2000.0, 1.1
"""The first rate, in connections a second, and the factor to the next."""

ENOUGH = 0.99
"""The share of queries that must have an answer."""


def highest(bed: Bed, generator: Generator, seconds: float, seed: int) -> float:
    """The highest rate at which nearly all queries have an answer in time."""
    rate, before = FIRST, 0.0
    while True:
        found = generator.run(bed.link, "tcp", rate=rate, seconds=seconds, seed=seed)
        if found["answered_in_time"] < ENOUGH * found["offered"]:
            return before
        rate, before = rate * STEP, rate


def start_s(words: list[str], ended_by: signal.Signals) -> float:
    """How long it takes until it says that it serves; then it is ended in this way.

    Raises:
        LabError: It ended before.
    """
    began_at = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None, "it is a pipe"
    line = process.stdout.readline()
    took_s = time.monotonic() - began_at
    if '"ready"' in line:
        process.send_signal(ended_by)
    _, said = process.communicate()
    if '"ready"' not in line:
        raise LabError(f"narrows-gateway run: {said.strip().splitlines()[-1:]}")
    return took_s


def starts(bed: Bed, program: Path, rounds: int) -> dict[str, list[float]]:
    """How long starts take, in seconds."""
    words = front.command(program, bed.link, bed.server.folder, {})
    found: dict[str, list[float]] = {"new": [], "over": []}
    for _ in range(rounds):
        found["new"].append(start_s(words, signal.SIGUSR2))
        found["over"].append(start_s(words, signal.SIGTERM))
    return found


def spread(values: list[float], digits: int) -> dict[str, float]:
    """The median, the least and the most."""
    named = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, digits) for name, value in named.items()}


def main() -> int:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of load at each rate")
    parser.add_argument(
        "--target", type=Path, help="cargo's folder of builds; without it, they are made first"
    )
    words = parser.parse_args()
    if words.rounds < 1 or not 0 < words.seconds < 3600:
        parser.error("rounds must be at least 1, seconds above 0 and below 3600")
    require("python -m gateway.benchmarks.take_overs", ["nsd"])
    programs = build() if words.target is None else built(words.target)
    if programs.gateway is None:
        raise LabError("narrows-gateway does not build with eBPF; hint: make gateway says why")
    generator = Generator(programs.dnsload)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with Lab(folder) as lab, Beds(lab, folder, generator, programs.gateway) as beds:
            plain = beds.plain("nsd")
            begun = starts(plain, programs.gateway, words.rounds)
            limits = {"limits.query_rate": 1, "limits.query_burst": 1}
            behind = beds.behind("nsd", "gateway", **limits)
            if behind is None or behind.gateway is None:
                raise LabError(beds.failed[0])
            arms = {"gateway": behind, "kernel": plain}
            rates: dict[str, list[float]] = {name: [] for name in arms}
            for seed in range(1, words.rounds + 1):
                for name, bed in arms.items():
                    rates[name].append(highest(bed, generator, words.seconds, seed))
            counters = behind.gateway.counters()
    if counters["adopted"] < ENOUGH * counters["query_limited"]:
        raise LabError(f"the kernel did not take the connections over: {counters}")
    found = {
        "take_overs_a_second": {name: spread(all_of, 0) for name, all_of in rates.items()},
        "start_s": {name: spread(all_of, 2) for name, all_of in begun.items()},
        "rounds": words.rounds,
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

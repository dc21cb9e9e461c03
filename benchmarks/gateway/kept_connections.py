"""What a query on a kept connection costs the server's side, with and without the gateway.

    sudo python benchmarks/gateway/kept_connections.py --rounds 20 --seconds 1.5
    sudo python benchmarks/gateway/kept_connections.py --load in-turn --rounds 20 --seconds 1.5

NSD several times, each at the end of a link of its own: alone, and behind the gateway.

`--load at-once` is `dnsperf -m tcp`, 50 connections, up to 1000 queries in flight. The gateway
serves these; its third arm is UDP.

`--load passed` is the same with `several_queries = false`. The kernel's TCP has all connections
from their second query on, with the gateway as without it: what is seen is what its programs cost
segments that they pass. A third arm is behind a gateway that is not `active`, which is what the
hooks cost without a look at any segment.

`--load in-turn` is `in_turn.py`, 50 connections, on each one query after the other, 5000 a second
in all. The gateway serves these; its third arm is UDP.

The arms take turns, in each round by lot, and a ratio is that of a round.
Printed are its median and the interval that has the true median with 95 % (order statistics;
Conover, Practical Nonparametric Statistics, 3.2).

On a machine that is busy with other work a ratio comes again within a tenth at best. What the
programs take themselves the kernel says (`kernel.bpf_stats_enabled`): `programs` has it for each,
in microseconds and runs a query, as medians. The counting costs time of its own. So each round has
a second turn of the gateway for it, `counted`, which no ratio is made of; and with `--load passed`
`inactive_programs` has what is counted of programs that do nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway.beds import Bed, Beds
from gateway.cpu import Meter
from gateway.lab import Lab, LabError, napi_threads, require, run
from gateway.load import Generator, build, built
from gateway.servers import NAMES, ZONE
from gateway.switches import Switches

CONNECTIONS = 50
IN_FLIGHT = 1000
IN_TURN = Path(__file__).with_name("in_turn.py")


def at_once(transport: str, bed: Bed, names: Path, rate: int, seconds: float) -> int:
    """Queries that dnsperf has answers to."""
    command = bed.link.at_client(
        *("chrt", "-f", "1", "dnsperf", "-m", transport, "-s", bed.link.server, "-d", str(names)),
        *("-c", str(CONNECTIONS), "-q", str(IN_FLIGHT), "-l", str(seconds)),
        *(("-Q", str(rate)) if rate else ()),
    )
    done = _finished("dnsperf", command, seconds)
    found = re.search(r"Queries completed:\s+(\d+)", done.stdout)
    if done.returncode or found is None or not int(found[1]):
        raise LabError(f"dnsperf: {done.stderr.strip() or done.stdout.strip()}")
    return int(found[1])


def in_turn(transport: str, bed: Bed, names: Path, rate: int, seconds: float) -> int:
    """Queries that `in_turn.py` has answers to."""
    command = bed.link.at_client(
        *("chrt", "-f", "1", sys.executable, str(IN_TURN), "--server", bed.link.server),
        *("--names", str(names), "--transport", transport, "--connections", str(CONNECTIONS)),
        *("--rate", str(rate or 5000), "--seconds", str(seconds)),
    )
    done = _finished("in_turn.py", command, seconds)
    if done.returncode or not int(done.stdout):
        raise LabError(f"in_turn.py: {done.stderr.strip() or done.stdout.strip()}")
    return int(done.stdout)


def _finished(name: str, command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A load that has ended.

    Raises:
        LabError: It goes on long after its time: a connection waits for an answer.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        raise LabError(f"{name} does not end, {GRACE_S:g} s after its time") from None


GRACE_S = 60.0
"""For a load to end in, after its time."""

Load = Callable[[Bed, Path, int, float], int]


def measure(
    bed: Bed, load: Load, names: Path, switches: Switches, rate: int, seconds: float
) -> tuple[float, int]:
    """What kernel, server and gateway spent on a query, in microseconds, and how many came."""
    gateway = [bed.gateway.process.pid] if bed.gateway is not None else []
    processes = [*napi_threads(bed.link.server_interface), *bed.server.processes, *gateway]
    meter = Meter(processes, switches)
    queries = load(bed, names, rate, seconds)
    return meter.spent_s() / queries * 1e6, queries


def run_times(bed: Bed) -> dict[str, tuple[int, int]]:
    """Nanoseconds and runs of each of a gateway's programs until now, by its name."""
    assert bed.gateway is not None
    found = {}
    for link in bed.gateway.pins.glob("link_*"):
        number = json.loads(run("bpftool", "-j", "link", "show", "pinned", str(link)))["prog_id"]
        about = json.loads(run("bpftool", "-j", "prog", "show", "id", str(number)))
        found[about["name"]] = (about.get("run_time_ns", 0), about.get("run_cnt", 0))
    return found


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """The kernel counts the time of programs as long as the block lasts."""
    setting = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = setting.read_text()
    setting.write_text("1")
    try:
        yield
    finally:
        setting.write_text(before)


def interval(values: list[float]) -> tuple[float, float]:
    """Between which of the values the median of what they are drawn from is with 95 %."""
    ordered = sorted(values)
    tail, below = 0.0, -1
    while tail + math.comb(len(values), below + 1) / 2 ** len(values) <= 0.025:
        below += 1
        tail += math.comb(len(values), below) / 2 ** len(values)
    below = max(below, 0)
    return ordered[below], ordered[-1 - below]


def main() -> int:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--load", choices=("at-once", "in-turn", "passed"), default="at-once")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.5, help="of load, each arm and round")
    parser.add_argument(
        "--rate", type=int, default=0, help="queries a second; 0: what it takes, or in turn 5000"
    )
    parser.add_argument(
        "--target", type=Path, help="cargo's folder of builds; without it, they are made first"
    )
    words = parser.parse_args()
    if words.rounds < 1 or not 0 < words.seconds < 3600 or words.rate < 0:
        parser.error("rounds must be at least 1, seconds above 0 and below 3600, a rate at least 0")
    client = [] if words.load == "in-turn" else ["dnsperf"]
    require(f"python {sys.argv[0]}", ["nsd", *client])
    programs = build() if words.target is None else built(words.target)
    if programs.gateway is None:
        raise LabError("narrows-gateway does not build with eBPF; hint: make gateway says why")
    generator = Generator(programs.dnsload)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        names = folder / "names"
        names.write_text("".join(f"h{n:07}.{ZONE} A\n" for n in range(NAMES)))
        with (
            Lab(folder) as lab,
            Beds(lab, folder, generator, programs.gateway) as beds,
            Switches(folder) as switches,
        ):
            passed = words.load == "passed"
            changed = {"several_queries": False} if passed else {}
            plain, front = beds.plain("nsd"), beds.behind("nsd", "gateway", **changed)
            arms: dict[str, tuple[Bed | None, Load]]
            load = in_turn if words.load == "in-turn" else at_once
            tcp, udp = functools.partial(load, "tcp"), functools.partial(load, "udp")
            arms = {"kernel": (plain, tcp), "gateway": (front, tcp), "counted": (front, tcp)}
            if passed:
                inactive = beds.behind("nsd", "inactive", active=False)
                arms |= {"inactive": (inactive, tcp), "inactive counted": (inactive, tcp)}
            else:
                arms["udp"] = (plain, udp)
            if beds.failed:
                raise LabError(beds.failed[0])
            rounds: list[dict[str, float]] = []
            taken: dict[str, dict[str, list[tuple[float, float]]]] = {}
            for _ in range(words.rounds):
                rounds.append({})
                for arm in random.sample(sorted(arms), len(arms)):
                    bed, ask = arms[arm]
                    assert bed is not None, "none has failed"
                    with counted() if "counted" in arm else contextlib.nullcontext():
                        before = run_times(bed) if "counted" in arm else {}
                        cost, queries = measure(
                            bed, ask, names, switches, words.rate, words.seconds
                        )
                        after = run_times(bed) if "counted" in arm else {}
                    rounds[-1][arm] = cost
                    for name, (spent, runs) in after.items():
                        more = (spent - before[name][0], runs - before[name][1])
                        taken.setdefault(arm, {}).setdefault(name, []).append(
                            (more[0] / queries / 1e3, more[1] / queries)
                        )
    # What is compared with the kernel's TCP; and what the gateway serves with UDP, too.
    pairs = [(arm, "kernel") for arm in arms if arm != "kernel" and "counted" not in arm]
    pairs += [("gateway", arm) for arm in ("udp", "inactive") if arm in arms]
    ratios = {pair: [one[pair[0]] / one[pair[1]] for one in rounds] for pair in pairs}
    print(
        json.dumps(
            {
                "us_a_query": {
                    arm: round(statistics.median(one[arm] for one in rounds), 2) for arm in arms
                },
                "ratios": {
                    f"{arm} of {other}": {
                        "median": round(statistics.median(values), 3),
                        "interval_95": [round(end, 3) for end in interval(values)],
                    }
                    for (arm, other), values in ratios.items()
                },
                **{
                    arm.replace("counted", "programs").replace(" ", "_"): {
                        name: [
                            round(statistics.median(column), 3)
                            for column in zip(*values, strict=True)
                        ]
                        for name, values in of_arm.items()
                    }
                    for arm, of_arm in taken.items()
                },
                "rounds": words.rounds,
            }
        )
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

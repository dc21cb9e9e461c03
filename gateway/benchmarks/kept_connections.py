"""What a query on a kept connection costs the server's side, with and without the gateway.

    sudo python -m gateway.benchmarks.kept_connections --rounds 20 --seconds 1.5
    sudo python -m gateway.benchmarks.kept_connections --load in-turn --rounds 20 --seconds 1.5
    sudo python -m gateway.benchmarks.kept_connections --load passed --rounds 50 --seconds 0.5

The server is NSD. Each round measures all arms in random order, and a ratio compares two arms of a
round. The output has the median of each ratio and the interval that contains the true median with
95 % (order statistics; Conover, Practical Nonparametric Statistics, 3.2).

`--load at-once` is `dnsperf -m tcp` with 50 connections and up to 1000 queries in flight. `--load
in-turn` is `in_turn.py` with 50 connections, one query after the other on each, 5000 a second in
all. The gateway serves both loads. One NSD is alone and one is behind the gateway, each at the end
of its own link; the third arm is UDP.

`--load passed` measures what the gateway costs on connections that the kernel's TCP serves. The
load is dnsperf again, with `several_queries = false`. All arms have the same server, link and
connections. dnsperf stops between turns while the arm changes:

    kernel          nothing is in front of the server
    kernel again    the same; its difference from the arm above is noise
    native XDP      a program that passes everything: what the mode costs on a veth device
    inactive        the gateway with `active = false`, which adds the cost of its hooks
    gateway         the gateway

The connections open before the gateway starts. With `--handed-over`, they open behind it, so it
answers their first queries and then hands them over to the kernel.

dnsperf and the server fall into a rhythm, which changes from turn to turn. It decides how many
frames the receiving thread finds at once, and each wait for more costs time. So each ratio also has
`at_equal_waits`: an estimate of the ratio if both turns of a round had equally many waits for each
query.

The kernel measures how long each program runs (`kernel.bpf_stats_enabled`): `us_a_run` has the
median for each program, in microseconds a run. This measurement itself takes time, so the gateway
has further turns for it, `counted`, which do not count in any ratio. With `--load passed`,
`inactive_us_a_run` has the same figure for programs that do nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
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

from .beds import Bed, Beds
from .lab import Lab, LabError, require, run
from .load import Generator, build, built
from .servers import NAMES, ZONE
from .switches import Switches
from .turns import Kept, Turn, behind, measure, nothing, passing_program

CONNECTIONS = 50
IN_FLIGHT = 1000
IN_TURN = Path(__file__).with_name("in_turn.py")


def dnsperf(transport: str, bed: Bed, names: Path, rate: int, seconds: float) -> list[str]:
    """The command line of dnsperf."""
    return [
        *("chrt", "-f", "1", "dnsperf", "-m", transport, "-s", bed.link.server, "-d", str(names)),
        *("-c", str(CONNECTIONS), "-q", str(IN_FLIGHT), "-l", str(seconds)),
        *(("-Q", str(rate)) if rate else ()),
    ]


def at_once(transport: str, bed: Bed, names: Path, rate: int, seconds: float) -> int:
    """The number of queries that were answered, from dnsperf's output."""
    command = bed.link.at_client(*dnsperf(transport, bed, names, rate, seconds))
    done = _finished("dnsperf", command, seconds)
    found = re.search(r"Queries completed:\s+(\d+)", done.stdout)
    if done.returncode or found is None or not int(found[1]):
        raise LabError(f"dnsperf: {done.stderr.strip() or done.stdout.strip()}")
    return int(found[1])


def in_turn(transport: str, bed: Bed, names: Path, rate: int, seconds: float) -> int:
    """The number of queries that were answered, from the output of `in_turn.py`."""
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
    """Waits for a load to end.

    Raises:
        LabError: It runs much longer than its time, because a connection waits for an answer.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        raise LabError(f"{name} does not end, {GRACE_S:g} s after its time") from None


GRACE_S = 60.0
"""How long a load may take to end after its time."""

Load = Callable[[str, Bed, Path, int, float], int]

PARTS = {"all": "us", "receiver": "kernel_us", "server": "server_us", "gateway": "gateway_us"}
"""Parts of a turn's time by the names that are printed."""


def run_times(bed: Bed) -> dict[str, tuple[int, int]]:
    """The nanoseconds and runs so far of each of a gateway's programs, by name."""
    assert bed.gateway is not None
    found = {}
    for link in bed.gateway.pins.glob("link_*"):
        number = json.loads(run("bpftool", "-j", "link", "show", "pinned", str(link)))["prog_id"]
        about = json.loads(run("bpftool", "-j", "prog", "show", "id", str(number)))
        found[about["name"]] = (about.get("run_time_ns", 0), about.get("run_cnt", 0))
    return found


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Lets the kernel count the time of programs while the block lasts."""
    setting = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = setting.read_text()
    setting.write_text("1")
    try:
        yield
    finally:
        setting.write_text(before)


def interval(values: list[float]) -> tuple[float, float]:
    """The ranks of the two values between which the true median lies with 95 %."""
    ordered = sorted(values)
    tail, below = 0.0, -1
    while tail + math.comb(len(values), below + 1) / 2 ** len(values) <= 0.025:
        below += 1
        tail += math.comb(len(values), below) / 2 ** len(values)
    below = max(below, 0)
    return ordered[below], ordered[-1 - below]


@dataclasses.dataclass(frozen=True)
class Taken:
    """The duration of a turn."""

    turn: Turn
    programs: dict[str, float] | None = None
    """Microseconds that a run of each program takes, from a turn in which the kernel counts."""


def take(bed: Bed, switches: Switches, ask: Callable[[], int], count: bool = False) -> Taken:
    """Measures one turn."""
    if not count:
        return Taken(measure(bed, switches, ask))
    with counted():
        before = run_times(bed)
        turn = measure(bed, switches, ask)
        after = run_times(bed)
    spent = {
        name: (after[name][0] - ns, after[name][1] - runs) for name, (ns, runs) in before.items()
    }
    return Taken(turn, {name: ns / runs / 1e3 for name, (ns, runs) in spent.items() if runs})


def served(
    plain: Bed,
    front: Bed,
    load: Load,
    names: Path,
    switches: Switches,
    words: argparse.Namespace,
) -> Iterator[dict[str, Taken]]:
    """Rounds in which the gateway serves: gateway, kernel's TCP and UDP."""
    arms = {
        "kernel": (plain, "tcp"),
        "gateway": (front, "tcp"),
        "counted": (front, "tcp"),
        "udp": (plain, "udp"),
    }
    for _ in range(words.rounds):
        found = {}
        for arm in random.sample(sorted(arms), len(arms)):
            bed, transport = arms[arm]
            ask = functools.partial(load, transport, bed, names, words.rate, words.seconds)
            found[arm] = take(bed, switches, ask, arm == "counted")
        yield found


def passed(
    bed: Bed,
    kept: Callable[[], Kept],
    program: Path,
    switches: Switches,
    words: argparse.Namespace,
) -> Iterator[dict[str, Taken]]:
    """Rounds in which the kernel's TCP serves: all arms on the same connections of one server."""
    settings = {"axfr_detect": False, "several_queries": False}
    active, idle = behind(program, **settings), behind(program, **settings, active=False)
    arms = {
        "kernel": nothing,
        "kernel again": nothing,
        "native XDP": passing_program,
        "inactive": idle,
        "gateway": active,
    }
    with_counts = {"counted": active, "inactive counted": idle}
    opened_by = active if words.handed_over else nothing
    for number in range(words.rounds):
        found = {}
        chosen = arms | (with_counts if number % COUNTED_EVERY == 0 else {})
        with contextlib.ExitStack() as stack:
            with opened_by(bed):
                connections = stack.enter_context(kept())
            for arm in random.sample(sorted(chosen), len(chosen)):
                with chosen[arm](bed), connections.going():
                    ask = functools.partial(connections.queries, words.seconds)
                    found[arm] = take(bed, switches, ask, arm in with_counts)
        yield found


DAY_S = 86400.0
"""How long the connections of `--load passed` may stay: until they are ended."""

COUNTED_EVERY = 4
"""With `--load passed`, one of this many rounds has turns in which the kernel counts."""


def ratio(rounds: list[dict[str, Taken]], arm: str, other: str) -> dict[str, object]:
    """The median ratio of two arms' costs within a round, with its interval."""
    values = [one[arm].turn.us / one[other].turn.us for one in rounds]
    found: dict[str, object] = {
        "median": round(statistics.median(values), 3),
        "interval_95": [round(end, 3) for end in interval(values)],
    }
    waits = [
        (one[arm].turn.happened["receiver_waits"], one[other].turn.happened["receiver_waits"])
        for one in rounds
    ]
    if all(mine and its for mine, its in waits):
        equal = at_equal_waits(values, [mine / its for mine, its in waits])
        if equal is not None:
            found["at_equal_waits"], found["at_equal_waits_95"] = equal
    return found


RESAMPLES = 2000


def at_equal_waits(
    costs: list[float], waits: list[float]
) -> tuple[float, tuple[float, float]] | None:
    """The ratio of two costs if both had equally many waits for frames, and its interval.

    A line is fitted through the logarithms of the rounds by least squares. The interval is that of
    lines through rounds drawn from these with replacement (Efron and Tibshirani, An Introduction to
    the Bootstrap, 13.3). The result is None if there are too few rounds.
    """
    points = [(math.log(wait), math.log(cost)) for wait, cost in zip(waits, costs, strict=True)]
    if len(points) < LEAST_ROUNDS or len({wait for wait, _ in points}) < LEAST_ROUNDS:
        return None
    draw = random.Random(1)
    drawn: list[float] = []
    while len(drawn) < RESAMPLES:
        sample = draw.choices(points, k=len(points))
        if len({wait for wait, _ in sample}) > 1:
            drawn.append(_at_zero(sample))
    drawn.sort()
    ends = drawn[RESAMPLES // 40], drawn[-1 - RESAMPLES // 40]
    return round(_at_zero(points), 3), (round(ends[0], 3), round(ends[1], 3))


LEAST_ROUNDS = 8
"""The least number of rounds for a line."""


def _at_zero(points: list[tuple[float, float]]) -> float:
    xs, ys = zip(*points, strict=True)
    return math.exp(statistics.linear_regression(xs, ys).intercept)


def summary(rounds: list[dict[str, Taken]]) -> dict[str, object]:
    """The printed text."""
    arms = sorted(rounds[0])
    pairs = [(arm, "kernel") for arm in arms if arm != "kernel" and "counted" not in arm]
    # Where the gateway serves, with UDP; where it passes, with the cost of the hooks alone.
    pairs += [("gateway", arm) for arm in ("udp", "native XDP", "inactive") if arm in arms]
    turns = {arm: [one[arm].turn for one in rounds if arm in one] for arm in arms}
    programs = {
        arm: [of.programs for one in rounds if (of := one.get(arm)) and of.programs] for arm in arms
    }
    return {
        "us_a_query": {
            arm: {
                part: round(statistics.median(getattr(turn, field) for turn in of_arm), 2)
                for part, field in PARTS.items()
            }
            for arm, of_arm in turns.items()
        },
        "happened_a_query": {
            arm: {
                what: round(statistics.median(turn.happened[what] for turn in of_arm), 4)
                for what in of_arm[0].happened
            }
            for arm, of_arm in turns.items()
        },
        "ratios": {f"{arm} of {other}": ratio(rounds, arm, other) for arm, other in pairs},
        **{
            arm.replace("counted", "us_a_run").replace(" ", "_"): {
                name: round(statistics.median(one[name] for one in of_arm if name in one), 3)
                for name in sorted(set().union(*of_arm))
            }
            for arm, of_arm in programs.items()
            if of_arm
        },
        "rounds": len(rounds),
    }


def main() -> int:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--load", choices=("at-once", "in-turn", "passed"), default="at-once")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.5, help="of load, each arm and round")
    parser.add_argument(
        "--rate", type=int, default=0, help="queries a second; 0: no limit, but 5000 for in-turn"
    )
    parser.add_argument(
        "--target", type=Path, help="cargo's folder of builds; without it, they are made first"
    )
    parser.add_argument(
        "--handed-over",
        action="store_true",
        help="with --load passed: the gateway has the connections' first queries",
    )
    parser.add_argument("--log", type=Path, help="a file that gets a line of JSON for each round")
    words = parser.parse_args()
    if words.load == "passed" and words.rate:
        # dnsperf then sends the queries that it could not send between turns.
        parser.error("--load passed has no --rate")
    if words.handed_over and words.load != "passed":
        parser.error("--handed-over needs --load passed")
    if words.rounds < 1 or not 0 < words.seconds < 3600 or words.rate < 0:
        parser.error("rounds must be at least 1, seconds above 0 and below 3600, a rate at least 0")
    client = [] if words.load == "in-turn" else ["dnsperf"]
    require("python -m gateway.benchmarks.kept_connections", ["nsd", *client])
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
            plain = beds.plain("nsd")
            turns: Iterator[dict[str, Taken]]
            if words.load == "passed":
                command = plain.link.at_client(*dnsperf("tcp", plain, names, 0, DAY_S))
                kept = functools.partial(Kept, command, plain)
                turns = passed(plain, kept, programs.gateway, switches, words)
            else:
                front = beds.behind("nsd", "gateway")
                if front is None:
                    raise LabError(beds.failed[0])
                load = in_turn if words.load == "in-turn" else at_once
                turns = served(plain, front, load, names, switches, words)
            rounds: list[dict[str, Taken]] = []
            for one in turns:
                rounds.append(one)
                if words.log is not None:
                    with words.log.open("a") as log:
                        line = {arm: dataclasses.asdict(taken) for arm, taken in one.items()}
                        print(json.dumps(line), file=log)
    print(json.dumps(summary(rounds)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

"""What DNS over TCP costs a server, with and without `narrows-gateway`: `make bench-gateway`.

BIND, NSD and Knot run in a network namespace each. Clients ask them over UDP, over the kernel's
TCP, through the gateway, and in Knot's own XDP mode. There is one query on each connection, at 50
to 500 queries a second as in Hayes, Rossi, Armitage 2010, and at far more.
gateway/benchmarks/README.md describes the bench. It needs root.

The last line of stdout is a JSON object.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import narrows
from benchmarks import measure
from narrows.cli.folders import free_folder
from narrows.errors import NarrowsError
from narrows.report.picture import write_pictures
from narrows.reproduce import reproduce
from narrows.reproduce.hayes_2010 import PAPER
from narrows.results import RUN_FILE, RunFolderError
from narrows.results.folder import check_target
from narrows.results.gateway_bench import JOURNAL, GatewayBench

from . import checks, left_over, memory, plan, servers
from .beds import SPLIT, Arm, Bed, Beds
from .journal import Journal, Sitting, unfinished
from .lab import Lab, LabError, require
from .load import Generator, Programs, build, built
from .recording import Recording, host, tables
from .sitting import Step, left, sit
from .switches import Switches

SEED = 1

ORDER = ["udp", "tcp", *SPLIT, "gateway", "gateway-axfr", "gateway-fin", "xdp-udp", "xdp-tcp"]
"""The order of a server's lines in the table: each is compared with lines above it."""


def main() -> int:
    """Measures, prints, and returns the exit code."""
    options = arguments()
    form = plan.QUICK if options.quick else plan.FULL
    if options.rounds:
        few = min(options.rounds, form.saturating_rounds)
        form = replace(
            form, rounds=options.rounds, fast_rounds=options.rounds, saturating_rounds=few
        )
    if options.interval:
        form = replace(form, seconds=options.interval, fast_seconds=options.interval)
    until = time.monotonic() + 60 * options.budget if options.budget else float("inf")
    try:
        folder = chosen_folder(options.out, resume=options.resume)
        require("make bench-gateway", [*servers.SERVERS.values(), "kxdpgun", "dig"])
        programs = built(options.target) if options.target else build()
        with Journal(folder, facts(form, options.servers, programs)) as journal:
            bench, left_s = run(form, options.servers, programs, journal, until)
            bench = bench.save(folder, renew=True)
            outcome = reproduce(PAPER, recorded=folder)
            write_pictures(PAPER.plots(outcome), folder / "plots")
            if bench.stopped not in ("interrupted", "budget"):
                journal.finish()
    except (LabError, NarrowsError) as error:
        print(f"bench_gateway.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench_gateway.py: interrupted; rounds that were over are kept", file=sys.stderr)
        return 130
    print(table(bench))
    measure.log(f"wrote {folder}")
    if unfinished(folder):
        said = f"rounds with {left_s / 60:.1f} minutes of load are left"
        measure.log(f"{said}; go on with: {command(options, folder)}")
    print(json.dumps(last_line(bench)))
    return 130 if bench.stopped == "interrupted" else 0


def arguments() -> argparse.Namespace:
    """The command line. QUICK=1, ROUNDS, OUT and others in the environment have the same effect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("QUICK")))
    parser.add_argument("--rounds", type=int, default=os.environ.get("ROUNDS", "0"))
    parser.add_argument(
        "--interval",
        type=float,
        default=os.environ.get("INTERVAL", "0"),
        help="length of each interval of load, in seconds",
    )
    out = os.environ.get("OUT")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(out) if out else None,
        help="the folder for the results; if it holds an unfinished bench, go on with that",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        default=bool(os.environ.get("RESUME")),
        help="go on with an unfinished bench: --out, or the latest in runs",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=os.environ.get("BUDGET", "0"),
        metavar="MINUTES",
        help="begin no round that would end later; --resume goes on",
    )
    parser.add_argument(
        "--servers",
        nargs="+",
        choices=list(servers.SERVERS),
        default=os.environ.get("SERVERS", "").split() or list(servers.SERVERS),
    )
    parser.add_argument(
        "--target", type=Path, help="cargo's folder of builds; without it, they are made first"
    )
    options = parser.parse_args()
    if options.rounds < 0 or not 0 <= options.interval < 3600:
        parser.error("rounds and seconds of an interval (below 3600) must not be negative")
    if unknown := [name for name in options.servers if name not in servers.SERVERS]:
        parser.error(f"no server {unknown[0]}: choose of {', '.join(servers.SERVERS)}")
    if not 0 <= options.budget < float("inf"):
        parser.error("the budget must be a number of minutes")
    return options


def chosen_folder(out: Path | None, *, resume: bool) -> Path:
    """The bench's folder: a new one, or that of an unfinished bench.

    Raises:
        RunFolderError: The folder has other contents, or there is no unfinished bench to continue.
    """
    runs = Path("runs")
    if out is None and resume:
        found = [path.parent for path in runs.glob(f"gateway-*/{JOURNAL}")]
        if not found:
            hint = "name its folder with --out (OUT), or leave out --resume (RESUME)"
            raise RunFolderError(runs, "holds no unfinished bench", hint)
        return max(found, key=lambda path: (path / JOURNAL).stat().st_mtime)
    folder = out or free_folder(runs, "gateway")
    if unfinished(folder):
        return folder
    if resume:
        what = "is no unfinished bench" if folder.exists() else "does not exist"
        if (folder / RUN_FILE).exists():
            GatewayBench.load(folder)
            what = "holds a bench that is finished"
        raise RunFolderError(folder, what, "leave out --resume (RESUME) and name a new folder")
    check_target(folder)
    return folder


def facts(form: plan.Form, names: list[str], programs: Programs) -> dict[str, Any]:
    """The facts that must be equal in all sittings of a bench, by names for people."""
    machine = host()
    return {
        "form": form.name,
        "servers": names,
        "rates": form.rates,
        "rounds": form.rounds,
        "seconds": form.seconds,
        "fast rates": form.fast,
        "fast rounds": form.fast_rounds,
        "fast seconds": form.fast_seconds,
        "saturating rates": form.saturating,
        "saturating rounds": form.saturating_rounds,
        "idle connections": form.idle,
        "looks": form.looks,
        "seed": SEED,
        "narrows": narrows.__version__,
        "gateway program": checksum(programs.gateway),
        "generator program": checksum(programs.dnsload),
        **{name: machine[name] for name in ("kernel", "machine", "processor")},
        **machine["servers"],
    }


def checksum(program: Path | None) -> str | None:
    """The first digits of a program's SHA-256, by which builds of one version differ."""
    return None if program is None else hashlib.sha256(program.read_bytes()).hexdigest()[:12]


def command(options: argparse.Namespace, folder: Path) -> str:
    """The command line that continues the bench."""
    words = {"QUICK": "1" if options.quick else "", "ROUNDS": options.rounds or ""}
    words |= {"INTERVAL": f"{options.interval:g}" if options.interval else ""}
    if options.servers != list(servers.SERVERS):
        words["SERVERS"] = " ".join(options.servers)
    words |= {"BUDGET": f"{options.budget:g}" if options.budget else "", "OUT": str(folder)}
    said = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in words.items() if value)
    return f"sudo {said} make bench-gateway"


def run(
    form: plan.Form, names: list[str], programs: Programs, journal: Journal, until: float
) -> tuple[GatewayBench, float]:
    """Measures, until a given time, what the form asks for and the journal lacks.

    Returns:
        What all sittings have measured, and how many seconds of load are left.
    """
    left_over.remove(journal.processes)
    began, before_s = time.monotonic(), journal.end_s
    now = Sitting(
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        start_s=before_s,
        kernel=journal.facts["kernel"],
        processor=journal.facts["processor"],
        pid=os.getpid(),
    )

    def clock() -> float:
        return before_s + time.monotonic() - began

    with tempfile.TemporaryDirectory(prefix=f"{left_over.FOLDER}{os.getpid()}-") as name:
        folder = Path(name)
        # The servers change to users of their own, who must reach their files.
        folder.chmod(0o755)
        generator = Generator(programs.dnsload)
        with (
            Lab(folder) as lab,
            Switches(folder) as switches,
            Beds(lab, folder, generator, programs.gateway) as beds,
        ):
            made = start(beds, names)
            for line in beds.failed:
                measure.log(f"not measured: {line}")
            arms = [str(arm) for bed in made for arm in bed.arms]
            journal.begin(arms, beds.failed, now)
            steps = behaviour(form, beds, made, generator)
            steps += load(form, made, generator, switches, clock)
            stopped = sit(steps, journal, clock, clock() + until - time.monotonic())
    left_s = sum(step.length_s for step in left(steps, journal))
    return bench_of(form, names, journal, stopped, clock()), left_s


def bench_of(
    form: plan.Form, names: list[str], journal: Journal, stopped: str, end_s: float
) -> GatewayBench:
    """The journal's contents as a bench."""
    failed = journal.not_measured
    sittings = [asdict(sitting) for sitting in journal.sittings]
    return GatewayBench(
        settings={
            "name": "bench-gateway",
            "form": form.name,
            "servers": names,
            "rates_per_s": list(form.rates),
            "rounds": form.rounds,
            "seconds": form.seconds,
            "sittings": len(sittings),
            "not_measured": failed,
        },
        seed=SEED,
        status="complete" if stopped == "end" and not failed else "partial",
        stopped=stopped if stopped != "end" or not failed else failed[0],
        end_s=end_s,
        tables=tables(done.rows for done in journal.done),
        narrows=narrows.__version__,
        wall={"started_at": sittings[0]["started_at"], "sittings": sittings},
        host=host(),
    )


def start(beds: Beds, names: list[str]) -> list[Bed]:
    """Starts every server with every front."""
    made: list[Bed | None] = []
    for name in names:
        made += [beds.plain(name), beds.behind(name, "gateway")]
        made.append(beds.behind(name, "gateway-fin"))
        if name == "bind":
            made.append(beds.behind(name, "gateway-axfr"))
        if name == "knot":
            made.append(beds.xdp(name))
    return [bed for bed in made if bed is not None]


def behaviour(form: plan.Form, beds: Beds, made: list[Bed], generator: Generator) -> list[Step]:
    """Measures what needs no quiet machine: BIND's behaviour, and the memory of a connection."""
    bind = {name: bed for bed in made if bed.server.name == "bind" for name in bed.transports}
    steps = []

    def look(recording: Recording) -> list[str]:
        measure.log("what the gateway does")
        known = len(beds.failed)
        axfr, keep = bind["gateway-axfr"], bind["gateway"]
        recording.checks(checks.observe(beds, bind["tcp"], keep, axfr, rounds=form.looks))
        return beds.failed[known:]

    def weigh(transport: str, recording: Recording) -> list[str]:
        measure.log(f"memory and connections at once: {transport}")
        bed, length = bind[transport], form.seconds
        arm = Arm(bed.server.name, transport)
        memory.measure(bed, arm, generator, recording, form.idle, form.looks)
        memory.sessions(bed, arm, generator, recording, rate=500, seconds=length, rounds=form.looks)
        return []

    if bind.keys() >= {"tcp", "gateway", "gateway-axfr"}:
        steps.append(Step("what the gateway does", 1, 0.0, look))
    for transport in ("tcp", "gateway"):
        if transport in bind:
            length_s = form.looks * form.seconds
            name = f"memory: {transport}"
            steps.append(Step(name, 1, length_s, functools.partial(weigh, transport)))
    return steps


def load(
    form: plan.Form,
    beds: list[Bed],
    generator: Generator,
    switches: Switches,
    clock: Callable[[], float],
) -> list[Step]:
    """All rounds of the plan."""
    places = {arm: bed for bed in beds for arm in bed.arms}

    def go(turn: plan.Round, recording: Recording) -> list[str]:
        part = turn.part
        measure.log(
            f"{part.name}: round {turn.number} of {part.rounds}, {len(turn.intervals)} intervals, "
            f"{turn.length_s / 60:.1f} minutes of load"
        )
        failed = []
        for interval in turn.intervals:
            started_s = clock()
            try:
                found = places[interval.arm].measure(
                    interval.arm,
                    generator,
                    switches,
                    rate=interval.rate,
                    seconds=interval.seconds,
                    seed=interval.seed,
                    flood=interval.flood,
                )
            except LabError as error:
                # The results so far are worth keeping, even without the rest.
                failed.append(f"{interval.arm} at {interval.rate:g} q/s: {error}")
                measure.log(f"not measured: {failed[-1]}")
            else:
                recording.interval(interval, started_s, found)
        for bed in beds:
            # Nobody answers then, which looks like loss, so the round does not count.
            if (ended := bed.ended()) is not None:
                raise LabError(f"{ended}; hint: --resume measures this round again")
        return failed

    return [
        Step(part.name, turn.number, turn.length_s, functools.partial(go, turn))
        for part in plan.parts(form, list(places))
        for turn in plan.rounds(part, SEED)
    ]


def table(bench: GatewayBench) -> str:
    """The metrics for people."""
    head = ["server, transport", "over UDP, 500/s", "us, 500/s", "us, 5000/s", "of TCP's"]
    head += ["packets", "most a second"]
    rows = []
    for server, arms in bench.summary.items():
        for transport in sorted(arms, key=ORDER.index):
            metrics = arms[transport]
            over = metrics.get("over_udp_500qps")
            most = metrics.get("most_per_s")
            of_tcp = metrics.get("of_tcp_5000qps")
            rows.append(
                [
                    f"{server} {transport}",
                    "" if over is None else f"{100 * over:+.0f} %",
                    text(metrics.get("us_per_query_500qps")),
                    text(metrics.get("us_per_query_5000qps")),
                    "" if of_tcp is None else f"{100 * of_tcp:.0f} %",
                    text(metrics.get("packets_per_query_5000qps")),
                    "" if most is None else f"{'>= ' if metrics['at_least'] else ''}{most:.0f}",
                ]
            )
    return measure.table(head, rows)


def text(value: float | None) -> str:
    """A number as text; empty if there is none."""
    return "" if value is None else f"{value:.1f}"


def last_line(bench: GatewayBench) -> dict[str, object]:
    """The JSON line: servers with their arms, Knot's XDP mode as a separate server."""
    found: dict[str, object] = {}
    for server, arms in bench.summary.items():
        own = {name: value for name, value in arms.items() if not name.startswith("xdp")}
        found[server] = own
        xdp = {name[4:]: value for name, value in arms.items() if name.startswith("xdp")}
        if xdp:
            found[f"{server}_xdp"] = xdp
    return found


if __name__ == "__main__":
    sys.exit(main())

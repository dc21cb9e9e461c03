"""What DNS over TCP costs a server, with and without `narrows-gateway`: `make bench-gateway`.

BIND, NSD and Knot, each in a network namespace of its own, are asked over UDP, the kernel's TCP,
the gateway, and Knot's own XDP mode: one query a connection, 50 to 500 queries a second as in
Hayes, Rossi, Armitage 2010, and far beyond. benchmarks/gateway/README.md says how. Needs root. The
last line of stdout is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import measure
import narrows
from gateway import checks, memory, plan, servers
from gateway.beds import Bed, Beds
from gateway.lab import Lab, LabError, require
from gateway.load import Generator, build
from gateway.recording import Recording, host
from gateway.switches import Switches
from narrows.errors import NarrowsError
from narrows.report.page import write_figures
from narrows.reproduce import reproduce
from narrows.reproduce.hayes_2010 import PAPER
from narrows.results.folder import check_target
from narrows.results.gateway_bench import GatewayBench

SEED = 1

ORDER = ["udp", "tcp", "gateway", "gateway-axfr", "gateway-fin", "xdp-udp", "xdp-tcp"]
"""Of the table's lines within a server: what is compared with what stands above."""


def main() -> int:
    """Measures, prints, and gives the exit code."""
    options = arguments()
    form = plan.QUICK if options.quick else plan.FULL
    if options.rounds:
        few = min(options.rounds, form.saturating_rounds)
        form = replace(
            form, rounds=options.rounds, fast_rounds=options.rounds, saturating_rounds=few
        )
    if options.interval:
        form = replace(form, seconds=options.interval, fast_seconds=options.interval)
    folder = options.out or free_folder(Path("runs"))
    try:
        check_target(folder)
        require("make bench-gateway", [*servers.SERVERS.values(), "kxdpgun", "dig"])
        bench = run(form, options.servers)
        bench = bench.save(folder)
        outcome = reproduce(PAPER, recorded=folder)
        write_figures(PAPER.figures(outcome), folder / "figures")
    except (LabError, NarrowsError) as error:
        print(f"bench_gateway.py: {error}", file=sys.stderr)
        return 2
    print(table(bench))
    measure.log(f"wrote {folder}")
    print(json.dumps(last_line(bench)))
    return 130 if bench.stopped == "interrupted" else 0


def arguments() -> argparse.Namespace:
    """The command line; QUICK=1, ROUNDS, INTERVAL and OUT in the environment say the same."""
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
    parser.add_argument("--out", type=Path, default=Path(out) if out else None)
    parser.add_argument(
        "--servers", nargs="+", choices=list(servers.SERVERS), default=list(servers.SERVERS)
    )
    options = parser.parse_args()
    if options.rounds < 0 or not 0 <= options.interval < 3600:
        parser.error("rounds and seconds of an interval (below 3600) must not be negative")
    return options


def run(form: plan.Form, names: list[str]) -> GatewayBench:
    """Measures all that a form says."""
    recording, started_at = Recording(), time.time()
    clock = time.monotonic()
    stopped, failed = "end", []
    programs = build()
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as name:
        folder = Path(name)
        # The servers' own users must get at their files.
        folder.chmod(0o755)
        generator = Generator(programs.dnsload)
        with (
            Lab(folder) as lab,
            Switches(folder) as switches,
            Beds(lab, folder, generator, programs.gateway) as beds,
        ):
            try:
                made = start(beds, names)
                failed = beds.failed
                for line in failed:
                    measure.log(f"not measured: {line}")
                behaviour(form, beds, made, generator, recording)
                load(form, made, generator, switches, recording, clock, failed)
            except KeyboardInterrupt:
                stopped = "interrupted"
    return GatewayBench(
        settings={
            "name": "bench-gateway",
            "form": form.name,
            "servers": names,
            "rates_per_s": list(form.rates),
            "rounds": form.rounds,
            "seconds": form.seconds,
            "not_measured": failed,
        },
        seed=SEED,
        status="complete" if stopped == "end" and not failed else "partial",
        stopped=stopped if stopped != "end" or not failed else failed[0],
        end_s=time.monotonic() - clock,
        tables=recording.tables(),
        narrows=narrows.__version__,
        wall={"started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started_at))},
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


def behaviour(
    form: plan.Form, beds: Beds, made: list[Bed], generator: Generator, recording: Recording
) -> None:
    """What BIND's arms do, and what an open connection costs: what needs no quiet machine."""
    bind = {bed.transports[-1]: bed for bed in made if bed.server.name == "bind"}
    if bind.keys() >= {"tcp", "gateway", "gateway-axfr"}:
        measure.log("what the gateway does")
        axfr, keep = bind["gateway-axfr"], bind["gateway"]
        seen = checks.observe(beds, bind["tcp"], keep, axfr, rounds=form.looks)
        recording.checks(seen)
    for transport in ("tcp", "gateway"):
        if transport in bind:
            measure.log(f"memory and connections at once: {transport}")
            bed, length = bind[transport], form.seconds
            memory.measure(bed, generator, recording, form.idle, form.looks)
            memory.sessions(bed, generator, recording, rate=500, seconds=length, rounds=form.looks)


def load(
    form: plan.Form,
    beds: list[Bed],
    generator: Generator,
    switches: Switches,
    recording: Recording,
    clock: float,
    failed: list[str],
) -> None:
    """Measures every interval of the plan."""
    places = {arm: bed for bed in beds for arm in bed.arms}
    for part in plan.parts(form, list(places)):
        measure.log(f"{part.name}: {len(part.arms)} arms, {part.length_s / 60:.1f} minutes of load")
        for interval in plan.intervals(part, SEED):
            started_s = time.monotonic() - clock
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
                # What was measured so far is worth more than the rest.
                failed.append(f"{interval.arm} at {interval.rate:g} q/s: {error}")
                measure.log(f"not measured: {failed[-1]}")
            else:
                recording.interval(interval, started_s, found)


def table(bench: GatewayBench) -> str:
    """The figures for people."""
    head = ["server, transport", "over UDP, 500/s", "us, 500/s", "us, 5000/s", "of TCP's"]
    head.append("most a second")
    rows = []
    for server, arms in bench.summary.items():
        for transport in sorted(arms, key=ORDER.index):
            figures = arms[transport]
            over = figures.get("over_udp_500qps")
            most = figures.get("most_per_s")
            of_tcp = figures.get("of_tcp_5000qps")
            rows.append(
                [
                    f"{server} {transport}",
                    "" if over is None else f"{100 * over:+.0f} %",
                    text(figures.get("us_per_query_500qps")),
                    text(figures.get("us_per_query_5000qps")),
                    "" if of_tcp is None else f"{100 * of_tcp:.0f} %",
                    "" if most is None else f"{'>= ' if figures['at_least'] else ''}{most:.0f}",
                ]
            )
    return measure.table(head, rows)


def text(value: float | None) -> str:
    """A figure, or nothing."""
    return "" if value is None else f"{value:.1f}"


def last_line(bench: GatewayBench) -> dict[str, object]:
    """The JSON line: servers with their arms; Knot's XDP mode as a server of its own."""
    found: dict[str, object] = {}
    for server, arms in bench.summary.items():
        own = {name: value for name, value in arms.items() if not name.startswith("xdp")}
        found[server] = own
        xdp = {name[4:]: value for name, value in arms.items() if name.startswith("xdp")}
        if xdp:
            found[f"{server}_xdp"] = xdp
    return found


def free_folder(parent: Path) -> Path:
    """The first of `gateway-1`, `gateway-2`, .. below `parent` that does not exist."""
    number = 1
    while (parent / f"gateway-{number}").exists():
        number += 1
    return parent / f"gateway-{number}"


if __name__ == "__main__":
    sys.exit(main())

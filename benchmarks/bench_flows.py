"""Speed and memory of narrows against the number of flows: `make bench-flows`.

Scenario B1 with 10 to 20,000 flows; the bottleneck's rate and buffer grow with the flows, so that
each flow's share stays as it is with 500. Simulated time is chosen so that about the same number
of packets crosses the bottleneck each time. QUICK=1 simulates a quarter of them, once. Results are
medians of interleaved runs, each in a process of its own. The plot goes to runs/bench-flows.png
and .svg; the last line of stdout is a JSON object.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import measure
from measure import Outcome

FLOWS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
NAMES = {"droptail": "Drop Tail", "red": "RED"}
COLOURS = {"droptail": "#1f6f8b", "red": "#c8553d"}

PACKETS_PER_FLOW_AND_S = 82
"""What crosses B1's bottleneck: 480 Mb/s of 500 flows, in packets of 1500 bytes."""

SHORTEST_S = 5.0
"""Long enough for the start, when all flows lose packets, and for the time after it."""


def duration(flows: int, packets: float) -> float:
    """Simulated seconds in which about this many packets cross the bottleneck."""
    return max(SHORTEST_S, float(round(packets / (PACKETS_PER_FLOW_AND_S * flows))))


def medians(outcomes: list[Outcome], seconds: float) -> dict[str, float]:
    """The results that are kept for one number of flows."""
    said = [outcome.said for outcome in outcomes]
    return {
        "simulated_s": seconds,
        "packets": measure.median(s["packets"] for s in said),
        "run_s": round(measure.median(s["run_s"] for s in said), 4),
        "packets_per_s": round(measure.median(s["packets"] / s["run_s"] for s in said)),
        "events_per_packet": round(measure.median(s["events"] / s["packets"] for s in said), 2),
        "peak_mb": round(measure.median(o.peak_mb for o in outcomes), 1),
    }


def draw(results: dict[str, dict[int, dict[str, float]]], folder: Path) -> list[str]:
    """Draws speed and memory against the number of flows; returns the files' names."""
    # Imported here, because what is loaded earlier would count in the children's peak memory.
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (speed, memory) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for discipline, by_flows in results.items():
        style: dict[str, Any] = {
            "color": COLOURS[discipline],
            "label": NAMES[discipline],
            "marker": "o",
            "markersize": 4,
        }
        flows = list(by_flows)
        speed.plot(flows, [r["packets_per_s"] / 1e6 for r in by_flows.values()], **style)
        memory.plot(flows, [r["peak_mb"] for r in by_flows.values()], **style)
    speed.set_ylabel("millions of packets per wall second")
    memory.set_ylabel("peak memory (MB)")
    for axes in (speed, memory):
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("TCP flows")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    speed.legend(frameon=False)
    figure.suptitle("B1 with more and fewer flows; 1 Mbit/s and 10 packets of buffer for each")
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"bench-flows.{form}" for form in ("png", "svg")]
    for file in files:
        figure.savefig(file, dpi=150)
    pyplot.close(figure)
    return [str(file) for file in files]


def main() -> int:
    """Measures, draws, prints, and returns the exit code."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description="Speed against the number of flows.")
    parser.add_argument("--packets", type=float, default=1e6 if quick else 4e6)
    parser.add_argument("--rounds", type=int, default=1 if quick else 3)
    parser.add_argument("--flows", type=int, nargs="+", default=FLOWS)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    options = parser.parse_args()

    outcomes: dict[tuple[str, int], list[Outcome]] = {}
    try:
        for number in range(options.rounds):
            for flows in options.flows:
                seconds = duration(flows, options.packets)
                for discipline in NAMES:
                    outcome = measure.narrows("flows", discipline, str(seconds), str(flows))
                    outcomes.setdefault((discipline, flows), []).append(outcome)
                measure.log(f"round {number + 1}  {flows:6} flows  {seconds:7g} s simulated")
    except measure.ChildError as error:
        print(f"bench_flows.py: {error}", file=sys.stderr)
        return 1
    results = {
        discipline: {
            flows: medians(outcomes[discipline, flows], duration(flows, options.packets))
            for flows in options.flows
        }
        for discipline in NAMES
    }
    for discipline, by_flows in results.items():
        print(f"\n{NAMES[discipline]}\n")
        rows = [
            [
                f"{flows:,}",
                f"{r['simulated_s']:g}",
                f"{r['packets']:,.0f}",
                f"{r['run_s']:.2f}",
                f"{r['packets_per_s']:,.0f}",
                f"{r['events_per_packet']:.2f}",
                f"{r['peak_mb']:.0f}",
            ]
            for flows, r in by_flows.items()
        ]
        head = ["flows", "simulated s", "packets", "run s", "packets/s", "events/packet", "peak MB"]
        print(measure.table(head, rows))
    print("\n" + "\n".join(draw(results, options.out)))
    keys = ("packets_per_s", "peak_mb")
    line: dict[str, Any] = {"flows": list(options.flows)}
    for discipline, by_flows in results.items():
        line[discipline] = {key: [r[key] for r in by_flows.values()] for key in keys}
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a link carries over time, against its rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from narrows.report import marks, seeds, style
from narrows.report.plots.over_time import as_steps, averages, over_time
from narrows.report.source import NONE, counter, queue_facts
from narrows.report.style import CYCLE, DASHES, INK, Floats
from narrows.results import Run


@style.styled
def utilisation(
    runs: Mapping[str, Run], link: str, others: Mapping[str, Sequence[Run]] = NONE
) -> Figure:
    """Throughput of a link between samples, framing included, and what the link could carry.

    What it could carry is its rate with its changes, or what its trace offered between samples.

    Args:
        runs: Runs by label.
        link: A link that each of them sampled.
        others: Other seeds of the runs.
    """
    figure, axes = style.new_figure(height=3.0)
    first = next(iter(runs.values()))
    facts = queue_facts(first, link)
    top = 0.0 if facts is None else max(rate for _, rate in facts.rates) * 1e-6
    for index, (label, run) in enumerate(runs.items()):
        each = [_rates(one, link) for one in (run, *others.get(label, ()))]
        shares = [
            one.summary["links"][link]["run"]["utilisation_percent"]
            for one in (run, *others.get(label, ()))
        ]
        known = [share for share in shares if share is not None]
        busy = f"busy {sum(known) / len(known):.1f} % of the time" if known else ""
        parts = ["carried" if len(runs) == 1 else label, *filter(None, [busy])]
        name = ", ".join(parts)
        top = max(top, seeds.draw(axes, each, name, CYCLE[index % len(CYCLE)], "steps-pre"))
    if facts is not None and facts.opportunities_ms is not None:
        times, _ = counter(first.links, link, "bytes")
        offered = _growth(times, facts.offered(times))
        looks = {"color": INK, "linestyle": DASHES, "linewidth": 1.1}
        top = max(top, averages(axes, times, offered, label="offered by the trace", **looks))
    elif facts is not None:
        changes = [(time, rate * 1e-6) for time, rate in facts.rates if time < first.end_s]
        marks.course(axes, changes, first.end_s, f"rate\n{changes[-1][1]:g} Mbit/s", INK)
    over_time(axes, list(runs.values()), top, f"Throughput of {link}", "throughput (Mbit/s)")
    style.below(figure)
    return figure


def _rates(run: Run, link: str) -> seeds.Curve:
    """Mbit/s that the link carried until each sample, from time zero on."""
    times, total = counter(run.links, link, "bytes")
    return as_steps(times, _growth(times, total))


def _growth(times: Floats, total: Floats) -> Floats:
    """Mbit/s at which a total in bytes grew between samples."""
    return np.asarray(np.diff(total) * 8e-6 / np.diff(times), dtype=np.float64)

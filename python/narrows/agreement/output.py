"""The results of an agreement as a table and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from narrows.agreement.compare import METRICS, RESPONSE
from narrows.agreement.conduct import Agreement, words_of_version
from narrows.agreement.draws import set_of
from narrows.agreement.plots import write_scatter
from narrows.results import TextTable
from narrows.unfinished import write_whole

WORST = 10
"""The most draws that the table lists."""


def write(result: Agreement, folder: Path) -> None:
    """Writes `agreement.json` and the plots.

    Raises:
        OSError: They cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(
        folder / "agreement.json", (json.dumps(result.document(), indent=2) + "\n").encode()
    )
    write_scatter(result, folder / "scatter.svg")


def agreement_table(result: Agreement) -> TextTable:
    """Each metric with its bound, the worst draws, and the draws that do not count."""
    worst = sorted(result.counted, key=lambda each: -each.worst())[:WORST]
    bounds = {metric.name: metric.bound_shown for metric in METRICS}
    blocks = [
        (
            "" if factor == 1.0 else f"draws with {factor:g} times the bounds",
            _rows(result.summary(factor)),
        )
        for factor in result.factors
    ]
    listed = []
    for each in worst:
        name, off = max(each.judged().items(), key=lambda found: abs(found[1]) / bounds[found[0]])
        values = f"{each.kernel[name]:.4g} and {each.sim[name]:.4g}"
        listed.append((f"{each.number}", name, f"{off:+.3g}", values, each.what))
    notes = [
        f"draw {each.number} is left out: {each.left_out}"
        for each in result.comparisons
        if each.left_out
    ]
    if result.at_the_jump and len(result.factors) == 1:
        every = next(entry for entry in result.summary() if entry["metric"] == RESPONSE)
        notes.append(
            f"response time is not compared in {len(result.at_the_jump)} draws, in which one "
            "attempt answers so close to 95 % of the queries that chance decides; with them, its "
            f"mean difference is {_number(every['mean_absolute_difference_with_jumps'], '%')}"
        )
    each_one = result.goodput_difference()
    if each_one is not None:
        notes.append(
            f"the goodput of each connection differs by {each_one:.3g} % of their mean, by rank "
            "(without a bound)"
        )
    version = result.kernel.get("version")
    by = words_of_version(version)
    if version is not None:
        by += ", virtual time" if result.kernel.get("virtual_time") else ", real time"
    return TextTable(
        f"{set_of(result.seed)} set, seed {result.seed}: {len(result.counted)} draws, {by}",
        ("metric", "mean difference", "by chance", "bound", "within twice that", "agrees"),
        [*blocks, ("worst draws (kernel and narrows)", listed)],
        notes,
    )


def _rows(summary: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            entry["metric"],
            _number(entry["mean_absolute_difference"], entry["unit"]),
            _number(entry["by_chance"], entry["unit"]),
            _number(entry["bound"], entry["unit"]),
            _number(entry["within_twice_percent"], "%"),
            "yes" if entry["agrees"] else "no",
        )
        for entry in summary
    ]


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g} {unit}"

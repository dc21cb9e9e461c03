"""A suite on the terminal and on disk: tables, sentences, plots, `suite.json`."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, TextIO

from narrows import _core
from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.report import REPORT_FILE
from narrows.report.files import write_bytes, write_page
from narrows.report.page import render
from narrows.report.picture import Picture, pictures_on_page, write_pictures
from narrows.results.text import TextTable
from narrows.suites.conduct import RUNS_FILE, SUITE_FILE, SuiteRun
from narrows.suites.parts import Column, Part
from narrows.suites.seen import cell, cell_text, findings, number

WIDTH = 100
"""The width of prose on the terminal, in columns."""


def print_suite(run: SuiteRun, to: TextIO, *, as_json: bool = False) -> None:
    """What each section shows, or one JSON document."""
    if as_json:
        print(json.dumps(run.document(), indent=2, allow_nan=False), file=to)
        return
    to.write(f"{run.suite.title}\n{_extent(run)}\n")
    for part in run.suite.parts:
        if not _ran(run, part):
            continue
        shown = [column for column in part.columns if _telling(part, column)]
        rows = [(name, *_texts(run, shown, name)) for name in run.names]
        heads = ("", *(run.suite.head(column) for column in shown))
        to.write(f"\n{TextTable(part.heading, heads, [('', rows)])}\n")
        for sentence in findings(run, part):
            to.write(f"{fill(sentence, WIDTH, break_on_hyphens=False)}\n")
    if run.costs:
        rows = [(name, number(value, 0)) for name, value in run.costs.items()]
        table = TextTable(_COST, ("", "ns for each packet"), [("", rows)])
        to.write(f"\n{table}\n")
    for note in run.suite.left_out:
        to.write(f"\n{fill(note, WIDTH)}\n")


_COST = "11 Cost: processor time for each packet, more than with a FIFO"


def _extent(run: SuiteRun) -> str:
    seeds = len(run.seeds)
    return (
        f"{len(run.queues)} queue{'' if len(run.queues) == 1 else 's'}, {run.runs.height} runs, "
        f"{seeds} seed{'' if seeds == 1 else 's'}, {run.status}; means ± half of the 95 % interval"
    )


def _ran(run: SuiteRun, part: Part) -> bool:
    return not run.runs.filter(run.runs["scene"].is_in(part.scenes)).is_empty()


def _telling(part: Part, column: Column) -> bool:
    return f"{column.scene}.{column.metric}" in part.telling


def _texts(run: SuiteRun, columns: Sequence[Column], name: str) -> list[str]:
    return [cell_text(cell(run, column, name), run.suite.metric(column)) for column in columns]


def write(
    run: SuiteRun,
    folder: Path,
    kinds: Sequence[PlotFile] = USUAL_PLOT_FILES,
    pictures: Sequence[tuple[str, Picture]] = (),
) -> None:
    """Writes `report.html`, `suite.json`, the table of runs and the plots into `folder`.

    Args:
        run: The suite's results.
        folder: Where to.
        kinds: The types of the plots' files.
        pictures: Plots, each with the number of its part.

    Raises:
        RunFolderError: They cannot be written.
    """
    text = json.dumps(run.document(), indent=2, allow_nan=False)
    write_page(folder / SUITE_FILE, f"{text}\n")
    data = io.BytesIO()
    run.runs.write_parquet(data)
    write_bytes(folder / RUNS_FILE, data.getvalue())
    write_pictures([picture for _, picture in pictures], folder / "plots", kinds)
    html = render(
        "suite.html",
        package="narrows.suites",
        version=_core.version,
        suite=run.suite,
        extent=_extent(run),
        run=run,
        queues=[(each.name, each.text) for each in run.queues],
        parts=[_shown(run, part, pictures) for part in run.suite.parts if _ran(run, part)],
        costs=[(name, number(value, 0)) for name, value in (run.costs or {}).items()],
        comparisons=_comparisons(run),
    )
    write_page(folder / REPORT_FILE, html)


def _shown(run: SuiteRun, part: Part, pictures: Sequence[tuple[str, Picture]]) -> dict[str, Any]:
    own = [picture for of, picture in pictures if of == part.number]
    return {
        "part": part,
        "heads": [run.suite.head(column) for column in part.columns],
        "rows": [
            (name, [_on_page(run, column, name) for column in part.columns]) for name in run.names
        ],
        "findings": findings(run, part),
        "plots": pictures_on_page(own),
    }


def _on_page(run: SuiteRun, column: Column, name: str) -> dict[str, Any]:
    metric, found = run.suite.metric(column), cell(run, column, name)
    apart, differs = "", False
    if found is not None and found.apart is not None:
        # Adding zero turns minus zero into zero.
        low, high = (number(round(end, metric.digits) + 0.0, metric.digits) for end in found.apart)
        apart = f"{low} to {high}"
        # A difference that rounding hides is no news.
        differs = (
            found.differs and not float(low.replace(",", "")) == float(high.replace(",", "")) == 0.0
        )
    return {"text": cell_text(found, metric), "apart": apart, "differs": differs}


def _comparisons(run: SuiteRun) -> int:
    """The number of differences on the page that have an interval."""
    return sum(
        found.apart is not None
        for part in run.suite.parts
        for column in part.columns
        for name in run.names
        if (found := cell(run, column, name)) is not None
    )

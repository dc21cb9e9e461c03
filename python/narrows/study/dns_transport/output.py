"""The study on the terminal and on disk: tables, heat maps, `study.json`."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, TextIO

from narrows import _core
from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.report import REPORT_FILE
from narrows.report.files import write_bytes, write_page
from narrows.report.page import render
from narrows.report.picture import pictures_on_page, write_pictures
from narrows.study.dns_transport.phrases import base, title
from narrows.study.dns_transport.plots import plots
from narrows.study.dns_transport.pooled import FACTORS
from narrows.study.dns_transport.study import RUNS_FILE, STUDY_FILE, Study

WIDTH = 100
"""The width of prose on the terminal, in columns."""

_COLUMNS = {
    "without_retry_percent": "without retry, %",
    "within_1s_percent": "within 1 s, %",
    "failed_percent": "failed, %",
    "response_p50_ms": "50 %, ms",
    "response_p95_ms": "95 %, ms",
    "response_p99_ms": "99 %, ms",
    "packets_per_answer": "packets",
    "bytes_per_answer": "bytes",
    "connections": "connections",
    "cpu_bind_us": "BIND, us",
    "cpu_nsd_us": "NSD, us",
    "cpu_knot_us": "Knot, us",
    "page_p50_s": "page, s",
    "silent_percent": "silent, %",
    "flagged_percent": "flagged, %",
}
"""The metrics of a cell in the report's table."""


def print_study(study: Study, to: TextIO, *, as_json: bool = False) -> None:
    """The tables and their notes, or one JSON document."""
    if as_json:
        print(json.dumps(study.document(), indent=2, allow_nan=False), file=to)
        return
    to.write(f"{study.cells.height} cells, {study.runs.height} runs, {study.status}\n")
    for heading, tables in groupby(study.tables, key=lambda table: table.heading):
        to.write(f"\n{heading}\n")
        for table in tables:
            to.write("\n" + fill(f"{table.title}:", WIDTH) + "\n\n")
            to.write(_aligned([table.columns, *table.rows]))
    for note in study.notes:
        to.write("\n" + fill(note, WIDTH) + "\n")


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their cells; heads break between words."""
    head, *body = rows
    widths = [
        max(map(len, (*column, *words)))
        for column, words in zip(
            zip(*body, strict=True), (name.split() for name in head), strict=True
        )
    ]
    heads = [wrap(name, width) for name, width in zip(head, widths, strict=True)]
    lines = max(map(len, heads))
    above = zip(*([""] * (lines - len(each)) + each for each in heads), strict=True)
    return "".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in (*above, *body)
    )


def write(study: Study, folder: Path, kinds: Sequence[PlotFile] = USUAL_PLOT_FILES) -> None:
    """Writes `report.html`, `study.json`, the tables and the plots into `folder`.

    Raises:
        RunFolderError: They cannot be written.
    """
    # Write the results first, because nothing else can restore them.
    text = json.dumps(study.document(), indent=2, allow_nan=False)
    write_page(folder / STUDY_FILE, text + "\n")
    for name, table in ((RUNS_FILE, study.runs), ("cells.parquet", study.cells)):
        data = io.BytesIO()
        table.write_parquet(data)
        write_bytes(folder / name, data.getvalue())
    drawn = plots(study.runs) if study.runs.height else []
    write_pictures(drawn, folder / "plots", kinds)
    html = render(
        "study.html",
        package="narrows.study.dns_transport",
        version=_core.version,
        status=study.status,
        failures=study.failures,
        runs=study.runs.height,
        seeds=len(study.seeds),
        notes=study.notes,
        tables=study.tables,
        plots=pictures_on_page(drawn),
        surprises=[_surprise(each) for each in study.surprises.found],
        comparisons=study.surprises.comparisons,
        by_chance=study.surprises.by_chance,
        columns=[*(factor.replace("_", " ") for factor in FACTORS), *_COLUMNS.values()],
        names=len(FACTORS),
        cells=[_row(cell) for cell in study.cells.to_dicts()],
    )
    write_page(folder / REPORT_FILE, html)


def _row(cell: Mapping[str, Any]) -> list[str]:
    return [
        *(title(factor, cell[factor]) for factor in FACTORS),
        *(_plus_minus(cell, name) for name in _COLUMNS),
    ]


def _plus_minus(cell: Mapping[str, Any], name: str) -> str:
    value = cell.get(name)
    if value is None:
        return ""
    text = f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.1f}"
    low, high = cell[f"{name}_low"], cell[f"{name}_high"]
    if low is None or high is None:
        return text
    # At 0 and 100 %, the interval is asymmetric, and the longer half counts.
    half = max(high - value, value - low)
    return f"{text} ± {half:,.0f}" if half >= 1000.0 else f"{text} ± {half:.1f}"


def _surprise(each: Mapping[str, str | float]) -> dict[str, str]:
    cell = ", ".join(
        title(factor, str(each[factor]))
        for factor in FACTORS
        if factor in each and each[factor] not in base().values()
    )
    return {"cell": cell, "what": str(each["what"]), "value": f"{each['value']:.1f}"}

"""Measurements on the command line: reading them from any run folder, and what imports print.

`narrows import` ends with counts of what it has read and of what was not usable.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from narrows.cli.failure import Exit, say
from narrows.results import Measurement, Run, TextTable
from narrows.results.folder import RUN_FILE


def load(folder: Path) -> Measurement:
    """A measurement from its run folder, or from that of a scenario's run.

    Raises:
        RunFolderError: The folder holds neither.
    """
    from narrows.probe import measurement_of

    return measurement_of(Run.load(folder)) if _is_scenario(folder) else Measurement.load(folder)


def _is_scenario(folder: Path) -> bool:
    try:
        with (folder / RUN_FILE).open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return any(f'"backend": "{name}"'.encode() in head for name in ("sim", "kernel"))


def saved(
    measurement: Measurement,
    folder: Path,
    *,
    json_output: bool,
    quiet: bool,
    notes: Sequence[str] = (),
) -> Exit:
    """Saves a measurement, prints its counts and notes, and gives the exit code that fits it."""
    measurement.save(folder)
    if json_output:
        print(json.dumps(measurement.document(), indent=2))
    else:
        replace(counts_table(measurement), notes=notes).print(sys.stdout)
    if not measurement.complete:
        say(f"interrupted; wrote what was read to {folder}")
        return Exit.INTERRUPTED
    if not quiet:
        say(f"wrote {folder}")
    return Exit.DONE


def counts_table(measurement: Measurement) -> TextTable:
    """A table of exchanges by transport and outcome, of what was skipped, and of what was odd."""
    exchanges = measurement.exchanges
    sections: list[tuple[str, list[tuple[str, ...]]]] = []
    counts = exchanges.group_by("transport", "outcome").agg(pl.len()).sort("len", descending=True)
    for transport in sorted(exchanges["transport"].unique()):
        part = counts.filter(transport=transport)
        total = int(part["len"].sum())
        rows: list[tuple[str, ...]] = [
            (outcome, f"{count}", f"{100 * count / total:.2f}", "%")
            for outcome, count in part.select("outcome", "len").iter_rows()
        ]
        sections.append((f"over {transport}: {_many(total, 'query', 'queries')}", rows))
    skipped = measurement.skipped
    if skipped.height:
        rows = [
            (reason if transport is None else f"{transport}: {reason}", f"{count}", first or "")
            for transport, reason, count, first in skipped.group_by("transport", "reason")
            .agg(pl.col("records").sum(), pl.col("first").first())
            .sort("records", descending=True)
            .iter_rows()
        ]
        sections.append(("not usable", rows))
    remarks: dict[str, int] = {}
    for remark in measurement.findings.get("remarks", []):
        remarks[remark["what"]] = remarks.get(remark["what"], 0) + remark["records"]
    if remarks:
        sections.append(("odd, but kept", [(what, f"{count}") for what, count in remarks.items()]))
    vantages = exchanges["vantage"].n_unique()
    servers = exchanges["target"].n_unique()
    title = (
        f"{_many(exchanges.height, 'query', 'queries')} "
        f"from {_many(vantages, 'vantage point', 'vantage points')} "
        f"to {_many(servers, 'server', 'servers')}"
    )
    return TextTable(title, (), sections)


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"

"""Measurements on the command line: reads them from any run folder, and prints imports.

`narrows import` ends with counts of what it read and of what it could not use.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from narrows.cli.failure import Exit, say
from narrows.foreign_text import regular_bytes
from narrows.results import Measurement, Run, TextTable
from narrows.results.folder import RUN_FILE


def load(folder: Path) -> Measurement:
    """Reads a measurement from its run folder, or from that of a scenario's run.

    Raises:
        RunFolderError: The folder holds neither.
    """
    from narrows.probe import measurement_of

    return measurement_of(Run.load(folder)) if _is_scenario(folder) else Measurement.load(folder)


def _is_scenario(folder: Path) -> bool:
    try:
        head = regular_bytes(folder / RUN_FILE, 4096)
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
    """Saves a measurement, prints its counts and notes, and returns the exit code."""
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
    """A table of exchanges by outcome and by server, of skipped records, and of oddities."""
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
    sections += _by_server(exchanges)
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


_MOST_SERVERS = 10
"""The most servers with their own lines."""


def _by_server(exchanges: pl.DataFrame) -> list[tuple[str, list[tuple[str, ...]]]]:
    """A section with the servers that were asked most, if there are several."""
    asked = exchanges.group_by("target").len().sort("len", "target", descending=[True, False])
    if asked.height < 2:
        return []
    answered = pl.col("outcome") == "answered"
    parts = exchanges.group_by("target", "transport").agg(
        pl.len(), answered=answered.sum(), whole=pl.col("total_ms").filter(answered).median()
    )
    rows: list[tuple[str, ...]] = []
    for target in asked["target"].head(_MOST_SERVERS).sort():
        for transport, count, replies, whole in (
            parts.filter(target=target)
            .sort("transport", descending=True)
            .select("transport", "len", "answered", "whole")
            .iter_rows()
        ):
            share = f"{100 * replies / count:.2f}"
            median = "" if whole is None else f"median {whole:.2f} ms"
            name = f"{target} over {transport}"
            rows.append((name, f"{count}", share, "% answered", median))
    if asked.height > _MOST_SERVERS:
        rest = asked["len"][_MOST_SERVERS:]
        rows.append((f"{rest.len()} other servers", f"{int(rest.sum())}"))
    return [("by server: queries, and whole times of answers", rows)]


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"

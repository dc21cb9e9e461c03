"""Turns the bench's folder into what the claims read: metrics by cell and round."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from narrows.reproduce.claims import Measured
from narrows.reproduce.hayes_2010.cells import CHECKS4, CHECKS6, SPLIT, TITLES
from narrows.reproduce.paper import Recorded
from narrows.results import RUN_FILE, Run
from narrows.results.gateway_bench import PER_S, GatewayBench

BENCH = Path(__file__).parent / "bench"
"""The folder that comes with narrows."""

HINT = (
    "sudo make bench-gateway measures here, and narrows reproduce S --bench runs/gateway-1 "
    "reads that"
)

SERVER = "bind"
"""The paper's."""

PARTS = ("kernel", "server", "gateway")

OUT_OF_TIME = "its budget of time was used up"

Runs = dict[str, dict[int, dict[str, float]]]


def recorded(folder: Path | None) -> Recorded:
    """The runs of a folder of the bench; of the one that comes with narrows by default.

    Raises:
        RunFolderError: The folder cannot be read.
    """
    if folder is None and not (BENCH / RUN_FILE).exists():
        return Recorded({}, f"There is no measurement: {HINT}.")
    bench = GatewayBench.load(folder or BENCH)
    return Recorded(metrics(bench), source(bench, own=folder is not None), bench.complete)


def source(bench: GatewayBench, *, own: bool) -> str:
    """Says in a sentence or two where a bench's numbers come from."""
    host = bench.host
    where = f"Linux {host.get('kernel', '?')}, {host.get('processor', '?')}"
    named = ", ".join(host.get("servers", {}).values())
    form = bench.settings.get("form", "?")
    said = f"Measured by make bench-gateway ({form} form) on {where}, with {named}"
    if bench.sittings > 1:
        said += f", in {bench.sittings} sittings"
    why = OUT_OF_TIME if bench.stopped == "budget" else bench.stopped
    partial = "" if bench.complete else f"; it is partial: {why}"
    return f"{said}{partial}." if own else f"{said}{partial}. On your machine: {HINT}."


def metrics(bench: GatewayBench) -> dict[str, dict[int, Measured]]:
    """Metrics by cell and round."""
    runs: Runs = {}
    _times(bench, runs)
    _sessions(bench, runs)
    _memory(bench, runs)
    _checks(bench, runs)
    return {
        cell: {number: Measured(values) for number, values in sorted(rounds.items())}
        for cell, rounds in runs.items()
    }


def not_a_scenario(_: Run) -> Measured:
    """The framework asks how to measure a scenario's run, but this paper has no scenario."""
    raise RuntimeError("this paper is measured by make bench-gateway, not by a scenario")


def _times(bench: GatewayBench, runs: Runs) -> None:
    """Processor time for ten seconds of a rate: `kernel_500`, `server_500`, `total_500`, ...

    `packets_500` and so on are packets for an answered query.
    """
    rows = bench.intervals.filter(pl.col("server") == SERVER, pl.col("answered") > 0)
    # The number of queries in an interval is random; times are scaled to the number of the rate.
    scale = pl.col("rate_per_s") * PER_S / pl.col("answered")
    rows = rows.with_columns(
        *((pl.col(f"{part}_s") * scale).alias(part) for part in PARTS),
        lost_percent=100.0 * (1.0 - pl.col("answered") / pl.col("offered")),
    )
    for row in rows.iter_rows(named=True):
        arm, suffix = str(row["transport"]), f"{row['rate_per_s']:g}"
        if arm == "gateway-fin":
            arm, suffix = "gateway", f"{suffix}_fin"
        if arm not in TITLES and arm not in SPLIT:
            continue
        values = runs.setdefault(arm, {}).setdefault(int(row["round"]), {})
        # The gateway's own process is part of what replaces the kernel.
        values[f"kernel_{suffix}"] = row["kernel"] + row["gateway"]
        # These are of the gateway with its default close, whatever another choice reads.
        values[f"kept_{suffix}"] = values[f"kernel_{suffix}"]
        values[f"server_{suffix}"] = row["server"]
        values[f"total_{suffix}"] = row["kernel"] + row["server"] + row["gateway"]
        values[f"server_percent_{suffix}"] = 100.0 * row["server"] / values[f"total_{suffix}"]
        values[f"latency_us_{suffix}"] = row["p50_us"]
        values[f"lost_{suffix}"] = row["lost_percent"]
        if row["packets"] is not None:
            values[f"packets_{suffix}"] = row["packets"] / row["answered"]


def _sessions(bench: GatewayBench, runs: Runs) -> None:
    """Connections at once: `sessions_mean`, `sessions_most`."""
    rows = bench.tables["sessions"].filter(server=SERVER)
    found = rows.group_by("transport", "round").agg(
        pl.col("sessions").mean().alias("mean"), pl.col("sessions").max().alias("most")
    )
    for row in found.iter_rows(named=True):
        values = runs.setdefault(row["transport"], {}).setdefault(int(row["round"]), {})
        values |= {"sessions_mean": float(row["mean"]), "sessions_most": float(row["most"])}


def _memory(bench: GatewayBench, runs: Runs) -> None:
    """Memory for each connection: `bytes_idle_kernel`, `bytes_asked_entry`, ..."""
    rows = bench.tables["memory"].filter(server=SERVER)
    for row in rows.iter_rows(named=True):
        values = runs.setdefault(row["transport"], {}).setdefault(int(row["round"]), {})
        values[f"bytes_{row['kind']}_{row['part']}"] = row["bytes_per_connection"]


def _checks(bench: GatewayBench, runs: Runs) -> None:
    """Each check as 1 or 0, such as `S2 fin-on-last`."""
    for family, cell in ((4, CHECKS4), (6, CHECKS6)):
        for row in bench.checks.filter(family=family).iter_rows(named=True):
            values = runs.setdefault(cell, {}).setdefault(int(row["round"]), {})
            values[f"{row['id']} {row['check']}"] = float(row["ok"])


def value(runs: Mapping[str, Measured], cell: str, metric: str) -> float:
    """A metric of a cell; NaN where this round has none."""
    return runs[cell].values.get(metric, float("nan"))

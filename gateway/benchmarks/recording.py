"""The bench's tables while they fill."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from narrows.results.gateway_bench import BENCH_TABLES
from narrows.results.schema import frame

from . import servers
from .beds import Arm
from .plan import Interval

Rows = dict[str, list[dict[str, Any]]]
"""Rows of each table by its name."""


class Recording:
    """Rows of each table, in the order in which they came."""

    def __init__(self) -> None:
        self.rows: Rows = {name: [] for name in BENCH_TABLES}

    def interval(self, interval: Interval, started_s: float, found: dict[str, Any]) -> None:
        """The results of an interval: a row, and its latencies."""
        arm = _arm(interval.arm)
        where = {**arm, "rate_per_s": interval.rate, "round": interval.round}
        latency = {f"{name}_us": value for name, value in found["latency_us"].items()}
        spent = ["kernel_s", "server_s", "gateway_s", "others_s", "generator_s"]
        spent += [f"{part}_schedstat_s" for part in ("kernel", "server", "gateway")]
        counted = ["offered", "answered", "answered_in_time", "lost", "failed", "unsent"]
        counted += ["packets"]
        self.rows["intervals"].append(
            {
                **where,
                "started_s": started_s,
                "length_s": found["took_s"],
                **{name: found[name] for name in (*spent, *counted)},
                **latency,
            }
        )
        self.rows["latencies"] += [
            {**where, "upper_us": upper, "queries": queries}
            for upper, queries in found["histogram_us"]
        ]

    def session(self, arm: Arm, rate: float, number: int, t_s: float, sessions: int) -> None:
        """For how many connections an arm held state."""
        row = {**_arm(arm), "rate_per_s": rate, "round": number, "t_s": t_s, "sessions": sessions}
        self.rows["sessions"].append(row)

    def memory(
        self, arm: Arm, number: int, kind: str, part: str, connections: int, each: float
    ) -> None:
        """Memory for each of some open connections."""
        row = {**_arm(arm), "round": number, "kind": kind, "part": part}
        row |= {"connections": connections, "bytes_per_connection": each}
        self.rows["memory"].append(row)

    def checks(self, rows: list[dict[str, Any]]) -> None:
        """Which of the paper's statements the gateway fulfils."""
        self.rows["checks"] += rows


def tables(recorded: Iterable[Rows]) -> dict[str, pl.DataFrame]:
    """All tables, each with the rows of these recordings in order."""
    parts = list(recorded)
    return {
        name: frame(
            table,
            {
                column.name: [row[column.name] for part in parts for row in part[name]]
                for column in table.columns
            },
        )
        for name, table in BENCH_TABLES.items()
    }


def host() -> dict[str, Any]:
    """Facts about the machine."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "servers": servers.versions(),
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {"server": arm.server, "transport": arm.transport}


def _processor() -> str:
    with Path("/proc/cpuinfo").open() as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return ""

"""The measurements of `make bench-gateway`: their tables, their run folder, and their metrics.

An *arm* is a server with a transport: `udp`, `tcp` (the kernel's), `gateway` (stateless TCP in
front of it, the connection kept), `gateway-axfr` (with transfer detection), `gateway-fin` (FIN on
the last segment, as in the paper), `xdp-udp` and `xdp-tcp` (Knot's own XDP mode). Three arms break
down the cost of the kernel's TCP: `tcp-connect` (connections that the client closes without a
query), `tcp-kept` (queries on connections that stay open), `tcp-fastopen` (a connection for each
query, which its SYN carries). Arms are measured in turn, in rounds of intervals.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from narrows.results import folder as run_folder
from narrows.results.errors import RunFolderError
from narrows.results.schema import FORMAT, Column, Table, mismatch

JOURNAL = "unfinished.jsonl"
"""The file in an unfinished bench's folder from which the bench resumes."""

_TEXT, _F64, _U32, _U64, _U8 = pl.String(), pl.Float64(), pl.UInt32(), pl.UInt64(), pl.UInt8()
_BOOL = pl.Boolean()

_ARM = (
    Column("server", _TEXT, "", "`bind`, `nsd` or `knot`."),
    Column("transport", _TEXT, "", "How it was asked, as the arms are named."),
)
_RATE = Column("rate_per_s", _F64, "1/s", "Queries a second that were offered, on average.")
_ROUND = Column("round", _U32, "", "Number of the round, from 1.")

_TABLES = (
    Table(
        "intervals",
        "an interval of load on one arm",
        (
            *_ARM,
            _RATE,
            _ROUND,
            Column("started_s", _F64, "s", "When it began, in the time that the bench took."),
            Column("length_s", _F64, "s", "From the first arrival to the last."),
            Column("kernel_s", _F64, "s", "Processor time of the interface's kernel thread."),
            Column("server_s", _F64, "s", "Processor time of the server's threads."),
            Column("gateway_s", _F64, "s", "Processor time of the gateway's own process."),
            Column("kernel_schedstat_s", _F64, "s", "The interface's thread, by schedstat."),
            Column("server_schedstat_s", _F64, "s", "The server's threads, by schedstat."),
            Column("gateway_schedstat_s", _F64, "s", "The gateway's process, by schedstat."),
            Column("others_s", _F64, "s", "Time that the server's core spent on anything else."),
            Column("generator_s", _F64, "s", "Processor time of the generator."),
            Column(
                "offered",
                _U64,
                "queries",
                "Queries whose time came; of `tcp-connect` connections, here and below.",
            ),
            Column("answered", _U64, "queries", "Queries that were answered."),
            Column("answered_in_time", _U64, "queries", "Of these, before the interval's end."),
            Column("lost", _U64, "queries", "Queries without an answer after two seconds."),
            Column("failed", _U64, "queries", "Connections refused or reset, and wrong answers."),
            Column("unsent", _U64, "queries", "Queries that the generator could not send."),
            Column("packets", _U64, "packets", "What the link carried, both ways.", nullable=True),
            Column("p50_us", _F64, "us", "Median latency, from the first packet.", nullable=True),
            Column("p90_us", _F64, "us", "90th percentile of it.", nullable=True),
            Column("p99_us", _F64, "us", "99th percentile of it.", nullable=True),
            Column("max_us", _F64, "us", "Longest latency.", nullable=True),
        ),
    ),
    Table(
        "latencies",
        "a bucket of the latencies of one interval",
        (
            *_ARM,
            _RATE,
            _ROUND,
            Column("upper_us", _F64, "us", "The bucket's upper end; buckets are 3 % wide."),
            Column("queries", _U64, "queries", "Answered queries in it."),
        ),
    ),
    Table(
        "sessions",
        "a sample of the connections that an arm holds state for",
        (
            *_ARM,
            _RATE,
            _ROUND,
            Column("t_s", _F64, "s", "When it was taken, from the start of the load."),
            Column("sessions", _U64, "", "Sockets of the kernel, or entries of the gateway."),
        ),
    ),
    Table(
        "memory",
        "memory for each open connection of an arm, by where it is",
        (
            *_ARM,
            _ROUND,
            Column("kind", _TEXT, "", "`idle`: nothing was asked on it; `asked`: one query was."),
            Column("part", _TEXT, "", "`kernel`, `server` or `gateway`."),
            Column("connections", _U64, "", "How many were open."),
            Column("bytes_per_connection", _F64, "bytes", "Memory for each of them."),
        ),
    ),
    Table(
        "checks",
        "something that the gateway was seen to do, or not to do",
        (
            Column("id", _TEXT, "", "The claim that it belongs to, such as `S2`."),
            _ROUND,
            Column("check", _TEXT, "", "What was looked for."),
            Column("family", _U8, "", "4 or 6: over which version of IP."),
            Column("ok", _BOOL, "", "Whether it was seen."),
            Column("detail", _TEXT, "", "What was seen."),
        ),
    ),
)

BENCH_TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
"""The bench's tables by name."""

PER_S = 10.0
"""Length of the paper's intervals, in seconds; processor times are given for this length."""

SATURATED = 0.9
"""The least share of its core that a saturated server uses."""


@dataclass(frozen=True, repr=False)
class GatewayBench:
    """The measurements of one run of the bench.

    Attributes:
        settings: The requested servers, rates, rounds and lengths. `sittings` is the number of
            processes that measured it, one after the other.
        seed: The seed of the arrivals and of the order of the arms.
        status: `partial` if it was not measured to the end, or if an arm could not be measured.
        stopped: Why it ended: `end`, `interrupted`, `budget` (of time), or the failure.
        end_s: How long it took, in seconds, without the time between sittings.
        tables: Tables by name; `BENCH_TABLES` says what their columns mean.
        narrows: The version that measured.
        wall: Facts about wall-clock time. `sittings` says when each began, by the clock and in the
            time of the tables, and on which kernel and processor it ran.
        host: Facts about the machine: kernel, processor, the servers' versions.
    """

    settings: Mapping[str, Any]
    seed: int
    status: Literal["complete", "partial"]
    stopped: str
    end_s: float
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    narrows: str
    wall: Mapping[str, Any] = field(default_factory=dict, repr=False)
    host: Mapping[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    def __post_init__(self) -> None:
        for name, table in BENCH_TABLES.items():
            why = mismatch(table, self.tables[name])
            if why is not None:
                raise ValueError(f"table {name} {why}")

    @classmethod
    def load(cls, folder: str | Path) -> GatewayBench:
        """Reads a folder that the bench wrote.

        Raises:
            RunFolderError: It holds none, a damaged one, or one of another format.
        """
        path = Path(folder)
        if (path / JOURNAL).exists() and not (path / run_folder.RUN_FILE).exists():
            what = "holds a bench that was killed before it wrote its tables"
            raise RunFolderError(
                path, what, f"resume it: sudo OUT={path} RESUME=1 make bench-gateway"
            )
        document, tables = run_folder.read(path, BENCH_TABLES)
        return cls(
            settings=document["scenario"],
            seed=document["seed"],
            status=document["status"],
            stopped=document["stopped"],
            end_s=float(document["end_s"]),
            tables=tables,
            narrows=document["narrows"],
            wall=document["wall"],
            host=document["host"],
            folder=path,
        )

    def save(self, folder: str | Path, *, renew: bool = False) -> GatewayBench:
        """Writes the folder, whole or not at all; returns the bench with ``folder`` set.

        Args:
            folder: The folder.
            renew: Whether the folder exists and may hold an earlier part of this bench, which is
                replaced.

        Raises:
            RunFolderError: The folder holds something, or cannot be written.
        """
        document = {
            "format": FORMAT,
            "narrows": self.narrows,
            "backend": run_folder.BENCH,
            "scenario": dict(self.settings),
            "seed": self.seed,
            "status": self.status,
            "stopped": self.stopped,
            "end_s": self.end_s,
            "events": self.intervals.height,
            "summary": self.summary,
            "wall": dict(self.wall),
            "host": dict(self.host),
        }
        path = Path(folder)
        if renew:
            run_folder.renew(path, document, self.tables, BENCH_TABLES)
        else:
            run_folder.write(path, document, self.tables, {}, BENCH_TABLES)
        return replace(self, folder=path)

    @property
    def complete(self) -> bool:
        """Whether everything was measured."""
        return self.status == "complete"

    @property
    def sittings(self) -> int:
        """The number of processes that measured it, one after the other."""
        return int(self.settings.get("sittings", 1))

    @property
    def intervals(self) -> pl.DataFrame:
        """A row for each interval of load on an arm."""
        return self.tables["intervals"]

    @property
    def checks(self) -> pl.DataFrame:
        """A row for each check."""
        return self.tables["checks"]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The bench's metrics as JSON values: servers, with their arms."""
        found: dict[str, Any] = {}
        arms = self.intervals.select("server", "transport").unique(maintain_order=True)
        for server, transport in arms.iter_rows():
            found.setdefault(server, {})[transport] = self._arm(server, transport)
        return found

    def cpu_s(self, server: str, transport: str, rate: float, part: str = "total") -> list[float]:
        """Processor time for 10 s at a rate, in seconds, one value for each round.

        Args:
            server: The server.
            transport: The transport of its arm.
            rate: Offered queries per second.
            part: `kernel`, `server`, `gateway`, `total`, or `schedstat`: the total by schedstat.
        """
        each = rate * PER_S / 1e6
        return [each * value for value in self.us_per_query(server, transport, rate, part)]

    def us_per_query(
        self, server: str, transport: str, rate: float, part: str = "total"
    ) -> list[float]:
        """Processor time for an answered query, in microseconds, one value for each round."""
        parts = {
            "total": ("kernel", "server", "gateway"),
            "schedstat": ("kernel_schedstat", "server_schedstat", "gateway_schedstat"),
        }.get(part, (part,))
        spent = pl.sum_horizontal(f"{name}_s" for name in parts)
        rows = self._answered(server, transport, rate)
        return rows.select(1e6 * spent / pl.col("answered")).to_series().to_list()

    def packets_per_query(self, server: str, transport: str, rate: float) -> list[float]:
        """Packets on the link for an answered query, both ways, one value for each round."""
        rows = self._answered(server, transport, rate).drop_nulls("packets")
        return rows.select(pl.col("packets") / pl.col("answered")).to_series().to_list()

    def ratios(self, server: str, transport: str, base: str, rate: float) -> list[float]:
        """Processor time for an answered query divided by another arm's, one value for each round.

        The arms of a round and rate are measured one after the other. On a machine that is slow for
        minutes at a time, a ratio within a round says more than a ratio of medians.
        """
        spent = pl.sum_horizontal("kernel_s", "server_s", "gateway_s") / pl.col("answered")
        own = self._answered(server, transport, rate).select("round", own=spent)
        other = self._answered(server, base, rate).select("round", base=spent)
        both = own.join(other, on="round").sort("round")
        return both.select(pl.col("own") / pl.col("base")).to_series().to_list()

    def _answered(self, server: str, transport: str, rate: float) -> pl.DataFrame:
        """The intervals of an arm at a rate that have answers, by round."""
        rows = self.intervals.filter(
            server=server, transport=transport, rate_per_s=float(rate)
        ).sort("round")
        return rows.filter(pl.col("answered") > 0)

    def _arm(self, server: str, transport: str) -> dict[str, Any]:
        rows = self.intervals.filter(server=server, transport=transport)
        metrics: dict[str, Any] = {}
        udp = "xdp-udp" if transport.startswith("xdp") else "udp"
        for rate in rows["rate_per_s"].unique().sort():
            name = f"{rate:g}qps"
            own = self.us_per_query(server, transport, rate)
            if not own:
                continue
            metrics[f"us_per_query_{name}"] = _rounded(statistics.median(own))
            over = self.ratios(server, transport, udp, rate)
            if over and transport != udp:
                metrics[f"over_udp_{name}"] = _rounded(statistics.median(over) - 1.0)
            of_tcp = self.ratios(server, transport, "tcp", rate)
            if of_tcp and transport != "tcp":
                metrics[f"of_tcp_{name}"] = _rounded(statistics.median(of_tcp))
            at = rows.filter(rate_per_s=rate)
            for part in ("kernel", "server", "schedstat"):
                spent = self.us_per_query(server, transport, rate, part)
                metrics[f"{part}_us_{name}"] = _rounded(statistics.median(spent))
            latencies = at["p50_us"].drop_nulls()
            if len(latencies):
                metrics[f"p50_us_{name}"] = _rounded(statistics.median(latencies))
            packets = self.packets_per_query(server, transport, rate)
            if packets:
                metrics[f"packets_per_query_{name}"] = _rounded(statistics.median(packets))
            metrics[f"lost_{name}"] = sum(at["lost"]) + sum(at["failed"])
        return {**metrics, **self._saturation(rows)}

    def _saturation(self, rows: pl.DataFrame) -> dict[str, Any]:
        """The most answers per second, over all offered rates."""
        found: dict[str, Any] = {}
        for rate in rows["rate_per_s"].unique().sort():
            at = rows.filter(rate_per_s=rate)
            answered = statistics.median(at["answered_in_time"] / at["length_s"])
            if answered <= found.get("most_per_s", 0.0):
                continue
            spent = at.select(pl.sum_horizontal("kernel_s", "server_s", "gateway_s")).to_series()
            busy = statistics.median(spent / at["length_s"])
            # A server that answered every query and had time left could have answered more.
            found = {"most_per_s": _rounded(answered), "at_least": busy < SATURATED}
        return found


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")

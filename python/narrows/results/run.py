"""`Run`: the results of a run, in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from narrows.foreign_text import regular_bytes
from narrows.records import Table
from narrows.results import folder as run_folder
from narrows.results.drawing import drawn
from narrows.results.errors import RunFolderError
from narrows.results.extras import SAMPLES, extra_table, records, wanted
from narrows.results.foreign import declared
from narrows.results.goodput import GOODPUT
from narrows.results.origin import length
from narrows.results.schema import FORMAT, TABLES, frame, mismatch
from narrows.results.summarise import in_order_of, summarise
from narrows.results.window import declared_window


@dataclass(frozen=True, repr=False)
class Run:
    """A run's tables, its summary, and the scenario that was run.

    Examples:
        >>> from narrows import Scenario, run
        >>> result = run(Scenario.parse('''
        ... name = "one-link"
        ... duration = "1 s"
        ... [[links]]
        ... name = "wan"
        ... between = ["a", "b"]
        ... rate = "2 Mbit/s"
        ... [[traffic]]
        ... kind = "bulk"
        ... name = "download"
        ... sender = "a"
        ... receiver = "b"
        ... '''))
        >>> result
        <Run one-link, seed 1: complete, 1 s simulated, 1 flow, 0 queries>
        >>> result.flows["bytes_acked"].sum() == result.flows["bytes_acked"][0]
        True

    Attributes:
        scenario: The scenario with every default filled in.
        seed: The seed of the run's random streams.
        backend: What ran it: `sim`, `kernel`, or `program:` and a command.
        status: `partial` if the run ended before its scenario's end.
        stopped: Why it ended: `end`, `dns-done`, `event-limit`, `query-limit`, `delay-limit` or
            `interrupted`.
        end_s: The run's time when it ended, in seconds.
        events: Events that the simulator handled.
        tables: Tables by name: those of every run, which `narrows.results.schema.TABLES` explains,
            and those that kinds of traffic bring (`narrows.scenario.traffic`).
        narrows: The version that ran it.
        build: The build of the simulator's sources, or of narrows-live's; empty if it is unknown.
        wall: Facts about wall-clock time, which differ from run to run.
        host: Facts about the machine.
        set: Keys of the scenario that were set for this run alone, such as on the command line.
        outside: What queues from outside took part, with their sources and digests.
    """

    scenario: Mapping[str, Any]
    seed: int
    backend: str
    status: Literal["complete", "partial"]
    stopped: str
    end_s: float
    events: int
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    narrows: str
    wall: Mapping[str, Any] = field(default_factory=dict, repr=False)
    host: Mapping[str, Any] = field(default_factory=dict, repr=False)
    captures: Mapping[str, bytes | Path] = field(default_factory=dict, repr=False)
    """Packets of captured links as pcapng by link: the bytes, or the file that holds them."""
    folder: Path | None = None
    """Where the run was saved or loaded."""
    set: Mapping[str, Any] = field(default_factory=dict, repr=False)
    outside: Mapping[str, Any] = field(default_factory=dict, repr=False)
    build: str = ""

    def __post_init__(self) -> None:
        schema = _schema(self.backend, self.tables)
        tables = {
            name: self.tables[name] if name in self.tables else pl.DataFrame(schema=table.schema)
            for name, table in schema.items()
        }
        for name, table in schema.items():
            why = mismatch(table, tables[name])
            if why is not None:
                raise ValueError(f"table {name} {why}")
        object.__setattr__(self, "tables", tables)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Mapping[str, Any]], **facts: Any) -> Run:
        """Makes a run from tables with columns of NumPy arrays and lists, as `_core` returns them.

        ``queries`` need not have ``fates``, which come from ``attempts``. An empty table that no
        kind of traffic in the scenario records is left out. Other arguments are the fields of
        `Run`.

        Raises:
            ValueError: A table or column is unknown, missing or of a wrong type.
        """
        kept = TABLES.keys() | wanted(facts["scenario"])
        known = {
            name: dict(table)
            for name, table in columns.items()
            if name in kept or any(map(_length, table.values()))
        }
        tables = {}
        if "queries" in known and "fates" not in known["queries"]:
            tables["attempts"] = frame(TABLES["attempts"], known.pop("attempts"))
            known["queries"]["fates"] = _fates(known["queries"]["query"], tables["attempts"])
        window = declared_window(facts["scenario"])
        if window is not None and "queries" in known:
            asked = zip(known["queries"]["measured"], known["queries"]["start_s"], strict=True)
            known["queries"]["measured"] = [
                bool(measured) and window[0] <= start < window[1] for measured, start in asked
            ]
        schema = _schema(facts["backend"], known)
        tables |= {name: frame(schema[name], table) for name, table in known.items()}
        return cls(tables=tables, **facts)

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Reads a run folder.

        Raises:
            RunFolderError: It holds no run, a damaged one, or one of another format.
        """
        path = Path(folder)
        document, tables = run_folder.read(path, extra=extra_table)
        run = cls(
            scenario=document["scenario"],
            seed=document["seed"],
            backend=document["backend"],
            status=document["status"],
            stopped=document["stopped"],
            end_s=float(document["end_s"]),
            events=document["events"],
            tables=tables,
            narrows=document["narrows"],
            wall=document["wall"],
            host=document["host"],
            captures=run_folder.read_captures(path),
            folder=path,
            set=document.get("set", {}),
            outside=document.get("outside", {}),
            build=document.get("build", ""),
        )
        # Keeps the metrics of the version that wrote the run, even if this one computes others.
        run.__dict__["summary"] = document["summary"]
        digest = document.get("digest", "")
        run.__dict__["digest"] = digest if isinstance(digest, str) else ""
        return run

    def save(self, folder: str | Path) -> Run:
        """Writes a run folder, whole or not at all; returns the run with ``folder`` set.

        Raises:
            RunFolderError: The folder holds a run or other files, or cannot be written.
        """
        path = Path(folder)
        captures = {link: self.capture(link) for link in self.captures}
        schema = _schema(self.backend, self.tables)
        digest = run_folder.write(path, self.document(), self.tables, captures, schema)
        saved = replace(self, folder=path)
        saved.__dict__["digest"] = digest
        saved.__dict__["summary"] = self.summary
        return saved

    def document(self) -> dict[str, Any]:
        """The contents of run.json as JSON values, without the tables' sizes and checksums."""
        return {
            "format": FORMAT,
            "narrows": self.narrows,
            **({"build": self.build} if self.build else {}),
            "backend": self.backend,
            "scenario": dict(self.scenario),
            **({"set": dict(self.set)} if self.set else {}),
            **({"outside": dict(self.outside)} if self.outside else {}),
            "seed": self.seed,
            "status": self.status,
            "stopped": self.stopped,
            "end_s": self.end_s,
            "events": self.events,
            "summary": self.summary,
            "wall": dict(self.wall),
            "host": dict(self.host),
        }

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The run's metrics as JSON values; docs/run-folder.md says what they mean."""
        return in_order_of(self.scenario, summarise(self.tables, self.end_s, self.window))

    @cached_property
    def digest(self) -> str:
        """The digest that run.json has, or would have if the run were saved; docs/run-folder.md.

        It is empty for a run that an early version wrote.
        """
        schema = _schema(self.backend, self.tables)
        return run_folder.digest_of(self.document(), self.tables, schema)

    @property
    def window(self) -> tuple[float, float] | None:
        """The window that the scenario declares for metrics, as far as the run went, in seconds."""
        declared = declared_window(self.scenario)
        return declared and (declared[0], max(declared[0], min(declared[1], self.end_s)))

    @property
    def settings(self) -> str:
        """The keys that were set for this run alone, in words; empty for none."""
        return ", ".join(
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in self.set.items()
        )

    def __repr__(self) -> str:
        flows, queries = self.flows.height, self.queries.height
        return (
            f"<Run {self.name}, seed {self.seed}: {self.status}, "
            f"{length(self.backend, self.end_s)}, {flows} flow{'' if flows == 1 else 's'}, "
            f"{queries} quer{'y' if queries == 1 else 'ies'}>"
        )

    def plot(self, *names: str) -> Any:
        """The plots of the report: all, or those whose names begin with one of `names`.

        A notebook shows them; `narrows.report.session.Plots` describes what else they can do.

        Raises:
            NarrowsError: No plot's name begins with one of them.
        """
        return drawn("of_run", self, names)

    def _repr_html_(self) -> str:
        """The plots and the summary, for notebooks."""
        return str(drawn("in_notebook", self))

    @property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.scenario.get("name", "unnamed"))

    @property
    def complete(self) -> bool:
        """Whether the run reached its scenario's end."""
        return self.status == "complete"

    @property
    def flags(self) -> list[str]:
        """Sentences that readers should know before they trust a metric; usually none."""
        measured = self.host.get("kernel", {}).get("flags", ())
        return [*self.summary.get("flags", ()), *measured]

    def capture(self, link: str) -> bytes:
        """The packets of a captured link, as a pcapng file.

        Raises:
            KeyError: The link was not captured.
            RunFolderError: The file cannot be read.
        """
        found = self.captures[link]
        if isinstance(found, bytes):
            return found
        try:
            return regular_bytes(found)
        except OSError as error:
            raise RunFolderError(found, (error.strerror or str(error)).lower()) from None

    def table(self, name: str) -> pl.DataFrame:
        """A table by name; it has no rows if the run recorded nothing of the kind.

        Raises:
            KeyError: No run has such a table.
        """
        if name in self.tables:
            return self.tables[name]
        found = extra_table(name)
        if found is None:
            raise KeyError(name)
        return pl.DataFrame(schema=found.schema)

    def write_csv(self, name: str, path: str | Path) -> Path:
        """Writes a table as CSV, in which a list, such as a query's `fates`, is one text.

        Polars' own `write_csv` refuses tables with lists. Here, a semicolon and a space separate
        the entries.

        Args:
            name: The table's name.
            path: The file; it is replaced if it exists.

        Returns:
            The file's path.

        Raises:
            KeyError: No run has such a table.
            RunFolderError: The file cannot be written.
        """
        table, file = self.table(name), Path(path)
        lists = [key for key, kind in table.schema.items() if isinstance(kind, pl.List)]
        texts = pl.col(lists).cast(pl.List(pl.String)).list.join("; ")
        try:
            (table.with_columns(texts) if lists else table).write_csv(file)
        except OSError as error:
            raise RunFolderError.of_system(file, error) from None
        return file

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> pl.DataFrame:
            """A table that a kind of traffic adds, as in `run.voip`; typed code uses `table`."""
            if not name.startswith("_"):
                try:
                    return self.table(name)
                except KeyError:
                    known = ", ".join(self.tables)
                    raise AttributeError(
                        f"a run has no {name}; hint: its tables are {known}"
                    ) from None
            raise AttributeError(name)

    @property
    def flows(self) -> pl.DataFrame:
        """A row for each TCP connection."""
        return self.tables["flows"]

    @property
    def bursts(self) -> pl.DataFrame:
        """A row for each burst."""
        return self.table("bursts")

    @property
    def queries(self) -> pl.DataFrame:
        """A row for each DNS query."""
        return self.tables["queries"]

    @property
    def attempts(self) -> pl.DataFrame:
        """A row for each attempt at a DNS query."""
        return self.tables["attempts"]

    @property
    def queues(self) -> pl.DataFrame:
        """A row for each sample of a queue."""
        return self.tables["queues"]

    @property
    def links(self) -> pl.DataFrame:
        """A row for each sample of a link."""
        return self.tables["links"]

    @property
    def goodput(self) -> pl.DataFrame:
        """A row for each sample of what a group of TCP connections has delivered."""
        return self.table(GOODPUT.name)


def _schema(
    backend: str, tables: Mapping[str, Mapping[str, Any] | pl.DataFrame]
) -> dict[str, Table]:
    """The declarations of the tables of every run and of the other tables with these names.

    Raises:
        ValueError: A table is unknown.
    """
    known = {**TABLES, **_extra_tables(tables)}
    return {**known, **declared(backend, tables, known)}


def _extra_tables(names: Collection[str]) -> dict[str, Table]:
    """The declarations of those tables that only some runs have."""
    found = {name: table for name, table in SAMPLES.items() if name in names}
    if set(names) - TABLES.keys() - found.keys():
        found |= {name: record.table for name, record in records().items() if name in names}
    return found


def _length(values: Any) -> int:
    """The number of rows of a column, as `frame` takes it."""
    return len(values[0] if isinstance(values, tuple) else values)


def _fates(queries: Any, attempts: pl.DataFrame) -> pl.Series:
    """The fates of each query's attempts, in words, in the order of ``queries``."""
    if len(queries) == 0:
        return pl.Series("fates", [], dtype=pl.List(pl.String))
    lost = pl.col("lost_at") != ""
    words = (
        pl.when(lost)
        .then(pl.format("{}: {} at {}", "fate", "reason", "lost_at"))
        .otherwise(pl.col("fate"))
    )
    order = np.lexsort((attempts["attempt"].to_numpy(), attempts["query"].to_numpy()))
    each = (
        attempts.select("query", words.alias("fates"))[order]
        .with_columns(pl.col("query").set_sorted())
        .group_by("query", maintain_order=True)
        .agg("fates")
    )
    ids = pl.Series("query", queries, dtype=pl.UInt32)
    if not ids.equals(each["query"]):
        none = pl.lit([], dtype=pl.List(pl.String))
        each = ids.to_frame().join(each, on="query", how="left", maintain_order="left")
        each = each.with_columns(pl.col("fates").fill_null(none))
    return each["fates"]

"""`Measurement`: DNS exchanges over real networks, as a run folder and in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from narrows.foreign_text import cleaned, regular_bytes
from narrows.results import folder as run_folder
from narrows.results.checked import clean
from narrows.results.exchanges import MEASUREMENT_TABLES, empty, frame_of
from narrows.results.schema import FORMAT, mismatch

SOURCES = run_folder.MEASUREMENTS
"""The sources of measurements; run.json has the source as its `backend`."""


@dataclass(frozen=True, repr=False)
class Measurement:
    """A measurement of real servers, by ourselves or by others.

    Examples:
        >>> one = Measurement.of_rows(
        ...     "probe",
        ...     exchanges=[{
        ...         "exchange": 0, "vantage": "here", "target": "192.0.2.1", "transport": "udp",
        ...         "started_s": 1.8e9, "total_ms": 12.5, "outcome": "answered",
        ...     }],
        ...     narrows="0.1.0",
        ... )
        >>> one
        <Measurement by probe: complete, 1 exchange, 1 answered>
        >>> one.connections.height
        0

    Attributes:
        source: What measured: `probe`, `atlas`, `capture`, `csv`, or the `run` of a scenario.
        settings: The settings of the measurement, or the files that were read.
        status: `partial` if it ended before all of this was done.
        stopped: Why it ended: `end` or `interrupted`.
        length_s: The length of the measurement, in seconds; for imports, from the first query to
            the end of the last exchange.
        tables: Tables by name; `MEASUREMENT_TABLES` says what their columns mean.
        narrows: The version that wrote it.
        wall: Facts about wall-clock time.
        host: Facts about the machine.
        findings: What the source itself found, as JSON values, such as a probe's verdicts.
        folder: Where it was saved or loaded.
    """

    source: str
    settings: Mapping[str, Any]
    status: Literal["complete", "partial"]
    stopped: str
    length_s: float
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    narrows: str
    wall: Mapping[str, Any] = field(default_factory=dict, repr=False)
    host: Mapping[str, Any] = field(default_factory=dict, repr=False)
    findings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    captures: Mapping[str, bytes | Path] = field(default_factory=dict, repr=False)
    """Packets as pcapng by name: the bytes, or the file that holds them."""
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"a measurement comes from one of {', '.join(SOURCES)}")
        tables = {
            name: self.tables[name] if name in self.tables else empty(name)
            for name in MEASUREMENT_TABLES
        }
        unknown = [name for name in self.tables if name not in MEASUREMENT_TABLES]
        if unknown:
            raise ValueError(f"a measurement has no table {unknown[0]}")
        for name, table in MEASUREMENT_TABLES.items():
            why = mismatch(table, tables[name])
            if why is not None:
                raise ValueError(f"table {name} {why}")
            # Names, details and sites are other people's words.
            tables[name] = clean(tables[name])
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "findings", cleaned(dict(self.findings)))

    @classmethod
    def of_rows(
        cls,
        source: str,
        *,
        exchanges: Sequence[Mapping[str, Any]] = (),
        connections: Sequence[Mapping[str, Any]] = (),
        vantages: Sequence[Mapping[str, Any]] = (),
        skipped: Sequence[Mapping[str, Any]] = (),
        **facts: Any,
    ) -> Measurement:
        """Makes a measurement from rows; columns that a row does not name are null.

        Other arguments are the fields of `Measurement`, most of which have defaults here.

        Raises:
            ValueError: A row has an unknown name, or lacks a value that it must have.
        """
        rows = {
            "exchanges": exchanges,
            "connections": connections,
            "vantages": vantages,
            "skipped": skipped,
        }
        usual = {"settings": {}, "status": "complete", "stopped": "end", "length_s": 0.0}
        tables = {name: frame_of(name, table) for name, table in rows.items()}
        return cls(source=source, tables=tables, **{**usual, **facts})

    @classmethod
    def load(cls, folder: str | Path) -> Measurement:
        """Reads a measurement's run folder.

        Raises:
            RunFolderError: It holds none, a damaged one, or one of another format.
        """
        path = Path(folder)
        document, tables = run_folder.read(path, MEASUREMENT_TABLES)
        measurement = cls(
            source=document["backend"],
            settings=document["scenario"],
            status=document["status"],
            stopped=document["stopped"],
            length_s=float(document["end_s"]),
            tables=tables,
            narrows=document["narrows"],
            wall=document["wall"],
            host=document["host"],
            findings=document.get("findings") or {},
            captures=run_folder.read_captures(path),
            folder=path,
        )
        # Keeps the summary of the version that wrote it, even if this one computes another.
        measurement.__dict__["summary"] = document["summary"]
        return measurement

    def save(self, folder: str | Path) -> Measurement:
        """Writes a run folder, whole or not at all; returns the measurement with ``folder`` set.

        Raises:
            RunFolderError: The folder holds something, or cannot be written.
        """
        path = Path(folder)
        captures = {
            name: data if isinstance(data, bytes) else regular_bytes(data)
            for name, data in self.captures.items()
        }
        run_folder.write(path, self.document(), self.tables, captures, MEASUREMENT_TABLES)
        return replace(self, folder=path)

    def document(self) -> dict[str, Any]:
        """The contents of run.json as JSON values, without the tables' sizes and checksums."""
        return {
            "format": FORMAT,
            "narrows": self.narrows,
            "backend": self.source,
            "scenario": dict(self.settings),
            "seed": 0,
            "status": self.status,
            "stopped": self.stopped,
            "end_s": self.length_s,
            "events": self.exchanges.height,
            "summary": self.summary,
            "findings": dict(self.findings),
            "wall": dict(self.wall),
            "host": dict(self.host),
        }

    @property
    def complete(self) -> bool:
        """Whether everything was measured or read."""
        return self.status == "complete"

    @property
    def exchanges(self) -> pl.DataFrame:
        """A row for each DNS query."""
        return self.tables["exchanges"]

    @property
    def connections(self) -> pl.DataFrame:
        """A row for each connection."""
        return self.tables["connections"]

    @property
    def vantages(self) -> pl.DataFrame:
        """A row for each vantage point."""
        return self.tables["vantages"]

    @property
    def skipped(self) -> pl.DataFrame:
        """A row for each kind of record that could not be used."""
        return self.tables["skipped"]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts: exchanges by target, transport and outcome, and what was skipped."""
        counts = (
            self.exchanges.group_by("target", "transport", "outcome")
            .agg(pl.len().alias("exchanges"), pl.col("total_ms").median().alias("total_median_ms"))
            .sort("target", "transport", "outcome")
        )
        return {
            "exchanges": self.exchanges.height,
            "answered": self.exchanges.filter(outcome="answered").height,
            "connections": self.connections.height,
            "vantages": self.exchanges["vantage"].n_unique(),
            "skipped": int(self.skipped["records"].sum()),
            "outcomes": counts.to_dicts(),
        }

    def __repr__(self) -> str:
        count = self.exchanges.height
        return (
            f"<Measurement by {self.source}: {self.status}, "
            f"{count} exchange{'' if count == 1 else 's'}, {self.summary['answered']} answered>"
        )

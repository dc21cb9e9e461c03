"""From pcap, pcapng and dnstap files to a measurement.

The extension parses the files (`crates/intake`); this module makes the tables of a run folder from
its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from narrows import _core
from narrows.captures.overview import overview
from narrows.errors import HintedError, argument
from narrows.results import Measurement
from narrows.results.exchanges import MEASUREMENT_TABLES
from narrows.results.intake import Chunks, covered, to_frame

Progress = Callable[[float, str], None]
"""Called with how much is done, from 0 to 1, and what is being done."""

_CHUNK = 200_000


class CaptureError(HintedError):
    """A file that cannot be used; its text is one line.

    Examples:
        >>> str(CaptureError("a.pcap", "holds no DNS", "name its port"))
        'a.pcap: holds no DNS; hint: name its port'
    """


def read_captures(
    files: Sequence[str | Path],
    *,
    ports: Sequence[int] = (53,),
    progress: Progress | None = None,
) -> Measurement:
    """DNS exchanges of captures (pcap, pcapng) and dnstap files as a measurement.

    Several files are one capture: their packets are merged by time. They may be pieces of a capture
    or its two directions, and they may be compressed (gz, bz2, zst, xz). The table `skipped` counts
    what cannot be used. After Ctrl-C the measurement holds what was read, and is marked as partial.

    Args:
        files: One or more; `-` is standard input.
        ports: The ports on which DNS servers listen.
        progress: Called with the share of the files that has been read.

    Raises:
        CaptureError: A file is not a capture, or none of them holds DNS.
    """
    clock = time.perf_counter()
    known: set[Path] = set()
    paths = [Path(file) for file in files]
    for path in paths:
        if (whole := path.resolve()) in known:
            raise CaptureError(path, "is given twice", "name each file once")
        known.add(whole)
    reading = _Reading(paths, list(ports), progress)
    status: Literal["complete", "partial"] = "complete"
    try:
        reading.read()
    except KeyboardInterrupt:
        status = "partial"
    if not reading.exchanges.height + reading.connections.height and status == "complete":
        raise CaptureError(paths[0], *reading.nothing(len(files)))
    if not reading.exchanges.height and reading.tls == reading.connections.height > 0:
        raise CaptureError(paths[0], *reading.nothing_but_tls(len(files)))
    exchanges, connections = reading.tables()
    first, last = covered(exchanges)
    return Measurement(
        source="capture",
        settings={"files": [str(file) for file in files], "ports": list(ports)},
        status=status,
        stopped="end" if status == "complete" else "interrupted",
        length_s=last - first,
        tables={
            "exchanges": exchanges,
            "connections": connections,
            "vantages": _vantages(exchanges, connections),
            "skipped": reading.skipped_table(),
        },
        narrows=_core.version,
        wall={"reading_s": time.perf_counter() - clock},
        findings={
            "records": reading.records,
            "remarks": reading.remarks,
            **watched_near(connections),
            "overview": overview(exchanges, connections, reading.tls),
        },
    )


class _Reading:
    """What has been read so far."""

    def __init__(self, paths: list[Path], ports: list[int], progress: Progress | None) -> None:
        self.paths = paths
        self.sizes = [_size(path) for path in paths]
        self.ports = ports
        self.progress = progress
        self.records = 0
        self.exchanges = Chunks(MEASUREMENT_TABLES["exchanges"])
        self.connections = Chunks(MEASUREMENT_TABLES["connections"])
        self.skipped: list[tuple[str, str | None, str, int, str]] = []
        self.remarks: list[dict[str, Any]] = []
        self.other_ports: list[int] = []

    def read(self) -> None:
        """Reads all files to their ends."""
        reader = self._opened()
        total = max(sum(self.sizes), 1)
        try:
            while (tables := reader.chunk(_CHUNK)) is not None:
                self._take(*tables)
                if self.progress is not None:
                    self.progress(min(reader.bytes_read / total, 1.0), _called(self.paths))
        finally:
            self._note(reader)

    def _opened(self) -> _core.CaptureReader:
        try:
            return _core.CaptureReader(self.paths, self.ports)
        except OSError as error:
            message = (error.strerror or str(error)).lower()
            raise CaptureError(Path(error.filename), message, "check the path") from None
        except ValueError as error:
            number, message = error.args
            if self.sizes[number] == 0 and self.paths[number].is_file():
                message = "is empty"
            hint = "give pcap, pcapng or dnstap files"
            raise CaptureError(self.paths[number], message, hint) from None

    def _take(self, exchanges: dict[str, Any], connections: dict[str, Any]) -> None:
        sizes, ends = exchanges.pop("sizes"), exchanges.pop("sizes_end")
        found = to_frame(exchanges, MEASUREMENT_TABLES["exchanges"])
        found = found.with_columns(
            target=pl.col("target").fill_null("unknown"),
            vantage=pl.col("vantage").fill_null("unknown"),
            segment_bytes=_lists(sizes, ends),
        )
        opened = to_frame(connections, MEASUREMENT_TABLES["connections"])
        opened = opened.with_columns(target=pl.col("target").fill_null("unknown"))
        self.exchanges.add(found)
        self.connections.add(opened)

    def _note(self, reader: _core.CaptureReader) -> None:
        self.records = reader.records
        self.other_ports = reader.busiest_other_ports()
        for number, name, text, count, first, example in reader.notes():
            source = str(self.paths[number])
            if name is not None:
                self.remarks.append(
                    {"source": source, "kind": name, "what": text, "records": count}
                    | {"first": first, "example": example}
                )
                continue
            transport, colon, reason = text.partition(": ")
            if not colon or transport not in ("udp", "tcp"):
                transport, reason = "", text
            where = f"record {first}" + (f": {example}" if example else "")
            self.skipped.append((source, transport or None, reason, count, where))

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Both tables in order of time, with connections numbered in that order."""
        opened = self.connections.columns("started_s", "connection")
        in_time = opened.select(pl.arg_sort_by("started_s", "connection")).to_series()
        numbers = opened[in_time].select(
            "connection", number=pl.int_range(pl.len(), dtype=pl.UInt32)
        )
        connections = self.connections.frame(in_time, {"connection": numbers["number"]})
        found = self.exchanges.columns("started_s", "connection").join(
            numbers, on="connection", how="left", maintain_order="left"
        )
        in_time = found.select(
            pl.arg_sort_by("started_s", "number", maintain_order=True)
        ).to_series()
        known = {
            "connection": found["number"].gather(in_time),
            "exchange": pl.int_range(found.height, dtype=pl.UInt32, eager=True),
        }
        return self.exchanges.frame(in_time, known), connections

    def skipped_table(self) -> pl.DataFrame:
        """What was skipped."""
        schema = MEASUREMENT_TABLES["skipped"].schema
        return pl.DataFrame(self.skipped, schema=schema, orient="row", infer_schema_length=None)

    @property
    def tls(self) -> int:
        """How many connections carry TLS."""
        return sum(each["records"] for each in self.remarks if each["kind"] == "tls")

    def nothing_but_tls(self, files: int) -> tuple[str, str]:
        """That all connections carry TLS, and the remedy."""
        where = "holds" if files == 1 else f"these {files} files hold"
        ports = ", ".join(map(str, self.ports))
        connections = "connection" if self.tls == 1 else "connections"
        said = f"{where} no DNS on port {ports} that can be read: {self.tls} {connections} with TLS"
        return said, "a server's dnstap has its queries over TLS, too"

    def nothing(self, files: int) -> tuple[str, str]:
        """Why there are no rows, and the remedy."""
        where = "holds" if files == 1 else f"these {files} files hold"
        if not self.records and not self.skipped:
            return f"{where} no packets", "check the filter of the capture"
        ports = ", ".join(map(str, self.ports))
        said = f"{where} no DNS on port {ports} in {self.records} packets"
        if self.skipped:
            _, _, reason, count, first = max(self.skipped, key=lambda row: row[3])
            said = f"{said} ({count}: {reason}; {first})"
        if self.other_ports:
            busiest, *more = self.other_ports
            hint = f"{argument('ports', busiest)} reads the busiest other port"
            return said, hint + (f"; next: {', '.join(map(str, more))}" if more else "")
        return said, "give captures of DNS"


def _lists(values: Any, ends: Any) -> pl.Series:
    """A column of lists from concatenated values and the lists' ends; empty lists are null."""
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    lengths = ends - starts
    owner = np.repeat(np.arange(len(ends), dtype=np.uint32), lengths)
    grouped = (
        pl.DataFrame({"owner": owner, "value": pl.Series(values, dtype=pl.UInt32)})
        .group_by("owner", maintain_order=True)
        .agg("value")
    )
    rows = pl.DataFrame({"owner": pl.Series(np.arange(len(ends)), dtype=pl.UInt32)})
    joined = rows.join(grouped, on="owner", how="left", maintain_order="left")
    return joined["value"].cast(pl.List(pl.UInt32)).alias("segment_bytes")


def _vantages(exchanges: pl.DataFrame, connections: pl.DataFrame) -> pl.DataFrame:
    schema = MEASUREMENT_TABLES["vantages"].schema
    both = pl.concat([exchanges.select("vantage"), connections.select("vantage")])
    names = both.unique("vantage", maintain_order=True)
    return names.select(
        pl.col("vantage") if name == "vantage" else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )


def watched_near(connections: pl.DataFrame) -> dict[str, str]:
    """Where the capture was made, near the `client`, near the `server`, or `unknown`; and why.

    Near the client, the SYN/ACK takes the round trip and the ACK nothing; near the server, it is
    the other way round.

    Examples:
        >>> seen = pl.DataFrame({"syn_ms": [40.0, 41.0], "ack_ms": [0.1, 0.1]})
        >>> watched_near(seen)["watched_near"]
        'client'
    """
    seen = connections.select("syn_ms", "ack_ms").drop_nulls()
    if not seen.height:
        return _near("unknown", "no TCP handshake was captured whole")
    near_client = int((seen["syn_ms"] > _TIMES * seen["ack_ms"]).sum())
    near_server = int((seen["ack_ms"] > _TIMES * seen["syn_ms"]).sum())
    syn_ms, ack_ms = (float(np.median(seen[name].to_numpy())) for name in ("syn_ms", "ack_ms"))
    times = (
        f"handshakes wait {syn_ms:.3g} ms for the SYN/ACK and {ack_ms:.3g} ms for the ACK (medians)"
    )
    if near_client > 0.8 * seen.height:
        return _near("client", times)
    if near_server > 0.8 * seen.height:
        return _near("server", times)
    return _near("unknown", f"{times}; an end is near only if its time is {_TIMES:g} times shorter")


_TIMES = 4.0
"""How many times longer one half of a handshake must be than the other."""


def _near(end: str, why: str) -> dict[str, str]:
    return {"watched_near": end, "watched_near_because": why}


def _called(paths: list[Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{len(paths)} files"


def _size(path: Path) -> int:
    if str(path) == "-":
        return 0
    try:
        return path.stat().st_size
    except OSError as error:
        message = (error.strerror or str(error)).lower()
        raise CaptureError(path, message, "check the path") from None

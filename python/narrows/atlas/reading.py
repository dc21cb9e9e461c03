"""From files of Atlas results to a measurement.

The extension parses the files (`crates/intake`); this module makes the tables of a run folder from
its rows. Rows come in chunks, so that progress can be shown and Ctrl-C keeps what was read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from narrows import _core
from narrows.atlas.errors import AtlasError
from narrows.atlas.probes import read_probes
from narrows.results import Measurement
from narrows.results.exchanges import MEASUREMENT_TABLES
from narrows.results.intake import Chunks, covered, is_utf16, to_frame

Progress = Callable[[float, str], None]
"""Called with how much is done, from 0 to 1, and what is being done."""

_CHUNK = 200_000
_NO_RESULT = "give files of DNS results; narrows import atlas --download k prints how to get some"

# If rows agree in these columns, a result was downloaded twice.
_IDENTITY = ("vantage", "measurement", "target", "transport", "started_s", "element", "outcome")


def read_atlas(
    files: Sequence[str | Path],
    *,
    probes: str | Path | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """Results of RIPE Atlas as a measurement.

    Files hold JSON arrays or lines, from the API, the probes themselves or the daily dumps, plain
    or compressed (gz, bz2, zst). The table `skipped` counts what cannot be used. After Ctrl-C the
    measurement holds what was read, and is marked as partial.

    Args:
        files: One or more.
        probes: A probe archive of about that day, which has the probes' places.
        progress: Called with the share of the files that has been read.

    Raises:
        AtlasError: A file cannot be opened, or none of them holds a usable DNS result.
    """
    clock = time.perf_counter()
    places = None if probes is None else read_probes(probes)
    sizes = [_size(Path(file)) for file in files]
    reading = _Reading(sum(sizes), progress)
    status: Literal["complete", "partial"] = "complete"
    try:
        for file, size in zip(files, sizes, strict=True):
            reading.file(Path(file), size)
    except KeyboardInterrupt:
        status = "partial"
    if not reading.chunks.height and status == "complete":
        raise AtlasError(Path(files[0]), reading.nothing(len(files)), _NO_RESULT)
    exchanges = reading.exchanges()
    first, last = covered(exchanges)
    return Measurement(
        source="atlas",
        settings={
            "files": [str(file) for file in files],
            "probes": None if probes is None else str(probes),
        },
        status=status,
        stopped="end" if status == "complete" else "interrupted",
        length_s=last - first,
        tables={
            "exchanges": exchanges,
            "vantages": _vantages(exchanges, places),
            "skipped": reading.skipped_table(),
        },
        narrows=_core.version,
        wall={"reading_s": time.perf_counter() - clock},
        findings={"records": reading.records, "remarks": reading.remarks},
    )


class _Reading:
    """What has been read so far."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total = max(total, 1)
        self.progress = progress
        self.before = 0
        self.records = 0
        self.chunks = Chunks(MEASUREMENT_TABLES["exchanges"], _EXTRA)
        self.skipped: list[tuple[str, str | None, str, int, str]] = []
        self.remarks: list[dict[str, Any]] = []

    def file(self, path: Path, size: int) -> None:
        """Reads a file to its end."""
        try:
            if _starts(path, lambda start: start in _CAPTURES):
                raise AtlasError(
                    path,
                    "is a capture, not results of RIPE Atlas",
                    "narrows import capture reads it",
                )
            if _starts(path, is_utf16):
                raise AtlasError(
                    path, "is UTF-16 text, and not UTF-8", "convert it: iconv -f UTF-16 -t UTF-8"
                )
            reader = _core.AtlasReader(path)
        except OSError as error:
            message = (error.strerror or str(error)).lower()
            raise AtlasError(path, message, "check the path") from None
        try:
            while (chunk := reader.chunk(_CHUNK)) is not None:
                self.chunks.add(to_frame(chunk, MEASUREMENT_TABLES["exchanges"], _EXTRA))
                if self.progress is not None:
                    done = (self.before + reader.bytes_read) / self.total
                    self.progress(min(done, 1.0), path.name)
        finally:
            self._note(path, reader)
        self.before += size

    def _note(self, path: Path, reader: _core.AtlasReader) -> None:
        self.records += reader.records
        for kind, count, first, example in reader.skipped():
            transport, colon, reason = kind.partition(": ")
            if not colon or transport not in ("udp", "tcp"):
                transport, reason = "", kind
            self.skipped.append(
                (str(path), transport or None, reason, count, f"record {first}: {example}")
            )
        for kind, count, first, example in reader.remarks():
            self.remarks.append(
                {"source": str(path), "what": kind, "records": count, "first": first}
                | {"example": example}
            )

    def exchanges(self) -> pl.DataFrame:
        """The table `exchanges`, numbered, without results that were downloaded twice."""
        new = _new(self.chunks.columns(*_IDENTITY))
        if new is not None:
            count = self.chunks.height - new.len()
            self.skipped.append(("all files", None, "the same result again", count, ""))
        height = self.chunks.height if new is None else new.len()
        numbered = pl.int_range(height, dtype=pl.UInt32, eager=True)
        return self.chunks.frame(new, {"exchange": numbered})

    def skipped_table(self) -> pl.DataFrame:
        schema = MEASUREMENT_TABLES["skipped"].schema
        return pl.DataFrame(self.skipped, schema=schema, orient="row", infer_schema_length=None)

    def nothing(self, files: int) -> str:
        """Why there is no result, according to what was skipped."""
        where = "holds" if files == 1 else f"these {files} files hold"
        if not self.skipped:
            return f"{where} no DNS result"
        source, _, reason, count, first = max(self.skipped, key=lambda row: row[3])
        said = f"{where} no usable DNS result of {self.records} records"
        place = "" if files == 1 else f" in {source}"
        return f"{said} ({count}: {reason}{place}; {first})"


def _starts(path: Path, meets: Callable[[bytes], bool]) -> bool:
    """Whether the first four bytes of a file meet a condition; a pipe keeps its bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return meets(file.read(4))


# How a pcap (microseconds or nanoseconds, both byte orders) and a pcapng begin.
_CAPTURES = {
    bytes.fromhex(start) for start in ("d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d", "0a0d0d0a")
}
_EXTRA: Mapping[str, pl.DataType] = {"element": pl.Float64()}


def _new(table: pl.DataFrame) -> pl.Series | None:
    """Numbers of the rows that repeat no earlier row; None if none of them does.

    Rows without a measurement's number never count as repetitions.
    """
    distinct = table.select(
        pl.struct(_IDENTITY).is_first_distinct() | pl.col("measurement").is_null()
    ).to_series()
    return None if bool(distinct.all()) else distinct.arg_true()


def _vantages(exchanges: pl.DataFrame, places: pl.DataFrame | None) -> pl.DataFrame:
    """A row for each vantage point in `exchanges`, with its place if that is known."""
    schema = MEASUREMENT_TABLES["vantages"].schema
    known = pl.DataFrame(schema=schema) if places is None else places
    names = exchanges.select(pl.col("vantage").unique(maintain_order=True))
    return names.join(known, on="vantage", how="left", maintain_order="left").select(schema.names())


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - follows /dev/stdin and pipes alike
    except OSError as error:
        message = (error.strerror or str(error)).lower()
        raise AtlasError(path, message, "check the path") from None

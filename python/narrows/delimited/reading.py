"""From CSV files to a measurement.

The first line names the columns, which are those of the table `exchanges`. So a file can hold all
that narrows knows of an exchange, and needs to hold only what `ratio` and the verdicts use. A row
with a value that cannot be used is skipped and counted by kind, because one damaged line should not
cost a day of measurements.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from narrows import _core
from narrows.errors import HintedError
from narrows.results import Measurement
from narrows.results.exchanges import MEASUREMENT_TABLES, OUTCOMES, TRANSPORTS, frame_of
from narrows.results.intake import covered, is_utf16
from narrows.scenario.suggestions import suggestion, suggestions

COLUMNS = (
    "vantage",
    "target",
    "transport",
    "started_s",
    "total_ms",
    "query_ms",
    "connect_ms",
    "outcome",
)
"""The columns that a file usually has."""

_NEEDED = ("vantage", "target", "transport", "started_s")
_TIMES = ("connect_ms", "secure_ms", "first_byte_ms", "query_ms", "total_ms")
_TABLE = MEASUREMENT_TABLES["exchanges"]
_OURS = {"exchange", "connection", "segment_bytes"}
"""Columns that narrows numbers itself, or that hold lists."""

_LARGEST = 4 << 30
"""The longest file that is read, in bytes, decompressed."""

_LATEST = 4e9
"""The latest time that makes sense, in Unix seconds: the year 2096. Milliseconds exceed it."""

_LONGEST_MS = 86_400_000.0
"""The longest time that an exchange may take: a day."""


class CsvError(HintedError):
    """A file that cannot be used; its text is one line.

    Examples:
        >>> str(CsvError("a.csv", "has no column transport", "name it in the first line"))
        'a.csv: has no column transport; hint: name it in the first line'
    """


def read_csv(files: Sequence[str | Path]) -> Measurement:
    """Measurements of DNS exchanges in CSV files, as a measurement.

    Values are separated by commas, semicolons or tabs, and times are in milliseconds. `started_s`
    is a Unix time, or a date and time as in ISO 8601 (UTC if it names no zone). Without `outcome`,
    a row with a time is answered. `total_ms` follows from `connect_ms` and `query_ms` if it is
    missing. Files may be compressed (gz, bz2, xz, zst); `-` is standard input.

    Args:
        files: One or more.

    Raises:
        CsvError: A file cannot be read, lacks a column, has an unknown one, or has no usable row.
    """
    clock = time.perf_counter()
    frames, skipped = [], []
    for file in files:
        frame, kinds = _Rows(str(file), _text(str(file))).read()
        frames.append(frame)
        skipped += kinds
    exchanges = pl.concat(frames, how="diagonal")
    numbers = pl.int_range(exchanges.height, dtype=pl.UInt32, eager=True)
    schema = _TABLE.schema
    exchanges = exchanges.with_columns(numbers.alias("exchange")).select(
        pl.col(name)
        if name in exchanges.columns or name == "exchange"
        else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )
    first, last = covered(exchanges)
    vantages = [{"vantage": name} for name in exchanges["vantage"].unique(maintain_order=True)]
    return Measurement(
        source="csv",
        settings={"files": [str(file) for file in files]},
        status="complete",
        stopped="end",
        length_s=last - first,
        tables={
            "exchanges": exchanges,
            "vantages": frame_of("vantages", vantages),
            "skipped": frame_of("skipped", skipped),
        },
        narrows=_core.version,
        wall={"reading_s": time.perf_counter() - clock},
    )


def _text(file: str) -> pl.DataFrame:
    """The cells of a file as text.

    Raises:
        CsvError: It cannot be read, or is no table.
    """
    try:
        content = _core.decompressed("/dev/stdin" if file == "-" else file, _LARGEST)
    except OSError as error:
        # Rust's words end with the error's number.
        words = str(error).split(" (os error")[0].lower()
        raise CsvError(file, words, "check the path") from None
    except ValueError:
        raise CsvError(file, f"is longer than {_LARGEST >> 30} GB", "split it") from None
    if is_utf16(content):
        hint = "convert it: iconv -f UTF-16 -t UTF-8"
        raise CsvError(file, "is UTF-16 text, and not UTF-8", hint)
    head = content[:4096].split(b"\n", 1)[0]
    separator = max((b",", b";", b"\t"), key=head.count).decode()
    try:
        return pl.read_csv(
            content,
            separator=separator,
            infer_schema=False,
            truncate_ragged_lines=False,
        )
    except (pl.exceptions.PolarsError, ValueError) as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = "the first line names the columns, and each line has as many values"
        raise CsvError(file, f"is no table of values ({why})", hint) from None


class _Rows:
    """The rows of one file, of which unusable ones are taken out kind by kind."""

    def __init__(self, file: str, cells: pl.DataFrame) -> None:
        self.file = file
        self._check_columns([name.strip() for name in cells.columns])
        self.cells = cells.rename(str.strip).with_columns(
            pl.all().str.strip_chars().replace("", None)
        )
        self.frame = self.cells.with_row_index("line", offset=2)
        self.skipped: list[dict[str, Any]] = []

    def read(self) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
        """The usable rows with their types, and the kinds of unusable ones."""
        for name, dtype in _TABLE.schema.items():
            if name in self.frame.columns:
                self._convert(name, dtype)
        for name in _NEEDED:
            self._keep(pl.col(name).is_not_null(), f"{name} is empty")
        self._names("transport", TRANSPORTS)
        in_range = (pl.col("started_s") > 0.0) & (pl.col("started_s") < _LATEST)
        self._keep(in_range, "started_s makes no sense (it is in seconds)")
        for name in _TIMES:
            if name in self.frame.columns:
                ms = pl.col(name)
                in_range = ms.is_null() | ms.is_between(0.0, _LONGEST_MS)
                self._keep(in_range, f"{name} is negative or above a day (it is in milliseconds)")
        self._complete()
        self._names("outcome", tuple(OUTCOMES))
        if not self.frame.height:
            raise CsvError(self.file, *self._nothing())
        return self.frame.drop("line"), self.skipped

    def _check_columns(self, names: Sequence[str]) -> None:
        known = [name for name in _TABLE.schema if name not in _OURS]
        for name in names:
            if name not in known:
                hint = suggestion(name, known)
                raise CsvError(self.file, f"has the unknown column {name}", hint)
            if names.count(name) > 1:
                raise CsvError(self.file, f"has the column {name} twice", "leave one out")
        lacking = [name for name in _NEEDED if name not in names]
        if lacking:
            hint = f"the first line names the columns, such as {','.join(COLUMNS)}"
            raise CsvError(self.file, f"has no column {lacking[0]}", hint)
        if not {"total_ms", "query_ms", "outcome"} & set(names):
            hint = "add total_ms, from before connecting or sending to the last byte of the reply"
            raise CsvError(self.file, "has neither a time nor an outcome", hint)

    def _convert(self, name: str, dtype: pl.DataType) -> None:
        """Gives a column its type; a row whose value has another type is skipped."""
        cell = pl.col(name)
        if dtype == pl.String():
            return
        if dtype == pl.Boolean():
            words = {"true": True, "1": True, "false": False, "0": False}
            value = cell.str.to_lowercase().replace_strict(words, default=None)
        else:
            value = cell.cast(dtype, strict=False)
            if name == "started_s":
                at = cell.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
                value = pl.coalesce(value, at.dt.epoch("us") / 1e6)
        if dtype == pl.Float64():
            value = pl.when(value.is_finite()).then(value)
        self.frame = self.frame.with_columns(value.alias("value"))
        readable = pl.col("value").is_not_null() | cell.is_null()
        self._keep(readable, f"{name} is not {_KINDS.get(type(dtype), 'a whole number')}", name)
        self.frame = self.frame.with_columns(pl.col("value").alias(name)).drop("value")

    def _names(self, column: str, known: Sequence[str]) -> None:
        """Replaces other names for `known` ones; a row with an unknown name is skipped."""
        words = self.frame[column].drop_nulls().unique().to_list()
        canonical = {word: word if word in known else _canonical(word, known) for word in words}
        if unknown := [word for word in words if canonical[word] is None]:
            good = pl.col(column).is_in(unknown).not_().fill_null(value=True)
            self._keep(good, f"{column} is none of {', '.join(known)}", column)
        self.frame = self.frame.with_columns(
            pl.col(column).replace_strict(canonical, default=None, return_dtype=pl.String)
        )

    def _complete(self) -> None:
        """Adds the outcome and the times that follow from others."""
        lacking = [name for name in (*_TIMES, "outcome", "reused") if name not in self.frame]
        nulls = (pl.lit(None, _TABLE.schema[name]).alias(name) for name in lacking)
        self.frame = self.frame.with_columns(nulls)
        total, query = pl.col("total_ms"), pl.col("query_ms")
        at_once = (pl.col("transport") == "udp") | pl.col("reused").fill_null(value=False)
        handshake = pl.col("connect_ms") + (
            pl.when(pl.col("transport") == "tls").then(pl.col("secure_ms")).otherwise(0.0)
        )
        whole = pl.when(at_once).then(query).otherwise(handshake + query)
        timed = pl.coalesce(total, query).is_not_null()
        self.frame = self.frame.with_columns(
            pl.coalesce(total, whole).alias("total_ms"),
            pl.when(at_once).then(pl.coalesce(query, total)).otherwise(query).alias("query_ms"),
            pl.coalesce(pl.col("outcome"), pl.when(timed).then(pl.lit("answered"))),
        )
        self._keep(pl.col("outcome").is_not_null(), "it has neither a time nor an outcome")
        # The parts of a time are not longer than the whole, give or take what rounding does.
        parts = [pl.col(name).fill_null(0.0) for name in ("connect_ms", "query_ms")]
        fits = pl.coalesce(pl.col("total_ms") - pl.max_horizontal(parts), 0.0) > -0.01
        self._keep(fits, "total_ms is shorter than connect_ms or query_ms")

    def _keep(self, good: pl.Expr, reason: str, column: str | None = None) -> None:
        """Skips the rows for which `good` is false."""
        bad = self.frame.filter(good.not_())
        if not bad.height:
            return
        line = bad["line"][0]
        first = f"line {line}"
        if column is not None:
            first += f": {self.cells[column][line - 2]}"
        self.skipped.append(
            {"source": self.file, "transport": None, "reason": reason}
            | {"records": bad.height, "first": first}
        )
        self.frame = self.frame.filter(good)

    def _nothing(self) -> tuple[str, str]:
        """Why no row is usable, and what would help."""
        if not self.skipped:
            return "has no rows", "the first line names the columns; the others are rows"
        most = max(self.skipped, key=lambda kind: int(kind["records"]))
        what = f"has no usable row of {self.cells.height}"
        why = f"{most['records']}: {most['reason']}; {most['first']}"
        return f"{what} ({why})", "docs/measurements.md lists the columns and their units"


def _canonical(word: str, known: Sequence[str]) -> str | None:
    """The known name that a word in capitals, or an operator's name, stands for."""
    found = suggestions(word, known)
    lower = word.lower()
    same = bool(found) and (found[0] == lower or lower in ("do53", "dot", "doh", "doq"))
    return found[0] if same else None


_KINDS = {pl.Float64: "a number", pl.Boolean: "true or false"}

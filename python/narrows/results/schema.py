"""The tables that every run folder has: each column with its type, its unit and one sentence.

Nothing else declares them: tables are built and checked against this file, and the tables of
docs/run-folder.md are generated from it (a test compares them). Kinds of traffic declare further
tables (`narrows.results.extras`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from narrows.records import Column, Record, Table
from narrows.results.extras import SAMPLES, records

__all__ = [
    "DROPS",
    "FORMAT",
    "MARKS",
    "TABLES",
    "Column",
    "Table",
    "completed",
    "frame",
    "mismatch",
    "reference",
    "table_reference",
]

FORMAT = 1
"""Version of the run folder's format; a reader refuses any other."""

WIDTH = 100
"""The column at which the documents' prose wraps."""


def frame(table: Table, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Makes a table from columns by name: NumPy arrays, lists or series; NaN becomes null.

    Args:
        table: The declaration of the table.
        columns: Its columns, in any order and of equal length.

    Raises:
        ValueError: A column is missing, unknown, of another length or not of its type.
    """
    names = [column.name for column in table.columns]
    absent = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    if absent or unknown:
        what = f"lacks {absent[0]}" if absent else f"does not know {unknown[0]}"
        raise ValueError(f"table {table.name} {what}")
    built = []
    for column in table.columns:
        try:
            series = _series(column, columns[column.name])
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise ValueError(f"table {table.name}, column {column.name}: {error}") from None
        built.append(series)
    lengths = {len(series) for series in built}
    if len(lengths) > 1:
        raise ValueError(f"table {table.name}: columns of {min(lengths)} to {max(lengths)} rows")
    return pl.DataFrame(built)


def completed(table: Table, found: pl.DataFrame) -> pl.DataFrame:
    """A frame with all columns that files of earlier versions may lack."""
    absent = [each for each in table.columns if each.added and each.name not in found.schema]
    return found.with_columns(pl.lit(None, each.dtype).alias(each.name) for each in absent)


def mismatch(table: Table, found: pl.DataFrame) -> str | None:
    """The first way in which a frame differs from this table, in a few words; None if it fits."""
    types = found.schema
    for column in table.columns:
        if column.name not in types:
            return f"has no column {column.name}"
        dtype = types[column.name]
        if dtype != column.dtype:
            return f"column {column.name} is {dtype}, not {column.dtype}"
        if not column.nullable and found.get_column(column.name).null_count():
            return f"column {column.name} has rows without a value"
    extra = [name for name in types if name not in table.schema]
    if extra:
        return f"has a column {extra[0]} that this version does not know"
    return None


def reference() -> str:
    """The tables as Markdown, for docs/run-folder.md: first of every run, then of some runs."""
    parts = [table_reference(table) for table in (*TABLES.values(), *SAMPLES.values())]
    parts += [_record_reference(record) for record in records().values()]
    return "\n".join(parts)


def _record_reference(record: Record) -> str:
    lines = [
        table_reference(record.table),
        f"In the summary, `{record.table.name}` has:",
        "",
        "| figure | unit | meaning |",
        "|---|---|---|",
    ]
    for figure in record.figures:
        # If tables for people use another unit than the summary, only the key has the summary's.
        unit = figure.unit if figure.scale == 1.0 else figure.key.rpartition("_")[2]
        doc = figure.doc or f"{figure.name[0].upper()}{figure.name[1:]}."
        lines.append(f"| `{figure.key}` | {unit} | {doc} |")
    return "\n".join([*lines, ""])


def _series(column: Column, values: Any) -> pl.Series:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        series = pl.Series(column.name, values, nan_to_null=True)
    else:
        series = pl.Series(column.name, values)
        if series.dtype.is_float():
            series = series.fill_nan(None)
    return series if series.dtype == column.dtype else series.cast(column.dtype, strict=True)


def table_reference(table: Table) -> str:
    """A table as Markdown."""
    lines = [
        f"### `{table.file_name}`",
        "",
        *textwrap.wrap(f"One row: {table.row}.", WIDTH),
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
    ]
    for column in table.columns:
        kind = _TYPE_NAMES[column.dtype] + (", null" if column.nullable else "")
        lines.append(f"| `{column.name}` | {kind} | {column.unit} | {column.doc} |")
    return "\n".join([*lines, ""])


_U8, _U32, _U64 = pl.UInt8(), pl.UInt32(), pl.UInt64()
_F64, _BOOL, _TEXT = pl.Float64(), pl.Boolean(), pl.String()
_TEXTS = pl.List(pl.String())

_TYPE_NAMES: dict[pl.DataType, str] = {
    _U8: "u8",
    pl.UInt16(): "u16",
    _U32: "u32",
    _U64: "u64",
    _F64: "f64",
    _BOOL: "bool",
    _TEXT: "string",
    _TEXTS: "list of strings",
    pl.List(pl.UInt32): "list of u32",
}


def _null(name: str, unit: str, doc: str) -> Column:
    return Column(name, _F64, unit, doc, nullable=True)


def _unknown(name: str, dtype: pl.DataType, unit: str, doc: str) -> Column:
    """A column that is null if the kernel does not report it per connection or queue."""
    return Column(
        name, dtype, unit, f"{doc[:-1]}; null: a kernel does not report it.", nullable=True
    )


def _in_ring(name: str, dtype: pl.DataType, unit: str) -> Column:
    doc = (
        f"{unit.capitalize()} in the card's ring buffer; null: not measured, as on a kernel if the "
        "link has no `ring`."
    )
    return Column(name, dtype, unit, doc, nullable=True)


_FLOW = Column("flow", _U32, "", "Number of the connection, from 0 in the scenario's order.")
_LINK = Column("link", _TEXT, "", "The directed link: `NAME.forward` or `NAME.backward`.")
_QUERY = Column("query", _U32, "", "Number of the query, from 0.")
_TIME = Column("t_s", _F64, "s", "When the sample was taken, from the start of the run.")

_TABLES: Sequence[Table] = (
    Table(
        "flows",
        "a TCP connection of bulk, once, on-off or ftp traffic, as it stood at the end of the run",
        (
            _FLOW,
            Column("name", _TEXT, "", "Its name."),
            Column("group", _TEXT, "", "The traffic group that it belongs to."),
            Column("sender", _TEXT, "", "The node that sends data."),
            Column("receiver", _TEXT, "", "The node that receives data."),
            Column("ecn", _BOOL, "", "Whether the two ends negotiated ECN."),
            _null("start_s", "s", "When it was opened; null: its handshake never finished."),
            _null(
                "established_s",
                "s",
                "When the sender of data had completed the handshake (on a kernel, the end that "
                "opened it); null: never.",
            ),
            _null("end_s", "s", "When it was closed; null: never."),
            Column("bytes_acked", _U64, "bytes", "Data that the receiver has acknowledged."),
            Column(
                "bytes_received",
                _U64,
                "bytes",
                "Data handed in order to the receiver's application.",
            ),
            Column(
                "segments_sent",
                _U64,
                "segments",
                "Segments that the sender sent: data, SYN, FIN and acknowledgements, "
                "retransmissions included.",
            ),
            Column(
                "segments_retransmitted",
                _U64,
                "segments",
                "Segments that the sender retransmitted, including SYNs and tail loss probes.",
            ),
            _unknown("timeouts", _U32, "", "Retransmission timeouts."),
            _unknown("fast_recoveries", _U32, "", "How often fast recovery was entered."),
            _unknown("ecn_reductions", _U32, "", "How often ECN reduced the window."),
            _unknown("tail_probes", _U32, "", "Tail loss probes sent."),
            _unknown("undos", _U32, "", "Window reductions undone as spurious."),
            _unknown("marks_received", _U64, "packets", "Packets that arrived with the CE mark."),
            _null("srtt_ms", "ms", "Smoothed round-trip time; null: never measured."),
            _null("min_rtt_ms", "ms", "Smallest round-trip time; null: never measured."),
            _null("cwnd_segments", "segments", "Congestion window at the end of the run."),
            _null("cwnd_mean_segments", "segments", "Congestion window, averaged over time."),
            Column(
                "busy_s",
                _F64,
                "s",
                "Time in which the sender had data that was not acknowledged or not sent "
                "(`tcpi_busy_time`); null: unknown, as in runs of earlier versions, on kernels "
                "before 4.10, and on a kernel for a connection that never opened.",
                nullable=True,
                added=True,
            ),
            Column(
                "rwnd_limited_s",
                _F64,
                "s",
                "Part of `busy_s` in which nothing but the receiver's window held the sender back "
                "(`tcpi_rwnd_limited`); null: as there.",
                nullable=True,
                added=True,
            ),
        ),
    ),
    Table(
        "queries",
        "a DNS query, from its first attempt to the answer or the last timeout",
        (
            _QUERY,
            Column("group", _TEXT, "", "The group of resolver workers that asked."),
            Column(
                "worker",
                _U32,
                "",
                "The worker that asked; with `arrivals`, the worker that took the query.",
            ),
            Column(
                "index",
                _U32,
                "",
                "Number of the query within its worker, or among the arrivals, from 0.",
            ),
            Column(
                "measured",
                _BOOL,
                "",
                "False for warm-up queries and for those that began outside the declared window; "
                "no summary counts them.",
            ),
            Column("start_s", _F64, "s", "When it began: its first attempt was sent."),
            _null(
                "end_s", "s", "When it was answered or given up; null: not by the end of the run."
            ),
            Column(
                "attempt", _U8, "", "The attempt that was answered in time, from 1; 0: none was."
            ),
            Column("attempts", _U8, "", "Attempts made; 0: the query was turned away."),
            _null(
                "response_ms",
                "ms",
                "From the first attempt to the answer that ended the query; null: unanswered.",
            ),
            _null("rtt_ms", "ms", "From the successful attempt to its answer; null: unanswered."),
            Column(
                "late_answers", _U8, "", "Answers that arrived after their attempt had timed out."
            ),
            Column(
                "fates",
                _TEXTS,
                "",
                "What became of each attempt, in order, such as `answered` or "
                "`reply-lost: early at bottleneck.forward`.",
            ),
        ),
    ),
    Table(
        "attempts",
        "an attempt of a DNS query",
        (
            _QUERY,
            Column("attempt", _U8, "", "Number of the attempt, from 1."),
            Column("sent_s", _F64, "s", "When it was sent."),
            Column(
                "fate",
                _TEXT,
                "",
                "`answered`, `late`, `query-lost`, `reply-lost`, `truncated`, `refused`, `closed`, "
                "`reset`, `timed-out` (nothing arrived, no loss is known) or `pending` (open at "
                "the end of the run).",
            ),
            Column("lost_at", _TEXT, "", "The link at which a packet was lost; empty: none was."),
            Column(
                "reason",
                _TEXT,
                "",
                "Why it was lost: `overflow`, `early` or `forced` in the queue, `wire`, `mtu`, "
                "`reassembly` (its fragments arrived late), `no-neighbour` (ARP gave no address), "
                "or what a middlebox dropped: "
                "`middlebox-dns-length`, `middlebox-fragment`, `middlebox-too-big`, "
                "`middlebox-tcp-53`, `middlebox-syn-data`; empty: it was not.",
            ),
            _null("first_byte_s", "s", "When the first byte of its answer arrived."),
            _null("received_s", "s", "When its answer arrived; null: none did."),
            Column(
                "transport", _TEXT, "", "What carried it: `udp`, `tcp`, `tls`, `https` or `quic`."
            ),
            Column(
                "reused",
                _BOOL,
                "",
                "Whether it used a connection that had carried a query before.",
            ),
            Column("handshake_round_trips", _U8, "", "Round trips before the query could be sent."),
            _null(
                "handshake_ms",
                "ms",
                "Time of the handshake; null: there was none, or it did not end.",
            ),
            Column(
                "packets_sent",
                _U32,
                "packets",
                "IP packets that the client sent for it. With a connection for one query, these "
                "are all packets of the connection. On a kept connection, they are those that "
                "crossed while the attempt waited, answered or not, unless another attempt counts "
                "them. Over UDP, each fragment counts.",
            ),
            Column("bytes_sent", _U32, "bytes", "Their lengths, without framing."),
            Column(
                "packets_received",
                _U32,
                "packets",
                "IP packets that the server sent for it; on a kernel, those that arrived.",
            ),
            Column("bytes_received", _U32, "bytes", "Their lengths, without framing."),
        ),
    ),
    Table(
        "queues",
        "a sample of a monitored queue; counters run from the start of the run",
        (
            _TIME,
            _LINK,
            Column("backlog_packets", _U32, "packets", "Packets in the queue, without the ring."),
            Column("backlog_bytes", _U64, "bytes", "Bytes in the queue, without the ring."),
            _in_ring("ring_packets", _U32, "packets"),
            _in_ring("ring_bytes", _U64, "bytes"),
            _null(
                "average_packets",
                "packets",
                "RED's average of the backlog; null: no RED, or one that counts bytes.",
            ),
            _null(
                "average_bytes",
                "bytes",
                "RED's average of the backlog; null: no RED, or one that counts packets.",
            ),
            _null(
                "sojourn_mean_ms",
                "ms",
                "Mean time in queue and ring of the packets that left since the last sample; null: "
                "none left.",
            ),
            _null("sojourn_max_ms", "ms", "Longest such time; null: none left."),
            Column(
                "arrived_packets",
                _U64,
                "packets",
                "Packets that arrived since the start, dropped ones included.",
            ),
            Column(
                "arrived_bytes",
                _U64,
                "bytes",
                "Bytes that arrived since the start, dropped ones included.",
            ),
            Column("sent_packets", _U64, "packets", "Packets that left since the start."),
            Column(
                "dropped_overflow",
                _U64,
                "packets",
                "Drops since the start because the queue was full.",
            ),
            Column(
                "dropped_early",
                _U64,
                "packets",
                "Drops since the start by an AQM's decision, although the queue was not full.",
            ),
            Column(
                "dropped_forced",
                _U64,
                "packets",
                "Drops since the start because RED's average was above `max`.",
            ),
            Column(
                "marked_early",
                _U64,
                "packets",
                "CE marks since the start by an AQM's decision, without the forced ones.",
            ),
            Column(
                "marked_forced",
                _U64,
                "packets",
                "CE marks since the start because RED's average was above `max`.",
            ),
            _unknown(
                "dropped_dns",
                _U64,
                "packets",
                "Drops of DNS packets since the start.",
            ),
        ),
    ),
    Table(
        "links",
        "a sample of a monitored link; counters run from the start of the run",
        (
            _TIME,
            _LINK,
            Column(
                "packets",
                _U64,
                "packets",
                "Packets transmitted since the start, completely or until the link went down.",
            ),
            Column("bytes", _U64, "bytes", "Their bytes, framing included."),
            _null(
                "busy_s",
                "s",
                "Time spent transmitting since the start; null: the line's rate is not known.",
            ),
            Column("lost", _U64, "packets", "Packets lost on the wire since the start."),
        ),
    ),
)

DROPS: Mapping[str, str] = {r: f"dropped_{r}" for r in ("overflow", "early", "forced")}
"""The columns of the table `queues` that count dropped packets, by the reason."""

MARKS: Mapping[str, str] = {r: f"marked_{r}" for r in ("early", "forced")}
"""The columns of the table `queues` that count marked packets, by the reason."""

TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
"""The tables of every run by name, in the order of the documentation."""

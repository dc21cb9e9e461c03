"""The tables of a measurement: DNS exchanges over real networks, from any source.

`narrows probe`, `narrows import atlas` and `narrows import capture` fill the same tables, so that
one analysis reads them all. What a source cannot know is null: an Atlas result has no segments, and
a dnstap file has no handshake. docs/measurements.md is generated from this file.

Times of an exchange, over TCP (a new connection; TLS and QUIC likewise)::

    client   SYN -------- SYN/ACK  query ------ first byte ------ last byte of the reply
             |<- connect_ms ->|    |<--------- query_ms ------------------->|
             |<----------------------- total_ms --------------------------->|

`total_ms` is what RIPE Atlas calls `rt`: it includes the handshake. Over UDP, and on a connection
that was already open, it equals `query_ms`, unless a capture shows several attempts: `total_ms`
then counts from the first attempt, and `query_ms` from the last one before the reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from narrows.results.schema import Column, Table, table_reference

NEAR_MS = 1.0
"""Times over UDP below this come from the machine itself and say nothing about a server."""

OUTCOMES: Mapping[str, str] = {
    "answered": "a complete DNS message answered the query, maybe truncated or with an error",
    "timeout": "no complete reply came before the client stopped waiting",
    "refused": "the server's machine refused: it answered the SYN with a reset, or sent ICMP port "
    "unreachable",
    "unreachable": "the network reported that the server cannot be reached",
    "reset": "the connection was reset after its handshake",
    "closed": "the server closed the connection before the reply was whole",
    "malformed": "the reply is not a DNS message, or does not have the length that it states",
    "mismatched": "the reply is a DNS message that does not answer this query",
    "handshake-failed": "the handshake of TLS or QUIC failed",
    "failed": "another outcome, which `detail` names in the source's words",
    "not-asked": "the vantage point did not ask, by its own rule or fault, not the server's",
    "no-reply-seen": "a capture has the query but no reply, which may have taken another path",
    "no-query-seen": "a capture has the reply but no query",
}
"""The possible outcomes of an exchange, and their meanings."""

AMBIGUOUS = (
    (pl.col("attempts").fill_null(1) > pl.col("replies")) & (pl.col("outcome") == "answered")
).fill_null(value=False)
"""Whether it is unknown which of several attempts an exchange's reply answers.

The replies are known only in captures. If each attempt got one, the first answers the first. A
probe knows the attempt, because each has another port and ID."""

STAGES: Mapping[str, str] = {
    "connect": "before the connection was established",
    "secure": "during the TLS handshake",
    "query": "before the first byte of the reply",
    "reply": "after the first byte of the reply",
}
"""How far an unanswered exchange got."""

TRANSPORTS = ("udp", "tcp", "tls", "https", "quic", "http3")
"""How a query travels; tables hold only these names."""

PREFIXES: Mapping[str, str] = {
    "joined": "the length came in one segment with at least the first byte of the message",
    "alone": "the length came in a segment of its own",
    "split": "the length's two bytes came in two segments",
}
"""How the two-byte length of a reply over TCP was sent (RFC 1035, section 4.2.2)."""

CLOSERS: Mapping[str, str] = {
    "client": "its FIN or RST was first",
    "server": "its FIN or RST was first",
    "neither": "neither side had closed it when the measurement ended",
}
"""Who ended a connection."""

ENDINGS: Mapping[str, str] = {
    "fin": "closed by a FIN",
    "reset": "ended by a reset",
    "refused": "never established: refused",
    "timeout": "never established: no answer",
    "open": "still open when the measurement ended",
}
"""How a connection ended."""

_TEXT, _F64, _BOOL = pl.String(), pl.Float64(), pl.Boolean()
_U8, _U16, _U32, _U64 = pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64()
_SIZES = pl.List(pl.UInt32)


def _null(name: str, dtype: pl.DataType, unit: str, doc: str) -> Column:
    return Column(name, dtype, unit, doc, nullable=True)


def _names(of: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}`" for name in of)


_VANTAGE = Column(
    "vantage", _TEXT, "", "The vantage point: an Atlas probe's number, a source address, a file."
)
_TARGET = Column(
    "target",
    _TEXT,
    "",
    "The server as the user named it; in imports its address, with the port unless it is the "
    "usual one of the transport.",
)
_PEER = (
    _null("server", _TEXT, "", "Its address; null: the source does not give it."),
    _null("port", _U16, "", "Its port."),
    _null("family", _U8, "", "4 or 6."),
    Column(
        "transport", _TEXT, "", ", ".join(f"`{name}`" for name in TRANSPORTS[:-1]) + " or `http3`."
    ),
)
_STARTED = Column(
    "started_s",
    _F64,
    "s",
    "Unix time at which it began: when the SYN left, or the query if there was no SYN.",
)

_TABLES: Sequence[Table] = (
    Table(
        "exchanges",
        "a DNS query and its outcome",
        (
            Column("exchange", _U32, "", "Number of the exchange, from 0."),
            _VANTAGE,
            _TARGET,
            *_PEER,
            _null("connection", _U32, "", "Its row of `connections`; null: none is known."),
            _null("reused", _BOOL, "", "Whether the connection had carried a query before."),
            _null(
                "round",
                _U32,
                "",
                "Number of its round; exchanges of the same round are meant to be compared.",
            ),
            _STARTED,
            _null(
                "connect_ms",
                _F64,
                "ms",
                "Time of the TCP or QUIC handshake, if this exchange had one.",
            ),
            _null("secure_ms", _F64, "ms", "Time of the TLS handshake, which follows TCP's."),
            _null("first_byte_ms", _F64, "ms", "From the query to the first byte of the reply."),
            _null(
                "query_ms",
                _F64,
                "ms",
                "From the query (its last attempt) to the last byte of the reply.",
            ),
            _null("total_ms", _F64, "ms", "From `started_s` to the last byte of the reply."),
            Column("outcome", _TEXT, "", "The outcome; the names are listed above."),
            _null("stage", _TEXT, "", f"How far an unanswered exchange got: {_names(STAGES)}."),
            _null("detail", _TEXT, "", "The source's own words for an outcome."),
            _null(
                "attempts",
                _U8,
                "",
                "How often the client asked over UDP with the same port and ID.",
            ),
            _null(
                "replies",
                _U8,
                "",
                "How many of these attempts a capture shows a reply for; at most `attempts`.",
            ),
            _null("qname", _TEXT, "", "The name asked for, with its final dot."),
            _null("qtype", _TEXT, "", "The type asked for, such as `SOA`."),
            _null(
                "rcode",
                _TEXT,
                "",
                "The reply's response code, such as `REFUSED`, or `RCODE3000` if it has no name.",
            ),
            _null("truncated", _BOOL, "", "Whether the reply has TC set."),
            _null("answers", _U16, "", "Records in the answer section, by the reply's header."),
            _null("query_bytes", _U32, "bytes", "The query's message, without TCP's length field."),
            _null("reply_bytes", _U32, "bytes", "The reply's message, without TCP's length field."),
            _null(
                "segments",
                _U32,
                "segments",
                "Data segments that carried the reply, each counted once.",
            ),
            _null(
                "segment_bytes",
                _SIZES,
                "bytes",
                "Payload lengths of the first eight of these, in order.",
            ),
            _null("prefix", _TEXT, "", f"How the length field was sent: {_names(PREFIXES)}."),
            _null(
                "query_retransmissions", _U32, "segments", "Retransmitted segments of the query."
            ),
            _null(
                "reply_retransmissions", _U32, "segments", "Retransmitted segments of the reply."
            ),
            _null("site", _TEXT, "", "The machine that answered, by NSID or hostname.bind."),
            _null("measurement", _U64, "", "The source's number for the measurement."),
            _null("firmware", _U32, "", "The vantage point's firmware at that time."),
        ),
    ),
    Table(
        "connections",
        "a connection that was opened for queries, over TCP, TLS, HTTPS or QUIC",
        (
            Column("connection", _U32, "", "Number of the connection, from 0."),
            _VANTAGE,
            _TARGET,
            *_PEER,
            _STARTED,
            _null("ended_s", _F64, "s", "Unix time of the first FIN or RST."),
            _null("syn_ms", _F64, "ms", "From the first SYN to the SYN/ACK, if both were seen."),
            _null("ack_ms", _F64, "ms", "From the SYN/ACK to the ACK, if both were seen."),
            _null("secure_ms", _F64, "ms", "Time of the TLS handshake."),
            _null("syn_retransmissions", _U32, "segments", "Retransmitted SYNs."),
            _null("fast_open", _BOOL, "", "Whether the SYN carried data."),
            Column("exchanges", _U32, "", "Queries that it carried."),
            _null("ending", _TEXT, "", f"How it ended: {_names(ENDINGS)}."),
            _null("closed_by", _TEXT, "", f"Who ended it: {_names(CLOSERS)}."),
            _null(
                "client_bytes", _U64, "bytes", "Payload from the client, each byte counted once."
            ),
            _null(
                "server_bytes", _U64, "bytes", "Payload from the server, each byte counted once."
            ),
            _null("client_segments", _U32, "segments", "Data segments from the client."),
            _null("server_segments", _U32, "segments", "Data segments from the server."),
            _null(
                "client_retransmissions", _U32, "segments", "Retransmitted segments of the client."
            ),
            _null(
                "server_retransmissions", _U32, "segments", "Retransmitted segments of the server."
            ),
            _null("mss_bytes", _U32, "bytes", "Largest payload that the server may send."),
            _null("rtt_ms", _F64, "ms", "Smallest round-trip time that TCP has measured."),
        ),
    ),
    Table(
        "vantages",
        "a vantage point",
        (
            _VANTAGE,
            _null("name", _TEXT, "", "What people call it."),
            _null("address", _TEXT, "", "Its address, as the source gives it."),
            _null("latitude", _F64, "degrees", "Its latitude, north positive."),
            _null("longitude", _F64, "degrees", "Its longitude, east positive."),
            _null("country", _TEXT, "", "Its country, as two letters (ISO 3166)."),
            _null("asn", _U32, "", "Its autonomous system; the one of IPv4 if there are two."),
            _null(
                "hardware",
                _TEXT,
                "",
                "Its hardware, such as `v1`, `v2`, `v3`, `anchor` or `software`.",
            ),
        ),
    ),
    Table(
        "skipped",
        "a kind of record that could not be used",
        (
            Column("source", _TEXT, "", "The file, or the server."),
            _null("transport", _TEXT, "", "The transport, if it is known."),
            Column(
                "reason",
                _TEXT,
                "",
                "Why, in a few words that are the same for all records of the kind.",
            ),
            Column("records", _U64, "", "Number of these records."),
            _null("first", _TEXT, "", "Where the first one is, such as `line 17`."),
        ),
    ),
)

MEASUREMENT_TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
"""A measurement's tables by name, in the order of the documentation."""


def empty(name: str) -> pl.DataFrame:
    """A table without rows.

    Examples:
        >>> empty("skipped").columns
        ['source', 'transport', 'reason', 'records', 'first']
    """
    return pl.DataFrame(schema=MEASUREMENT_TABLES[name].schema)


def frame_of(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A table from rows; columns that a row does not name are null.

    Examples:
        >>> frame_of("vantages", [{"vantage": "10.0.0.1", "country": "NL"}])["country"][0]
        'NL'

    Raises:
        ValueError: A row has a name that the table does not know.
    """
    schema = MEASUREMENT_TABLES[name].schema
    for row in rows:
        unknown = [key for key in row if key not in schema]
        if unknown:
            raise ValueError(f"table {name} does not know {unknown[0]}")
    return pl.DataFrame(list(rows), schema=schema, orient="row", infer_schema_length=None)


def reference() -> str:
    """Names and tables as Markdown, for docs/measurements.md."""
    lists = (
        ("Outcomes", OUTCOMES),
        ("Stages", STAGES),
        ("Prefixes", PREFIXES),
        ("Endings", ENDINGS),
        ("Closers", CLOSERS),
    )
    lines: list[str] = []
    for title, names in lists:
        lines += [f"### {title}", "", "| name | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in names.items()]
        lines.append("")
    return "\n".join([*lines, *(table_reference(table) for table in _TABLES)])

"""Field types of the scenario language: text with a unit outside, whole base units inside.

Values are those of `narrows.scenario.amounts`. They are written as exact text, so that a resolved
scenario reads back as the scenario from which it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator
from pydantic import WithJsonSchema as JsonSchema
from pydantic_core import PydanticCustomError

from narrows.foreign_text import shortened
from narrows.scenario.amounts import DataRate, DataSize, Duration, Quantity

LONGEST_TEXT = 100
"""The most characters of a quantity in a message."""

Q = TypeVar("Q", bound=Quantity)


def refuse(message: str, hint: str = "", key: str = "") -> PydanticCustomError:
    """Makes the error that a validator raises; a `ScenarioError` shows its message and hint.

    `key` is a path below the place of the validator.
    """
    context = {"message": message, "hint": hint, "key": key}
    return PydanticCustomError("scenario", "{message}", context)


def span_of(seconds: float | None) -> int | None:
    """Seconds in picoseconds; None as it is.

    Examples:
        >>> span_of(0.5), span_of(None)
        (500000000000, None)
    """
    return None if seconds is None else round(seconds * 10**12)


def base_value(text: str) -> tuple[str, int] | None:
    """The kind of a text with a unit (`span`, `rate` or `size`), and its value in base units.

    None for any other text.

    Examples:
        >>> base_value("2 Mbit/s"), base_value("1 kB"), base_value("red")
        (('rate', 2000000), ('size', 1000), None)
    """
    for kind, parse in (
        ("span", Duration),
        ("rate", DataRate),
        ("size", DataSize),
    ):
        try:
            return kind, int(parse(text))
        except ValueError:
            pass
    return None


def _reader(kind: type[Q], example: str, most: int) -> Callable[[Any], Q]:
    kind_hint = f'write it as text with a unit, such as "{example}"'

    def read(value: Any) -> Q:
        if isinstance(value, Quantity):
            value = str(value)
        if isinstance(value, int) and not isinstance(value, bool):
            hint = kind_hint if value else 'write "0"'
            raise refuse("is a number without a unit", hint)
        if not isinstance(value, str):
            raise refuse(f"is {_kind(value)}, not a quantity", kind_hint)
        shown = shortened(value, LONGEST_TEXT)
        try:
            quantity = kind(value)
        except ValueError as error:
            raise refuse(f'"{shown}" {error}', f'such as "{example}"') from None
        if quantity > most:
            raise refuse(f'"{shown}" is too large', f'at most "{kind(most)}"')
        return quantity

    return read


def _kind(value: Any) -> str:
    names = {bool: "a Boolean", float: "a number without a unit", list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")


def _positive(value: Q) -> Q:
    if value == 0:
        raise refuse("must be above zero")
    return value


def _between(value: Q, least: int, most: int) -> Q:
    if not least <= value <= most:
        raise refuse(f'must be "{least} B" to "{most} B"')
    return value


def at_least(least: int, text: str) -> AfterValidator:
    """Bounds a quantity from below; `text` is how the bound is written."""

    def check(value: int) -> int:
        if value < least:
            raise refuse(f'must be at least "{text}"')
        return value

    return AfterValidator(check)


def at_most(most: int, text: str) -> AfterValidator:
    """Bounds a quantity from above; `text` is how the bound is written."""

    def check(value: int) -> int:
        if value > most:
            raise refuse(f'must be at most "{text}"')
        return value

    return AfterValidator(check)


def _schema(what: str, example: str) -> JsonSchema:
    pattern = r"^\s*[0-9][0-9.]*\s*[A-Za-zµμ/]*\s*$"
    return JsonSchema({"type": "string", "pattern": pattern, "examples": [example], "title": what})


# A longer run than 240 hours is a slip; the simulator's clock ends at 213 days.
MOST_SPAN = 240 * 3600 * 10**12
# Linux holds RED's thresholds and a FIFO's limit in 32 bits.
MOST_BYTES = 2**32 - 1
MOST_RATE = 10**14

Span = Annotated[
    Duration,
    PlainValidator(_reader(Duration, "50 ms", MOST_SPAN)),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("duration", "50 ms"),
]
"""A duration of zero or more, held in picoseconds."""

Switch = Annotated[bool, Field(strict=True)]
"""True or false, and nothing else that Python takes for them."""

PositiveSpan = Annotated[
    Duration,
    PlainValidator(lambda value: _positive(read_span(value))),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("duration above zero", "50 ms"),
]
"""A duration above zero, held in picoseconds."""

Rate = Annotated[
    DataRate,
    PlainValidator(_reader(DataRate, "10 Mbit/s", MOST_RATE)),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("rate", "10 Mbit/s"),
]
"""A rate above zero, held in bits per second."""

Size = Annotated[
    DataSize,
    PlainValidator(_reader(DataSize, "1500 B", MOST_BYTES)),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("size", "1500 B"),
]
"""A size of zero or more, held in bytes."""

PositiveBytes = Annotated[
    DataSize,
    PlainValidator(lambda value: _positive(read_size(value))),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("size above zero", "1500 B"),
]
"""A size above zero, held in bytes."""

DnsSize = Annotated[
    DataSize,
    PlainValidator(lambda value: _between(read_size(value), 40, 1500)),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("IP packet length", "70 B"),
]
"""The IP packet length of a DNS message that is not fragmented, held in bytes."""

DnsReplySize = Annotated[
    DataSize,
    PlainValidator(lambda value: _between(read_size(value), 40, 65_535)),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("IP packet length before it is cut into fragments", "100 B"),
]
"""The IP packet length of a DNS reply before it is cut into fragments, held in bytes."""

TransferSize = Annotated[
    DataSize,
    PlainValidator(lambda value: _positive(_read_transfer(value))),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema("size above zero", "384 kB"),
]
"""Bytes that an application sends, above zero, held in bytes."""

Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
"""A probability or share, 0 to 1."""

Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""A name: letters, digits, `-` and `_`, at most 64."""

LinkPattern = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_.*-]{1,80}$")]
"""Names of directed links: `NAME` is both directions, `*` stands for any part."""

GroupPattern = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_*-]{1,64}$")]
"""Names of groups of traffic and of resolver workers; `*` stands for any part."""

Path = Annotated[tuple[Name, ...], Field(min_length=1, max_length=65, fail_fast=True)]
"""Nodes in the order in which packets pass them."""

read_span = _reader(Duration, "50 ms", MOST_SPAN)
read_size = _reader(DataSize, "1500 B", MOST_BYTES)
_read_transfer = _reader(DataSize, "384 kB", 10**15)

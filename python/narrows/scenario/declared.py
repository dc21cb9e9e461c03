"""Types of the language from what the extension declares.

Rust declares settings once: names, types, ranges, defaults and meanings (`units::settings`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from narrows.scenario.amounts import DataRate, DataSize, Duration
from narrows.scenario.base import Table
from narrows.scenario.quantities import (
    MOST_BYTES,
    Name,
    PositiveBytes,
    PositiveSpan,
    Rate,
    Size,
    Span,
    Switch,
    at_least,
    at_most,
    read_size,
    read_span,
    refuse,
)

__all__ = ["DeclaredTable", "annotation", "default", "text"]


def _bounds(key: dict[str, Any], number: type, *, strict: bool = True) -> Any:
    """A number's range, for pydantic."""
    low, high = key["least"], key["most"]
    bounds: dict[str, Any] = {"strict": True} if strict else {}
    if low is not None:
        bounds["gt" if key["above"] else "ge"] = number(low)
    if high is not None:
        bounds["lt" if key["below"] else "le"] = number(high)
    if number is float and strict:
        bounds["allow_inf_nan"] = False
    return Annotated[number, Field(**bounds)]


def _size(key: dict[str, Any]) -> Any:
    least, most = int(key["least"]), int(key["most"])
    sized: Any = Size if least == 0 else PositiveBytes
    if least > 1:
        sized = Annotated[sized, at_least(least, str(DataSize(least)))]
    if most < MOST_BYTES:
        sized = Annotated[sized, at_most(most, str(DataSize(most)))]
    return sized


def _span(key: dict[str, Any]) -> Any:
    least, most = key["least"], key["most"]
    if most is None:
        return PositiveSpan if key["above"] else Span
    spans: Any = PositiveSpan if least > 0 else Span
    if least > 1:
        spans = Annotated[spans, at_least(int(least), str(Duration(int(least))))]
    return Annotated[spans, at_most(int(most), str(Duration(int(most))))]


def _word_or_span(word: str) -> Any:
    """A word, or a duration above zero."""

    def read(value: Any) -> Any:
        if value == word:
            return value
        span = read_span(value)
        if span == 0:
            raise refuse("must be above zero")
        return span

    return Annotated[
        Literal[word] | int,
        BeforeValidator(read),
        PlainSerializer(
            lambda value: value if value == word else str(Duration(value)),
            return_type=str,
            when_used="json",
        ),
        WithJsonSchema({"type": "string", "title": f'duration above zero, or `"{word}"`'}),
    ]


def _read_threshold(value: Any, info: ValidationInfo) -> Any:
    """A number where the queue counts packets, a size where it counts bytes."""
    unit = info.data.get("unit")
    if unit == "packets" and isinstance(value, bool):
        raise refuse("is a Boolean, not a number")
    if unit == "packets" and isinstance(value, str):
        raise refuse('is text where unit is "packets"', "write a number, or set unit to bytes")
    if unit == "bytes":
        return read_size(value)
    return value


def _in_unit(number: Any) -> Any:
    """A number of packets or a size, depending on the field `unit` before it."""
    schema = {"type": ["number", "string"], "title": "number of packets, or size"}
    return Annotated[number, BeforeValidator(_read_threshold), WithJsonSchema(schema)]


class DeclaredTable(Table):
    """A table whose keys come from a declaration, so that a type checker does not know them."""

    # The extension gives the meanings.
    model_config = ConfigDict(use_attribute_docstrings=False)

    if TYPE_CHECKING:

        def __init__(self, **keys: Any) -> None: ...
        def __getattr__(self, key: str) -> Any: ...


def annotation(key: dict[str, Any]) -> Any:
    """The type of a key's values, leaving aside that it may be open."""
    match key["kind"]:
        case "whole":
            return _bounds(key, int)
        case "number":
            return _bounds(key, float)
        case "switch":
            return Switch
        case "span":
            return _span(key)
        case "size":
            return _size(key)
        case "rate":
            return Rate
        case "words":
            return Literal[tuple(key["of"])]
        case "whole-in-unit":
            return _in_unit(_bounds(key, int, strict=False))
        case "number-in-unit":
            return _in_unit(_bounds(key, float, strict=False))
        case "word-or-span":
            return _word_or_span(key["of"][0])
        case "name":
            return Name
        case other:
            raise AssertionError(f"the extension declares a {other}, which is not known here")


def default(key: dict[str, Any]) -> Any:
    """A key's default; None if it is open."""
    value = key["default"]
    held = _HELD.get(key["kind"])
    return value if value is None or held is None or isinstance(value, str) else held(value)


_HELD: dict[str, Callable[[Any], Any]] = {
    "number": float,
    "span": Duration,
    "word-or-span": Duration,
    "size": DataSize,
    "rate": DataRate,
}
"""Functions that make a default from the extension's declaration."""


def text(about: str) -> str:
    """A meaning without the indentation of its source."""
    return "\n".join(line.strip() for line in about.splitlines()).strip()

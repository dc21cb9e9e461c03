"""Types of the language from what the extension declares.

Rust declares settings once: names, types, ranges, defaults and meanings (`units::settings`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from narrows import _core
from narrows.scenario.amounts import DataRate, DataSize, Duration
from narrows.scenario.base import Table
from narrows.scenario.codepoints import Dscp
from narrows.scenario.draws import Pauses, Sizes, draw
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
from narrows.scenario.rules import Faults, rule


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


def _word_or_span(key: dict[str, Any]) -> Any:
    """A word, or a duration, above zero if the key says so."""
    word, above = key["of"][0], key["above"]
    duration = "duration above zero" if above else "duration"

    def read(value: Any) -> Any:
        if value == word:
            return value
        span = read_span(value)
        if above and span == 0:
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
        WithJsonSchema({"type": "string", "title": f'{duration}, or `"{word}"`'}),
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


TABLES: dict[str, dict[str, Any]] = json.loads(_core.settings())
"""The tables of settings that the extension declares, by name."""

if TYPE_CHECKING:

    class DeclaredTable(Table):
        """A table with keys that a type checker does not know, because the extension has them."""

        table: ClassVar[str]
        declared: ClassVar[dict[str, dict[str, Any]]]

        def __init_subclass__(cls, **_settings: Any) -> None: ...
        def __init__(self, **keys: Any) -> None: ...
        def __getattr__(self, key: str) -> Any: ...
        def plain(self) -> dict[str, Any]:
            """The declared keys as a plan has them, in base units."""

else:

    class _Declaring(type(Table)):
        """Adds the declared keys to a class.

        A class `declares` a table by name, `without` keys that the language has in another form.
        If it is `open`, keys may be left out, and are then None. Keys that it has itself, or in
        `types` with their meanings, have the types that it says.
        """

        def __new__(
            mcs,
            name: str,
            bases: tuple[type, ...],
            namespace: dict[str, Any],
            *,
            declares: str | None = None,
            without: tuple[str, ...] = (),
            open: bool = False,
            types: dict[str, Any] | None = None,
            **more: Any,
        ) -> Any:
            if declares is not None:
                table = TABLES[declares]
                types = types or {}
                annotations = namespace.setdefault("__annotations__", {})
                inherited = {field for base in bases for field in getattr(base, "model_fields", ())}
                keys = [key for key in table["keys"] if key["name"] not in without]
                for key in keys:
                    if key["name"] in annotations or key["name"] in inherited:
                        continue
                    found, about = types.get(key["name"]) or (annotation(key), key["about"])
                    usual = None if open else ... if key["required"] else default(key)
                    annotations[key["name"]] = found | None if open or key["optional"] else found
                    namespace[key["name"]] = Field(usual, description=text(about))
                namespace.setdefault("__doc__", text(table["about"]))
                namespace["declared"] = {key["name"]: key for key in keys}
                namespace["table"] = table["name"]
            made = super().__new__(mcs, name, bases, namespace, **more)
            if declares is not None:
                _CLASSES[made.table] = made
            return made

    class DeclaredTable(Table, metaclass=_Declaring):
        """A table with keys that the extension declares."""

        table: ClassVar[str] = ""
        """The table's name."""
        declared: ClassVar[dict[str, dict[str, Any]]] = {}
        """The declared keys that the class has, by name."""

        def plain(self) -> dict[str, Any]:
            """The declared keys as a plan has them, in base units."""
            return {name: _plain(key, getattr(self, name)) for name, key in self.declared.items()}


def _plain(key: dict[str, Any], value: Any) -> Any:
    """A key's value as a plan has it."""
    if value is not None and key["kind"] == "drawn":
        return draw(value)
    if isinstance(value, DeclaredTable):
        return value.plain()
    if isinstance(value, tuple):
        return [_plain(key, entry) for entry in value]
    if key["kind"] == "word-or-span" and isinstance(value, int):
        return {key["of"][1]: value}
    return value


_CLASSES: dict[str, Any] = {}
"""The classes of the declared tables, by the tables' names."""


class CheckedTable(DeclaredTable):
    """A declared table whose keys together the extension checks."""

    @rule
    def _is_possible(self) -> Faults:
        wrong = _core.check_settings(self.table, json.dumps(self.plain()))
        if wrong is not None:
            key, what, hint = wrong
            yield refuse(what, hint, key)


def find(table: str, name: str) -> dict[str, Any]:
    """A key of a table."""
    return next(key for key in TABLES[table]["keys"] if key["name"] == name)


def usual(table: str) -> dict[str, Any]:
    """A table with the default of each key, in the plan's form."""
    return {key["name"]: key["default"] for key in TABLES[table]["keys"]}


class Declared:
    """In an annotation: the type of values is that of a declared key."""

    def __init__(self, table: str, name: str) -> None:
        self.type = annotation(find(table, name))

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> Any:
        return handler.generate_schema(self.type)


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
        case "codepoint":
            return Dscp
        case "words":
            return Literal[tuple(key["of"])]
        case "whole-in-unit":
            return _in_unit(_bounds(key, int, strict=False))
        case "number-in-unit":
            return _in_unit(_bounds(key, float, strict=False))
        case "word-or-span":
            return _word_or_span(key)
        case "name":
            return Name
        case "table":
            return _CLASSES[key["of"]["name"]]
        case "drawn":
            return Pauses if key["of"]["kind"] == "span" else Sizes
        case other:
            raise AssertionError(f"the extension declares a {other}, which is not known here")


def default(key: dict[str, Any]) -> Any:
    """A key's default; None if it is open."""
    value = key["default"]
    if value == {}:
        return _CLASSES[key["of"]["name"]].usual()
    held = _HELD.get(key["kind"])
    return value if value is None or held is None or isinstance(value, str) else held(value)


_HELD: dict[str, Callable[[Any], Any]] = {
    "drawn": Duration,
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

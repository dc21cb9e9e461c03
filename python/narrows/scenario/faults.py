"""From pydantic's errors to one line that names the key and the mend."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from narrows.errors import ScenarioError
from narrows.scenario.base import Table

__all__ = ["nearest", "scenario_error"]

# Errors of one value of several kinds follow each other; a file may have a million others.
_NEAR = 20
_BARE_KEY = re.compile(r"^[A-Za-z0-9_-]+$")

_PLAIN = {
    "bool_type": ("is not true or false", ""),
    "finite_number": ("is not a finite number", ""),
    "float_type": ("is not a number", ""),
    "int_type": ("is not a whole number", ""),
    "missing": ("is missing", ""),
    "model_type": ("is not a table", ""),
    "model_attributes_type": ("is not a table", ""),
    "string_type": ("is not text", "put it in quotes"),
    "string_unicode": ("is not Unicode text", ""),
    "tuple_type": ("is not an array", ""),
    "int_parsing_size": ("is too large", ""),
}
_BOUNDS = {
    "greater_than": ("must be above {gt}"),
    "greater_than_equal": ("must be at least {ge}"),
    "less_than": ("must be below {lt}"),
    "less_than_equal": ("must be at most {le}"),
}


def scenario_error(
    error: ValidationError, values: Mapping[str, Any], model: type[Table], file: str
) -> ScenarioError:
    """The error to show for a scenario that pydantic refused: the likeliest cause of all."""
    details = error.errors(include_url=False)
    # A mistyped key is also a missing one: the typing mistake explains both.
    at = next((i for i, d in enumerate(details) if d["type"] == "extra_forbidden"), 0)
    near = details[max(0, at - _NEAR) : at + _NEAR]
    chosen = _of_alternatives(details[at], near, values)
    key = _path(chosen, values)
    message, hint, below = _words(chosen, model)
    if below:
        key = f"{key}.{below}" if key else below
    return ScenarioError(file, key, message, hint)


def nearest(word: str, known: Sequence[str], *, many: int = 12) -> str:
    """A hint that names the known word nearest to a wrong one, or else some known ones.

    Examples:
        >>> nearest("limt", ["limit", "min"])
        'did you mean "limit"?'
        >>> nearest("x", ["limit", "min"])
        'one of limit, min'
    """
    # difflib's time grows with the product of lengths.
    close = difflib.get_close_matches(word[:64], list(known)[:2000], n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    if not known:
        return ""
    more = ", ..." if len(known) > many else ""
    return f"one of {', '.join(list(known)[:many])}{more}"


def _of_alternatives(
    first: ErrorDetails, details: list[ErrorDetails], values: Mapping[str, Any]
) -> ErrorDetails:
    """Where a key takes values of several kinds, the error of the kind that was meant."""
    path = _path(first, values)
    same = [d for d in details if _path(d, values) == path]
    below = [d for d in details if _path(d, values).startswith((f"{path}[", f"{path}."))]
    given = first["input"]
    if isinstance(given, str):
        return next((d for d in same if d["type"] == "literal_error"), first)
    if isinstance(given, list | dict):
        fitting = [d for d in same if d["type"] not in ("literal_error", *_PLAIN)]
        return next(iter([*below, *fitting]), first)
    return first


def _path(detail: ErrorDetails, values: Mapping[str, Any]) -> str:
    """The TOML path of an error; leaves out what pydantic adds for unions."""
    node: Any = values
    path = ""
    last = len(detail["loc"]) - 1
    # A table with a kind is one of a union: its kind comes first, and may also be a key's name.
    may_be_kind = True
    for position, item in enumerate(detail["loc"]):
        if isinstance(item, int):
            if isinstance(node, list | tuple):
                path += f"[{item}]"
                node = node[item] if item < len(node) else None
                may_be_kind = True
        elif isinstance(node, Mapping):
            if may_be_kind and node.get("kind") == item:
                may_be_kind = False
                continue
            if item in node:
                node = node[item]
                may_be_kind = True
            elif position != last or detail["type"] != "missing":
                continue
            shown = item if _BARE_KEY.match(item) else f'"{item}"'
            path += f".{shown}" if path else shown
    return path


def _words(detail: ErrorDetails, model: type[Table]) -> tuple[str, str, str]:
    """Message, hint, and what the key is below the error's place."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "scenario":
        return context["message"], context["hint"], context["key"]
    if kind == "extra_forbidden":
        return "is no known key", nearest(str(detail["loc"][-1]), _keys(model, detail)), ""
    if kind in _PLAIN:
        return *_PLAIN[kind], ""
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context), "", ""
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        given = detail["input"]
        if isinstance(given, str):
            return f'"{given[:64]}" is not known here', nearest(given, known), ""
        return "is none of the known words", f"one of {', '.join(known)}", ""
    if kind == "union_tag_not_found":
        return "is missing", f"one of {', '.join(_kinds(model, detail))}", "kind"
    if kind == "union_tag_invalid":
        given = str(context["tag"])
        return f'"{given[:64]}" is not known here', nearest(given, _kinds(model, detail)), "kind"
    if kind == "string_pattern_mismatch":
        return "is no name", "1 to 64 letters, digits, - and _", ""
    if kind in ("too_short", "too_long", "string_too_long"):
        least, most = context.get("min_length"), context.get("max_length")
        if kind == "too_short":
            return f"has fewer than {least} entries", "", ""
        return f"is longer than {most}", "", ""
    message = detail["msg"]
    return f"{message[:1].lower()}{message[1:]}", "", ""


def _keys(model: type[Table], detail: ErrorDetails) -> list[str]:
    """The keys that are known where an error is."""
    known: dict[str, None] = {}
    for table in _tables_at(model, detail["loc"][:-1]):
        known.update(dict.fromkeys(table.model_fields))
    return list(known)


def _kinds(model: type[Table], detail: ErrorDetails) -> list[str]:
    tables = _tables_at(model, detail["loc"])
    return [str(table.model_fields["kind"].default) for table in tables]


def _tables_at(model: type[Table], loc: tuple[int | str, ...]) -> list[type[Table]]:
    """The classes of the table that a location may hold."""
    tables = [model]
    for item in loc:
        if isinstance(item, int):
            continue
        fields = [t.model_fields[item].annotation for t in tables if item in t.model_fields]
        if fields:
            tables = [table for annotation in fields for table in _tables_in(annotation)]
        else:
            # A union's tag.
            tagged = [t for t in tables if "kind" in t.model_fields]
            tables = [t for t in tagged if t.model_fields["kind"].default == item] or tables
    return tables


def _tables_in(annotation: Any) -> Iterator[type[Table]]:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    for part in get_args(annotation):
        yield from _tables_in(part)

"""Turns pydantic's errors into one line that names the key and the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from narrows.errors import ScenarioError
from narrows.scenario.base import Table

__all__ = ["as_written", "nearest", "scenario_error"]

# A value that may be of several kinds has several errors in a row; a file may have a million more.
_NEAR = 20
_LOOKED_AT = 1000
_MOST = 20
"""The most errors that are reported for one file."""
_AS = 0.15
"""A hint also names words whose likeness is at most this far below that of the nearest one."""
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
    """The errors of a scenario that pydantic refused, in the order of the file, at most `_MOST`.

    Args:
        error: What pydantic found.
        values: What was refused, with all copies.
        model: The scenario's class.
        file: The scenario's file.
    """
    details = error.errors(include_url=False)
    details += _of_later_entries(details, values, model)
    # A mistyped key is also a missing key; the typing mistake explains both errors.
    mistyped = [i for i, d in enumerate(details) if d["type"] == "extra_forbidden"][:_MOST]
    rest = [i for i, d in enumerate(details[:_LOOKED_AT]) if d["type"] != "extra_forbidden"]
    found: dict[str, ScenarioError] = {}
    tables = {_table_of(_path(details[at], values)) for at in mistyped}
    for at in [*mistyped, *rest]:
        near = details[max(0, at - _NEAR) : at + _NEAR]
        chosen = _of_alternatives(details[at], near, values)
        key = _path(chosen, values)
        message, hint, below = _words(chosen, model)
        if below:
            key = f"{key}.{below}" if key else below
        explained = chosen["type"] == "missing" and _table_of(key) in tables
        if not explained and not any(_is_part(key, other) for other in found):
            found[key] = ScenarioError(file, key, message, hint)
        if len(found) == _MOST:
            break
    first, *others = found.values()
    first.others = tuple(others)
    return first


def _of_later_entries(
    details: Sequence[ErrorDetails], values: Mapping[str, Any], model: type[Table]
) -> list[ErrorDetails]:
    """Errors of entries behind the first wrong one of each array, where validation stopped.

    Validation stops there, because a file may have a million errors. This stops after `_LOOKED_AT`.
    """
    found: list[ErrorDetails] = []
    firsts = {d["loc"][0]: d["loc"][1] for d in details if len(d["loc"]) > 1}
    for name, first in firsts.items():
        entries = values.get(str(name))
        if not isinstance(first, int) or not isinstance(entries, list | tuple):
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(
            get_args(model.model_fields[str(name)].annotation)[0]
        )
        for place, entry in enumerate(entries[first + 1 : first + _LOOKED_AT], first + 1):
            try:
                adapter.validate_python(entry)
            except ValidationError as error:
                for detail in error.errors(include_url=False)[:_LOOKED_AT]:
                    found.append({**detail, "loc": (name, place, *detail["loc"])})
            if len(found) > _LOOKED_AT:
                return found
    return found


def as_written(error: ScenarioError, written: Mapping[str, str]) -> ScenarioError:
    """The error with the keys that were set as their user wrote them, by their paths.

    Examples:
        >>> error = ScenarioError("a.toml", "links[0].forward.queue.limt", "is no known key")
        >>> str(as_written(error, {"links[0].forward.queue.limt": "queue.limt"}))
        'a.toml: queue.limt: is no known key'
    """

    def told(one: ScenarioError) -> ScenarioError:
        for path, key in written.items():
            if one.key == path or one.key.startswith((f"{path}.", f"{path}[")):
                return ScenarioError(one.file, key + one.key[len(path) :], one.message, one.hint)
        return one

    renamed = told(error)
    renamed.others = tuple(told(other) for other in error.others)
    return renamed


def _table_of(key: str) -> str:
    return key.rpartition(".")[0]


def _is_part(key: str, other: str) -> bool:
    """Whether two keys are the same, or one is below the other."""
    short, long = sorted((key, other), key=len)
    return not short or long == short or long.startswith((f"{short}.", f"{short}["))


def nearest(word: str, known: Sequence[str], *, many: int = 12) -> str:
    """A hint that names the known words nearest to a wrong one, or else some known ones.

    Examples:
        >>> nearest("limt", ["limit", "min"])
        'did you mean "limit"?'
        >>> nearest("downlod", ["download", "downlink", "upload", "download-2"])
        'did you mean "download" or "download-2"?'
        >>> nearest("x", ["limit", "min"])
        'one of limit, min'
    """
    # difflib's time grows with the product of the lengths.
    close = difflib.get_close_matches(word[:64], list(known)[:2000], n=4, cutoff=0.6)
    if close:
        likeness = [difflib.SequenceMatcher(None, each, word[:64]).ratio() for each in close]
        near = [
            each for each, like in zip(close, likeness, strict=True) if like > likeness[0] - _AS
        ]
        words = " or ".join(f'"{each}"' for each in near)
        return f"did you mean {words}?"
    if not known:
        return ""
    more = ", ..." if len(known) > many else ""
    return f"one of {', '.join(list(known)[:many])}{more}"


def _of_alternatives(
    first: ErrorDetails, details: list[ErrorDetails], values: Mapping[str, Any]
) -> ErrorDetails:
    """The error for the kind that was meant, if a key takes values of several kinds."""
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
    """The TOML path of an error, without what pydantic adds for unions."""
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


# Keys that some kinds of traffic have, and what other kinds have instead.
_INSTEAD = {"ecn_share": "tcp = { ecn = true } turns ECN on for all of its connections"}


def _words(detail: ErrorDetails, model: type[Table]) -> tuple[str, str, str]:
    """The message, the hint, and the key below the error's place."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "scenario":
        return context["message"], context["hint"], context["key"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        return "is no known key", _INSTEAD.get(key) or nearest(key, _keys(model, detail)), ""
    if kind == "model_attributes_type" and isinstance(given := detail["input"], str):
        kinds = _kinds(model, detail)
        hint = f"write a table: '{{ kind = \"{given}\" }}'"
        return _PLAIN[kind][0], hint if given in kinds else nearest(given, kinds), ""
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
    """The known keys at the place of an error."""
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

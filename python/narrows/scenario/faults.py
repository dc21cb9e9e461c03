"""Turns pydantic's errors into one line that names the key and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from narrows.errors import MOST_TOGETHER, ScenarioError, together
from narrows.scenario.base import Table
from narrows.scenario.copies import Copies, is_copied
from narrows.scenario.partial import LOOKED_AT, Look, look_again, tables_in
from narrows.scenario.reading import with_quotes
from narrows.scenario.rules import FAULT
from narrows.scenario.suggestions import kind_suggestion, suggestion, suggestions

# A value that may be of several kinds has several errors in a row.
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
_NOT_A_TABLE = {"model_type", "model_attributes_type", "tuple_type"}
_BOUNDS = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
}


def scenario_error(
    details: Sequence[ErrorDetails], copies: Copies, model: type[Table], file: str
) -> ScenarioError:
    """The first `MOST_TOGETHER` errors of a refused scenario: wrong keys, wrong values, then rules.

    Args:
        details: What pydantic found.
        copies: What was refused.
        model: The scenario's class.
        file: The scenario's file.
    """
    look = look_again(model, copies)
    found = {error.key: error for error in copies.errors}

    def note(key: str, message: str, hint: str) -> None:
        key, message = copies.written(key), copies.written(message)
        found.setdefault(key, ScenarioError(file, key, message, hint))

    first = [d for d in details if not _is_looked_at(d, look)]
    for key, *words in _of_values([*first, *look.details], copies.values, model):
        note(key, *words)
        if len(found) >= MOST_TOGETHER:
            break
    for path, fault in look.faults:
        context = fault.context or {}
        key = ".".join(part for part in (path, context["key"]) if part)
        # A rule between tables may follow from what a rule within one of them says.
        if path or not any(_is_part(copies.written(key), other) for other in found):
            note(key, context["message"], context["hint"])
    return together(list(found.values())[:MOST_TOGETHER])


def _is_looked_at(detail: ErrorDetails, look: Look) -> bool:
    """Whether the second look finds this error, too."""
    loc = detail["loc"]
    in_entry = len(loc) > 1 and loc[0] in look.arrays and isinstance(loc[1], int)
    return in_entry or (detail["type"] == FAULT and not loc)


def _of_values(
    details: Sequence[ErrorDetails], values: Mapping[str, Any], model: type[Table]
) -> Iterator[tuple[str, str, str]]:
    """Each error that pydantic found: its key, message and hint."""
    # A mistyped key is also a missing key; the typing mistake explains both errors.
    mistyped = [i for i, d in enumerate(details) if d["type"] == "extra_forbidden"][:MOST_TOGETHER]
    rest = [i for i, d in enumerate(details[:LOOKED_AT]) if d["type"] != "extra_forbidden"]
    suggested: dict[str, list[list[str]]] = {}
    for at in mistyped:
        table, _, key = _path(details[at], values).rpartition(".")
        suggested.setdefault(table, []).append(suggestions(key, _keys(model, details[at])))
    seen: set[str] = set()
    for at in [*mistyped, *rest]:
        chosen = _of_alternatives(details[at], details[max(0, at - _NEAR) : at + _NEAR], values)
        key = _path(chosen, values)
        message, hint, below = _words(chosen, model)
        if below:
            key = f"{key}.{below}" if key else below
        if chosen["type"] == "extra_forbidden":
            hint = _entry_named(key, values, near=hint.startswith("one of")) or hint
        table, _, last = key.rpartition(".")
        if chosen["type"] == "literal_error" and last in _OR_ELSE and hint.startswith("one of"):
            hint = f"{hint}; {_OR_ELSE[last]}"
        if chosen["type"] == "missing" and any(
            not words or last in words for words in suggested.get(table, [])
        ):
            continue
        if chosen["type"] == FAULT or not any(_is_part(key, other) for other in seen):
            seen.add(key)
            yield key, message, hint


def as_written(error: ScenarioError, written: Mapping[str, str]) -> ScenarioError:
    """Spells the keys of an error as the user wrote them; `written` has these, by their paths.

    Examples:
        >>> error = ScenarioError("a.toml", "links[0].forward.queue.limt", "is not a known key")
        >>> str(as_written(error, {"links[0].forward.queue.limt": "queue.limt"}))
        'a.toml: queue.limt: is not a known key'
    """

    def as_given(key: str) -> str:
        for path, name in written.items():
            if key == path or key.startswith((f"{path}.", f"{path}[")):
                return name + key[len(path) :]
            # The wrong key may be one above the last.
            rest = path.removeprefix(key)
            if rest != path and rest[0] in ".[" and name.endswith(rest):
                return name.removesuffix(rest)
        return key

    return together(
        [
            ScenarioError(each.file, as_given(each.key), each.message, each.hint)
            for each in (error, *error.others)
        ]
    )


def _is_part(key: str, other: str) -> bool:
    """Whether two keys are the same, or one is below the other."""
    short, long = sorted((key, other), key=len)
    return not short or long == short or long.startswith((f"{short}.", f"{short}["))


def _of_alternatives(
    first: ErrorDetails, details: Sequence[ErrorDetails], values: Mapping[str, Any]
) -> ErrorDetails:
    """The error for the kind that was meant, if a key takes values of several kinds."""
    if first["type"] == FAULT:
        return first
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
_OVER_QUIC = 'traffic over QUIC has kind = "page" and transport = "quic"'
_INSTEAD = {
    "congestion": 'it is a key of the table tcp: tcp = { congestion = "cubic" }',
    "ecn_share": "tcp = { ecn = true } turns ECN on for all of its connections",
    "quic": _OVER_QUIC,
    "transport": _OVER_QUIC,
}

# Names of other programs and of everyday speech for keys that the language has.
_SYNONYMS = {
    "bandwidth": ("rate",),
    "bitrate": ("rate",),
    "buffer": ("limit", "queue"),
    "capacity": ("rate",),
    "flows": ("connections",),
    "latency": ("delay",),
    "length": ("duration",),
    "packet_loss": ("loss",),
    "plr": ("loss",),
    "propagation": ("delay",),
    "qps": ("per_second",),
    "rtt": ("delay",),
    "speed": ("rate",),
    "time": ("duration",),
    "timeout": ("retry",),
    "timeouts": ("retry",),
}

# What a key takes besides its words.
_OR_ELSE = {"retry": 'or a list of times, such as ["5 s", "5 s"]'}
_MOST_KEYS = 24
"""The most keys that a hint lists if none is near."""
_FEW_KEYS = 12
"""The most keys that a hint lists if a value should be a table."""


def _words(detail: ErrorDetails, model: type[Table]) -> tuple[str, str, str]:
    """The message, the hint, and the key below the error's place."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in ("scenario", FAULT):
        return context["message"], context["hint"], context["key"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        known = _keys(model, detail)
        synonyms = [each for each in _SYNONYMS.get(key, ()) if each in known]
        at_top = len(detail["loc"]) == 1
        hint = "" if at_top else _INSTEAD.get(key, "")
        hint = hint or suggestion(synonyms[0] if synonyms else key, known, many=_MOST_KEYS)
        if at_top and hint.startswith("one of"):
            hint = _in_entries(model, key) or hint
        return "is not a known key", hint, ""
    if kind in _NOT_A_TABLE and isinstance(text := detail["input"], str):
        quoted = with_quotes(text)
        if quoted:
            return _PLAIN[kind][0], f"put quotation marks around text: '{quoted}'", ""
    if kind == "model_attributes_type" and isinstance(given := detail["input"], str):
        kinds = _kinds(model, detail)
        alike = [given] if given in kinds else suggestions(given, kinds)
        hint = f"write a table: '{{ kind = \"{alike[0]}\" }}'" if alike else ""
        return _PLAIN[kind][0], hint or kind_suggestion(given, kinds), ""
    if kind == "model_type" and len(tables := _tables_at(model, detail["loc"])) == 1:
        keys = list(tables[0].model_fields)
        shown = [*keys[:_FEW_KEYS], ".."] if len(keys) > _FEW_KEYS else keys
        return _PLAIN[kind][0], f"write a table; its keys are {', '.join(shown)}", ""
    if kind == "tuple_type":
        return _PLAIN[kind][0], _array(detail["input"], detail["loc"]), ""
    if kind in ("int_type", "float_type") and isinstance(text := detail["input"], str):
        return _PLAIN[kind][0], _number(text, str(detail["loc"][-1])), ""
    if kind in _PLAIN:
        return *_PLAIN[kind], ""
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context), "", ""
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        given = detail["input"]
        if isinstance(given, str):
            return (
                f'"{given[:64]}" is not known here',
                suggestion(given, known, many=len(known)),
                "",
            )
        return "is not one of the known words", f"one of {', '.join(known)}", ""
    if kind == "union_tag_not_found":
        return "is missing", f"one of {', '.join(_kinds(model, detail))}", "kind"
    if kind == "union_tag_invalid":
        given = str(context["tag"])
        return (
            f'"{given[:64]}" is not known here',
            kind_suggestion(given, _kinds(model, detail)),
            "kind",
        )
    if kind == "string_pattern_mismatch":
        return "is not a valid name", "1 to 64 letters, digits, - and _", ""
    if kind in ("too_short", "too_long", "string_too_long"):
        least, most = context.get("min_length"), context.get("max_length")
        if kind == "too_short":
            return "is empty" if least == 1 else f"has fewer than {least} entries", "", ""
        return f"is longer than {most}", "", ""
    message = detail["msg"]
    return f"{message[:1].lower()}{message[1:]}", "", ""


def _in_entries(model: type[Table], key: str) -> str:
    """The hint for a key of the scenario that only entries of its arrays have."""
    having = [
        array
        for array in model.model_fields
        if any({key, "name"} <= table.model_fields.keys() for table in _tables_at(model, (array,)))
    ]
    if not having:
        return ""
    arrays = " or ".join(f"[[{array}]]" for array in having)
    return f"it is a key of {arrays}, such as {having[0]}.NAME.{key}"


def _entry_named(key: str, values: Mapping[str, Any], *, near: bool) -> str:
    """The hint for a key of the scenario that is the name of an array's entry, or `near` one."""
    places = {
        name: f"{array}.{name}"
        for array, entries in values.items()
        if isinstance(entries, list)
        for entry in entries[:_LOOKED_THROUGH]
        if isinstance(entry, Mapping) and isinstance(name := entry.get("name"), str)
    }
    close = [key] if key in places else suggestions(key, list(places)) if near else []
    return f"did you mean {places[close[0]]}?" if close else ""


_LOOKED_THROUGH = 1000
"""The most entries of an array whose names are compared with a wrong key."""


def _array(given: object, loc: tuple[int | str, ...]) -> str:
    """The hint for a value that stands where an array belongs."""
    if isinstance(given, Mapping):
        return f"write [[{loc[0]}]], not [{loc[0]}]" if len(loc) == 1 else "write [{ .. }]"
    return f'put it in brackets: ["{given[:64]}"]' if isinstance(given, str) else ""


def _number(text: str, key: str) -> str:
    """The hint for text that stands where a number belongs."""
    if text.isascii() and text.isdigit():
        return f"write it without quotation marks: {text[:20]}"
    if key == "limit":
        return "it counts packets, such as 100; the limit of a bfifo counts bytes"
    return ""


def _keys(model: type[Table], detail: ErrorDetails) -> list[str]:
    """The known keys at the place of an error."""
    known: dict[str, None] = {}
    for table in _tables_at(model, detail["loc"][:-1]):
        known.update(dict.fromkeys(table.model_fields))
        if is_copied(table):
            known["count"] = None
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
        # A union's tag comes before the keys of its tables, one of which may have the same name.
        kinds = [t for t in tables if "kind" in t.model_fields] if len(tables) > 1 else []
        tagged = [t for t in kinds if t.model_fields["kind"].default == item]
        if tagged or not fields:
            tables = tagged or tables
        else:
            tables = [table for annotation in fields for table in tables_in(annotation)]
    return tables

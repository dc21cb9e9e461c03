"""The varied keys and their values, from the command line, a plan file, or Python.

A plan file is TOML:

    seeds = 5                           # or a list of seeds

    [set]                               # for all runs
    traffic.connections = 20

    [vary]
    links.wan.rate = ["2 Mbit/s", "10 Mbit/s"]
    queue = [                           # a value may be a whole table
        { kind = "pfifo", limit = 100 },
        { kind = "red", limit = "150 kB", min = "30 kB", max = "90 kB", avpkt = "1400 B" },
    ]

    [variants.short]                    # several keys at once: see variants.py
    traffic.connections = 5
    duration = "10 s"

A table in braces replaces what the scenario has there, on the command line too; `a.b = 1`, and
`b = 1` below a header, change one key of a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows.errors import ScenarioError, argument
from narrows.results.sweep_run import VARIANT, Axis, canonical
from narrows.scenario.overrides import plain
from narrows.scenario.reading import InlineTable, value_of, with_inline_tables
from narrows.scenario.suggestions import suggestion
from narrows.sweeps.errors import SweepError

MOST_RUNS = 100_000
"""The most runs of a sweep. More would take days to check and read; several sweeps can share them.
"""

_PLAN_KEYS = ["vary", "set", "variants", "seeds"]
_OPENING, _CLOSING = "[{(", "]})"


@dataclass(frozen=True)
class SweepPlanFile:
    """The contents of a plan file."""

    vary: dict[str, list[Any]] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: int | list[int] | None = None


def parse_vary(given: Sequence[str]) -> dict[str, list[Any]]:
    """Parses `KEY=V1,V2,...` texts into values by key; a repeated key adds its values.

    Commas within quotes, brackets and braces do not separate values. Values stay text.

    Raises:
        SweepError: A text has no `=`, no key or no value.

    Examples:
        >>> parse_vary(["queue.limit=100,500", 'queue={kind="pfifo", limit=9}', "queue.limit=9"])
        {'queue.limit': ['100', '500', '9'], 'queue': ['{kind="pfifo", limit=9}']}
    """
    found: dict[str, list[Any]] = {}
    for text in given:
        key, equals, values = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SweepError(
                f"{argument('vary')} {text}", "not KEY=VALUE,VALUE", "such as queue.limit=100,500"
            )
        parts = [part.strip() for part in split_values(values)]
        if "" in parts:
            raise SweepError(
                f"{argument('vary')} {key}", "has an empty value", "write KEY=VALUE,VALUE"
            )
        found.setdefault(key, []).extend(parts)
    return found


def joined(
    plan: Mapping[str, Sequence[Any]], more: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Adds values to those of a plan, by key; does not repeat values that the plan has.

    Examples:
        >>> joined({"traffic.connections": ["1", "4"]}, {"traffic.connections": ["4", "8"]})
        {'traffic.connections': ['1', '4', '8']}
    """
    found = {key: list(values) for key, values in plan.items()}
    for key, values in more.items():
        known = {canonical(_value(value)) for value in found.get(key, [])}
        found.setdefault(key, []).extend(
            value for value in values if canonical(_value(value)) not in known
        )
    return found


def _value(value: Any) -> Any:
    return value_of(value) if isinstance(value, str) else plain(value)


def read_plan(path: Path) -> SweepPlanFile:
    """Reads a plan file.

    Raises:
        ScenarioError: It cannot be read, is not TOML, or is not a valid plan.
    """
    file = str(path)
    values = with_inline_tables(path)
    for key in values:
        if key not in _PLAN_KEYS:
            raise ScenarioError(file, key, "is not a key of a plan", suggestion(key, _PLAN_KEYS))
    for key in ("vary", "set", "variants"):
        if not isinstance(values.get(key, {}), dict):
            raise ScenarioError(file, key, "is not a table", f"write [{key}]")
    vary: dict[str, list[Any]] = {}
    for key, value in _leaves(values.get("vary", {}), file, "vary"):
        if not isinstance(value, list) or not value:
            raise ScenarioError(
                file, f"vary.{key}", "is not a list of values", f"such as {key} = [1, 2]"
            )
        vary[key] = [_as_text(entry) for entry in value]
    seeds = values.get("seeds")
    if seeds is not None and not (
        type(seeds) is int or (isinstance(seeds, list) and all(type(s) is int for s in seeds))
    ):
        raise ScenarioError(file, "seeds", "is neither a number nor a list of seeds")
    fixed = {key: _as_text(v) for key, v in _leaves(values.get("set", {}), file, "set")}
    variants: dict[str, dict[str, Any]] = {}
    for name, keys in values.get("variants", {}).items():
        if not isinstance(keys, dict):
            raise ScenarioError(
                file, f"variants.{name}", "is not a table of keys", f"write [variants.{name}]"
            )
        variants[name] = {k: _as_text(v) for k, v in _leaves(keys, file, "variants")}
    return SweepPlanFile(vary, fixed, variants, seeds)


def axes_of(vary: Mapping[str, Iterable[Any]]) -> tuple[Axis, ...]:
    """Makes axes from values by key; text that is valid TOML is parsed, other text stays as it is.

    Raises:
        SweepError: A key has no values, one twice, or more than a sweep can have.

    Examples:
        >>> from narrows.scenario.amounts import Duration
        >>> axes_of({"links.wan.delay": ["5 ms", Duration("10 ms")]})[0].values
        ('5 ms', '10 ms')
    """
    axes = []
    for key, given in vary.items():
        if isinstance(given, str | bytes | Mapping):
            raise SweepError(key, "is varied over one value", "give a list of values")
        values: list[Any] = []
        for value in given:
            if len(values) >= MOST_RUNS:
                raise SweepError(key, f"has more than {MOST_RUNS:,} values", "give fewer")
            values.append(_value(value))
        if not values:
            raise SweepError(key, "has no values", f"such as {key}=1,2")
        axis = Axis(key, tuple(values))
        if len(axis.places) < len(values):
            texts = [canonical(value) for value in values]
            twice = next(text for text in texts if texts.count(text) > 1)
            raise SweepError(key, f"has the value {twice} twice", "keep one")
        if key == "seed":
            raise SweepError(key, "is not varied like other keys", f"use {argument('seeds')}")
        if key == VARIANT:
            raise SweepError(
                key,
                "is not varied like other keys",
                f"use {argument('variants')}, or [variants.NAME] in a plan",
            )
        axes.append(axis)
    return tuple(axes)


def seeds_of(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Seeds 1 to a number, or the given seeds.

    Raises:
        SweepError: There are none, too many, one twice, or one is out of range.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= MOST_RUNS:
            raise SweepError("seeds", f"must be 1 to {MOST_RUNS:,} seeds")
        return tuple(range(1, seeds + 1))
    found: list[int] = []
    for seed in seeds if isinstance(seeds, Iterable) else ():
        if type(seed) is not int or not 0 <= seed < 2**63:
            raise SweepError("seeds", f"{seed!r} is not a seed", "whole numbers from 0 to 2^63 - 1")
        if len(found) >= MOST_RUNS:
            raise SweepError("seeds", f"are more than {MOST_RUNS:,}", "give fewer")
        found.append(seed)
    if not found:
        raise SweepError("seeds", "has no seed", "such as seeds = 5")
    if len(set(found)) < len(found):
        twice = next(seed for seed in found if found.count(seed) > 1)
        raise SweepError("seeds", f"{twice} comes twice", "keep one")
    return tuple(found)


def split_values(text: str) -> list[str]:
    """Splits a text at the commas outside quotes and brackets."""
    parts, start, depth, quote = [], 0, 0, ""
    skip = False
    for place, letter in enumerate(text):
        if skip:
            skip = False
        elif quote:
            if letter == "\\" and quote == '"':
                skip = True
            elif letter == quote:
                quote = ""
        elif letter in "\"'":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _as_text(value: Any) -> Any:
    """Turns text that came from TOML into TOML text again; returns other values unchanged."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else plain(value)


def _leaves(table: Mapping[str, Any], file: str, name: str) -> list[tuple[str, Any]]:
    """Values by dotted key: TOML reads `a.b = 1` as a table in a table.

    A table in braces is one value, as it is on the command line; in `vary`, values are lists.
    """
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        whole = isinstance(value, InlineTable) or (isinstance(value, dict) and "kind" in value)
        if isinstance(value, dict) and value and (name == "vary" or not whole):
            found += [(f"{key}.{inner}", v) for inner, v in _leaves(value, file, name)]
        else:
            found.append((key, value))
    return found

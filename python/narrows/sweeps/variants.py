"""Named variants of a scenario: each changes several keys at once.

In a plan file:

    [variants.fifo]                     # the scenario as it is

    [variants.red]
    queue.kind = "red"
    queue.limit = "150 kB"
    queue.min = "30 kB"
    queue.max = "90 kB"
    queue.avpkt = "1400 B"
    traffic.tcp.ecn = true

On the command line: `--variant fifo --variant red:queue.kind=red,queue.limit=150 kB,...`.

The variants are the first axis of the sweep. Other axes change keys that no variant sets.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from narrows.errors import argument
from narrows.results.sweep_run import VARIANT, Axis
from narrows.scenario.overrides import plain, set_value
from narrows.scenario.reading import value_of
from narrows.sweeps.axes import split_values
from narrows.sweeps.errors import SweepError

_NAME = re.compile(r"[^\W\d_][\w .+/()%-]{0,39}")
_FORM = "such as red:queue.kind=red,queue.limit=100"


def parse_variants(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parses `NAME:KEY=VALUE,KEY=VALUE` texts into keys and values by name.

    A repeated name adds keys. Commas within quotes, brackets and braces do not separate keys.
    Values stay text.

    Raises:
        SweepError: A text has no name, a part of it has no `=`, or a key comes twice.

    Examples:
        >>> parse_variants(["fifo", 'red:queue={kind="red", limit=9},duration=5 s'])
        {'fifo': {}, 'red': {'queue': '{kind="red", limit=9}', 'duration': '5 s'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in given:
        name, colon, settings = text.partition(":")
        name = name.strip()
        if "=" in name or not name or (colon and not settings.strip()):
            raise SweepError(
                f"{argument('variants')} {text}", "not NAME:KEY=VALUE,KEY=VALUE", _FORM
            )
        keys = found.setdefault(name, {})
        for part in split_values(settings) if colon else []:
            key, equals, value = (word.strip() for word in part.partition("="))
            if not equals or not key or not value:
                raise SweepError(
                    f"{argument('variants')} {name}",
                    f'"{part.strip()[:60]}" is not KEY=VALUE',
                    "quote a value that has commas",
                )
            if key in keys:
                raise SweepError(f"{argument('variants')} {name}", f"gives {key} twice", "keep one")
            keys[key] = value
    return found


def variant_axis(variants: Mapping[str, Mapping[str, Any]]) -> Axis:
    """Makes the axis of variants; text that is valid TOML is parsed, other text stays as it is.

    A variant that gives a table's kind, such as `queue.kind`, gives the whole table, because the
    scenario's keys there belong to another kind.

    Raises:
        SweepError: A name is not valid, or a variant is not a table of keys.

    Examples:
        >>> variant_axis({"red": {"queue.kind": "red", "queue.limit": "9"}}).settings(0)
        {'queue': {'kind': 'red', 'limit': 9}}
    """
    sets = {}
    for name, keys in variants.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or value_of(name) != name:
            raise SweepError(
                f"variant {str(name)[:60]}",
                "is not a valid name",
                "a letter, then up to 39 letters, digits, spaces or any of _ . + - / ( ) %; not "
                "true, false, inf or nan",
            )
        if not isinstance(keys, Mapping):
            raise SweepError(
                f"variant {name}", "is not a table of keys", "give each of its keys a value"
            )
        if "seed" in keys:
            raise SweepError(f"variant {name}", "sets the seed", f"use {argument('seeds')}")
        values = {k: value_of(v) if isinstance(v, str) else plain(v) for k, v in keys.items()}
        sets[name] = _whole_tables(name, values)
    return Axis(VARIANT, tuple(sets), sets)


def refuse_overlaps(base: Mapping[str, Any], axes: Sequence[Axis], file: str) -> None:
    """Refuses a varied key that a variant sets too, because either value might be meant.

    Raises:
        SweepError: There is such a key.
        ScenarioError: A key leads nowhere.
    """
    for axis in axes:
        for name, sets in (axis.sets or {}).items():
            values = copy.deepcopy(dict(base))
            paths = [
                path
                for key, value in sets.items()
                for path in _leaves(set_value(values, key, value, file), value)
            ]
            for other in axes:
                if other is axis:
                    continue
                varied = set_value(values, other.key, other.values[0], file)
                inside = (f"{varied}.", f"{varied}[")
                if any(path == varied or path.startswith(inside) for path in paths):
                    raise SweepError(
                        other.key,
                        f"is varied, and variant {name} sets it too",
                        "vary it, or let the variants set it",
                    )


def _leaves(path: str, value: Any) -> Iterator[str]:
    """The paths of the values inside a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from _leaves(f"{path}[{place}]", inner)
    else:
        yield path


def _whole_tables(name: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """A variant's keys; if a table's kind is among them, the table's keys are joined to it.

    Raises:
        SweepError: A key is given, and also a key above it.
    """
    kinds = [key.removesuffix(".kind") for key in keys if key.endswith(".kind")]
    tables = sorted(kinds, key=len)
    found: dict[str, Any] = {}
    for key, value in keys.items():
        table = next((table for table in tables if key.startswith(f"{table}.")), None)
        if table is None:
            found[key] = value
            continue
        *parents, last = key.removeprefix(f"{table}.").split(".")
        node = {} if table in keys else found.setdefault(table, {})
        for parent in parents:
            node = node.setdefault(parent, {}) if isinstance(node, dict) else node
        if table in keys or not isinstance(node, dict) or last in node:
            raise SweepError(
                f"variant {name}", f"gives {key} and a key above it or in it", "keep one"
            )
        node[last] = value
    return found

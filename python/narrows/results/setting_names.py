"""Short names of varied keys, of their values, and of combinations, for tables and plots."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.errors import NarrowsError
from narrows.results.group_names import short_keys
from narrows.results.sweep import Sweep
from narrows.results.sweep_run import Axis, SweepRun, canonical, plain_value, setting_text


def axis_named(sweep: Sweep, key: str) -> Axis:
    """Finds a varied key by its name, or by the end of its name.

    Raises:
        NarrowsError: No varied key has this name, or several do.
    """
    # Imported here, because only the message needs it.
    from narrows.scenario.suggestions import suggestion

    for axis in sweep.axes:
        if axis.key == key:
            return axis
    ending = [axis for axis in sweep.axes if axis.key.endswith(f".{key}")]
    if len(ending) == 1:
        return ending[0]
    ends = [known.rpartition(".")[2] for known in sweep.keys]
    hint = suggestion(key, list(dict.fromkeys([*sweep.keys, *ends]))) or "nothing was"
    where = str(sweep.folder) if sweep.folder else sweep.name
    raise NarrowsError(f"{where}: {key[:100]} was not varied; hint: {hint}")


def values_named(sweep: Sweep, axis: Axis, value: Any, *, several: bool = True) -> list[Any]:
    """Finds the values of an axis that a user means: the values, their names, or a quantity.

    A table's name is the one in tables of results. `several` allows a list of values, or names with
    commas between them.

    Raises:
        NarrowsError: No run has such a value.
    """
    known = _value_named(axis, value)
    if known is not None:
        return [known[0]]
    # Imported here, because only such texts need it.
    from narrows.scenario.reading import value_of

    parts = value if isinstance(value, list) else None
    if isinstance(value, str) and "," in value:
        parts = [value_of(part.strip()) for part in value.split(",")]
    if several and parts:
        are_texts = isinstance(value, list)
        found = [of for part in parts for of in values_named(sweep, axis, part, several=are_texts)]
        return [one for number, one in enumerate(found) if one not in found[:number]]
    names = [shlex.quote(name) for name in _short_names(axis).values()]
    more = ", ..." if len(names) > _MOST_NAMED else ""
    raise NarrowsError(
        f"{sweep.where}: {setting_text(axis.key, value)} was not run; hint: one of "
        + ", ".join(names[:_MOST_NAMED])
        + more
    )


def as_option(axis: Axis, value: Any) -> str:
    """A key and one of its values in the form that a shell takes.

    Examples:
        >>> axis = Axis("queue", ({"kind": "pie"}, {"kind": "red", "min": "9 kB"}))
        >>> as_option(axis, {"kind": "pie"})
        'queue=pie'
        >>> as_option(Axis("links.wan.rate", ("1 Mbit/s",)), "1 Mbit/s")
        "'links.wan.rate=1 Mbit/s'"
    """
    return shlex.quote(f"{axis.key}={_short_names(axis)[canonical(value)]}")


_MOST_NAMED = 12
"""The most values that a hint names."""


def _value_named(axis: Axis, value: Any) -> tuple[Any] | None:
    """The value that equals this one, or whose name it is; None if there is none."""
    for names in (_short_names(axis), value_names(axis)):
        for text, known in zip(axis.places, axis.values, strict=True):
            # 1 and true are the same to Python.
            if canonical(value) in (text, canonical(names[text])):
                return (known,)
    same = [known for known in axis.values if is_same_quantity(known, value)]
    return (same[0],) if same else None


def _short_names(axis: Axis) -> dict[str, str]:
    """The name of each value on the command line: a table's name, or the value itself."""
    names = value_names(axis)
    return {
        text: names[text] if isinstance(value, Mapping) else plain_value(value)
        for text, value in zip(axis.places, axis.values, strict=True)
    }


def is_same_quantity(one: object, other: object) -> bool:
    """Whether two texts with units are the same duration, rate or size.

    Examples:
        >>> is_same_quantity("100 ms", "0.1s"), is_same_quantity("100 ms", "100 B")
        (True, False)
    """
    # Imported here, because only such texts need it.
    from narrows.scenario.quantities import base_value

    if not isinstance(one, str) or not isinstance(other, str):
        return False
    quantity = base_value(one)
    return quantity is not None and quantity == base_value(other)


def key_words(key: str) -> str:
    """A key in words, for the axis of a plot.

    Examples:
        >>> key_words("traffic.connections"), key_words("links.wan.forward.delay")
        ('connections of the traffic', 'delay of wan, forward')
        >>> key_words("queue.limit"), key_words("traffic.web.tcp.ecn"), key_words("duration")
        ('limit of the queue', 'tcp.ecn of web', 'duration')
    """
    parents: list[str] = re.findall(r"[^.\[\]]+", key)
    section = parents.pop(0)
    if not parents:
        return section
    words = [parents.pop().replace("_", " ")]
    # A table of settings is named with its key.
    while parents and parents[-1] in ("queue", "tcp", "retry", "transport"):
        words.insert(0, parents.pop())
    owner = ", ".join(parents) or f"the {_SECTIONS.get(section, section)}"
    return f"{'.'.join(words)} of {owner}"


_SECTIONS = {"links": "link", "dns": "DNS"}


def are_kinds(axis: Axis) -> bool:
    """Whether the values are tables of different kinds."""
    kinds = [_kind(value) for value in axis.values if isinstance(value, Mapping)]
    return len(set(map(str, kinds))) == len(axis.values) and None not in kinds


def value_names(axis: Axis) -> dict[str, str]:
    """A name for each value, by its JSON; a table is named by its kind and by what differs.

    Examples:
        >>> tables = {"kind": "pie"}, {"kind": "red", "ecn": True}, {"kind": "red", "ecn": False}
        >>> list(value_names(Axis("queue", tables)).values())
        ['pie', 'red, ecn true', 'red, ecn false']
        >>> mine = [{"kind": "plugin", "name": "MyAqm", "target": target} for target in (5, 20)]
        >>> list(value_names(Axis("queue", (*mine, {"kind": "codel"}))).values())
        ['MyAqm, target 5', 'MyAqm, target 20', 'codel']
    """
    tables = [value for value in axis.values if isinstance(value, Mapping)]
    names = {}
    for text, value in zip(axis.places, axis.values, strict=True):
        if isinstance(value, str):
            names[text] = value
        elif isinstance(value, Mapping):
            names[text] = _table_name(value, tables)
        elif isinstance(value, bool) or len(axis.values) == len(tables):
            names[text] = text
        else:
            names[text] = f"{axis.key.rpartition('.')[2]} {text}"
    # Tables may have the same name if a key is absent from one of them.
    unique = len(set(names.values())) == len(names)
    return names if unique else {text: text for text in names}


def settings_cells(axes: Sequence[Axis], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of a combination, as cells of a table: tables by their names."""
    return tuple(
        value_names(axis)[canonical(value)] if isinstance(value, Mapping) else plain_value(value)
        for axis, value in ((axis, settings[axis.key]) for axis in axes)
    )


def _table_name(table: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> str:
    """A table's kind, if tables have several, and what distinguishes it from others of its kind."""
    kind = _kind(table)
    mine, *others = map(_flat, [table, *(one for one in tables if _kind(one) == kind)])
    keys = [key for key in mine if any(other.get(key) != mine[key] for other in others)]
    has_kind = kind is not None and any(_kind(one) != kind for one in tables)
    words = [str(kind)] if has_kind or not keys else []
    return ", ".join([*words, *(f"{key} {plain_value(mine[key])}" for key in keys)])


def _kind(table: Mapping[str, Any]) -> Any:
    """A table's kind; that of a queue of one's own is its name."""
    kind = table.get("kind")
    return table.get("name", kind) if kind == "plugin" else kind


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a table and of those inside it, by dotted key."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found.update({f"{key}.{inner}": v for inner, v in _flat(value).items()})
        else:
            found[key] = value
    return found


def combination_names(
    axes: Sequence[Axis], runs: Sequence[SweepRun], *, all_keys: bool = False
) -> list[str]:
    """A name for the combination of each run, from the values that differ between the runs.

    `all_keys` names all varied keys, even those whose value is the same in all these runs.

    A table is named by its kind, a variant by its name, and any other value by the end of its key
    and the value itself: `fq-codel, tcp.ecn true`.
    """
    varied = [
        axis
        for axis in axes
        if all_keys or len({canonical(run.settings[axis.key]) for run in runs}) > 1
    ]
    short = short_keys([axis.key for axis in varied])
    names = []
    for run in runs:
        words = []
        for axis in varied:
            value = run.settings[axis.key]
            named = value_names(axis)[canonical(value)]
            speaks_for_itself = isinstance(value, Mapping) or axis.sets is not None
            words.append(named if speaks_for_itself else f"{short[axis.key]} {plain_value(value)}")
        names.append(", ".join(words))
    # Different values may have the same name if they are tables within tables.
    return names if len(set(names)) == len(names) else [run.name for run in runs]

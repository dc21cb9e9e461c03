"""What a run folder may hold, whoever wrote it: checked once, when it is read.

Names must be as a scenario's are, because they become names of files and of elements on pages. Text
is made printable. Numbers must be finite and of a size that plots and sums can use.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from narrows.foreign_text import printable
from narrows.results.window import declared_window

LONGEST_S = 1e9
"""The longest run, in seconds; times since 1970 are longer."""

LONGEST_TEXT = 300
"""Of a foreign text, in characters; a domain name has 255 bytes. Matplotlib would take minutes or
hours for a label of 100 kB."""

_LARGEST = 1e18
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = re.compile(r"[A-Za-z0-9_.:@+ ,()/%=*-]{1,200}")
_NOT_PRINTABLE = r"[\p{C}\p{Zl}\p{Zp}]"
_NAMES = (
    *("link", "class", "group", "name", "node", "neighbour", "sender", "receiver", "secondary"),
)
_NAMES_PATTERN = r"^[A-Za-z0-9_.:@+/-]{0,130}$"
"""Flows have numbers, `downloads/3`; a machine's interfaces are named by its kernel."""


def fault_of_document(document: Mapping[str, Any]) -> str:
    """What is wrong with the run.json of a scenario's run, in a few words; empty if nothing is."""
    if not 0.0 <= document["end_s"] <= LONGEST_S:
        return "end_s is no length of a run"
    if not 0 <= document["seed"] < 2**64 or document["events"] < 0:
        return "seed or events is out of range"
    try:
        declared_window(document["scenario"])
    except ValueError:
        return "the scenario's measure is no window"
    if not is_summary(document["summary"]):
        return "summary is of a wrong form"
    kernel = document["host"].get("kernel", {})
    if not isinstance(kernel, dict) or not _are_texts(kernel.get("flags", [])):
        return "host is of a wrong form"
    bad = next((key for key in _keys(document["summary"]) if not _KEY.fullmatch(key)), None)
    if bad is not None:
        return f"summary has a key that is no name, {bad}"
    for name in _scenario_names(document["scenario"]):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"the scenario has a name that no scenario may have, {name}"
    return ""


def is_summary(summary: object) -> bool:
    """Whether it has the form of a summary: parts by name, and sentences as flags."""
    return isinstance(summary, dict) and all(
        _are_texts(part) if key == "flags" else part is None or isinstance(part, dict)
        for key, part in summary.items()
    )


def fault_of_table(table: pl.DataFrame) -> str:
    """What is wrong with the values of a run's table, in a few words; empty if nothing is."""
    for column in table.iter_columns():
        if column.dtype.is_float():
            # NaN compares as larger than every number.
            if not (column.is_null() | (column.abs() <= _LARGEST)).all():
                return f"column {column.name} has a number that is too large, or none"
        elif column.name in _NAMES and column.dtype == pl.String:
            names = column.unique().drop_nulls()
            if not names.str.contains(_NAMES_PATTERN).all():
                return f"column {column.name} has a name that no scenario may have"
    return ""


def clean(table: pl.DataFrame) -> pl.DataFrame:
    """A foreign table with all texts printable and short enough to print and draw."""
    return table.with_columns(printable_column(column) for column in table.iter_columns())


def printable_column(column: pl.Series) -> pl.Series:
    """A column of texts, or of lists of texts, with each text printable and not too long."""
    if column.dtype == pl.List(pl.String):
        texts = column.explode()
        if not _has_others(texts):
            return column
        lists = [row if row is None else [_or_none(each) for each in row] for row in column]
        return pl.Series(column.name, lists, dtype=column.dtype)
    if column.dtype != pl.String or not _has_others(column):
        return column
    return pl.Series(column.name, [_or_none(each) for each in column], dtype=pl.String)


def _or_none(text: str | None) -> str | None:
    if text is None:
        return None
    shown = printable(text)
    if len(shown) <= LONGEST_TEXT:
        return shown
    # Texts that begin alike stay different.
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{shown[: LONGEST_TEXT - 20]}... ({digest})"


def _has_others(texts: pl.Series) -> bool:
    is_long = texts.str.len_bytes() > LONGEST_TEXT
    return bool((is_long | texts.str.contains(_NOT_PRINTABLE)).any())


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _keys(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in _keys(inner))]
    return []


def _scenario_names(scenario: Mapping[str, Any]) -> list[Any]:
    found = [scenario["name"]] if "name" in scenario else []
    for key in ("nodes", "links", "traffic", "dns"):
        entries = scenario.get(key)
        for entry in entries if isinstance(entries, list) else [entries]:
            if isinstance(entry, dict) and "name" in entry:
                found.append(entry["name"])
    return found

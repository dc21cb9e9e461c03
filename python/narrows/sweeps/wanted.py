"""Whether a sweep will have the figures that the user asks for, known after its first runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.errors import NarrowsError
from narrows.results.metric_names import nearest_metrics
from narrows.results.metrics import declared
from narrows.results.sweep_run import Axis, canonical
from narrows.results.sweep_table import figures_or_null

__all__ = ["Wanted"]


class Wanted:
    """Waits for a run of each variant, table and text, which may bring figures of their own."""

    def __init__(self, names: Sequence[str], axes: Sequence[Axis]) -> None:
        self._names = list(names)
        self._axes = axes
        self._paths: dict[str, None] = {}
        self._nothing_happened = False
        self._awaited = {
            (axis.key, text)
            for axis in axes
            if not all(isinstance(value, int | float) for value in axis.values)
            for text in axis.places
        }

    def add(self, row: Mapping[str, Any]) -> None:
        """Looks at a run's row.

        Raises:
            NarrowsError: Everything that could bring a figure has run, and a name has no figure.
        """
        if not self._names or row["status"] != "complete":
            return
        summary = row["summary"] or {}
        self._nothing_happened |= None in summary.values()
        self._paths.update(dict.fromkeys(figures_or_null(summary)))
        values = zip(self._axes, row["values"], strict=True)
        self._awaited -= {(axis.key, canonical(value)) for axis, value in values}
        if not self._awaited:
            names, self._names = self._names, []
            for name in names:
                self._check(name)

    def _check(self, name: str) -> None:
        known = list(self._paths)
        if any(path == name or path.endswith(f".{name}") for path in known):
            return
        # Another seed or value may bring a figure that no run has had so far.
        if self._nothing_happened and name.rpartition(".")[2] in declared():
            return
        hint = nearest_metrics(name, known)
        raise NarrowsError(f"metric {name[:100]}: there is none; hint: {hint}")

"""Finds out from some runs whether a sweep will have the figures that the user asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.errors import NarrowsError
from narrows.results.metric_names import nearest_metrics
from narrows.results.metrics import declared
from narrows.results.sweep_run import Axis, canonical
from narrows.results.sweep_table import figures_or_null

__all__ = ["Wanted", "with_figures"]


class Wanted:
    """Waits for a run of each variant, table and text, which may bring figures of their own."""

    def __init__(self, names: Sequence[str], axes: Sequence[Axis]) -> None:
        self._names = list(names)
        self._axes = axes
        self._paths: dict[str, None] = {}
        self._nothing_happened = False
        self._awaited = {
            (axis.key, text) for axis in axes if _brings_figures(axis) for text in axis.places
        }

    @property
    def are_found(self) -> bool:
        """Whether every name has a figure."""
        return all(map(self._is_known, self._names))

    def add(self, row: Mapping[str, Any], *, is_whole: bool = True) -> None:
        """Looks at a run's row; one that is not complete may lack figures.

        Raises:
            NarrowsError: Everything that could bring a figure has run, and some names have none.
        """
        if not self._names or row["status"] != "complete":
            return
        summary = row["summary"] or {}
        self._nothing_happened |= not is_whole or None in summary.values()
        self._paths.update(dict.fromkeys(figures_or_null(summary)))
        values = zip(self._axes, row["values"], strict=True)
        self._awaited -= {(axis.key, canonical(value)) for axis, value in values}
        if not self._awaited:
            names, self._names = self._names, []
            wrong = [name for name in names if not self._may_be(name)]
            if wrong:
                known = list(self._paths)
                raise NarrowsError(
                    "; ".join(
                        f"metric {name[:100]}: there is none; hint: {nearest_metrics(name, known)}"
                        for name in wrong
                    )
                )

    def _is_known(self, name: str) -> bool:
        return any(path == name or path.endswith(f".{name}") for path in self._paths)

    def _may_be(self, name: str) -> bool:
        # Another seed or value may have a figure that no run has had so far.
        is_late = self._nothing_happened and name.rpartition(".")[2] in declared()
        return is_late or self._is_known(name)


def with_figures(axes: Sequence[Axis], places: Sequence[int]) -> set[tuple[str, str]]:
    """The keys of a combination and their values that may bring figures of their own."""
    return {
        (axis.key, canonical(axis.values[place]))
        for axis, place in zip(axes, places, strict=True)
        if _brings_figures(axis)
    }


def _brings_figures(axis: Axis) -> bool:
    return not all(isinstance(value, int | float) for value in axis.values)

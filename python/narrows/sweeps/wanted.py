"""Finds out from a few runs whether a sweep will have the metrics that the user asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.errors import together
from narrows.results.extras import records, wanted
from narrows.results.metric_names import NoSuchMetric
from narrows.results.metrics import declared
from narrows.results.sweep_run import Axis, canonical
from narrows.results.sweep_table import by_path_or_null


class Wanted:
    """Waits for a run with each variant, table and text, because each may add its own metrics."""

    def __init__(
        self, names: Sequence[str], axes: Sequence[Axis], scenario: Mapping[str, Any]
    ) -> None:
        """Waits for metrics with these names; the scenario holds what all runs have in common."""
        self._names = list(names)
        self._axes = axes
        self._scenario = scenario
        self._paths: dict[str, None] = {}
        self._awaited = {
            (axis.key, text) for axis in axes if _brings_metrics(axis) for text in axis.places
        }

    @property
    def are_found(self) -> bool:
        """Whether every name has a metric."""
        return all(map(self._is_known, self._names))

    def add(self, row: Mapping[str, Any]) -> None:
        """Examines a run's row; an incomplete run may lack metrics.

        Raises:
            NoSuchMetric: Everything that could add a metric has run, and some names have none.
        """
        if not self._names or row["status"] != "complete":
            return
        self._paths.update(dict.fromkeys(by_path_or_null(row["summary"] or {})))
        values = zip(self._axes, row["values"], strict=True)
        self._awaited -= {(axis.key, canonical(value)) for axis, value in values}
        if not self._awaited:
            names, self._names = self._names, []
            wrong = [name for name in names if not self._may_be(name)]
            if wrong:
                known = list(self._paths)
                raise together([NoSuchMetric(name, known) for name in wrong])

    def _is_known(self, name: str) -> bool:
        return any(path == name or path.endswith(f".{name}") for path in self._paths)

    def _may_be(self, name: str) -> bool:
        if self._is_known(name):
            return True
        # Another seed or value may have a metric that no run has had so far, because its events did
        # not happen, or not before a short run ended.
        whole_run = name.replace(".dns_phase.", ".run.")
        if whole_run != name and self._groups("dns") and self._is_known(whole_run):
            return True
        section, _, metric = name.rpartition(".")
        return any(
            metric in metrics and f".{path}".endswith(f".{section}" if section else "")
            for of, metrics in declared().items()
            for path in self._possible(of)
        )

    def _possible(self, section: str) -> list[str]:
        """The paths of a section's metrics that the runs may have."""
        groups = self._groups(section)
        # If nothing of a kind happened in a run, its section is null.
        if not groups and (section in ("dns", "flows") or section not in self._paths):
            return []
        parts = records()[section].parts if section in records() else None
        of_groups = "dns_groups" if section == "dns" else f"{section}.groups"
        several = groups if len(groups) > 1 else []
        return [
            section,
            *(f"{section}.{part}" for part in (parts.names if parts else ())),
            *(f"{of_groups}.{group}" for group in several),
        ]

    def _groups(self, section: str) -> list[str]:
        """The scenario's groups that have metrics in a section."""
        if section == "dns":
            return [str(group["name"]) for group in self._scenario.get("dns") or ()]
        traffic = self._scenario.get("traffic") or ()
        if section == "flows":
            return [str(group["name"]) for group in traffic]
        return [str(g["name"]) for g in traffic if section in wanted({"traffic": [g]})]


def with_metrics(axes: Sequence[Axis], places: Sequence[int]) -> set[tuple[str, str]]:
    """The keys of a combination, with their values, that may add their own metrics."""
    return {
        (axis.key, canonical(axis.values[place]))
        for axis, place in zip(axes, places, strict=True)
        if _brings_metrics(axis)
    }


def _brings_metrics(axis: Axis) -> bool:
    return not all(isinstance(value, int | float) for value in axis.values)

"""Sweeps side by side: each combination of values with the same combination of the first sweep.

Of one sweep alone, its combinations are set side by side. Runs that failed or ended early are left
out, and the seeds that a sweep then lacks are left out of the others, so that seeds stay paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.errors import NarrowsError
from narrows.results.compare import Comparison, Group, compare_groups
from narrows.results.group_names import Named, distinct_labels
from narrows.results.sweep import Sweep, SweepRun, canonical

__all__ = ["compare_sweeps"]

MOST_GROUPS = 50
"""Combinations of one sweep that can be set side by side."""


def compare_sweeps(sweeps: Sequence[Sweep]) -> list[Comparison]:
    """A comparison for each combination of values that all sweeps have.

    Raises:
        NarrowsError: There is nothing to compare: other keys are varied, no combination is common,
            or a single sweep has one combination.
    """
    if not sweeps:
        raise NarrowsError("nothing to compare; hint: name two sweeps")
    if len(sweeps) == 1:
        return [_within(sweeps[0])]
    first = sweeps[0]
    for other in sweeps[1:]:
        if sorted(other.keys) != sorted(first.keys):
            raise NarrowsError(
                f"{_where(other)}: varies {_list(other.keys)}, and {_where(first)} varies "
                f"{_list(first.keys)}; hint: compare sweeps that vary the same keys"
            )
    named = [
        Named(sweep.name, {"backend": sweep.backend, **sweep.scenario}, sweep.folder)
        for sweep in sweeps
    ]
    labels = distinct_labels(named)
    found = [_combinations(sweep) for sweep in sweeps]
    common = [at for at in found[0] if all(at in other for other in found[1:])]
    if not common:
        raise NarrowsError(
            f"{_where(first)} and {_where(sweeps[1])}: have no combination of values in common"
        )
    comparisons = []
    for at in common:
        groups, remarks = _paired(labels, [of_sweep[at] for of_sweep in found])
        setting = found[0][at][0].name
        comparisons.append(compare_groups(groups, setting, remarks))
    return comparisons


def _within(sweep: Sweep) -> Comparison:
    """The combinations of one sweep."""
    found = _combinations(sweep)
    if not 2 <= len(found) <= MOST_GROUPS:
        raise NarrowsError(
            f"{_where(sweep)}: has {len(found)} combination{'' if len(found) == 1 else 's'} with "
            "complete runs; hint: name a second sweep"
        )
    labels = [runs[0].name for runs in found.values()]
    groups, remarks = _paired(labels, list(found.values()))
    return compare_groups(groups, "", remarks)


def _combinations(sweep: Sweep) -> Mapping[str, list[SweepRun]]:
    """Complete runs by their settings, whatever the order of the keys."""
    found: dict[str, list[SweepRun]] = {}
    for run in sweep.runs:
        if run.complete:
            settings: dict[str, Any] = {key: run.settings[key] for key in sorted(run.settings)}
            found.setdefault(canonical(settings), []).append(run)
    return found


def _paired(
    labels: Sequence[str], runs: Sequence[Sequence[SweepRun]]
) -> tuple[list[Group], list[str]]:
    """Groups of the seeds that all have, where these are two or more; and what was left out."""
    common = set.intersection(*({run.seed for run in of_group} for of_group in runs))
    remarks = []
    if len(common) >= 2:
        for label, of_group in zip(labels, runs, strict=True):
            left = [str(run.seed) for run in of_group if run.seed not in common]
            if left:
                more = ", ..." if len(left) > 5 else ""
                remarks.append(
                    f"{label}: without seed {', '.join(left[:5])}{more}, which others lack"
                )
        runs = [[run for run in of_group if run.seed in common] for of_group in runs]
    return [Group(label, tuple(of)) for label, of in zip(labels, runs, strict=True)], remarks


def _where(sweep: Sweep) -> str:
    return str(sweep.folder) if sweep.folder else sweep.name


def _list(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "nothing"

"""Compares sweeps: each combination of values with the same combination of the first sweep.

With a single sweep, it sets the combinations side by side. Or it compares the values of some keys,
once for each combination of the other keys. Runs that failed or ended early are left out, and the
seeds that a sweep then lacks are left out of the others, so that seeds stay paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from narrows.errors import NarrowsError, argument
from narrows.results.compare import Comparison, Group, compare_groups
from narrows.results.group_names import Named, distinct_labels
from narrows.results.setting_names import (
    axis_named,
    combination_names,
    values_named,
)
from narrows.results.sweep import Sweep
from narrows.results.sweep_run import SweepRun, canonical

MOST_GROUPS = 50
"""The most combinations of one sweep that can be set side by side."""


def compare_sweeps(
    sweeps: Sequence[Sweep], against: Mapping[str, Any] | None = None
) -> list[Comparison]:
    """A comparison for each combination of values that all sweeps have.

    Args:
        sweeps: Several sweeps, or one, whose combinations are set side by side.
        against: For one sweep: varied keys, or the ends of their names, with the values with which
            others are compared; there is a comparison for each combination of the other keys.

    Raises:
        NarrowsError: There is nothing to compare: other keys are varied, no combination is common,
            or a single sweep has one combination.
    """
    if not sweeps:
        raise NarrowsError("nothing to compare; hint: name two sweeps")
    if len(sweeps) == 1:
        return _against(sweeps[0], against) if against else [_within(sweeps[0])]
    if against:
        raise NarrowsError(
            f"several sweeps are compared with the first, and {argument('against')} is for the "
            "combinations of one; hint: name one sweep, or leave it out"
        )
    first = sweeps[0]
    for other in sweeps[1:]:
        if sorted(other.keys) != sorted(first.keys):
            raise NarrowsError(
                f"{other.where}: varies {_list(other.keys)}, and {first.where} varies "
                f"{_list(first.keys)}; hint: compare sweeps that vary the same keys"
            )
    named = [
        Named(
            sweep.name,
            {"backend": sweep.backend, **sweep.scenario, "variants": sweep.variants},
            sweep.folder,
        )
        for sweep in sweeps
    ]
    labels = distinct_labels(named)
    found = [_combinations(sweep) for sweep in sweeps]
    common = [at for at in found[0] if all(at in other for other in found[1:])]
    if not common:
        raise NarrowsError(
            f"{first.where} and {sweeps[1].where}: have no combination of values in common"
        )
    comparisons = []
    # If one combination is all that they have in common, its values still say what is compared.
    names = combination_names(first.axes, [found[0][at][0] for at in common], all_keys=True)
    for at, setting in zip(common, names, strict=True):
        groups, remarks = _paired(labels, [of_sweep[at] for of_sweep in found])
        groups = [
            replace(group, backend=sweep.backend)
            for group, sweep in zip(groups, sweeps, strict=True)
        ]
        comparisons.append(compare_groups(groups, setting, remarks))
    return comparisons


def _within(sweep: Sweep) -> Comparison:
    """The combinations of one sweep."""
    found = _combinations(sweep)
    if not 2 <= len(found) <= MOST_GROUPS:
        raise NarrowsError(
            f"{sweep.where}: has {len(found)} combination{'' if len(found) == 1 else 's'} with "
            "complete runs; hint: name a second sweep"
        )
    labels = combination_names(sweep.axes, [runs[0] for runs in found.values()])
    groups, remarks = _paired(labels, list(found.values()))
    return compare_groups(groups, "", remarks)


def _against(sweep: Sweep, against: Mapping[str, Any]) -> list[Comparison]:
    """For each combination of other keys, compares the values of these keys with the named one."""
    axes = [axis_named(sweep, key) for key in against]
    fixed = {
        axis.key: values_named(sweep, axis, value, several=False)[0]
        for axis, value in zip(axes, against.values(), strict=True)
    }
    parts: dict[str, list[list[SweepRun]]] = {}
    for runs in _combinations(sweep).values():
        others = {key: value for key, value in runs[0].settings.items() if key not in fixed}
        parts.setdefault(canonical(others), []).append(runs)
    chosen = []
    for part in parts.values():
        first = [runs for runs in part if _has(runs[0], fixed)]
        rest = [runs for runs in part if not _has(runs[0], fixed)]
        if first and rest:
            chosen.append([*first, *rest])
    if not chosen:
        raise NarrowsError(
            f"{sweep.where}: no combination has complete runs of these and of other values"
        )
    settings = combination_names(
        [axis for axis in sweep.axes if axis.key not in fixed], [part[0][0] for part in chosen]
    )
    comparisons = []
    for setting, part in zip(settings, chosen, strict=True):
        groups, remarks = _paired(combination_names(sweep.axes, [of[0] for of in part]), part)
        comparisons.append(compare_groups(groups, setting, remarks))
    return comparisons


def _has(run: SweepRun, fixed: Mapping[str, Any]) -> bool:
    return all(canonical(run.settings[key]) == canonical(value) for key, value in fixed.items())


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
    """Groups with only the seeds that all have, if these are two or more; and what was left out."""
    common = set.intersection(*({run.seed for run in of_group} for of_group in runs))
    if len(common) < 2:
        return [Group(label, tuple(of)) for label, of in zip(labels, runs, strict=True)], []
    groups, remarks = [], []
    for label, of_group in zip(labels, runs, strict=True):
        left = sorted(run.seed for run in of_group if run.seed not in common)
        if left:
            plural = len(left) > 1
            remarks.append(
                f"{label}: {len(left)} of {len(of_group)} runs {'are' if plural else 'is'} left "
                f"out, because runs are paired by seed and not all groups have "
                f"{'seeds' if plural else 'seed'} {_ranges(left)}; hint: run the same seeds for all"
            )
        kept = tuple(run for run in of_group if run.seed in common)
        groups.append(Group(label, kept, left_out=len(left)))
    return groups, remarks


def _ranges(seeds: Sequence[int]) -> str:
    """Ascending seeds in words.

    Examples:
        >>> _ranges([2, 4, 5, 6, 9])
        '2, 4-6, 9'
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(str(of[0]) if len(of) == 1 else f"{of[0]}-{of[-1]}" for of in runs)


def _list(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "nothing"

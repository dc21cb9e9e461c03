"""Compares runs: each metric, and its difference from that of the first group.

Runs of one scenario and backend that differ only in their seeds are repetitions: they form one
group, whose metrics are means. `compare_differences.py` says how certain a difference is.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from narrows.errors import NarrowsError
from narrows.results.compare_differences import Side, difference
from narrows.results.compare_rows import Difference, Group, Row, Sample
from narrows.results.compare_text import comparison_table
from narrows.results.drawing import drawn
from narrows.results.emphasis import MOST, are_both_ways, leading, telling
from narrows.results.few_seeds import few_seeds
from narrows.results.group_names import Named, differing, distinct_labels, outside_words, unsaid
from narrows.results.jump import jumps_of
from narrows.results.left_out import left_out
from narrows.results.metric_names import NoSuchMetric, metrics_table
from narrows.results.metrics import MetricValue, metrics, possible
from narrows.results.run import Run
from narrows.results.success import (
    FIRST_ATTEMPT,
    WITHIN_1S,
    attempts_mislead,
    is_first_attempt,
)
from narrows.results.sweep import Sweep
from narrows.results.text import TextTable

__all__ = ["Comparison", "Difference", "Group", "Row", "Sample", "compare", "compare_groups"]

FEW = 6
"""Up to this many sentences are all shown at once."""


@dataclass(frozen=True)
class Comparison:
    """Groups of runs, and their metrics."""

    groups: tuple[Group, ...]
    rows: tuple[Row, ...]
    setting: str = ""
    """What all runs have in common, if this is one of several comparisons; otherwise empty."""
    remarks: tuple[str, ...] = ()
    """What was left out."""
    asked: bool = False
    """Whether the rows are those that the user named, in that order."""

    @property
    def notes(self) -> list[str]:
        """Notes that readers should know."""
        partial = [run for group in self.groups for run in group.runs if not run.complete]
        notes = list(self.remarks)
        notes += [f"{_run_name(run)} is partial: {run.stopped}" for run in partial]
        notes += [note for group in self.groups if (note := _flagged(group))]
        notes += _windows(self.groups)
        notes += [
            f"warning: {group.label}: {words}"
            for group in self.groups
            for words in left_out([run.summary for run in group.runs])
        ]
        named = [(group.label, [run.summary for run in group.runs]) for group in self.groups]
        shown = [row.key for row in self.telling]
        notes += [f"warning: {words}" for words in jumps_of(named, shown, "all groups")]
        notes += [
            f"{group.label}: every seed gives the same, because nothing in the scenario is random, "
            'so there is no interval; hint: add spread with stagger = "random", jitter or '
            "service_jitter_mean"
            for group in self.groups
            if group.is_seedless
        ]
        known = [d for row in self.telling for d in row.differences if d and d.method]
        notes += [f"intervals: {method}" for method in sorted({d.method for d in known})]
        alone = [group.label for group in self.groups if len(group.runs) == 1]
        if alone and any(d.of_one for d in known):
            notes.append(
                f"a single run of {', '.join(alone)} does not show how much another would differ; "
                "its intervals assume that it would vary like the other group's runs, so no "
                "difference is called significant, better or worse; hint: compare five seeds or "
                "more of each"
            )
        elif alone:
            whose = "a single run of each" if len(alone) > 1 else f"a single run of {alone[0]}"
            notes.append(
                f"{whose} cannot tell a difference from chance, because another run may differ as "
                "much; hint: compare several seeds of each, five or more"
            )
        if any(d.of_two for d in known):
            notes.append(
                "intervals from two runs have one degree of freedom or little more, so no "
                "difference is called significant, better or worse; hint: compare five seeds "
                "or more"
            )
        if self.attempts_mislead and any(is_first_attempt(row.key) for row in self.rows):
            notes.append(
                "first attempts cannot be compared here: a truncated reply causes a second "
                "attempt, and over a connection an attempt lasts however often TCP retransmits; "
                "hint: compare answers within a second and response times"
            )
        if any(d.of_backends and d.is_significant for d in known):
            notes.append(
                "between backends, significant differences are called higher or lower, because "
                "neither is better"
            )
        notes += few_seeds(
            min(len(self.groups[n].runs) for n in (0, number))
            for row in self.telling
            for number, d in enumerate(row.differences)
            if d and d.verdict not in ("", "same") and not (d.of_queries or d.of_one or d.of_two)
        )
        count = sum(d.verdict != "same" for d in known)
        if count > 1:
            notes.append(
                f"{count} intervals at 95 % are shown, and one in twenty would exclude zero by "
                "chance alone, so trust only metrics that you chose beforehand"
            )
        return notes

    @property
    def sentences(self) -> list[str]:
        """What a reader should know about each group, in sentences.

        There is a verdict for each metric that has an interval and differs. Single runs have few
        intervals, so there is also a sentence for each of the most important metrics.
        """
        return [text for _, text in self._sentences]

    @property
    def first_sentences(self) -> list[str]:
        """The sentences on the metrics that matter most; all sentences if there are few.

        If the metrics that matter most have hardly any, the next ones follow.
        """
        if len(self.sentences) <= FEW:
            return self.sentences
        first = {row.key for row in self.leading}
        found = [text for row, text in self._sentences if row.key in first]
        others = [text for row, text in self._sentences if row.key not in first]
        return found + others[: max(0, MOST - len(found))]

    @property
    def other_sentences(self) -> list[str]:
        """The sentences that are not among the first."""
        first = set(self.first_sentences)
        return [text for text in self.sentences if text not in first]

    @cached_property
    def _sentences(self) -> list[tuple[Row, str]]:
        """The sentences that compare each group with the first, each with its row."""
        return [said for n in range(1, len(self.groups)) for said in self._of_group(n)]

    def _of_group(self, number: int) -> list[tuple[Row, str]]:
        """The sentences that compare one group with the first, each with its row."""
        found = []
        are_single = min(len(self.groups[n].runs) for n in (0, number)) == 1
        first = [row for row in self.leading if not is_first_attempt(row.key)] if are_single else []
        for row in self.telling:
            difference = row.differences[number]
            if difference is None or (self.attempts_mislead and is_first_attempt(row.key)):
                continue
            if difference.verdict not in ("", "same"):
                found.append((row, row.sentence(number, self.groups)))
            elif row in first and not difference.verdict:
                found.append((row, row.difference_text(number, self.groups)))
        return [(row, text) for row, text in found if text]

    @cached_property
    def attempts_mislead(self) -> bool:
        """Whether first attempts do not show how well DNS did."""
        return attempts_mislead(self._summaries)

    @property
    def _summaries(self) -> list[Mapping[str, Any]]:
        return [run.summary for group in self.groups for run in group.runs]

    @property
    def leading(self) -> list[Row]:
        """The metrics that matter most: about three, and no group of traffic is left out."""
        if self.asked:
            return list(self.rows[:MOST])
        known = {row.key: row for row in self.rows}
        values = {key: row.values for key, row in known.items()}
        success = WITHIN_1S if self.attempts_mislead else FIRST_ATTEMPT
        return [known[key] for key in leading(values, self._summaries, success)]

    @property
    def telling(self) -> list[Row]:
        """The metrics that say something about at least one group, or those that the user named."""
        if self.asked:
            return list(self.rows)
        shown = set(telling({row.key: row.values for row in self.rows}, self._summaries))
        return [row for row in self.rows if row.key in shown]

    def plot(self, *names: str) -> Any:
        """The report's plots: all, or those whose names begin with one of `names`.

        Raises:
            NarrowsError: No plot's name begins with one of them.
        """
        return drawn("of_comparison", self, names)

    def __repr__(self) -> str:
        count = len(self.rows)
        return f"<Comparison of {self.sizes}; {count} metric{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """The metrics and the table, for notebooks."""
        return str(drawn("in_notebook", self))

    def only(self, keys: Sequence[str]) -> Comparison:
        """The comparison of some metrics, named by their paths or the ends of these, in this order.

        Raises:
            NoSuchMetric: There is no such metric.
        """
        for key in keys:
            if not any(_is_named(row, key) for row in self.rows):
                raise NoSuchMetric(key, [row.key for row in self.rows])
        rows = [row for key in keys for row in self.rows if _is_named(row, key)]
        return replace(self, rows=tuple({row.key: row for row in rows}.values()), asked=True)

    def metrics_table(self) -> TextTable:
        """All metrics, for people: paths, words, units."""
        known = [(row.key, f"{row.section}: {row.name}", row.unit) for row in self.rows]
        return metrics_table("; ".join(group.label for group in self.groups), known)

    @property
    def frame(self) -> pl.DataFrame:
        """A tidy table with a row for each metric and group."""
        return pl.DataFrame(
            [
                {
                    "metric": row.key,
                    "name": f"{row.section}: {row.name}",
                    "unit": row.unit,
                    "group": group.label,
                    "runs": len(group.runs),
                    "value": value,
                    "difference": difference and difference.value,
                    "ci_low": difference and difference.low,
                    "ci_high": difference and difference.high,
                    "ci_method": difference.method if difference else "",
                    "relative_percent": difference
                    and (None if difference.relative is None else 100.0 * difference.relative),
                    "seed_values": list(row.samples[number]) if row.samples else [],
                    "correlation": difference and difference.correlation,
                    "verdict": difference.verdict if difference else "",
                    "significant": difference.is_significant if difference else False,
                    "sentence": row.sentence(number, self.groups),
                }
                for row in self.rows
                for number, (group, value, difference) in enumerate(
                    zip(self.groups, row.values, row.differences, strict=True)
                )
            ],
            schema={
                "metric": pl.String,
                "name": pl.String,
                "unit": pl.String,
                "group": pl.String,
                "runs": pl.UInt32,
                "value": pl.Float64,
                "difference": pl.Float64,
                "ci_low": pl.Float64,
                "ci_high": pl.Float64,
                "ci_method": pl.String,
                "relative_percent": pl.Float64,
                "seed_values": pl.List(pl.Float64),
                "correlation": pl.Float64,
                "verdict": pl.String,
                "significant": pl.Boolean,
                "sentence": pl.String,
            },
        )

    def document(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "setting": self.setting,
            "groups": [
                {
                    "label": group.label,
                    "runs": [str(run.folder) if run.folder else None for run in group.runs],
                    "seeds": [run.seed for run in group.runs],
                    "status": [run.status for run in group.runs],
                }
                for group in self.groups
            ],
            "metrics": self.frame.to_dicts(),
        }

    def table(self) -> TextTable:
        """The comparison for people: first the metrics that matter most, then all others."""
        return comparison_table(self)

    @property
    def title(self) -> str:
        """What is compared."""
        return ": ".join(filter(None, (self.name, self.setting, self.sizes)))

    @property
    def name(self) -> str:
        """The name of the runs' scenario where all share it, and labels leave it out."""
        names = {
            run.name if isinstance(run, Run) else "" for group in self.groups for run in group.runs
        }
        shared = next(iter(names)) if len(names) == 1 else ""
        return "" if any(shared in group.label for group in self.groups) else shared

    @property
    def sizes(self) -> str:
        """The groups, and how many runs each has."""
        return "; ".join(f"{group.label}: {_count(group)}" for group in self.groups)


def compare(runs: Sequence[Run]) -> Comparison:
    """Sets runs side by side.

    Groups come in the order of their first runs; a metric that only some groups have is shown for
    those.

    Raises:
        NarrowsError: There is no run, one is there twice, or something is no run.
    """
    if isinstance(runs, Sweep) or any(isinstance(run, Sweep) for run in runs):
        raise NarrowsError("a sweep is no run; hint: compare_sweeps([sweep]) compares sweeps")
    if not runs:
        raise NarrowsError("nothing to compare; hint: name two runs")
    groups = _groups(runs)
    return compare_groups(groups, remarks=[*_mixed(groups), *_unsaid(groups)])


def compare_groups(
    groups: Sequence[Group], setting: str = "", remarks: Sequence[str] = ()
) -> Comparison:
    """Compares every group with the first one."""
    # Runs may have uploads alone; they too are compared with the uploads of runs that have both.
    both = are_both_ways([run.summary for group in groups for run in group.runs])
    found = [
        [{m.key: m for m in metrics(run.summary, each_group=both)} for run in group.runs]
        for group in groups
    ]
    known: dict[str, MetricValue] = {}
    for of_group in found:
        for of_run in of_group:
            for key, metric in of_run.items():
                known.setdefault(key, metric)
    order = {name: n for n, name in enumerate(dict.fromkeys(m.section for m in known.values()))}
    rows = []
    for metric in sorted(known.values(), key=lambda m: order[m.section]):
        samples = [_samples(of_group, metric.key) for of_group in found]
        means = tuple(statistics.fmean(values) if values else None for values in samples)
        bounds = possible([value for values in samples for value in values], metric.unit)
        first, *others = map(Side, groups, samples)
        differences = (None, *(difference(metric.key, bounds, first, one) for one in others))
        each = tuple(map(tuple, samples))
        facts = (metric.key, metric.section, metric.name, metric.unit)
        is_score = metric.range is not None
        rows.append(Row(*facts, means, differences, each, is_score, metric.better))
    return Comparison(tuple(groups), tuple(rows), setting, tuple(remarks))


def _groups(runs: Sequence[Run]) -> list[Group]:
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(_identity(run), []).append(run)
    for group in members.values():
        seeds = [run.seed for run in group]
        if len(set(seeds)) < len(seeds):
            twice = next(run for run in group if seeds.count(run.seed) > 1)
            raise NarrowsError(
                f"{_run_name(twice)}: this scenario and seed appear twice; hint: name the run once"
            )
    firsts = [group[0] for group in members.values()]
    labels = distinct_labels(
        [Named(run.name, {**_ran(run), **run.scenario}, run.folder) for run in firsts]
    )
    return [
        Group(label, tuple(group), group[0].backend)
        for label, group in zip(labels, members.values(), strict=True)
    ]


def _mixed(groups: Sequence[Group]) -> list[str]:
    """Notes on groups of several runs beside other groups of the same name.

    Most likely a pattern has matched more runs than the user thinks.
    """
    found = []
    for name in dict.fromkeys(group.runs[0].name for group in groups):
        mixed = [group for group in groups if group.runs[0].name == name]
        if len(mixed) < 2 or max(len(group.runs) for group in mixed) < 2:
            continue
        first, second = mixed[0].runs[0], mixed[1].runs[0]
        assert isinstance(first, Run) and isinstance(second, Run), "`compare` takes runs"
        keys = differing(first.scenario, second.scenario)
        if not keys and first.backend == second.backend:
            # They differ in their parts from outside, which the groups' names say.
            continue
        keys = keys or ["backend"]
        words = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more keys" if len(keys) > 3 else "")
        found.append(
            f"{name}: the runs of this name are in {len(mixed)} groups, not one: the first two "
            f"differ in {words}"
        )
    return found


def _unsaid(groups: Sequence[Group]) -> list[str]:
    """Notes on differences from the first group that the groups' names do not show."""
    found = []
    first, *others = groups
    one = first.runs[0]
    for group in others:
        other = group.runs[0]
        assert isinstance(one, Run) and isinstance(other, Run), "`compare` takes runs"
        keys = unsaid(one.scenario, other.scenario, group.label)
        if one.name == other.name and keys:
            more = f" and {len(keys) - 4} more keys" if len(keys) > 4 else ""
            found.append(
                f"{first.label} and {group.label} also differ in {', '.join(keys[:4])}{more}"
            )
        # Random numbers of a kernel have no seed.
        if one.backend == other.backend and sorted(first.seeds) != sorted(group.seeds):
            found.append(
                f"{group.label} has other seeds than {first.label}, so their random draws differ "
                "too; hint: use the same seeds, which are then paired"
            )
    return found


def _identity(run: Run) -> str:
    scenario = {key: value for key, value in run.scenario.items() if key != "seed"}
    return json.dumps([run.backend, run.outside, scenario], sort_keys=True)


def _ran(run: Run) -> dict[str, Any]:
    """What ran the scenario, in words."""
    return {"backend": run.backend, "outside": outside_words(run.outside)}


def _samples(of_group: Sequence[dict[str, MetricValue]], key: str) -> list[float]:
    """A metric of each run; empty if a run lacks it, because a mean of the rest would mislead."""
    values = [of_run[key].value for of_run in of_group if key in of_run]
    return values if len(values) == len(of_group) else []


def _count(group: Group) -> str:
    count = len(group.runs)
    if group.left_out:
        return f"{count} of {count + group.left_out} runs"
    return f"{count} run{'s' if count > 1 else ''}"


def _is_named(row: Row, key: str) -> bool:
    return row.key == key or row.key.endswith(f".{key}")


def _windows(groups: Sequence[Group]) -> list[str]:
    """A warning if the declared window of one group is not that of another.

    Ends may differ by a tenth: a window may reach beyond the time at which DNS ended each run.
    """
    windows = [group.runs[0].summary.get("window") for group in groups]
    first = windows[0]
    for other in windows[1:]:
        if first is None or other is None:
            alike = first is other
        else:
            within = 0.1 * first["length_s"]
            alike = first["start_s"] == other["start_s"] and (
                abs(first["end_s"] - other["end_s"]) <= within
            )
        if not alike:
            labelled = zip(groups, windows, strict=True)
            spans = [f"{group.label}: {_span_text(window)}" for group, window in labelled]
            return [f"warning: the metrics cover different times: {'; '.join(spans)}"]
    return []


def _span_text(window: Mapping[str, float] | None) -> str:
    return f"{window['start_s']:g} to {window['end_s']:g} s" if window else "the whole run"


def _flagged(group: Group) -> str:
    """What is odd about a group's runs; the flags of the first flagged run stand for all."""
    flagged = [run for run in group.runs if run.flags]
    if not flagged:
        return ""
    first, *others = flagged
    more = f"; {len(others)} more of {len(group.runs)} runs are flagged" if others else ""
    return f"{_run_name(first)}: {'; '.join(first.flags)}{more}"


def _run_name(run: Sample) -> str:
    return str(run.folder) if run.folder else f"{run.name}, seed {run.seed}"

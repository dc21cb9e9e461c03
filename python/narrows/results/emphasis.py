"""Decides which metrics people see, and which come first.

A summary has every metric of every part. A table for people leaves out metrics that say nothing:

- counts of what was not there (a ring, marks, DNS)
- the DNS phase, if it does not differ from the whole run
- answers without a failed attempt, if these equal the answers at the first attempt
- sums of uploads and downloads
- metrics of several groups together, because a median over near and far clients describes neither;
  each group has its own metrics

`--json`, `run.summary` and `--metric` have all metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from narrows.results.extras import records
from narrows.results.success import FIRST_ATTEMPT

DIFFERS = 0.01
"""The share of a metric by which the DNS phase has to differ from the whole run."""

_OF_SOMETHING = frozenset(
    {
        *("unfinished", "turned_away", "late_answers", "ring_mean_bytes", "dns_drops_per_s"),
        "truncated_percent",
        *("attempts_refused", "attempts_closed", "attempts_reset", "attempts_silent"),
        *("marks_total_per_s", "lost_per_s", "ecn_flows"),
    }
)
"""Metrics that are left out if they are zero, because there was nothing to count."""

_SUMS = ("goodput_mbit_per_s", "jain_fairness")
"""Metrics of connections that mean nothing for uploads and downloads together."""

GOODPUT = "flows.goodput_mbit_per_s"
"""The goodput of all connections."""

_ADDED_UP = "flows"
"""The section whose metrics of all groups together are sums and therefore meaningful."""

_NOT_ADDED_UP = "srtt_median_ms"
"""The one metric of that section that is not a sum."""

_RESPONSES = ("dns.response_median_ms", "dns.response_p95_ms")

MOST = 3
"""How many metrics come first."""

Values = Mapping[str, Sequence[float | None]]
"""A metric's value in each run or group, by the metric's key, in the order of tables."""

Summaries = Sequence[Mapping[str, Any]]
"""The summaries of all these runs."""


def telling(values: Values, summaries: Summaries) -> list[str]:
    """The keys of the metrics that are meaningful for at least one of the runs."""
    sums, groups = _sums(summaries), _groups(summaries)
    shown = [key for key in values if key not in sums and not _is_pooled(key, groups)]
    return [key for key in shown if _tells(key, values)]


def leading(values: Values, summaries: Summaries, success: str = FIRST_ATTEMPT) -> list[str]:
    """The keys of the metrics that matter most: three, or more so that no group is left out.

    The order is: success and response times of DNS, headlines of kinds of traffic, goodput of TCP,
    and metrics of the first queue and the first link. `success` is the share of DNS queries that
    leads (`narrows.results.success`).

    If there are several groups, each group's metric replaces that of all together, which can say
    the opposite.
    """
    known = [
        success,
        *_RESPONSES,
        *(f"{name}.{each.headline.key}" for name, each in records().items() if each.headline),
        GOODPUT,
        *(f".run.{key}" for key in ("sojourn_mean_ms", "loss_percent", "utilisation_percent")),
    ]
    # If the runs have none of these metrics, the first ones lead.
    return likeliest(known, values, summaries, MOST) or telling(values, summaries)[:MOST]


def likeliest(
    wanted: Iterable[str], keys: Collection[str], summaries: Summaries, most: int
) -> list[str]:
    """The wanted metrics that are among the keys, one for each group where there are several.

    Args:
        wanted: Keys in the order of importance; `.END` is the first key that ends so.
        keys: The keys of all metrics.
        summaries: The summaries of all runs.
        most: The list ends once it has this many keys, but never between groups.
    """
    groups = _groups(summaries)
    found: list[str] = []
    for key in wanted:
        if len(found) >= most:
            break
        section, _, metric = key.rpartition(".")
        if key.startswith("."):
            found += [each for each in keys if each.endswith(key)][:1]
        elif key == GOODPUT:
            found += _goodputs(keys, summaries)
        elif _is_pooled(key, groups):
            of_groups = (f"{path}.{metric}" for path in groups[section])
            found += [each for each in of_groups if each in keys]
        elif key in keys:
            found.append(key)
    return found


def is_of_group(key: str) -> bool:
    """Whether a metric is that of one group of a kind of traffic."""
    return key.startswith("dns_groups.") or key.split(".")[1:2] == ["groups"]


def _goodputs(keys: Iterable[str], summaries: Summaries) -> list[str]:
    """The keys of TCP's goodput: of all connections, or of each group if data go both ways."""
    sums = _sums(summaries)
    if GOODPUT not in sums:
        return [key for key in keys if key == GOODPUT]
    begin, end = "flows.groups.", GOODPUT.removeprefix("flows")
    own = (key for key in keys if key.startswith(begin) and key.endswith(end))
    return [key for key in own if key not in sums]


def are_both_ways(summaries: Summaries) -> bool:
    """Whether connections of one of the runs carry data both ways between two nodes."""
    return bool(_sums(summaries))


def _sums(summaries: Summaries) -> set[str]:
    """The keys of metrics that add up uploads and downloads."""
    parts = (part for summary in summaries for part in _connections(summary))
    return {f"{path}.{key}" for path, part in parts if part.get("both_ways") for key in _SUMS}


def _connections(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metrics of all TCP connections and of each group, by their path."""
    flows = summary.get("flows") or {}
    yield "flows", flows
    for group, metrics in (flows.get("groups") or {}).items():
        yield f"flows.groups.{group}", metrics


def _groups(summaries: Summaries) -> dict[str, list[str]]:
    """The paths of each section's groups, if there are several and all runs have the same."""
    found: dict[str, list[list[str]]] = {}
    for summary in summaries:
        for section, metrics in summary.items():
            if section in _WITHOUT_GROUPS or not isinstance(metrics, Mapping):
                continue
            path = "dns_groups" if section == "dns" else f"{section}.groups"
            names = summary.get(path) if section == "dns" else metrics.get("groups")
            found.setdefault(section, []).append([f"{path}.{name}" for name in names or ()])
    return {
        section: first
        for section, (first, *others) in found.items()
        if len(first) > 1 and all(set(first) == set(other) for other in others)
    }


def _is_pooled(key: str, groups: Mapping[str, Sequence[str]]) -> bool:
    """Whether a metric is of several groups together and is not a sum."""
    section, _, metric = key.rpartition(".")
    return section in groups and (section != _ADDED_UP or metric == _NOT_ADDED_UP)


_WITHOUT_GROUPS = frozenset({"dns_groups", "queues", "links", "flags"})


def _tells(key: str, values: Values) -> bool:
    of_key = values[key]
    begin, dot, metric = key.rpartition(".")
    if metric in _OF_SOMETHING:
        return any(of_key)
    if metric == "without_retry_percent":
        return list(of_key) != list(values.get(f"{begin}.first_attempt_percent", ()))
    if begin.endswith(".dns_phase"):
        whole = values.get(f"{begin.removesuffix('dns_phase')}run{dot}{metric}")
        return whole is None or any(map(_differ, of_key, whole))
    return True


def _differ(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) > DIFFERS * max(abs(one), abs(other))

"""Which figures people are shown, and which come first.

A summary has every figure of every part. A table for people leaves out what says nothing: counts
of what was not there (a ring, marks, DNS), the DNS phase where it does not differ from the whole
run, and answers without a failed attempt where these are the answers at the first attempt.
`--json`, `run.summary` and `--metric` have all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows.results.extras import records
from narrows.results.success import FIRST_ATTEMPT

__all__ = ["MOST", "leading", "telling"]

DIFFERS = 0.01
"""The share of a figure by which the DNS phase has to differ from the whole run."""

_OF_SOMETHING = frozenset(
    {
        *("unfinished", "turned_away", "late_answers", "ring_mean_bytes", "dns_drops_per_s"),
        "truncated_percent",
        *("marks_total_per_s", "lost_per_s", "ecn_flows"),
    }
)
"""Figures whose zero says that there was no such thing."""

_RESPONSES = ("dns.response_median_ms", "dns.response_p95_ms")

MOST = 3
"""Figures that come first."""

Values = Mapping[str, Sequence[float | None]]
"""A figure's value in each run or group, by the figure's key, in the order of tables."""


def telling(values: Values) -> list[str]:
    """The keys of the figures that say something of at least one of the runs."""
    return [key for key in values if _tells(key, values)]


def leading(values: Values, success: str = FIRST_ATTEMPT) -> list[str]:
    """The keys of the figures that matter most, three at most.

    `success` is the share of DNS queries that comes first (`narrows.results.success`).

    Those are DNS's success and response times, then what kinds of traffic call their headline, then
    the goodput of TCP, and what the first queue and the first link did.
    """
    known = [
        success,
        *_RESPONSES,
        *(f"{name}.{each.headline.key}" for name, each in records().items() if each.headline),
        "flows.goodput_mbit_per_s",
    ]
    for end in ("run.sojourn_mean_ms", "run.loss_percent", "run.utilisation_percent"):
        known += [key for key in values if key.endswith(f".{end}")][:1]
    # Of a choice that has none of them, the first.
    return [key for key in known if key in values][:MOST] or list(values)[:MOST]


def _tells(key: str, values: Values) -> bool:
    of_key = values[key]
    begin, dot, figure = key.rpartition(".")
    if figure in _OF_SOMETHING:
        return any(of_key)
    if figure == "without_retry_percent":
        return list(of_key) != list(values.get(f"{begin}.first_attempt_percent", ()))
    if begin.endswith(".dns_phase"):
        whole = values.get(f"{begin.removesuffix('dns_phase')}run{dot}{figure}")
        return whole is None or any(map(_differ, of_key, whole))
    return True


def _differ(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) > DIFFERS * max(abs(one), abs(other))

"""Names of metrics: the list of all, and the hint for a name that is unknown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from narrows.errors import HintedError
from narrows.results.text import TextTable

ALL = "?"
"""The name with which the command line asks for a list of all metrics."""

PARTS = frozenset({"groups", "dns_groups", "dns_phase", "there", "back"})
"""Parts of a path that show that a metric is about a part of the run."""

_MOST = 6


def metrics_table(of: str, known: Sequence[tuple[str, str, str]]) -> TextTable:
    """A table of metrics for people: paths, words, units."""
    # A metric without words has its path as its name.
    rows = [(key, name if name not in key else "", unit) for key, name, unit in known]
    return TextTable(f"{of}: metrics", ("metric", "in words", "unit"), [("", rows)])


class NoSuchMetric(HintedError):  # noqa: N818 - named after what it is
    """No metric has this name; the error's text is one line.

    Examples:
        >>> str(NoSuchMetric("p95", ["dns.response_p95_ms"]))
        'there is no metric p95; hint: did you mean "dns.response_p95_ms"?'
    """

    def __init__(self, name: str, known: Sequence[str], where: str | Path = "") -> None:
        """Takes the wrong name, the known names, and what has these."""
        super().__init__(where, f"there is no metric {name[:100]}", nearest_metrics(name, known))


def nearest_metrics(name: str, known: Sequence[str]) -> str:
    """A hint that names the metrics that have all words of a wrong name, or else the nearest ones.

    Metrics of the whole run come before those of its parts.

    Examples:
        >>> nearest_metrics("p95", ["dns.response_median_ms", "dns.response_p95_ms"])
        'did you mean "dns.response_p95_ms"?'
        >>> nearest_metrics("p50", ["dns.response_median_ms", "dns.response_p95_ms"])
        'did you mean "dns.response_median_ms"?'
        >>> rates = ["queues.wan.run.drops_per_s.early", "queues.wan.run.drops_total_per_s"]
        >>> nearest_metrics("queues.wan.run.drops_per_s", rates)
        'did you mean "queues.wan.run.drops_total_per_s" or "queues.wan.run.drops_per_s.early"?'
        >>> nearest_metrics("dns.respons_p95_ms", ["dns.response_p95_ms", "dns.queries"])
        'did you mean "dns.response_p95_ms"?'
    """
    name = re.sub(r"(?<![a-z])p50(?![0-9])", "median", name[:100])
    wanted = _words(name)
    having = [key for key in known if wanted and wanted <= _words(key)]
    having = having or [key for key in known if name and name in key]
    if having:
        # A sum with a name of its own comes before metrics by reason, or of a part.
        having.sort(key=lambda key: (bool(PARTS & set(key.split("."))), key.startswith(f"{name}.")))
        return _asked(having)
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if not close:
        tails = {key.rpartition(".")[2]: key for key in reversed(list(known))}
        similar = difflib.get_close_matches(name, list(tails), n=1, cutoff=0.5)
        close = [tails[tail] for tail in similar]
    return _asked(close) if close else f"one of {', '.join(list(known)[:_MOST])}, ..."


def _asked(keys: Sequence[str]) -> str:
    shown = [f'"{key}"' for key in keys[:_MOST]]
    more = f" or {len(keys) - _MOST} more" if len(keys) > _MOST else ""
    *others, last = shown
    words = f"{', '.join(others)} or {last}" if others and not more else ", ".join(shown)
    return f"did you mean {words}{more}?"


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^._]+", name))

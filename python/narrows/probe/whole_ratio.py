"""How much longer a whole exchange takes than one over UDP: the ratio that a probe prints.

It is the median over pairs of the same round, as in `narrows ratio`; both transports are timed as a
whole, from before `connect` or `send` to the last byte. Rows without rounds (from other people's
measurements) give the quotient of medians. Below a millisecond there is no ratio, because such
times are a machine's own.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.results.exchanges import NEAR_MS

Rows = Sequence[Mapping[str, Any]]


def whole_ratio(udp: Rows, over: Rows) -> float | None:
    """The ratio of rows of `exchanges` over another transport to those over UDP; None for none.

    Examples:
        >>> udp = [{"outcome": "answered", "round": n, "total_ms": 40.0} for n in range(3)]
        >>> tcp = [{"outcome": "answered", "round": n, "total_ms": 80.0} for n in range(3)]
        >>> whole_ratio(udp, tcp)
        2.0
    """
    base, whole = _answered(udp), _answered(over)
    if not base or not whole or statistics.median(row["total_ms"] for row in base) < NEAR_MS:
        return None
    rounds = {row["round"]: row["total_ms"] for row in base if row.get("round") is not None}
    pairs = [row["total_ms"] / rounds[row["round"]] for row in whole if row.get("round") in rounds]
    if pairs:
        return float(statistics.median(pairs))
    return _median(whole) / _median(base)


def ratio_after_truncated(udp: Rows, ratio: float | None) -> float | None:
    """The ratio with the query over UDP before it; None if not all answers over UDP are truncated.

    A client that gets a truncated answer has waited for UDP, and asks again over TCP (RFC 7766,
    section 5). The time is UDP's own and TCP's together, which is one more than the ratio.

    Examples:
        >>> udp = [{"outcome": "answered", "truncated": True}]
        >>> ratio_after_truncated(udp, 2.0)
        3.0
    """
    answered = [row for row in udp if row["outcome"] == "answered"]
    if ratio is None or not answered or not all(row["truncated"] for row in answered):
        return None
    return 1.0 + ratio


def _answered(rows: Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["outcome"] == "answered" and row["total_ms"]]


def _median(rows: Rows) -> float:
    return float(statistics.median(row["total_ms"] for row in rows))

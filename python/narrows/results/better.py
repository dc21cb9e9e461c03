"""Which figures are better if they are higher, and which if they are lower."""

from __future__ import annotations

import re

__all__ = ["judged"]

_MORE = re.compile(
    r"first_attempt_percent|without_retry_percent|within_1s_percent|goodput_\w+|jain_fairness"
    r"|r_mean|mos_mean"
)
_LESS = re.compile(
    r"unanswered_percent|turned_away|response_\w+_ms|packets_per_answer|sojourn_mean_ms"
    r"|loss_percent|lost_percent|late_percent|retransmitted_percent|timeouts|srtt_median_ms"
    r"|jitter_mean_ms|mouth_to_ear_mean_ms|delay_(?:mean|max)_ms|load_p\d+_s|round_p\d+_ms"
    r"|fetched_mean_ms|completion_mean_s"
)


def judged(key: str, change: float) -> str:
    """`better` or `worse`; empty if nothing changed, or if neither direction is better.

    Examples:
        >>> judged("dns.response_p95_ms", -3.0), judged("flows.goodput_mbit_per_s", -3.0)
        ('better', 'worse')
        >>> judged("queues.wan.forward.run.backlog_mean_packets", -3.0)
        ''
    """
    name = key.rpartition(".")[2]
    way = 1.0 if _MORE.fullmatch(name) else -1.0 if _LESS.fullmatch(name) else 0.0
    return "better" if way * change > 0.0 else "worse" if way * change < 0.0 else ""

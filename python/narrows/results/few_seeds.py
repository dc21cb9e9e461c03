"""The one rule for intervals over few seeds: below five, whoever prints them warns of them.

Student's interval is exact only if the seeds' values are normally distributed. Many values show
whether they are, and make it matter less. Two to four do neither. Their factors are large, too
(12.7, 4.3 and 3.2, and 2.0 for many), so such intervals are wide and may reach values that make no
sense of the metric.
"""

from __future__ import annotations

from collections.abc import Iterable

ENOUGH = 5
"""The least number of seeds whose interval is printed without a warning."""


def few_seeds(counts: Iterable[int]) -> list[str]:
    """A warning if there are intervals over fewer seeds than `ENOUGH`; else nothing.

    Args:
        counts: The number of seeds of each interval that is printed.

    Examples:
        >>> few_seeds([5, 10]), few_seeds([])
        ([], [])
        >>> few_seeds([3, 5])[0].partition(",")[0]
        'warning: intervals over 3 seeds are wide'
    """
    few = sorted({count for count in counts if count < ENOUGH})
    if not few:
        return []
    seeds = str(few[0]) if len(few) == 1 else f"{few[0]} to {few[-1]}"
    return [
        f"warning: intervals over {seeds} seeds are wide, and right only if seeds vary normally, "
        "which so few cannot show; hint: five seeds or more"
    ]

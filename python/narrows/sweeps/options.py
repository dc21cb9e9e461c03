"""Combines a plan file with the options of `narrows sweep` that say what to vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from narrows.errors import argument
from narrows.sweeps.axes import MOST_RUNS, SweepPlanFile, joined, parse_vary, read_plan
from narrows.sweeps.errors import SweepError
from narrows.sweeps.variants import parse_variants


class Varied(TypedDict):
    """What a sweep varies and sets, as arguments of `sweep`."""

    vary: dict[str, list[Any]]
    variants: dict[str, dict[str, Any]]
    set: dict[str, Any]


def varied(
    plan: Path | None,
    vary: Sequence[str] | None,
    variants: Sequence[str] | None,
    set: Mapping[str, Any],
    seeds: str | None,
) -> tuple[Varied, int | list[int]]:
    """Combines a plan file with options; returns the result, and the number of seeds or the seeds.

    Args:
        plan: The plan file, if there is one.
        vary: `KEY=V1,V2,..` texts, which add values to those of the plan.
        variants: `NAME:KEY=VALUE,..` texts; a name in the plan replaces that variant.
        set: Values for all runs, which replace those of the plan.
        seeds: Seeds as for `parse_seeds`, instead of the plan's; 1 if neither gives any.

    Raises:
        ScenarioError: The plan file is not valid.
        SweepError: A text is not valid.
    """
    values, named = parse_vary(vary or ()), parse_variants(variants or ())
    given = SweepPlanFile() if plan is None else read_plan(plan)
    chosen = given.seeds if seeds is None else parse_seeds(seeds)
    together = Varied(
        vary=joined(given.vary, values),
        variants={**given.variants, **named},
        set={**given.set, **set},
    )
    return together, 1 if chosen is None else chosen


def parse_seeds(text: str) -> int | list[int]:
    """Parses seeds: `5` (how many), or `3,7` and `11-20` (which).

    Raises:
        SweepError: The text names no seeds, or too many.

    Examples:
        >>> parse_seeds("5"), parse_seeds("3,11-13")
        (5, [3, 11, 12, 13])
    """
    where = f"{argument('seeds')} {text}"
    if text.isdecimal() and len(text) < 20:
        if not 1 <= int(text) <= MOST_RUNS:
            raise SweepError(where, f"must be 1 to {MOST_RUNS:,} seeds")
        return int(text)
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (not dash or last.isdecimal())) or len(part) > 40:
            raise SweepError(where, "not seeds", "such as 5, or 3,7 or 11-20")
        low, high = int(first), int(last or first)
        if low > high:
            raise SweepError(where, "ends before it begins", "such as 11-20")
        if high - low + 1 + len(found) > MOST_RUNS:
            raise SweepError(where, f"more than {MOST_RUNS} seeds", "make several sweeps")
        found.extend(range(low, high + 1))
    return found

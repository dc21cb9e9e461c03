"""Declared plots, evaluated for runs of the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from narrows.records import Declaration
from narrows.report import plots
from narrows.report.drawing import Drawing
from narrows.report.shown import shown_of
from narrows.results import Run


def drawing(
    declare: Callable[..., Declaration],
    runs: Run | Mapping[str, Run],
    *given: Any,
    others: Mapping[str, Sequence[Run]] | None = None,
) -> Drawing:
    """The drawing of a plot of one run, or of several by label."""
    named = {"a": runs} if isinstance(runs, Run) else runs
    if declare is plots.attempts:
        declared = declare()
    elif declare is plots.goodput:
        declared = declare(runs)
    else:
        declared = declare(named, *given)
    return shown_of(declared, named, others or {}).drawing


def fig(declare: Callable[..., Declaration], runs: Run | Mapping[str, Run], *given: Any) -> Figure:
    """The same as Matplotlib draws it."""
    from narrows.report.paper import figure_of

    return figure_of(drawing(declare, runs, *given))

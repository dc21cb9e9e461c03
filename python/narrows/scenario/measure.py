"""The window of time that a run's metrics cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, create_model

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveSpan, Span

_DOC = """The window of time that all metrics of the summary cover. Tables hold the whole run.

Counters such as drops, goodput and utilisation are counted within it. Of things that take time,
such as queries, bursts, calls and loads of pages, those that begin within it count, whole.
"""
_FROM = "When it begins; by default, with the run."
_TO = "When it ends; by default, with the run."

if TYPE_CHECKING:

    class Measure(Table):
        """See `_DOC`."""

        to: PositiveSpan | None = None

else:
    # A class body cannot have a field that is a keyword of Python, such as `from`.
    Measure = create_model(
        "Measure",
        __base__=Table,
        __doc__=_DOC,
        __module__=__name__,
        **{
            "from": Annotated[Span | None, Field(default=None, description=_FROM)],
            "to": Annotated[PositiveSpan | None, Field(default=None, description=_TO)],
        },
    )

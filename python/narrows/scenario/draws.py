"""Successive amounts: constant, listed, or drawn from a distribution."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from narrows.scenario.base import Table
from narrows.scenario.quantities import Span, TransferSize, refuse
from narrows.scenario.rules import Faults, rule

MOST_ENTRIES = 10_000

Shape = Annotated[float, Field(gt=1.0, le=1000.0, allow_inf_nan=False, strict=True)]


def _form(value: Any) -> str:
    """Which of the three forms a value has, so that errors are about that form only."""
    if isinstance(value, dict | Table):
        return "drawn"
    return "listed" if isinstance(value, list | tuple) else "constant"


class _Distribution(Table):
    distribution: Literal["exponential", "pareto"]
    """Which distribution."""
    shape: Shape | None = None
    """Exponent of a Pareto distribution's tail, above 1. At 2 or below, the variance is
    infinite."""

    @rule
    def _has_its_shape(self) -> Faults:
        if self.distribution == "pareto" and self.shape is None:
            yield refuse("is missing", "such as shape = 1.5", "shape")
        if self.distribution != "pareto" and self.shape is not None:
            yield refuse("is only for pareto", "leave it out", "shape")


class SpanDistribution(_Distribution):
    """A random time, instead of a fixed time or a list."""

    mean: Span
    """Its mean."""


class TransferDistribution(_Distribution):
    """A random number of bytes, at least one, instead of a fixed size or a list."""

    mean: TransferSize
    """Its mean."""


Pauses = Annotated[
    Annotated[Span, Tag("constant")]
    | Annotated[SpanDistribution, Tag("drawn")]
    | Annotated[
        tuple[Span, ...],
        Field(min_length=1, max_length=MOST_ENTRIES, fail_fast=True),
        Tag("listed"),
    ],
    Discriminator(_form),
]
"""Successive times: always the same, drawn, or a list that starts again at its end."""

Sizes = Annotated[
    Annotated[TransferSize, Tag("constant")]
    | Annotated[TransferDistribution, Tag("drawn")]
    | Annotated[
        tuple[TransferSize, ...],
        Field(min_length=1, max_length=MOST_ENTRIES, fail_fast=True),
        Tag("listed"),
    ],
    Discriminator(_form),
]
"""Successive sizes: always the same, drawn, or a list that starts again at its end."""

Amounts = int | SpanDistribution | TransferDistribution | tuple[int, ...]
"""The values of fields of type `Pauses` and `Sizes`."""


def draw(amounts: Amounts) -> dict[str, Any]:
    """The simulator's form of amounts, in base units.

    Examples:
        >>> draw(SpanDistribution(distribution="pareto", mean="2 s", shape=1.5))
        {'pareto': {'mean': '2 s', 'shape': 1.5}}
        >>> draw((1, 2))
        {'list': [1, 2]}
    """
    if isinstance(amounts, int):
        return {"constant": amounts}
    if isinstance(amounts, tuple):
        return {"list": list(amounts)}
    if amounts.shape is None:
        return {"exponential": {"mean": amounts.mean}}
    return {"pareto": {"mean": amounts.mean, "shape": amounts.shape}}

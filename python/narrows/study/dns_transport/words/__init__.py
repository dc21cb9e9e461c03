"""The study's sentences. The numbers decide which of several sentences appears.

Intervals are 95 % intervals over seeds (`pooled`). A sentence mentions a difference if its interval
excludes zero and it is above `MATTERS`, because a difference of a tenth of a point can be
significant and yet help nobody.
"""

from __future__ import annotations

import polars as pl

from narrows.study.dns_transport import cpu
from narrows.study.dns_transport.phrases import (
    LOADED,
    listed,
    loaded,
    title,
    transport_title,
    under_loads,
    whole,
)
from narrows.study.dns_transport.words import paper_h, queues, transports
from narrows.study.dns_transport.words.told import Audience, Sentence, Table

__all__ = ["Audience", "Sentence", "Table", "sentences", "tables"]

_PARTS = (transports, queues, paper_h)


def sentences(runs: pl.DataFrame) -> list[Sentence]:
    """All sentences that the runs allow."""
    if runs.is_empty():
        return []
    runs, short = whole(runs)
    return [each for part in _PARTS for each in part.sentences(runs)] + _limits(runs, short)


def tables(runs: pl.DataFrame) -> list[Table]:
    """The tables that the runs allow; none is empty."""
    if runs.is_empty():
        return []
    runs, _ = whole(runs)
    return [table for part in _PARTS for table in part.tables(runs) if table.rows]


def _limits(runs: pl.DataFrame, short: list[str]) -> list[Sentence]:
    texts = []
    loads = [title("load", name) for name in loaded(runs)["load"]]
    if loads and under_loads(runs) == LOADED:
        texts.append(f"{LOADED.capitalize()} is the mean over {listed(loads)}.")
    texts.append(cpu.source())
    if runs["seed"].n_unique() < 2:
        texts.append("There is only one seed, so no figure has an interval or a clear difference.")
    if short:
        names = listed([transport_title(name) for name in short])
        texts.append(f"Left out under load, because cells are missing: {names}.")
    return [Sentence("limits", "", text) for text in texts]

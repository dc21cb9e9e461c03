"""Reproductions of published experiments: their claims, our measurements, and the verdicts.

A paper is a folder beside this file, with `README.md` (contents, run time, choices, known
differences), `scenarios/`, the published values with their tolerances, and its plots. The
framework for them is in this package:

>>> from narrows.reproduce import papers
>>> [paper.key for paper in papers()]
['H', 'K', 'D', 'S', 'R', 'BBR', 'L4S', 'CAKE']
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from narrows.errors import NarrowsError, argument
from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.claims import Claim, Judged, Measured, Verdict, Worded, judge
from narrows.reproduce.measurements import Agreement, Table
from narrows.reproduce.outcome import Outcome, document
from narrows.reproduce.paper import Paper, Recorded
from narrows.reproduce.runner import Progress, reproduce
from narrows.reproduce.several import Outcomes, reproduce_several

__all__ = [
    "Agreement",
    "Cell",
    "Choice",
    "Claim",
    "Judged",
    "Measured",
    "Outcome",
    "Outcomes",
    "Paper",
    "Progress",
    "Recorded",
    "Table",
    "UnknownClaim",
    "Verdict",
    "Worded",
    "document",
    "ids",
    "judge",
    "papers",
    "reproduce",
    "reproduce_several",
    "select",
]


class UnknownClaim(NarrowsError):  # noqa: N818 - named after what it is
    """No paper has this id; the message is one line and names the known ids."""


@cache
def papers() -> tuple[Paper, ...]:
    """Every paper that can be reproduced."""
    from narrows.reproduce.dana_2010 import PAPER as DANA
    from narrows.reproduce.harhalakis_2011 import PAPER as HARHALAKIS
    from narrows.reproduce.hayes_2010 import PAPER as HAYES
    from narrows.reproduce.hoiland_jorgensen_2018 import PAPER as CAKE
    from narrows.reproduce.kantawala_2002 import PAPER as KANTAWALA
    from narrows.reproduce.l4s_2022 import PAPER as L4S
    from narrows.reproduce.ware_2019 import PAPER as WARE
    from narrows.reproduce.wijnen_2012 import PAPER as WIJNEN

    return (HARHALAKIS, KANTAWALA, DANA, HAYES, WIJNEN, WARE, L4S, CAKE)


def ids() -> list[str]:
    """What :func:`select` takes: each paper's letter and slug, and its claims' ids."""
    known: list[str] = []
    for paper in papers():
        known += [paper.key, paper.slug, *dict.fromkeys(claim.id for claim in paper.claims)]
    return known


def select(wanted: Sequence[str], recorded: Path | None = None) -> list[tuple[Paper, list[Claim]]]:
    """Papers with the claims that `wanted` names, or all claims if it is empty.

    Args:
        wanted: Letters (`H`), slugs (`harhalakis-2011`) or claim ids (`H1`), in any case.
        recorded: A folder of runs for a paper whose runs are recorded. It is read here once, so
            that an unreadable folder is refused before other papers run.

    Raises:
        UnknownClaim: No paper has one of them, or none of the chosen papers takes recorded runs.
        RunFolderError: `recorded` cannot be read.
    """
    lowered = {name.lower() for name in wanted}
    selected = []
    known = {name.lower() for name in ids()}
    for name in wanted:
        if name.lower() not in known:
            keys = ", ".join(paper.key for paper in papers())
            raise UnknownClaim(
                f"no reproduction has the id {name!r}; hint: one of {keys}, or a claim such as H1"
            )
    for paper in papers():
        whole = not lowered or {paper.key.lower(), paper.slug} & lowered
        claims = [claim for claim in paper.claims if whole or claim.id.lower() in lowered]
        if claims:
            selected.append((paper, claims))
    if recorded is not None:
        readers = [paper.recorded for paper, _ in selected if paper.recorded is not None]
        if not readers:
            raise UnknownClaim(f"{argument('recorded')} is only for S; hint: choose S")
        for read in readers:
            read(recorded)
    return selected

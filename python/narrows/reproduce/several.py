"""Several papers, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from narrows.backends import DEFAULT
from narrows.progress import shown
from narrows.reproduce.claims import Claim
from narrows.reproduce.outcome import Outcome
from narrows.reproduce.paper import Paper
from narrows.reproduce.runner import reproduce

QUICK_SEEDS = 3
"""The number of seeds with `quick`."""


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of several papers, in the order in which they were reproduced."""

    papers: tuple[Outcome, ...]

    @property
    def failures(self) -> list[str]:
        """Runs that failed, a line for each."""
        return [line for outcome in self.papers for line in outcome.failures]

    @property
    def status(self) -> Literal["complete", "failed", "partial"]:
        """`partial` if it was interrupted, `failed` if runs failed."""
        if any(outcome.interrupted for outcome in self.papers):
            return "partial"
        return "complete" if all(outcome.complete for outcome in self.papers) else "failed"


def reproduce_several(
    selected: Sequence[tuple[Paper, Sequence[Claim]]],
    *,
    sensitivity: bool = True,
    against: bool = False,
    seeds: int | None = None,
    quick: bool = False,
    backend: str = DEFAULT,
    jobs: int | None = None,
    recorded: Path | None = None,
    quiet: bool = False,
) -> Outcomes:
    """Reproduces papers and shows the progress of each; an interrupt ends it early.

    Args:
        selected: Papers and their claims, as `select` returns them.
        sensitivity: Whether other choices are run too.
        against: As `reproduce` takes it.
        seeds: The same; by default `QUICK_SEEDS` with `quick`.
        quick: The same; it leaves out other choices too.
        backend: As `reproduce` takes it.
        jobs: The same.
        recorded: The same.
        quiet: Whether to show no progress.

    Raises:
        BackendError: There is no such backend.
        RunFolderError: `recorded` cannot be read.
    """
    outcomes: list[Outcome] = []
    for paper, claims in selected:
        with shown(paper.slug, quiet=quiet) as update:
            outcome = reproduce(
                paper,
                claims=claims,
                choices=paper.choices if sensitivity and not quick else (),
                against=against,
                seeds=seeds or (QUICK_SEEDS if quick else None),
                quick=quick,
                backend=backend,
                jobs=jobs,
                progress=lambda at: update(at.done / at.total, at.label),
                recorded=recorded,
            )
        outcomes.append(outcome)
        if outcome.interrupted:
            break
    return Outcomes(tuple(outcomes))

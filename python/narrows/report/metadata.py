"""What a plot's file says about itself: what it shows, and the runs that its numbers come from.

PDF has this in its document information dictionary (ISO 32000-1, 14.3.3), SVG as Dublin Core, and
PNG in text chunks (PNG, third edition, 11.3.3). None of it is a date: the same run gives the same
bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from narrows import _core
from narrows.foreign_text import printable
from narrows.results import Comparison, Run, Sweep
from narrows.results.folder import parquet
from narrows.results.origin import MEASURED
from narrows.results.sweep_run import SweepRun


@dataclass(frozen=True)
class Metadata:
    """A plot's metadata, which the three types of files write in their own terms."""

    title: str
    shows: str = ""
    """What the plot shows, in one sentence."""
    origin: tuple[str, ...] = ()
    """Where its numbers come from: texts such as `seed=1`."""

    def pdf(self) -> dict[str, str | None]:
        """The entries of PDF's information dictionary."""
        return {
            "Title": printable(self.title) or None,
            "Subject": printable(self.shows) or None,
            "Keywords": "; ".join(self._origin) or None,
            "Creator": _DRAWN_BY,
            "Producer": None,
            "CreationDate": None,
        }

    def svg(self) -> dict[str, Any]:
        """The terms of Dublin Core."""
        said = {
            "Title": printable(self.title),
            "Description": printable(self.shows),
            "Keywords": self._origin,
        }
        defaults = {"Date": None, "Format": None, "Type": None}
        return {
            "Creator": _DRAWN_BY,
            **defaults,
            **{key: each for key, each in said.items() if each},
        }

    def png(self) -> dict[str, str | None]:
        """The keywords of PNG's text chunks."""
        found = {
            "Title": printable(self.title),
            "Description": printable(self.shows),
            "Comment": "; ".join(self._origin),
            "Software": _DRAWN_BY,
        }
        return {key: text for key, text in found.items() if text}

    @property
    def _origin(self) -> list[str]:
        return [printable(each) for each in self.origin]


NOTHING = Metadata("")

_DRAWN_BY = f"narrows {_core.version}"


def origin_of(result: Run | Sweep | Comparison) -> tuple[str, ...]:
    """Where the numbers of a run, a sweep or a comparison come from.

    A run has the digest of its run.json, and a sweep that of its sweep.parquet. A sweep's run that
    was not kept has its digest in rows.jsonl.
    """
    if isinstance(result, Run):
        return _of_run(result)
    if isinstance(result, Sweep):
        return (
            f"scenario={result.name}",
            *(f"vary={key}" for key in result.keys),
            f"seeds={_listed(result.seeds)}",
            f"backend={result.backend}",
            f"narrows={result.narrows}",
            f"sweep.parquet={hashlib.sha256(parquet(result.table)).hexdigest()}",
        )
    found: list[str] = [f"setting={result.setting}"] if result.setting else []
    for group in result.groups:
        found += [f"group={group.label}", f"seeds={_listed(group.seeds)}"]
        parts = [_of_run(run) for run in group.runs if isinstance(run, Run)]
        parts += [(f"run={run.run}",) for run in group.runs if isinstance(run, SweepRun)]
        each_once = dict.fromkeys(text for part in parts for text in part)
        found += [text for text in each_once if not text.startswith("seed=")]
    return tuple(found)


def _of_run(run: Run) -> tuple[str, ...]:
    return (
        f"scenario={run.name}",
        *([f"set={run.settings}"] if run.set else []),
        *([] if run.backend in MEASURED else [f"seed={run.seed}"]),
        f"backend={run.backend}",
        f"narrows={run.narrows}",
        *([f"run.json={run.digest}"] if run.digest else []),
    )


def _listed(seeds: Iterable[int]) -> str:
    return ",".join(map(str, seeds))

"""The rate of a run's link over time, for other programs: a table (CSV), or Mahimahi's format."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl

from narrows import _core
from narrows.report.files import new_file, write_bytes
from narrows.report.source import monitored_links, queue_facts, sampled_at
from narrows.results import Run, RunFolderError

Steps = list[tuple[int, int]]
"""Times in picoseconds, the first 0, and the rate from each on in bit/s."""

_PS = 10**12
_TRACED_S = 0.1
"""The time over which the opportunities of a link that follows a trace are counted."""


def write_rates(
    run: Run,
    path: str | Path,
    *,
    link: str = "",
    throughput: bool = False,
    mahimahi: bool = False,
) -> Path:
    """Writes a link's rate over time, until the end of the run.

    Args:
        run: The run.
        path: The file, which must not exist.
        link: The link, such as `bottleneck.forward`. By default the only one that was sampled.
        throughput: Writes what the link carried between its samples (`monitor.links`), with its
            framing, instead of the rate that the scenario gives it.
        mahimahi: Writes the times at which 1500 bytes may leave, in whole milliseconds, instead of
            a table.

    Raises:
        RunFolderError: The run does not have what is asked for, or the file exists or cannot be
            written.
    """
    target = new_file(path)
    place = run.folder or Path("run")
    name = link or _only_link(run, place)
    steps = _carried(run, name, place) if throughput else _offered(run, name, place)
    text = _core.write_rates(steps)
    if mahimahi:
        found, wrong = _core.opportunities_of(steps, round(run.end_s * _PS))
        if found is None:
            assert wrong is not None, "the extension says what is wrong"
            raise RunFolderError(place, f"{name} {wrong[1]}", wrong[2])
        text = "".join(f"{ms}\n" for ms in found)
    return write_bytes(target, text.encode())


def _only_link(run: Run, place: Path) -> str:
    names = monitored_links(run)
    if len(names) != 1:
        said = f"has samples of {', '.join(names)}" if names else "has no samples of links"
        raise RunFolderError(place, said, "name a link, such as --link bottleneck.forward")
    return names[0]


def _offered(run: Run, link: str, place: Path) -> Steps:
    """The rates that the scenario gives a link."""
    facts = queue_facts(run, link)
    if facts is None:
        raise RunFolderError(place, f"its scenario has no link {link}", "bottleneck.forward is one")
    if facts.opportunities_ms is None:
        return _merged([(round(at * _PS), rate) for at, rate in facts.rates if at < run.end_s])
    count = max(1, round(run.end_s / _TRACED_S))
    times = [number * _TRACED_S for number in range(count + 1)]
    offered = facts.offered(pl.Series(times).to_numpy())
    rates = [(after - before) * 8 / _TRACED_S for before, after in pairwise(offered)]
    return _merged([(round(at * _PS), round(rate)) for at, rate in zip(times, rates, strict=False)])


def _carried(run: Run, link: str, place: Path) -> Steps:
    """What a link carried between its samples."""
    if link not in monitored_links(run):
        hint = f'[monitor] links = {{ links = ["{link}"], rate = 10 }}'
        raise RunFolderError(place, f"has no samples of {link}", hint)
    rows = run.links.filter(pl.col("link") == link).sort("t_s")
    times = [0.0, *sampled_at(run.links, link).tolist()]
    sent = [0, *rows.get_column("bytes").to_list()]
    spans = zip(pairwise(times), pairwise(sent), strict=True)
    return _merged(
        [
            (round(a * _PS), round((after - before) * 8 / (b - a)))
            for (a, b), (before, after) in spans
        ]
    )


def _merged(steps: Steps) -> Steps:
    """The steps without those that change nothing; of two at the same time, the later counts."""
    found: Steps = []
    for at, rate in steps:
        if found and found[-1][0] == at:
            found.pop()
        if not found or found[-1][1] != rate:
            found.append((at, rate))
    return found

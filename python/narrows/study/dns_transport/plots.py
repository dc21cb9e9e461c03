"""The heat maps: transports by queues under each load, paper H's worst cell, the variations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LogNorm, Normalize

from narrows.report.page import Shown
from narrows.report.style import INK, new_figure, styled
from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import factors
from narrows.study.dns_transport.phrases import SECOND, base, rounded, title
from narrows.study.dns_transport.pooled import Where, mean, select

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from narrows.reproduce.statistics import Interval

_SHARES = "viridis"
_TIMES = "viridis_r"
_EMPTY = "#e3e6ea"
_PATHS = {"fragments": "no fragments", "512": "at most 512 B"}
"""What each path lets through, in a few words."""
_FEW = 10.0
"""A cell that answers at most this percentage of its queries needs an explanation."""


@styled
def plots(runs: pl.DataFrame) -> list[Shown]:
    """The heat maps for which there are runs."""
    shown = []
    plane = select(runs, base())
    for load in _present(plane, "load"):
        where: Where = {**base(), "load": load}
        words = title("load", load)
        for name, metric, what, times in (
            ("within-1s", SECOND, "answered within a second, %", False),
            ("p95", "response_p95_ms", "95 % of queries are answered within, ms", True),
        ):
            figure = _heat(
                plane,
                metric,
                rows=[("transport", each) for each in _present(plane, "transport")],
                columns=[
                    ({"queue": each}, title("queue", each)) for each in _present(plane, "queue")
                ],
                where=where,
                heading=f"{words[0].upper()}{words[1:]}: {what}",
                times=times,
            )
            if figure is not None:
                shown.append(
                    Shown(
                        f"{name}-{load}",
                        figure,
                        f"Heat map of transports by queues, {words}: {what}",
                        f"{words[0].upper()}{words[1:]}, {what}: mean over seeds. Clean path, "
                        "20 ms, replies of 100 bytes. A query that was given up counts as "
                        f"17,000 ms.{_quic_behind_drr(plane, where)}",
                    )
                )
    shown += _worst(runs)
    shown += _variations(runs)
    return shown


def _quic_behind_drr(plane: pl.DataFrame, where: Where) -> str:
    """Explains why queries over new QUIC connections fail behind DRR; empty if they do not."""
    found = mean(plane, SECOND, {**where, "transport": "quic-new", "queue": "drr"})
    if found is None or found.mean > _FEW:
        return ""
    return (
        " QUIC on new connections fares badly behind DRR. The server sends its first flight as "
        "three datagrams at once, which makes its queue the longest. DRR drops from the front of "
        "that queue and loses the datagram that the client needs to read the others. Neither side "
        "has measured a round trip yet, so QUIC waits a second to repeat it (RFC 9002, 6.2.2)."
    )


def _worst(runs: pl.DataFrame) -> list[Shown]:
    here = select(runs, {"load": PAPER_H})
    if here.is_empty():
        return []
    figure = _heat(
        here,
        SECOND,
        rows=[("transport", each) for each in _present(here, "transport")],
        columns=[({"neighbours": each}, title("neighbours", each)) for each in ("arp", "known")],
        where={"load": PAPER_H},
        heading="Paper H's worst cell: answered within a second, %",
        times=False,
    )
    if figure is None:
        return []
    caption = (
        "Paper H's worst cell (RED, all downloads with ECN, 20±5 ms) with all DNS on one "
        "transport: answered within a second, %."
    )
    if _only_few_live(here):
        caption += (
            " Without ARP, nothing frees the queue. Only transports whose first packet can be "
            "marked get through."
        )
    return [Shown("paper-h", figure, "Heat map of transports in paper H's worst cell", caption)]


def _only_few_live(here: pl.DataFrame) -> bool:
    """Whether, without ARP, only transports whose first packet can be marked get answers."""
    found = {
        name: mean(here, SECOND, {"neighbours": "known", "transport": name})
        for name in _present(here, "transport")
    }
    alive = [name for name, value in found.items() if value is not None and value.mean > 50.0]
    return bool(alive) and all(
        name.endswith("-ecn++") or (name.startswith("quic-") and name.endswith("-ecn"))
        for name in alive
    )


def _variations(runs: pl.DataFrame) -> list[Shown]:
    """A heat map of the other round trips, replies and paths."""
    columns: list[tuple[Where, str]] = []
    for load in ("downloads", "none"):
        words = title("load", load)
        columns.append(({**base(), "load": load}, f"base, {words}"))
        for factor in factors():
            if factor.name not in ("round_trip", "reply"):
                continue
            for level in factor.levels[1:]:
                where = {**base(), factor.name: level.name, "load": load}
                columns.append((where, f"{level.title}, {words}"))
        for path in ("fragments", "512"):
            for reply in ("1232B", "3000B"):
                where = {**base(), "path": path, "reply": reply, "load": load}
                columns.append((where, f"{title('reply', reply)}, {_PATHS[path]}, {words}"))
    # The paths ran with two queues, so the other factors show only these two as well.
    few = select(runs, {"queue": ["fifo", "fq-codel"]})
    columns = [(where, text) for where, text in columns if not select(few, where).is_empty()]
    if len(columns) < 3:
        return []
    figure = _heat(
        few,
        SECOND,
        rows=[("transport", each) for each in _present(few, "transport")],
        columns=columns,
        where={},
        heading="Other round trips, replies and paths: answered within a second, %",
        times=False,
    )
    if figure is None:
        return []
    caption = (
        "Answered within a second, %, mean over FIFO and FQ-CoDel and over seeds. Each column "
        "names what it changes in the base (20 ms, 100 bytes, clean path)."
    )
    return [Shown("variations", figure, "Heat map of transports by variations", caption)]


def _present(runs: pl.DataFrame, factor: str) -> list[str]:
    """The levels for which there are runs, in the order of the tables."""
    there = set(runs[factor].unique().to_list())
    known = next((each for each in factors() if each.name == factor), None)
    names = [level.name for level in known.levels] if known is not None else sorted(there)
    return [name for name in names if name in there]


def _heat(
    runs: pl.DataFrame,
    metric: str,
    *,
    rows: Sequence[tuple[str, str]],
    columns: Sequence[tuple[Where, str]],
    where: Where,
    heading: str,
    times: bool,
) -> Figure | None:
    """A heat map with numbers in its cells; None without values."""
    values = np.full((len(rows), len(columns)), math.nan)
    for y, (factor, name) in enumerate(rows):
        for x, (at, _) in enumerate(columns):
            found: Interval | None = mean(runs, metric, {**where, **at, factor: name})
            if found is not None:
                values[y, x] = found.mean
    if np.isnan(values).all():
        return None
    longest = max(len(text) for _, text in columns)
    figure, axes = new_figure(
        1.6 + 0.27 * len(rows) + 0.075 * longest, max(7.6, 3.2 + 0.66 * len(columns))
    )
    norm: Normalize = LogNorm(10.0, 17_000.0) if times else Normalize(0.0, 100.0)
    axes.set_facecolor(_EMPTY)
    image = axes.imshow(
        values, cmap=_TIMES if times else _SHARES, norm=norm, aspect="auto", interpolation="none"
    )
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), [text for _, text in columns], rotation=50, ha="right")
    axes.set_yticks(range(len(rows)), [title(factor, name) for factor, name in rows])
    axes.set_title(heading)
    text: Callable[[float], str] = _time if times else rounded
    for y in range(len(rows)):
        for x in range(len(columns)):
            value = float(values[y, x])
            if math.isnan(value):
                continue
            red, green, blue, _ = image.cmap(norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            axes.text(
                x,
                y,
                text(value),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else INK,
            )
    figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    return figure


def _time(value: float) -> str:
    return f"{value:,.0f}"

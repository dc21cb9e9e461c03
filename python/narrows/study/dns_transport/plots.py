"""The heat maps: transports by queues at each place, paper H's worst cell, the variations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LogNorm, Normalize

from narrows.report.picture import Picture
from narrows.report.style import INK, new_figure, styled
from narrows.study.dns_transport.design import PAPER_H, VARIED_QUEUES
from narrows.study.dns_transport.factors import OPERATOR, PLACES, factors
from narrows.study.dns_transport.phrases import (
    PAGE,
    SECOND,
    UNMARKED,
    base,
    loaded,
    plane,
    present,
    rounded,
    title,
)
from narrows.study.dns_transport.pooled import Where, mean, select

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl
    from matplotlib.figure import Figure

_SHARES = "viridis"
_TIMES = "viridis_r"
_EMPTY = "#e3e6ea"
_PATHS = {"fragments": "no fragments", "512": "at most 512 B"}
"""What each path lets through, in a few words."""


@styled
def plots(runs: pl.DataFrame) -> list[Picture]:
    """The heat maps for which there are runs."""
    shown = []
    for place in PLACES:
        part = plane(runs, place.name)
        queues = present(part, "queue")
        for load in present(part, "load"):
            shown += _map(
                part,
                SECOND,
                f"within-1s-{place.name}-{load}",
                f"Queues of {place.title}, {title('load', load)}: answered within a second, %",
                [({"queue": each, "load": load}, title("queue", each)) for each in queues],
            )
        if PAGE in part.columns and not part.is_empty():
            shown += _map(
                part,
                PAGE,
                f"pages-{place.name}",
                f"Queues of {place.title}, under load: page load time, median, s",
                [({"queue": each, **loaded(part)}, title("queue", each)) for each in queues],
            )
    shown += _map(
        select(runs, {"place": PAPER_H}),
        SECOND,
        PAPER_H,
        "Paper H's worst cell: answered within a second, %",
        [({"neighbours": each}, title("neighbours", each)) for each in ("arp", "known")],
    )
    return shown + _variations(runs)


def _variations(runs: pl.DataFrame) -> list[Picture]:
    """A heat map of the other round trips, replies and paths."""
    columns: list[tuple[Where, str]] = []
    varied: Where = {"place": OPERATOR.name, "queue": list(VARIED_QUEUES), "load": "cubic"}
    columns.append(({**base(), **varied}, "base, CUBIC"))
    for factor in factors():
        if factor.name in ("round_trip", "reply"):
            columns += [
                ({**base(), **varied, factor.name: level.name}, f"{level.title}, CUBIC")
                for level in factor.levels[1:]
            ]
    for path in ("fragments", "512"):
        for reply in ("1232B", "3000B"):
            where = {**base(), "path": path, "reply": reply, "load": "none"}
            columns.append((where, f"{title('reply', reply)}, {_PATHS[path]}, no load"))
    unmarked = select(runs, {"transport": UNMARKED})
    columns = [(where, text) for where, text in columns if not select(unmarked, where).is_empty()]
    if len(columns) < 3:
        return []
    return _map(
        unmarked,
        SECOND,
        "variations",
        "Other round trips, replies and paths: answered within a second, %",
        columns,
    )


def _map(
    runs: pl.DataFrame,
    metric: str,
    name: str,
    heading: str,
    columns: Sequence[tuple[Where, str]],
) -> list[Picture]:
    """A heat map of transports by columns; none without values."""
    names = present(runs, "transport")
    values = np.full((len(names), len(columns)), math.nan)
    for y, transport in enumerate(names):
        for x, (at, _) in enumerate(columns):
            found = mean(runs, metric, {**at, "transport": transport})
            if found is not None:
                values[y, x] = found.mean
    if np.isnan(values).all():
        return []
    texts = [text for _, text in columns]
    rows = [title("transport", each) for each in names]
    figure = _heat(values, rows, texts, heading, times=metric == PAGE)
    caption = f"{heading}; mean over seeds."
    return [Picture(name, figure, f"Heat map of transports. {heading}", caption)]


def _heat(
    values: npt.NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    heading: str,
    *,
    times: bool,
) -> Figure:
    """A heat map with numbers in its cells."""
    longest = max(map(len, columns))
    figure, axes = new_figure(
        1.6 + 0.27 * len(rows) + 0.075 * longest, max(7.6, 3.2 + 0.66 * len(columns))
    )
    norm: Normalize = LogNorm(0.3, 30.0) if times else Normalize(0.0, 100.0)
    axes.set_facecolor(_EMPTY)
    image = axes.imshow(
        values, cmap=_TIMES if times else _SHARES, norm=norm, aspect="auto", interpolation="none"
    )
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), columns, rotation=50, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(heading)
    for (y, x), value in np.ndenumerate(values):
        if math.isnan(value):
            continue
        red, green, blue, _ = image.cmap(norm(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        text = rounded(float(value), places=2 if times else 1)
        color = "white" if dark else INK
        axes.text(x, y, text, ha="center", va="center", fontsize=8, color=color)
    figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    return figure

"""Plots in a notebook, as HTML that needs no widget and no network.

The first plots of a session carry the library, and later ones only their data: at most `MOST_BYTES`
for all plots of a run. A widget (anywidget) would store the library once for each widget, and would
need an extension that matches the notebook's server. Where no script runs, readers see what each
plot says in words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from html import escape
from uuid import uuid4

from narrows.report.page import Shown, module, scripts, style_sheet

MOST_BYTES = 60_000
"""The most bytes of data of all plots that are shown together."""

_POINTS = (3_000, 1_500, 1_000, 700, 500, 350, 250, 180, 120, 80, 50, 30, 20, 10)
"""Points of a curve, from the most to the least."""

_sent: list[bool] = []


def html_of(plots: Sequence[Shown]) -> str:
    """Plots side by side for a notebook, each with its caption."""
    if not plots:
        return ""
    name = f"narrows-{uuid4().hex}"
    figures = "".join(
        f'<figure style="margin:0;width:36em;max-width:100%"><h3 class="title">'
        f"{escape(shown.drawing.title)}</h3>"
        f'<p class="says">{escape(shown.alt)}</p>'
        f'<script type="application/json" class="drawing">{text}</script>'
        f"<figcaption>{escape(shown.caption)}</figcaption></figure>"
        for shown, text in zip(plots, data_of(plots), strict=True)
    )
    library = "" if _sent else f"<style>{_style()}</style><script>{_script()}</script>"
    _sent.append(True)
    # Outputs may be shown in any order: whichever comes first waits for the library.
    start = (
        f"<script>(window.narrowsLater ||= []).push({json.dumps(name)});"
        "window.narrows?.drawLater();</script>"
    )
    box = 'class="narrows" style="display:flex;flex-wrap:wrap;gap:1em"'
    return f'<div id="{name}" {box}>{figures}</div>{library}{start}'


def data_of(plots: Sequence[Shown]) -> list[str]:
    """The data of each plot as JSON, with as many points as `MOST_BYTES` allow for all together."""
    texts: list[str] = []
    for most in _POINTS:
        texts = [shown.drawing.text(most) for shown in plots]
        if sum(len(text.encode()) for text in texts) <= MOST_BYTES:
            break
    return texts


@cache
def _script() -> str:
    library, _ = scripts()
    return (
        "window.narrows ||= (() => {"
        f"{library}\n{module()}\n"
        "function drawLater() { for (const name of (window.narrowsLater ||= []).splice(0)) {"
        "const found = document.getElementById(name);"
        "if (found) { drawPage(found); } } }"
        "return { draw, drawPage, drawLater }; })();"
    )


def _style() -> str:
    return (
        ".narrows{--ink:#22272e;--muted:#6b7280;--grid:#e3e6ea;--paper:#ffffff;--blue:#0072b2;"
        "--green:#009e73;--purple:#cc79a7;--vermilion:#d55e00;--sky:#56b4e9;--orange:#e69f00;"
        f"background:#fff;color:#22272e}}{style_sheet()}"
    )

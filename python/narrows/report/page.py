"""What the pages have in common: the template environment, and plots as parts of a page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from narrows.records import USUAL_PLOT_FILES, PlotFile
from narrows.report import style
from narrows.report.live import curves, script, style_sheet
from narrows.results.errors import RunFolderError
from narrows.unfinished import write_whole


@dataclass(frozen=True)
class Shown:
    """A plot with its texts on a page."""

    name: str
    """The name of its files and of its identifiers on the page, made safe by `file_name`."""
    figure: Figure
    alt: str
    """What it shows, in one sentence with its main numbers, for readers who cannot see it."""
    caption: str
    """What readers should look for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", file_name(self.name))

    @cached_property
    def svg(self) -> str:
        """The plot as SVG, which a page and a file share."""
        return style.svg(self.figure)


def file_name(text: str) -> str:
    """Any text as a name of files and of elements on a page: letters, digits, `-`, `_` and `.`.

    Nothing else makes names of files from names of links, groups and servers.

    Examples:
        >>> file_name("throughput-a/../b.forward"), file_name("..")
        ('throughput-a-..-b.forward', '-')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return name.lstrip(".") or "-"


_LONGEST_NAME = 100


def render(template: str, *, package: str = "narrows.report", **values: object) -> str:
    """Renders a page from a template of a package, or of this one.

    Its policy lets the page's own script run, and nothing else: no other script, no address.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("narrows.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(policy=policy(), **values)


@cache
def policy() -> Markup:
    """The Content-Security-Policy of every page (W3C CSP 3).

    Matplotlib's and uPlot's plots have styles in attributes.
    """
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    return Markup(
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def shown_on_page(plots: Sequence[Shown]) -> list[dict[str, Any]]:
    """Plots as inline SVG with alternative text and caption, and their curves."""
    return [
        {
            "svg": style.svg_inline(shown.svg, shown.name.replace(".", "-"), shown.alt),
            "caption": shown.caption,
            "curves": curves(shown.figure),
        }
        for shown in plots
    ]


def live(plots: Sequence[dict[str, Any]]) -> dict[str, str] | None:
    """What a page needs to plot its plots' curves; None if no plot has curves."""
    if not any(figure["curves"] for figure in plots):
        return None
    return {"script": script(), "style_sheet": style_sheet()}


def html_of(plots: Sequence[Shown]) -> str:
    """Plots side by side for a notebook, each with its caption."""
    parts = []
    for shown in plots:
        data = base64.b64encode(shown.svg.encode()).decode()
        parts.append(
            '<figure style="margin:0;max-width:36em">'
            f'<img alt="{escape(shown.alt)}" src="data:image/svg+xml;base64,{data}" '
            'style="max-width:100%">'
            f"<figcaption>{escape(shown.caption)}</figcaption></figure>"
        )
    return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(parts)}</div>'


def write_plots(
    plots: Sequence[Shown], folder: Path, kinds: Sequence[PlotFile] = USUAL_PLOT_FILES
) -> list[Path]:
    """Writes each plot as files of these types.

    Raises:
        RunFolderError: They cannot be written.
    """
    written = []
    for shown in plots:
        for kind in kinds:
            # Not with_suffix, because names of links have dots.
            written.append(write_bytes(folder / f"{shown.name}.{kind}", _KINDS[kind](shown)))
    return written


_KINDS: dict[PlotFile, Callable[[Shown], bytes]] = {
    "png": lambda shown: style.png(shown.figure),
    "svg": lambda shown: shown.svg.encode(),
    "pdf": lambda shown: style.pdf(shown.figure),
}
"""The functions that make files of plots, by suffix."""


def write_page(path: Path, text: str) -> Path:
    """Writes a page, or the data that stand beside it, whole or not at all.

    Raises:
        RunFolderError: It cannot be written.
    """
    return write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> Path:
    """Writes a file whole or not at all.

    Raises:
        RunFolderError: It cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    return path

"""What the pages have in common: the template environment, and figures as parts of a page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from narrows.records import USUAL_FIGURE_FILES, FigureFile
from narrows.report import style
from narrows.report.live import curves, script, style_sheet
from narrows.results.errors import RunFolderError

__all__ = [
    "Shown",
    "html_of",
    "live",
    "render",
    "shown_on_page",
    "write_bytes",
    "write_figures",
    "write_page",
]


@dataclass(frozen=True)
class Shown:
    """A figure with its texts on a page."""

    name: str
    """The name of its files and of its identifiers on the page: letters, digits, `-` and `.`."""
    figure: Figure
    alt: str
    """What it shows, in one sentence with its main numbers, for readers who cannot see it."""
    caption: str
    """What readers should look for."""

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, which a page and a file share."""
        return style.svg(self.figure)


def render(template: str, **values: object) -> str:
    """Renders a page from a template of this package."""
    environment = Environment(
        loader=PackageLoader("narrows.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def shown_on_page(figures: Sequence[Shown]) -> list[dict[str, Any]]:
    """Figures as inline SVG with alternative text and caption, and their curves."""
    return [
        {
            "svg": style.svg_inline(shown.svg, shown.name.replace(".", "-"), shown.alt),
            "caption": shown.caption,
            "curves": curves(shown.figure),
        }
        for shown in figures
    ]


def live(figures: Sequence[dict[str, Any]]) -> dict[str, str] | None:
    """What a page needs to plot its figures' curves; None if no figure has curves."""
    if not any(figure["curves"] for figure in figures):
        return None
    return {"script": script(), "style_sheet": style_sheet()}


def html_of(figures: Sequence[Shown]) -> str:
    """Figures side by side for a notebook, each with its caption."""
    parts = []
    for shown in figures:
        data = base64.b64encode(shown.svg.encode()).decode()
        parts.append(
            '<figure style="margin:0;max-width:36em">'
            f'<img alt="{escape(shown.alt)}" src="data:image/svg+xml;base64,{data}" '
            'style="max-width:100%">'
            f"<figcaption>{escape(shown.caption)}</figcaption></figure>"
        )
    return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(parts)}</div>'


def write_figures(
    figures: Sequence[Shown], folder: Path, kinds: Sequence[FigureFile] = USUAL_FIGURE_FILES
) -> list[Path]:
    """Writes each figure as files of these types.

    Raises:
        RunFolderError: They cannot be written.
    """
    written = []
    for shown in figures:
        for kind in kinds:
            # Not with_suffix, because names of links have dots.
            written.append(write_bytes(folder / f"{shown.name}.{kind}", _KINDS[kind](shown)))
    return written


_KINDS: dict[FigureFile, Callable[[Shown], bytes]] = {
    "png": lambda shown: style.png(shown.figure),
    "svg": lambda shown: shown.svg.encode(),
    "pdf": lambda shown: style.pdf(shown.figure),
}
"""The functions that make files of figures, by suffix."""


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
    temporary = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            # A full disk must not leave half a page where a page is expected.
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    return path

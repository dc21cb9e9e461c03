"""What the pages have in common: the template environment, and figures as parts of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from narrows.report import style
from narrows.results.errors import RunFolderError

__all__ = ["Shown", "render", "shown_on_page", "write_bytes", "write_figures", "write_page"]


@dataclass(frozen=True)
class Shown:
    """A figure with what a page says about it."""

    name: str
    """Of its files, and of its identifiers on the page; letters, digits, `-` and `.`."""
    figure: Figure
    alt: str
    """What it shows, in one sentence with its main numbers, for those who do not see it."""
    caption: str
    """What to look for."""

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, which a page and a file share."""
        return style.svg(self.figure)


def render(template: str, **values: object) -> str:
    """A page from a template of this package."""
    environment = Environment(
        loader=PackageLoader("narrows.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def shown_on_page(figures: Sequence[Shown]) -> list[dict[str, str]]:
    """Figures as inline SVG with alternative text and caption."""
    return [
        {
            "svg": style.svg_inline(shown.svg, shown.name.replace(".", "-"), shown.alt),
            "caption": shown.caption,
        }
        for shown in figures
    ]


def write_figures(figures: Sequence[Shown], folder: Path) -> list[Path]:
    """Writes each figure as PNG and SVG.

    Raises:
        RunFolderError: They cannot be written.
    """
    written = []
    for shown in figures:
        # Not with_suffix: names of links have dots.
        for suffix, data in (("png", style.png(shown.figure)), ("svg", shown.svg.encode())):
            written.append(write_bytes(folder / f"{shown.name}.{suffix}", data))
    return written


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
            # A full disk leaves no half of a page where a page is expected.
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    return path

"""Plots that Matplotlib draws for pages of reproductions and studies, with their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.report import style
from narrows.report.files import file_name, write_bytes
from narrows.report.metadata import Metadata


@dataclass(frozen=True)
class Picture:
    """A figure with its texts."""

    name: str
    """The name of its files and of its identifiers on the page, made safe by `file_name`."""
    figure: Figure
    alt: str
    """What it shows, in one sentence with its main numbers, for readers who cannot see it."""
    caption: str
    """What readers should look for."""
    title: str = ""
    """For the files' metadata."""
    origin: tuple[str, ...] = ()
    """Where its numbers come from, for the files' metadata."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", file_name(self.name))

    @cached_property
    def svg(self) -> str:
        """The plot as SVG, which a page and a file share."""
        return style.svg(self.figure, self.about)

    @property
    def about(self) -> Metadata:
        """What its files say about themselves."""
        return Metadata(self.title, self.alt, self.origin)


def pictures(drawn: Iterable[tuple[str, Figure | None, str]]) -> list[Picture]:
    """Those of these names, figures and captions that have a figure; alt is the first sentence."""
    return [
        Picture(name, figure, caption.split(". ")[0], caption)
        for name, figure, caption in drawn
        if figure is not None
    ]


def pictures_on_page(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """Pictures as inline SVG with alternative text and caption."""
    return [
        {
            "svg": style.svg_inline(each.svg, each.name.replace(".", "-"), each.alt),
            "caption": each.caption,
        }
        for each in pictures
    ]


def write_pictures(
    pictures: Sequence[Picture], folder: Path, kinds: Sequence[PlotFile] = USUAL_PLOT_FILES
) -> list[Path]:
    """Writes each picture as files of these types.

    Raises:
        RunFolderError: They cannot be written.
    """
    return [
        # Not with_suffix, because names of links have dots.
        write_bytes(folder / f"{each.name}.{kind}", _KINDS[kind](each))
        for each in pictures
        for kind in kinds
    ]


_KINDS: dict[PlotFile, Callable[[Picture], bytes]] = {
    "png": lambda picture: style.png(picture.figure, picture.about),
    "svg": lambda picture: picture.svg.encode(),
    "pdf": lambda picture: style.pdf(picture.figure, picture.about),
}
"""The functions that make files of pictures, by suffix."""

"""What the pages have in common: the template environment, and plots as parts of a page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.report.drawing import Drawing
from narrows.report.files import file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.results import Comparison, Run, Sweep


@dataclass(frozen=True)
class Shown:
    """A plot with its texts on a page."""

    name: str
    """The name of its files and of its identifiers on the page, made safe by `file_name`."""
    drawing: Drawing
    alt: str
    """What it shows, in one sentence with its main numbers, for readers who cannot see it."""
    caption: str
    """What readers should look for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", file_name(self.name))

    @cached_property
    def figure(self) -> Figure:
        """The plot as Matplotlib draws it."""
        from narrows.report.paper import figure_of

        return figure_of(self.drawing)


def render(template: str, *, package: str = "narrows.report", **values: object) -> str:
    """Renders a page from a template of a package, or of this one.

    Its policy lets the page's own scripts run, and nothing else: no other script, no address.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("narrows.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["dotted"] = _dotted
    return environment.get_template(template).render(policy=policy(), **values)


def _dotted(name: str) -> Markup:
    """A name in which a line may end after each dot, and not within its words."""
    return Markup(".<wbr>").join(name.split("."))


@cache
def scripts() -> tuple[Markup, Markup]:
    """The scripts of a page: uPlot, and the module that draws the page's plots with it."""
    library = files("narrows.report") / "vendor" / "uPlot.iife.min.js"
    return Markup(library.read_text(encoding="utf-8")), Markup(f"{module()}drawPage();\n")


@cache
def module() -> str:
    """draw.js and what it imports, as one script without imports and exports."""
    here = files("narrows.report")
    names = ("draw/words.js", "draw/curves.js", "draw/bars.js", "draw/heat.js", "draw.js")
    text = "\n".join((here / name).read_text(encoding="utf-8") for name in names)
    return re.sub(r"^import [^;]*;\n|^export (?=function|const)", "", text, flags=re.MULTILINE)


@cache
def style_sheet() -> Markup:
    """The style of plots."""
    here = files("narrows.report")
    sheets = (here / "vendor" / "uPlot.min.css", here / "draw.css")
    return Markup("".join(sheet.read_text(encoding="utf-8") for sheet in sheets))


@cache
def policy() -> Markup:
    """The Content-Security-Policy of every page (W3C CSP 3).

    Plots have styles in attributes.
    """
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts()
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return Markup(
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def shown_on_page(plots: Sequence[Shown]) -> list[dict[str, Any]]:
    """Plots as a page needs them: their data as JSON, and their texts."""
    return [
        {
            "title": shown.drawing.title,
            "alt": shown.alt,
            "caption": shown.caption,
            "data": Markup(shown.drawing.text()),
        }
        for shown in plots
    ]


def live(plots: Sequence[object]) -> dict[str, Any] | None:
    """What a page needs to draw its plots; None if it has none."""
    return {"scripts": scripts(), "style_sheet": style_sheet()} if plots else None


def write_plots(
    plots: Sequence[Shown],
    folder: Path,
    kinds: Sequence[PlotFile] = USUAL_PLOT_FILES,
    of: Run | Sweep | Comparison | None = None,
) -> list[Path]:
    """Draws each plot with Matplotlib into files of these types.

    Args:
        plots: The plots.
        folder: Where the files go.
        kinds: The file types.
        of: What the plots show, which the files name in their metadata.

    Returns:
        The files.

    Raises:
        RunFolderError: They cannot be written.
    """
    if not kinds:
        return []
    from narrows.report.metadata import origin_of
    from narrows.report.picture import Picture, write_pictures

    origin = () if of is None else origin_of(of)
    pictures = (
        Picture(one.name, one.figure, one.alt, one.caption, one.drawing.title, origin)
        for one in plots
    )
    return [path for each in pictures for path in write_pictures([each], folder, kinds)]

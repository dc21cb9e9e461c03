"""`narrows plot`: plots of an existing run as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import UserError, say
from narrows.cli.options import PlotFiles, Quiet, argument, option, plot_files
from narrows.plot_files import USUAL_PLOT_FILES

EXAMPLES = """\
# Draws all plots of the report into runs/dns-behind-red-1/plots.
narrows plot runs/dns-behind-red-1

# Only those whose names begin so, for a paper.
narrows plot runs/dns-behind-red-1 --name backlog --name response-cdf \\
    --plots pdf --out paper
"""

ELSEWHERE = {
    "--metric": "narrows sweep plot DIR --metric NAME draws a metric of a sweep",
    "--against": "narrows sweep plot DIR --against KEY draws a metric of a sweep",
}


def command(
    folder: Annotated[Path, argument("DIR", "A run's folder.", autocompletion=runs_and_sweeps)],
    name: Annotated[
        list[str] | None,
        option("NAME", "Only plots whose names begin so, such as backlog; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Where the files go. [default: plots/ in the run's folder]")
    ] = None,
    plots: PlotFiles = None,
    quiet: Quiet = False,
) -> None:
    """Draw the plots of a run's report into files, for papers and slides."""
    kinds = plot_files(plots, USUAL_PLOT_FILES)
    if (folder / "sweep.json").is_file():
        raise UserError(f"{folder}: is a sweep; hint: narrows sweep plot DIR draws its metrics")
    if not folder.is_dir():
        raise UserError(f"{folder}: is not a folder; hint: narrows run writes folders to runs/")
    from narrows.results import Run

    written = Run.load(folder).plot(*name or ()).write(out or folder / "plots", *kinds)
    for path in written:
        print(path)
    if not quiet:
        say(f"wrote {len(written)} files")

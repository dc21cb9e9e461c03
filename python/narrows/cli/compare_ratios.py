"""`narrows compare` of two analyses of TCP against UDP."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.cli.failure import UserError, say

if TYPE_CHECKING:
    from narrows.cli.options import Form
    from narrows.plot_files import PlotFile
    from narrows.ratio import RatioAnalysis


def are_ratios(folders: Sequence[Path]) -> bool:
    """Whether any folder holds an analysis of `narrows ratio` or a measurement."""
    return any(_is_analysis(folder) or _is_measurement(folder) for folder in folders)


def compare_ratios(
    folders: Sequence[Path],
    *,
    form: Form,
    out: Path | None,
    kinds: Sequence[PlotFile],
    quiet: bool,
) -> None:
    """Compares the two, prints the table, and writes a report if one is wanted."""
    from narrows.ratio.comparison import compare_ratios as compare

    fitting = [each for each in folders if _is_analysis(each) or _is_measurement(each)]
    for folder in folders:
        if folder not in fitting:
            raise UserError(
                f"{folder}: is no measurement, but {fitting[0]} is; hint: compare runs with runs, "
                "and measurements with measurements"
            )
    if len(folders) != 2:
        raise UserError(f"{folders[0]}: analyses are compared two at a time; hint: name two")
    labels = [folder.name or str(folder) for folder in folders]
    if labels[0] == labels[1]:
        labels = [str(folder) for folder in folders]
    if labels[0] == labels[1]:
        raise UserError(f"{folders[0]}: is given twice; hint: name two folders")
    analyses = {label: _load(folder) for label, folder in zip(labels, folders, strict=True)}
    comparison = compare(analyses)
    if form == "json":
        print(json.dumps(comparison.document(), indent=2, allow_nan=False))
    else:
        comparison.table().print(sys.stdout, latex=form == "latex")
    if out is not None:
        path = comparison.write(out, kinds)
        if not quiet:
            say(f"wrote {path}")


def _load(folder: Path) -> RatioAnalysis:
    from narrows.ratio import analyse
    from narrows.ratio.folder import load
    from narrows.results import Measurement

    if _is_analysis(folder):
        return load(folder)
    return analyse([Measurement.load(folder)], variants=False)


def _is_analysis(folder: Path) -> bool:
    # narrows.ratio.folder.RATIO_FILE, without loading what draws plots.
    return (folder / "ratio.json").is_file()


def _is_measurement(folder: Path) -> bool:
    from narrows.foreign_text import regular_bytes
    from narrows.results.folder import MEASUREMENTS, RUN_FILE

    try:
        head = regular_bytes(folder / RUN_FILE, 4096)
    except OSError:
        return False
    return any(f'"backend": "{name}"'.encode() in head for name in MEASUREMENTS)

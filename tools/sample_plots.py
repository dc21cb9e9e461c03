"""Draws samples/plots: the kinds of plots in Wijnen 2012, from the sample in samples/atlas.

python tools/sample_plots.py              the plots of the sample
python tools/sample_plots.py FOLDER       also those of `narrows reproduce R6 --out FOLDER`

Two of the sample's servers share an address, because they stand for one server before and after a
change. The third is another server, and gets an address of its own here.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl

from narrows.atlas import read_atlas
from narrows.ratio import analyse
from narrows.ratio.report import write_ratio_report
from narrows.results import Measurement

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples" / "atlas"
TARGET = ROOT / "samples" / "plots"

OTHER = "192.0.2.54"
"""The address that the third server gets here."""

CHANGE = ("density-by-day", "histogram", "over-time", "tcp-over-udp", "map")
"""Plots that are drawn of the server before and after its change."""

SERVERS = ("density-by-server", "histogram-all")
"""Plots that are drawn of both servers."""


def read(name: str) -> Measurement:
    """A file of the sample."""
    return read_atlas([SAMPLES / f"nsd-{name}.jsonl.gz"], probes=SAMPLES / "probes.json")


def elsewhere(part: Measurement) -> Measurement:
    """The same measurement at the other address."""
    moved = part.exchanges.with_columns(pl.lit(OTHER).alias(name) for name in ("target", "server"))
    return replace(part, tables={**part.tables, "exchanges": moved})


def main(folders: list[str]) -> None:
    """Draws the plots, and copies those of the folders."""
    TARGET.mkdir(exist_ok=True)
    before, after, other = read("3.2.13-10-slots"), read("3.2.13-100-slots"), read("3.2.14")
    sets = (([before, after], CHANGE), ([after, elsewhere(other)], SERVERS))
    with tempfile.TemporaryDirectory() as folder:
        for number, (measurements, names) in enumerate(sets):
            write_ratio_report(analyse(measurements), Path(folder) / str(number))
            for name in names:
                copy(Path(folder) / str(number) / "plots" / name, f"atlas-{name}")
    for place in folders:
        for file in sorted((Path(place) / "plots").glob("*c-root-?.png")):
            copy(file, file.stem.removeprefix("wijnen-2012-"))


def copy(source: Path, name: str) -> None:
    """Copies a plot's PNG. The SVG that the commands write beside it is too large to keep."""
    shutil.copyfile(source.with_suffix(".png"), TARGET / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The paper as the framework takes it."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.dana_2010.cells import CELLS, ROWS
from narrows.reproduce.dana_2010.claims import CLAIMS
from narrows.reproduce.dana_2010.figures import figures
from narrows.reproduce.dana_2010.measure import measure
from narrows.reproduce.dana_2010.tables import tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="D",
    slug="dana-2010",
    title="Performance Comparison between Active and Passive Queue Management",
    citation="A. Dana, A. Malekloo, IJCSI International Journal of Computer Science Issues, 2010",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    rows=ROWS,
    measure=measure,
    tables=tables,
    figures=figures,
    seeds=10,
    row_seeds=5,
)

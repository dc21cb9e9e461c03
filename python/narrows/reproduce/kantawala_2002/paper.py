"""The paper as the framework takes it."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.kantawala_2002.cells import CELLS
from narrows.reproduce.kantawala_2002.claims import CLAIMS
from narrows.reproduce.kantawala_2002.figures import figures
from narrows.reproduce.kantawala_2002.measure import measure
from narrows.reproduce.kantawala_2002.rows import ROWS
from narrows.reproduce.kantawala_2002.tables import tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="K",
    slug="kantawala-2002",
    title="Queue Management for Short-Lived TCP Flows in Backbone Routers",
    citation="A. Kantawala, J. Turner, IEEE GLOBECOM 2002",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    rows=ROWS,
    measure=measure,
    tables=tables,
    figures=figures,
    seeds=4,
    row_seeds=3,
    quick={"duration": "40 s"},
)

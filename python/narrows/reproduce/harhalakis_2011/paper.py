"""The reproduction as `narrows reproduce` sees it."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.harhalakis_2011.cells import CELLS, ROWS
from narrows.reproduce.harhalakis_2011.claims import CLAIMS
from narrows.reproduce.harhalakis_2011.figures import figures
from narrows.reproduce.harhalakis_2011.kernel import CASES, agreement
from narrows.reproduce.harhalakis_2011.measure import measure
from narrows.reproduce.harhalakis_2011.tables import tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="H",
    slug="harhalakis-2011",
    title="The effects of Active Queue Management and Explicit Congestion Notification "
    "on DNS Traffic",
    citation="S. Harhalakis, N. Samaras, V. Vitsas, 2011",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    rows=ROWS,
    measure=measure,
    tables=tables,
    figures=figures,
    agreement=agreement,
    agreement_cells=frozenset(CASES),
)

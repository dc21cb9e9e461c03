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
    summary=(
        "The paper says that a queue for each flow, with drops from the longest or fastest one, "
        "gives short TCP flows more goodput, quicker transfers and a fairer share than RED, Blue "
        "and Tail Drop.",
        "Fairness is found as it says in kind: TDRR gives flows with long round trips the most, "
        "Blue the least, and over three bottlenecks the order is the same.",
        "The gain in goodput is not found: several hundred flows keep every queue busy, so that "
        "from 5000 packets on all of them carry about 95 % of the link.",
        "Factors depend on what TCP does between bursts and on its loss recovery, which the paper "
        "does not print.",
        "The small network's results carry over to 20,000 sources on 10 Gbit/s where the buffer "
        "is the bandwidth-delay product, which the authors could not test.",
    ),
)

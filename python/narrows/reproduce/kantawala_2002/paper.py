"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.kantawala_2002.cells import CELLS
from narrows.reproduce.kantawala_2002.choices import CHOICES
from narrows.reproduce.kantawala_2002.claims import CLAIMS
from narrows.reproduce.kantawala_2002.measure import measure
from narrows.reproduce.kantawala_2002.plots import plots
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
    choices=CHOICES,
    measure=measure,
    tables=tables,
    plots=plots,
    seeds=4,
    choice_seeds=3,
    quick={"duration": "40 s"},
    summary=(
        "The paper says that a queue for each flow, with drops from the longest or fastest flow, "
        "gives short TCP flows more goodput, faster transfers and fairer shares than RED, Blue and "
        "Tail Drop.",
        "We find the fairness: on average, TDRR gives flows with long paths the largest share "
        "(0.86 of the others' goodput with two round-trip times, 0.67 over three bottlenecks), and "
        "Blue the smallest (0.49 and 0.37).",
        "With the TCP of two real versions of ns-2, TDRR stays as fair (0.88 and 0.78), but with "
        "two round-trip times Tail Drop is then no less fair (0.89 with the ns-2 of August 2001, "
        "0.94 with that of 2002) and QSDRR no fairer than Blue (0.60 and 0.59); the paper does not "
        "say which ns-2 it used.",
        "We do not find the gain in goodput, because several hundred flows keep every queue busy: "
        "from 5000 packets on, all queues carry about 95 % of the link.",
        "Nor are transfers faster with every buffer: with 100 packets, the queues for each flow "
        "are slower than Tail Drop.",
        "The authors could not test whether the small network's results carry over to 20,000 "
        "sources on 10 Gbit/s; they do, within 1 %, if the buffer is the bandwidth-delay product.",
    ),
)

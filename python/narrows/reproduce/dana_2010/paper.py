"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.dana_2010.cells import CELLS, CHOICES, on_linux
from narrows.reproduce.dana_2010.claims import CLAIMS
from narrows.reproduce.dana_2010.measure import measure
from narrows.reproduce.dana_2010.plots import plots
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
    choices=CHOICES,
    measure=measure,
    tables=tables,
    plots=plots,
    on_kernel=on_linux,
    seeds=10,
    choice_seeds=5,
    summary=(
        "The paper says that RED has a shorter queue, less delay, less delay variation and fewer "
        "drops than Drop Tail, and that ECN raises RED's buffer and utilisation.",
        "We find its order of buffers and delays with every load that we tried, but with all loads "
        "except one RED drops more than Drop Tail, not less: 3375 packets against 648 in the "
        "simulator, and 6000 against 1127 on Linux.",
        "A shorter queue makes TCP's windows smaller, and smaller windows need more drops for the "
        "same goodput.",
        "Utilisation is the same for all three, because the queue never runs empty.",
        "The paper does not print the load: we chose when sessions open so that Drop Tail's queue "
        "overflows at 156 s, as in Figure 3, and searched for nothing else.",
    ),
)

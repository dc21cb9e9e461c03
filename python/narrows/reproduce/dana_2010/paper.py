"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.dana_2010.cells import CELLS, ROWS, on_linux
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
    on_kernel=on_linux,
    seeds=10,
    row_seeds=5,
    summary=(
        "The paper says that RED has shorter queues, less delay, less delay variation and fewer "
        "drops than Drop Tail, and that ECN raises RED's buffer and utilisation.",
        "We find the same order of buffer and delay with every load that we tried, but not the "
        "same order of drops, of which RED has 3375 and Drop Tail 648 in the simulator (6000 and "
        "1127 on Linux).",
        "TCP reacts to a shorter queue with smaller windows, and those need more drops, not fewer.",
        "Utilisation is the same for all three, because the queue never runs empty.",
        "The paper does not print the load; we fitted the times at which sessions open to the "
        "156 s of Figure 3, and everything else follows.",
    ),
)

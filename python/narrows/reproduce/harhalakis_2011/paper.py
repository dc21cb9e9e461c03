"""The paper's declaration for the framework."""

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
    summary=(
        "The paper says that RED on a full link costs DNS 8 to 11 of 100 first attempts, and that "
        "ECN on all other connections raises this cost to as many as 50.",
        "We find both: at 300 ms, where the paper prints the queue's settings, RED costs 10 and 13 "
        "of 100, and first attempts agree with the paper's tables within two points.",
        "At 200 ms, FIFO does about six points better here than in the paper, which does not print "
        "that queue's size; RED therefore costs 15 to 18 of 100 in comparison.",
        "If all others use ECN at 20 ms, 51 % of first attempts succeed here, 39 to 52 % on Linux, "
        "41 % in the paper, and none without ARP, as DNS gets through only after RED has dropped "
        "ARP packets of its own routers, so that the link fails for a second.",
        "If all others use ECN at 50 ms, narrows gives 65 %, Linux 63 to 66 % and the paper 46 %; "
        "this stays open, because with the TCP and the RED of 2010 Linux gives 74 to 77 %.",
        "The agreement is partly calibrated: netem's delay was put at both ends because Linux then "
        "agrees with the paper, and the simulator was corrected against the same runs of Linux.",
    ),
)

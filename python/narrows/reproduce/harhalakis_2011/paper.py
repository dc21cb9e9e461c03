"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.harhalakis_2011.cells import CELLS, CHOICES
from narrows.reproduce.harhalakis_2011.claims import CLAIMS
from narrows.reproduce.harhalakis_2011.kernel import CASES, agreement
from narrows.reproduce.harhalakis_2011.measure import measure
from narrows.reproduce.harhalakis_2011.plots import plots
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
    choices=CHOICES,
    measure=measure,
    tables=tables,
    plots=plots,
    agreement=agreement,
    agreement_cells=frozenset(CASES),
    summary=(
        "The paper says that RED on a full link costs DNS 8 to 11 of 100 first attempts, and that "
        "ECN on all other connections raises this cost to as many as 50.",
        "With the buffer of 300 ms, whose settings the paper prints, we find similar costs, 10 "
        "and with ECN 13 of 100, and first attempts agree with the paper's tables within two "
        "points.",
        "With the buffer of 200 ms, RED costs 15 to 18 of 100 here, because FIFO does about six "
        "points better than in the paper.",
        "With that buffer, ECN on all others and a path of 20 ms, narrows answers 51 % of first "
        "attempts, Linux 39 to 52 % and the paper 41 %; without ARP none would be answered, "
        "because DNS gets through only when RED drops its own routers' ARP packets and the link "
        "fails for a second.",
        "With a path of 50 ms, narrows has 65 %, Linux 63 to 66 % and the paper 46 %; longer "
        "replies or a card that refills in bursts would explain most of what differs at 200 ms, "
        "but the paper prints neither, so which one it was, we cannot tell.",
        "The agreement is partly calibrated: we put netem's delay at both ends because Linux then "
        "agrees with the paper, and we corrected the simulator against the same runs of Linux.",
    ),
)

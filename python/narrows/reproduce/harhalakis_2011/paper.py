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
    summary=(
        "The paper says that RED on a full link costs DNS 8 to 11 of 100 first attempts, and that "
        "ECN on all other connections raises this cost to up to half of all attempts.",
        "We find both. At 300 ms, where the paper prints the queue's settings, the tables agree "
        "within two points.",
        "At 200 ms the FIFO does better here than in the paper, which does not print the queue's "
        "size; RED therefore costs more in comparison.",
        "With only ECN and 20 ms, narrows gives 51 %, the paper 41 %, and Linux 39 to 52 %. "
        "ARP decides this cell: RED drops the ARP packets of its own routers, the link fails for "
        "a second about twice a minute, and that lets DNS through. Without ARP no query is ever "
        "answered.",
        "With only ECN and 50 ms, narrows and Linux give 65 %, and the paper has 46 %: the largest "
        "difference in Table IV, and it stays open. The paper does not print the queue's "
        "thresholds at 200 ms, and its TCP does not explain it: with the TCP and the RED of 2010, "
        "Linux gives 74 to 77 %.",
        "The agreement is partly calibrated. Netem's delay was put at both ends because Linux then "
        "agrees with the paper, and the simulator was corrected against the same runs of Linux.",
    ),
)

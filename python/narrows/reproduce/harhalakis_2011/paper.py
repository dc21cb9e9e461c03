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
        "The paper says that RED at a full link costs DNS 8 to 11 of 100 first attempts, and that "
        "ECN on everybody else's connections costs it more, up to half of all attempts.",
        "Both are found. With 300 ms, where the queue's settings are printed, the tables agree "
        "within two points.",
        "With 200 ms the FIFO does better here than in the paper, whose queue size is not printed; "
        "so RED's cost is higher.",
        "With only ECN and 20 ms narrows gives 50 % where the paper has 41 % and Linux 39 to 52 %. "
        "ARP decides it: RED drops its own routers' ARP packets, the link fails for a second about "
        "twice a minute, and that lets DNS through. Without ARP no query is ever answered.",
        "With only ECN and 50 ms today's TCP gives 65 %, the paper's TCP of 2009 gave 46 %.",
        "Netem's delay at both ends was chosen because Linux then agrees with the paper, and the "
        "simulator was mended against the same runs of Linux: that agreement is partly calibrated.",
    ),
)

"""The paper as the framework takes it: its runs are read from a folder of the gateway's bench."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.hayes_2010.cells import CELLS, CHOICES
from narrows.reproduce.hayes_2010.claims import CLAIMS
from narrows.reproduce.hayes_2010.measure import not_a_scenario, recorded
from narrows.reproduce.hayes_2010.plots import plots
from narrows.reproduce.hayes_2010.tables import headline, tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="S",
    slug="hayes-2010",
    title='Improving DNS performance using "Stateless" TCP in FreeBSD 9',
    citation="D. Hayes, M. Rossi, G. Armitage, CAIA Technical Report 101022A, 2010",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    choices=CHOICES,
    measure=not_a_scenario,
    tables=tables,
    plots=plots,
    seeds=20,
    recorded=recorded,
    headline=headline,
    summary=(
        "The paper has 48 % for stateless TCP, and 267 % for the kernel's TCP.",
        "The order holds, and stateless TCP saves more than half of what the kernel's TCP costs "
        "beyond UDP.",
        "But stateless TCP costs twice as much as UDP here, because BIND itself needs less time "
        "than in 2010 and the packets of a connection make up more of the total.",
        "Most of the saving comes from not opening and closing connections, as the authors "
        "supposed.",
        "Seconds, memory and the number of open connections differ because the machine, the kernel "
        "and the network do; the gateway also differs on purpose in a few places.",
    ),
)

"""The paper as the framework takes it: its runs are read from a folder of the gateway's bench."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.hayes_2010.cells import CELLS, ROWS
from narrows.reproduce.hayes_2010.claims import CLAIMS
from narrows.reproduce.hayes_2010.figures import figures
from narrows.reproduce.hayes_2010.measure import not_a_scenario, recorded
from narrows.reproduce.hayes_2010.tables import tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="S",
    slug="hayes-2010",
    title='Improving DNS performance using "Stateless" TCP in FreeBSD 9',
    citation="D. Hayes, M. Rossi, G. Armitage, CAIA Technical Report 101022A, 2010",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    rows=ROWS,
    measure=not_a_scenario,
    tables=tables,
    figures=figures,
    seeds=20,
    recorded=recorded,
    summary=(
        "The paper says that a DNS server needs 48 % more processor time for stateless TCP than "
        "for UDP, and nearly four times as much for the kernel's TCP.",
        "We measured BIND on Linux. Stateless TCP also costs about half more than UDP, and the "
        "kernel's TCP two and a half times as much: the order holds, but today's TCP is cheaper.",
        "The gateway deliberately behaves differently in a few places. Seconds of processor time "
        "differ because machines and kernels are 16 years apart.",
        "The measurement that comes with narrows is a short one on a shared machine, so several "
        "claims are undecided.",
    ),
)

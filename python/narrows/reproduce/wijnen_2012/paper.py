"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.paper import Paper
from narrows.reproduce.wijnen_2012.cells import CELLS, CHOICES
from narrows.reproduce.wijnen_2012.claims import CLAIMS
from narrows.reproduce.wijnen_2012.measure import execute, lacks, not_a_scenario
from narrows.reproduce.wijnen_2012.plots import plots
from narrows.reproduce.wijnen_2012.reference import agreement
from narrows.reproduce.wijnen_2012.tables import tables

SUMMARY = (
    "The paper found that DNS over TCP took twice as long as over UDP at most root servers, three "
    "times as long at servers that wrote the length and the message separately, and much longer "
    "at one that accepted at most ten connections.",
    "We find all three with today's servers and an emulated one of 2012, behind a path with a "
    "chosen delay: ratios of 2.00, of 3.00, and above 4 for 46 % of the pairs.",
    "Besides two writes and Nagle's algorithm, a ratio of three needs a client that acknowledges "
    "the length at once, which the paper does not mention.",
    "We chose the load on the ten connections after seeing a first result, so R3 shows that such "
    "a load exists, not that K-root had it.",
    "The paper saw BIND answer in 747 bytes; today's BIND sends 759, because it writes the "
    "one-byte name of the root as a pointer of two bytes.",
    "What the paper says of single root servers and shows in its figures (R4, R6, parts of R2 and "
    "R3) needs a day of RIPE Atlas results, so we did not test it.",
)

PAPER = Paper(
    key="R",
    slug="wijnen-2012",
    title="Comparing TCP and UDP Response Times of DNS Root Servers",
    citation="B. Wijnen, RIPE Labs, 17 October 2012",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    choices=CHOICES,
    measure=not_a_scenario,
    tables=tables,
    plots=plots,
    agreement=agreement,
    agreement_title="Agreement with real NSD 3.2.13 and 3.2.14 at the same distances",
    summary=SUMMARY,
    seeds=5,
    choice_seeds=3,
    quick={"rounds": "3"},
    execute=execute,
    lacks=lacks,
)

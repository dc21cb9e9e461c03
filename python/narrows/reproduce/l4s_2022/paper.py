"""The declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.l4s_2022.cells import CELLS, CHOICES
from narrows.reproduce.l4s_2022.claims import CLAIMS
from narrows.reproduce.l4s_2022.measure import measure
from narrows.reproduce.l4s_2022.plots import plots
from narrows.reproduce.l4s_2022.tables import tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="L4S",
    slug="l4s-2022",
    title="Dual Queue Coupled AQM, and Tests of L4S",
    citation="K. De Schepper, O. Albisser, O. Tilmans, B. Briscoe, arXiv 2209.01078, 2022; "
    "P. Heist, J. Morton, l4s-tests, 2021",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    choices=CHOICES,
    measure=measure,
    tables=tables,
    plots=plots,
    seeds=5,
    choice_seeds=3,
    quick={"duration": '"60 s"'},
    summary=(
        "DualPI2's authors published what they measured on Linux: rates, delays, marks and drops "
        "in 48 runs with one or two connections and in five overloads. Heist and Morton published "
        "rates of 44 pairs, to show where L4S is unfair.",
        "No parameter was fitted to them, but two rows led to a correction and are left out. Of "
        "the authors' other 424 numbers, 351 (83 %) lie within the tolerances that were set "
        "before, and 57 of 88 of Heist and Morton's.",
        "Prague and CUBIC share a line with DualPI2 as published, from 5 to 100 ms of round "
        "trip, except that CUBIC at 100 ms gets less beside Prague at 5 ms. Prague's packets "
        "wait for 0.2 to 0.5 ms on average, and CUBIC's for 9 to 15 ms. They do so, too, beside a "
        "stream of up to 70 Mbit/s that does not react; a faster one overloads the L queue, as "
        "published.",
        "Prague of 2020 takes more than twice CUBIC's rate at 10 and 20 ms, and more than nine "
        "tenths of the rate if both share one queue that marks, as Heist and Morton say.",
        "Most differences are rows of Reno over 100 ms, which in the data behaves like CUBIC, "
        "and what a classic connection keeps beside Prague in one queue. The README lists what "
        "stays open.",
    ),
)

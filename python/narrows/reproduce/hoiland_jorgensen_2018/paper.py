"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.hoiland_jorgensen_2018.cells import CELLS, CHOICES
from narrows.reproduce.hoiland_jorgensen_2018.claims import CLAIMS
from narrows.reproduce.hoiland_jorgensen_2018.measure import measure
from narrows.reproduce.hoiland_jorgensen_2018.plots import plots
from narrows.reproduce.hoiland_jorgensen_2018.tables import tables
from narrows.reproduce.paper import Paper

PAPER = Paper(
    key="CAKE",
    slug="hoiland-jorgensen-2018",
    title="Piece of CAKE: A Comprehensive Queue Management Solution for Home Gateways",
    citation="T. Hoiland-Jorgensen, D. Taht, J. Morton, LANMAN 2018",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    choices=CHOICES,
    measure=measure,
    tables=tables,
    plots=plots,
    seeds=5,
    choice_seeds=3,
    summary=(
        "Tins share a link as in the authors' data: each DSCP's goodput with 10 Mbit/s is within "
        "7 % of theirs for besteffort, diffserv3, diffserv4 and FQ-CoDel, and so are nearly all "
        "round trips.",
        "With 1 Mbit/s up, goodput still agrees; probes with CS1 wait less than there (160 ms in "
        "all and not 231 to 236) and those with EF up to 26 ms longer, perhaps because we do not "
        "know when Flent sent them.",
        "Isolation gives hosts what Figure 3 promises to about a point, and exactly that if their "
        "queues never run empty.",
        "Behind diffserv4 a stream of 2 Mbit/s does not notice 32 uploads; without tins today's "
        "CAKE drops 82 % of it, as Linux does, where the paper's delayed it by 200 ms.",
        "The ACK filter speeds up downloads by 4 % over 30/1 Mbit/s and by 50 % over 1000/20, "
        "where others saw 15 and 93 %; five seeds do not decide the second.",
        "The ideal shares of Figure 4 (C10) do not follow from a scheduler that gives BE what is "
        "left; the authors' own data (C3) contradicts them, too.",
    ),
)

"""The paper's declaration for the framework."""

from __future__ import annotations

from pathlib import Path

from narrows.reproduce.paper import Paper
from narrows.reproduce.ware_2019.cells import CELLS, CHOICES
from narrows.reproduce.ware_2019.claims import CLAIMS
from narrows.reproduce.ware_2019.measure import measure
from narrows.reproduce.ware_2019.plots import plots
from narrows.reproduce.ware_2019.tables import tables

PAPER = Paper(
    key="BBR",
    slug="ware-2019",
    title="Modeling BBR's Interactions with Loss-Based Congestion Control",
    citation="R. Ware, M. K. Mukerjee, S. Seshan, J. Sherry, IMC 2019",
    folder=Path(__file__).parent,
    cells=CELLS,
    claims=CLAIMS,
    choices=CHOICES,
    measure=measure,
    tables=tables,
    plots=plots,
    seeds=6,
    choice_seeds=3,
    quick={"duration": '"60 s"'},
    summary=(
        "BBR takes nearly all of a link with a buffer shorter than a bandwidth-delay product, "
        "and less with longer ones, as published. The paper's model says so, too, but gives one "
        "connection 0.09 to 0.35 of the link more than ours has.",
        "Up to half a product, and beside CUBIC at 64 products, ours is within the reading error "
        "of the plots. From 1 to 32 products and at 128, our BBR gets 0.6 to 2.5 Mbit/s more "
        "than there; at 64 products beside Reno, 0.6 less.",
        "Linux' own BBR gets the same as ours in the same network: 8.2 and 5.9 Mbit/s at one "
        "and two products beside CUBIC, where ours gets 8.3 and 6.1 and the plots have 6.7 and "
        "4.15. So the plots' Mininet, and not BBR, makes the difference; we cannot see how.",
        "With eight BBR connections and long buffers, ours follows the model to 0.1 (0.38 at 64 "
        "products, as the model says), and the plot stays at 0.78, as if its buffer were limited "
        "to eight products.",
        "We do not find the headline of 40 % against sixteen CUBIC: BBR gets 20 % in 400 s.",
    ),
)

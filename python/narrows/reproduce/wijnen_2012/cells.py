"""The experiments: servers of today, of 2012, and full ones; and four guesses about C-root."""

from __future__ import annotations

from narrows.reproduce.cells import Cell, Choice

TODAY = {"named": "BIND", "nsd": "NSD", "knotd": "Knot", "unbound": "Unbound"}
"""Today's servers by their programs."""

OLD, NEW = "old", "writev"
OLD_10, OLD_100 = "old-10", "old-100"
NSD_10, NSD_100 = "nsd-10", "nsd-100"
BIND_2012, NSD_2012 = "named-2012", "nsd-2012"
L_ROOT = "l-root"
FIXED, FARTHER, LATE = "c-fixed", "c-farther", "c-late"

# The time for which they hold a connection was chosen after a first result of the reference server
# with ten connections: 0.10 s gave a median ratio of 3.75, and 0.14 s gave 5.66.
LOAD = {"clients": "150", "hold_s": "0.14", "think_s": "2", "interval_s": "6"}
"""Other clients, and a pause, so that the vantage points themselves add no load. The paper does not
name its other clients. Here, 150 clients nearby that keep a connection for 0.14 s need about ten
connections at once."""

CELLS = [
    *(Cell(name, f"{title} of today", "", {"server": name}) for name, title in TODAY.items()),
    Cell(OLD, "two writes, as NSD until 3.2.13 (emulated)", ""),
    Cell(NEW, "one writev, as NSD 3.2.14 (emulated)", "", {"writing": "writev"}),
    Cell(OLD_10, "two writes, ten connections, under load", "", {**LOAD, "slots": "10"}),
    Cell(OLD_100, "two writes, a hundred connections, the same load", "", {**LOAD, "slots": "100"}),
    Cell(
        NSD_10, "NSD of today, ten connections, the same load", "",
        {**LOAD, "server": "nsd", "slots": "10"},
    ),
    Cell(
        NSD_100, "NSD of today, a hundred connections, the same load", "",
        {**LOAD, "server": "nsd", "slots": "100"},
    ),
    Cell(
        BIND_2012, "BIND of today with the root zone of 2012, asked without EDNS", "",
        {"server": "named", "zone": "2012", "edns": "0", "rounds": "2"},
    ),
    Cell(
        NSD_2012, "NSD of today with the root zone of 2012, asked without EDNS", "",
        {"server": "nsd", "zone": "2012", "edns": "0", "rounds": "2"},
    ),
    # Ten is the default of NSD 3 (options.c); half is a guess, made before the first run.
    Cell(
        L_ROOT, "L-root, a guess: ten connections, half as many other clients", "",
        {**LOAD, "slots": "10", "clients": "75"},
    ),
    Cell(
        FIXED, "C-root, guess a: 30 ms at the server over TCP", "",
        {"writing": "once", "tcp_delay_ms": "30"},
    ),
    Cell(
        FARTHER, "C-root, guess b: TCP is answered a quarter farther away", "",
        {"writing": "once", "tcp_rtt_factor": "1.25"},
    ),
    Cell(
        LATE, "C-root, guess d: acknowledgements come late", "",
        {"late_acknowledgements": "true"},
    ),
]  # fmt: skip

_LOADED = frozenset({OLD_10, OLD_100, NSD_10, NSD_100})

CHOICES = [
    Choice(
        "clients keep connections for 0.10 s",
        "the paper does not say who else asked K-root over TCP; 0.14 s was chosen after a look at "
        "a first result",
        {"hold_s": "0.10"},
        cells=_LOADED,
    ),
    Choice(
        "clients keep connections for 0.20 s",
        "the paper does not say who else asked K-root over TCP; 0.14 s was chosen after a look at "
        "a first result",
        {"hold_s": "0.20"},
        cells=_LOADED,
    ),
    Choice(
        "a backlog of 128",
        "NSD 3.2 has 5; the kernel of the day may have had room for more",
        {"backlog": "128"},
        cells=frozenset({OLD_10, OLD_100}),
    ),
]

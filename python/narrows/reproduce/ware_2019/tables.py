"""BBR's goodput by buffer, next to the published plots, the model and a Linux kernel."""

from __future__ import annotations

from narrows.reproduce.measurements import Measurements, Table
from narrows.reproduce.statistics import plus_minus
from narrows.reproduce.ware_2019.cells import BUFFERS, BUFFERS_8A, RIVALS, name, name_8a
from narrows.reproduce.ware_2019.claims import PUBLISHED, PUBLISHED_8A
from narrows.reproduce.ware_2019.model import share


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were run."""
    built = []
    for rival, title in RIVALS.items():
        rows = [
            [
                f"{buffer:g}",
                f"{published[0]:.2f} / {published[1]:.2f}",
                f"{plus_minus(bbr)} / {plus_minus(outcome.interval(cell, 'other'))}",
            ]
            for buffer, published in zip(BUFFERS, PUBLISHED[rival], strict=True)
            for cell in (name(rival, buffer),)
            if (bbr := outcome.interval(cell, "bbr")) is not None
        ]
        if rows:
            built.append(
                Table(
                    f"BBR / {title}: goodput over 240 s, Mbit/s",
                    ["buffer, BDP", "read off the plot", "ours"],
                    rows,
                    "10 Mbit/s, 40 ms, a FIFO. One connection of each.",
                )
            )
    rows = [
        [
            f"{buffer:g}",
            *(
                text
                for connections in PUBLISHED_8A
                for text in (
                    f"{PUBLISHED_8A[connections][index]:g}",
                    plus_minus(outcome.interval(name_8a(connections, buffer), "share"), 3),
                    f"{share(buffer, connections, 400.0):.3f}",
                )
            ),
        ]
        for index, buffer in enumerate(BUFFERS_8A)
        if outcome.runs(name_8a(1, buffer))
    ]
    if rows:
        columns = [
            f"{connections} BBR: {what}"
            for connections in PUBLISHED_8A
            for what in ("read off the plot", "ours", "model")
        ]
        built.append(
            Table("Figure 8a: BBR's share against one CUBIC", ["buffer, BDP", *columns], rows)
        )
    return built

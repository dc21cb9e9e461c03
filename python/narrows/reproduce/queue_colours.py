"""The colour of each queue, which is the same in the plots of all papers."""

from __future__ import annotations

from narrows.report.style import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION

QUEUE_COLOURS = {
    "fifo": INK,
    "red": VERMILION,
    "red-ecn": ORANGE,
    "blue": BLUE,
    "drr": GREEN,
    "tdrr": PURPLE,
    "qsdrr": SKY,
}

"""A folder with what a reader needs to repeat the numbers of a paper (`narrows paper`).

    parts.py     what the folder holds of a run or a sweep, and which command repeats it
    readme.py    the README, which says how to repeat each number
    write.py     `write_paper`, which writes the folder whole
    sums.py      SHA256SUMS: writes the file, and checks a folder against it
    repeat.py    runs everything again, and compares the tables

A folder may come from strangers. Only files in it are read, no link is followed, and nothing in it
is executed: `repeat` runs scenarios in the simulator alone.
"""

from __future__ import annotations

from narrows.paper.repeat import Repeated, repeat
from narrows.paper.sums import check
from narrows.paper.write import write_paper

__all__ = ["Repeated", "check", "repeat", "write_paper"]

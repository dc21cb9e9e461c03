"""Test suites that the field knows: `narrows suite`.

    parts.py        what a suite is made of: scenes, metrics, parts of the report
    contenders.py   the queues under test, and the settings that users leave open
    conduct.py      runs every scene with every queue and seed
    measuring.py    metrics that several suites take from a run
    seen.py         means, paired differences, and sentences about them
    cost.py         processor time for each packet
    plots.py, output.py, templates/  tables, plots and the page
    rfc7928/        RFC 7928, by its sections
    rrul/           Flent's tests, with files that Flent draws
    l4s/            L4S beside classic traffic

The package `narrows.study` has our own questions; the suites' are other people's.
"""

from __future__ import annotations

from narrows.suites.conduct import SuiteRun
from narrows.suites.contenders import SuiteError
from narrows.suites.l4s import l4s
from narrows.suites.rfc7928 import rfc7928
from narrows.suites.rrul import Line, rrul

__all__ = ["Line", "SuiteError", "SuiteRun", "l4s", "rfc7928", "rrul"]

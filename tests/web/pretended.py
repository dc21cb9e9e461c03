"""A simulator that calls itself a kernel, for the page's overlay where no kernel can run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl

from narrows import backends
from narrows.backends.backend import Backend, nothing_to_say
from narrows.backends.interrupts import held
from narrows.backends.sim import run_sim
from narrows.lab import work
from narrows.results import Run
from narrows.scenario import Scenario

NAME = "Linux 9.9"
FLAG = "a kernel differs here"
UNKNOWN = "sojourn_max_ms"

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from tests.web.pretended import main; main()"
)


def start(slowly: bool = False) -> str:
    """What starts a job in place of `jobs._START`; a kernel's run may last until it is ended."""
    folder = json.dumps(str(__file__.removesuffix("/tests/web/pretended.py")))
    return f"import sys; sys.slowly = {slowly}; " + _START.replace(
        "from tests", f"sys.path.insert(0, {folder}); from tests"
    )


def main() -> None:
    """As `work.main`, with another kernel."""
    backends.BACKENDS = {**backends.BACKENDS, "kernel": f"{__name__}:BACKEND"}
    work.main()


def _run(scenario: Scenario, *, progress: Callable[[float], Any] | None, **how: Any) -> Run:
    if getattr(sys, "slowly", False):
        assert progress is not None
        with held() as interrupts:
            while not interrupts.take():
                progress(0.5)
                time.sleep(0.05)
        raise KeyboardInterrupt
    changed = scenario.with_({"seed": 2})
    run = run_sim(changed)
    # Like a kernel, it does not know everything.
    queues = run.tables["queues"].with_columns(pl.lit(None, pl.Float64).alias(UNKNOWN))
    host = {"kernel": {"version": "9.9", "flags": [FLAG]}}
    return replace(run, tables={**run.tables, "queues": queues}, host=host)


BACKEND = Backend("kernel", _run, nothing_to_say)

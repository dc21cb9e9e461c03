"""Looks for a new plot in the report of a run. Run by test_edits.py."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import narrows
from narrows import Scenario, run
from narrows.report.run_report import write_run_report

assert Path(narrows.__file__).is_relative_to(sys.argv[2]), narrows.__file__

SCENARIO = Scenario.from_dict(
    {
        "name": "wire",
        "duration": "2 s",
        "links": [{"name": "l", "between": ["a", "b"], "rate": "1 Mbit/s"}],
        "traffic": [{"kind": "bulk", "name": "load", "sender": "a", "receiver": "b"}],
        "monitor": {"links": {"links": ["l.forward"], "rate": 10}},
    }
)

with tempfile.TemporaryDirectory() as folder:
    write_run_report(run(SCENARIO).save(Path(folder) / "run"), kinds=["svg"])
    assert list(Path(folder).glob("run/plots/spare-*.svg")), "the report lacks the plot"
print("everything knows it")

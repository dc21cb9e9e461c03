"""Measures real DNS servers from this machine: queries, times, and a verdict in words.

>>> from narrows.probe import plan
>>> plan(["127.0.0.1"], count=3).queries
6
"""

from __future__ import annotations

from narrows.probe.conduct import Progress, probe
from narrows.probe.errors import ProbeError
from narrows.probe.plan import Plan, Target, plan
from narrows.probe.simulated import measurement_of
from narrows.probe.verdict import VERDICTS, Verdict, verdicts

__all__ = [
    "VERDICTS",
    "Plan",
    "ProbeError",
    "Progress",
    "Target",
    "Verdict",
    "measurement_of",
    "plan",
    "probe",
    "verdicts",
]

"""Many runs of one scenario: combinations of keys' values and seeds, on all cores or a cluster.

    axes.py      varied keys and their values, from the command line, a plan file or Python
    options.py   the command line's options about axes, variants and seeds
    variants.py  named variants, each of which sets several keys
    plan.py      every combination, checked before anything runs, and its digest
    work.py      one run, in any process: takes an item of the plan, returns a row
    local.py     processes of this machine;  worker.py is their program
    cluster.py   a Dask cluster
    store.py     the sweep folder, which grows run by run and so survives a crash
    wanted.py    whether the sweep will have the metrics that the user asks for
    preview.py   the same before the sweep starts, from short runs that are not kept
    conduct.py   `sweep`, which joins these parts

The package is called sweeps, so that `narrows.sweep` is the function.
"""

from __future__ import annotations

from narrows.sweeps.axes import SweepPlanFile, axes_of, parse_vary, read_plan
from narrows.sweeps.conduct import Progress, default_folder, sweep, sweep_preview
from narrows.sweeps.errors import SweepError
from narrows.sweeps.options import varied
from narrows.sweeps.variants import parse_variants

__all__ = [
    "Progress",
    "SweepError",
    "SweepPlanFile",
    "axes_of",
    "default_folder",
    "parse_variants",
    "parse_vary",
    "read_plan",
    "sweep",
    "sweep_preview",
    "varied",
]

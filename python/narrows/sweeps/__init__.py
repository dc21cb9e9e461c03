"""Many runs of one scenario: combinations of keys' values and seeds, on all cores or a cluster.

    axes.py      what is varied, from the command line, a plan file or Python
    options.py   what the command line says about both, and about seeds
    variants.py  named variants, each of which sets several keys
    plan.py      every combination, checked before anything runs, and its digest
    work.py      one run, in whatever process: a plan's item in, a row out
    local.py     processes of this machine;  worker.py is what they run
    cluster.py   a Dask cluster
    store.py     the sweep folder: appended to run by run, so that it survives whatever happens
    wanted.py    whether the sweep will have the figures that are asked for
    preview.py   the same before anything is kept, from short runs
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

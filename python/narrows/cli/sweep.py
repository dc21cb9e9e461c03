"""`narrows sweep`: many runs of one scenario."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from narrows.cli.failure import Exit
from narrows.cli.options import (
    DEFAULT_BACKEND,
    Backend,
    Json,
    Latex,
    Plugins,
    Quiet,
    ScenarioFile,
    Settings,
    Workers,
    form_of,
    listing_metrics,
    option,
    settings,
)
from narrows.progress import shown

EXAMPLES = """\
# 30 runs on all cores. The same command again runs only what is missing.
narrows sweep scenarios/short-flows.toml --vary queue.limit=100,500,1000 \\
    --vary traffic.connections=100,200 --seeds 5 --out runs/buffers

# Whole tables as values. --plan FILE reads them from a file.
narrows sweep scenarios/dns-behind-fifo.toml \\
    --vary 'queue={kind="pfifo", limit=100},{kind="bfifo", limit="250 kB"}' \\
    --seeds 3

# Named variants: the unchanged scenario, and one with two changed keys.
narrows sweep scenarios/dns-behind-red.toml --seeds 3 --variant red \\
    --variant red-ecn:queue.ecn=true,traffic.ecn_share=1.0

# Draws a plot; see narrows sweep plot --help.
narrows sweep plot runs/buffers --metric bursts.completion_mean_s \\
    --against queue.limit --by traffic.connections

Exit codes: 0 every run is complete; 1 some runs failed or ended early, and the others are kept; 2
bad input; 130 interrupted. After 1 or 130 the same command runs what is missing.
"""

Vary = Annotated[
    list[str] | None,
    option(
        "KEY=V1,V2,..",
        "Values of a key, written as for --set; may be repeated, for other keys or for more "
        "values of the same key.",
        "--vary",
    ),
]


Variants = Annotated[
    list[str] | None,
    option(
        "NAME:K=V,K=V,..",
        "A named variant: keys that change together. NAME alone is the unchanged scenario; "
        "may be repeated, for other variants or for more keys of the same variant.",
        "--variant",
    ),
]


def command(
    scenario: ScenarioFile,
    vary: Vary = None,
    variant: Variants = None,
    seeds: Annotated[
        str | None,
        option("N", "The number of seeds (1 to N), or the seeds: 3,7 or 11-20. [default: 1]"),
    ] = None,
    set: Settings = None,
    backend: Backend = DEFAULT_BACKEND,
    plan: Annotated[
        Path | None,
        option(
            "FILE",
            "A TOML file with the tables vary, variants and set, and the key seeds. --vary "
            "and --variant add to it; --set, --seeds and a variant of the same name override it.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "The sweep's folder. If it holds part of the same sweep, only the rest is run. "
            "[default: runs/NAME-sweep-DIGEST]",
        ),
    ] = None,
    workers: Workers = None,
    dask: Annotated[
        str | None,
        option("ADDRESS", "Run on a Dask cluster: its scheduler, such as tcp://host:8786."),
    ] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep the run folders, not only the metrics.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Also write the table as CSV.")] = False,
    metric: Annotated[
        list[str] | None,
        option(
            "NAME",
            "A metric to print for each combination; may be repeated. "
            '"?" alone lists all metrics and runs nothing.',
        ),
    ] = None,
    plugin: Plugins = None,
    json_output: Json = False,
    latex: Latex = False,
    quiet: Quiet = False,
) -> Exit:
    """Run a scenario with all combinations of values and seeds; write one table of all runs."""
    from narrows import sweeps
    from narrows.cli.sweep_output import end_sweep, print_sweep
    from narrows.results.metric_names import ALL
    from narrows.results.sweep_means import table_of_metrics

    form = form_of(json_output=json_output, latex=latex)
    varied, numbers = sweeps.varied(plan, vary, variant, settings(set), seeds)
    values: dict[str, Any] = {**varied, "backend": backend, "plugins": plugin}
    asked = [name for name in metric or () if name != ALL]
    if metric and not asked:
        table_of_metrics(sweeps.sweep_preview(scenario, **values)).print(sys.stdout)
        return Exit.DONE
    with listing_metrics(), shown(scenario.stem, quiet=quiet) as update:
        found = sweeps.sweep(
            scenario,
            **values,
            seeds=numbers,
            out=out or sweeps.default_folder(scenario, **values),
            workers=workers,
            dask=dask,
            keep_runs=keep_runs,
            csv=csv,
            metrics=asked,
            progress=lambda at: update(at.share, at.words),
        )
    try:
        with listing_metrics():
            print_sweep(found, asked, all_metrics=ALL in (metric or ()), form=form)
    finally:
        code = end_sweep(found, quiet=quiet)
    return code

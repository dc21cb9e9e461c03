"""`narrows run`: a scenario, a backend, a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, say
from narrows.cli.folders import free_folder
from narrows.cli.options import (
    DEFAULT_BACKEND,
    Backend,
    Json,
    Latex,
    Plots,
    Plugins,
    Quiet,
    ScenarioFile,
    Seed,
    Settings,
    form_of,
    option,
    outside,
    plot_files,
    settings,
)
from narrows.cli.run_output import end_run, meanwhile_loading
from narrows.progress import shown

EXAMPLES = """\
# Writes runs/dns-behind-red-1 with tables, plots and report.html.
narrows run scenarios/dns-behind-red.toml

narrows run scenarios/dns-behind-red.toml --set queue.probability=0.2 \\
    --seed 7 --out runs/p20

narrows run scenarios/dns-behind-red.toml --json --no-report | jq .summary

Exit codes: 0 complete; 1 stopped early by a limit; 2 bad input; 130 interrupted. If a run ended
early, run.json in its folder has "status": "partial".
"""

ELSEWHERE = {
    "--seeds": "a run has one seed; narrows sweep FILE --seeds 5 runs several, and keeps their "
    "folders with --keep-runs",
    "--csv": "narrows sweep FILE --csv writes the metrics as CSV; for a table of a run, "
    'Run.load(DIR).write_csv("queries", "queries.csv") in Python',
}


def command(
    scenario: ScenarioFile,
    backend: Backend = DEFAULT_BACKEND,
    set: Settings = None,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        option("DIR", "The run folder; must not hold a run yet. [default: runs/NAME-1, -2, ..]"),
    ] = None,
    json_output: Json = False,
    latex: Latex = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Also write plots and report.html.")
    ] = True,
    plots: Plots = None,
    event_limit: Annotated[
        int | None, option("N", "Stop after this many events.", min=1, max=2**63 - 1)
    ] = None,
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> Exit:
    """Run a scenario, write a run folder, and print its summary."""
    from narrows.backends import run_changed
    from narrows.backends.sim import PartFailed
    from narrows.results import RUN_FILE
    from narrows.scenario import Scenario

    form = form_of(json_output=json_output, latex=latex)
    kinds = plot_files(plots, written=report, needs="leave out --no-report")
    changed = settings(set)
    loaded = Scenario.load(scenario, set=changed)
    parts = outside(plugin)
    if parts:
        parts.refuse_unused(loaded)
    folder = out or free_folder(Path("runs"), loaded.name)
    try:
        with shown(loaded.name, quiet=quiet) as update:
            result = run_changed(
                loaded,
                changed,
                seed=seed,
                out=folder,
                backend=backend,
                progress=meanwhile_loading(update, "report.run_report" if report else "results"),
                event_limit=event_limit,
                outside=parts,
            )
    except PartFailed as failed:
        say(f"error: {failed}")
        result = failed.partial
    except KeyboardInterrupt:
        # After the end of the simulation, or after a second interrupt, the run exists.
        say(f"interrupted; wrote {folder}" if (folder / RUN_FILE).exists() else "interrupted")
        return Exit.INTERRUPTED
    return end_run(result, loaded, folder, kinds if report else None, form, quiet)

"""`narrows sweep`: many runs of one scenario."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.options import (
    DEFAULT_BACKEND,
    Backend,
    Json,
    Quiet,
    ScenarioFile,
    Settings,
    Workers,
    settings,
)
from narrows.progress import shown

EXAMPLES = """\
# 30 runs on all cores; again: what is missing.
narrows sweep scenarios/short-flows.toml --vary queue.limit=100,500,1000 \\
    --vary traffic.connections=100,200 --seeds 5 --out runs/buffers

# Whole tables; or --plan FILE.
narrows sweep scenarios/dns-behind-fifo.toml \\
    --vary 'queue={kind="pfifo", limit=100},{kind="bfifo", limit="250 kB"}' \\
    --seeds 3

# Named variants: the scenario as it stands, and with two keys changed.
narrows sweep scenarios/dns-behind-red.toml --seeds 3 --variant red \\
    --variant red-ecn:queue.ecn=true,traffic.ecn_share=1.0

# A figure; see narrows sweep plot --help.
narrows sweep plot runs/buffers --metric bursts.completion_mean_s \\
    --against queue.limit --by traffic.connections

Exit codes: 0 every run is complete; 1 runs failed or ended early, the others are kept; 2 bad
input; 130 interrupted. After 1 and 130 the same command does what is missing.
"""

SHOWN_FAILURES = 3
"""The most failed runs that are named on the terminal."""

Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="KEY=V1,V2,..",
        help="Values of a key, as --set takes them; may be repeated, for other keys or for more "
        "values of the same.",
        show_default=False,
    ),
]


Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME:K=V,K=V,..",
        help="A named variant: keys that change together. NAME alone is the scenario as it "
        "stands; may be repeated, for other variants or for more keys of the same.",
        show_default=False,
    ),
]


def command(
    scenario: ScenarioFile,
    vary: Vary = None,
    variant: Variants = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many seeds (1 to N), or which: 3,7 or 11-20. [default: 1]",
            show_default=False,
        ),
    ] = None,
    set: Settings = None,
    backend: Backend = DEFAULT_BACKEND,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A TOML file with the tables vary, variants and set, and with seeds. --vary and "
            "--variant add to it; --set, --seeds and a variant of the same name replace its parts.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The sweep's folder. If it holds a part of the same sweep, the rest is run. "
            "[default: runs/NAME-sweep-DIGEST]",
            show_default=False,
        ),
    ] = None,
    workers: Workers = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on a Dask cluster: its scheduler, such as tcp://host:8786.",
            show_default=False,
        ),
    ] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep the run folders, not the figures alone.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Write the table as CSV, too.")] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help='What to print for each combination; may be repeated; "?" alone lists all '
            "figures, without a sweep.",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run a scenario with all combinations of values and seeds; leave one table of all runs."""
    from narrows.results.metric_names import ALL
    from narrows.results.sweep_means import figures_table
    from narrows.results.sweep_text import sweep_text
    from narrows.sweeps import (
        Progress,
        default_folder,
        joined,
        parse_variants,
        parse_vary,
        read_plan,
        sweep,
        sweep_preview,
    )

    values, variants = parse_vary(vary or []), parse_variants(variant or [])
    fixed: dict[str, object] = dict(settings(set))
    chosen: int | list[int] = 1
    if plan is not None:
        told = read_plan(plan)
        values = joined(told.vary, values)
        variants = {**told.variants, **variants}
        fixed = {**told.set, **fixed}
        chosen = 1 if told.seeds is None else told.seeds
    if seeds is not None:
        chosen = _seeds(seeds)
    if dask is not None and workers is not None:
        raise UserError("--workers: a Dask cluster has its own; hint: leave one of the two out")
    asked = [name for name in metric or () if name != ALL]
    if metric and not asked:
        short = sweep_preview(scenario, vary=values, variants=variants, set=fixed, backend=backend)
        figures_table(short).print(sys.stdout)
        return Exit.DONE
    folder = out or default_folder(scenario, fixed, values, backend, variants)
    with shown(scenario.stem, quiet=quiet) as update:

        def progress(at: Progress) -> None:
            update(at.share, at.words)

        found = sweep(
            scenario,
            vary=values,
            variants=variants,
            seeds=chosen,
            set=fixed,
            out=folder,
            backend=backend,
            workers=workers,
            dask=dask,
            keep_runs=keep_runs,
            csv=csv,
            metrics=asked,
            progress=progress,
        )
    try:
        if json_output:
            print(json.dumps(found.document(), indent=2, allow_nan=False))
        else:
            sweep_text(found, asked).print(sys.stdout)
            if ALL in (metric or ()):
                figures_table(found).print(sys.stdout)
    finally:
        for run in found.failures[:SHOWN_FAILURES]:
            what = run.message or f"stopped early: {run.stopped}"
            say(f"failed: {', '.join(filter(None, (run.name, f'seed {run.seed}')))}: {what}")
        if len(found.failures) > SHOWN_FAILURES:
            say(f"failed: {len(found.failures) - SHOWN_FAILURES} more; see column message")
        if not quiet:
            say(f"wrote {folder}")
    counts = found.counts()
    if found.status == "partial":
        say(f"interrupted after {len(found.runs)} of {found.total} runs; the same command goes on")
        return Exit.INTERRUPTED
    if found.status == "failed":
        say(f"{counts['failed'] + counts['partial']} of {found.total} runs failed")
        return Exit.FAILED
    return Exit.DONE


def _seeds(text: str) -> int | list[int]:
    """`5`, `3,7`, `11-20`: how many, or which."""
    if text.isdecimal() and len(text) < 20:
        return int(text)
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (not dash or last.isdecimal())) or len(part) > 40:
            raise UserError(f"--seeds {text}: no seeds; hint: such as 5, or 3,7 or 11-20")
        low, high = int(first), int(last or first)
        if low > high:
            raise UserError(f"--seeds {text}: ends before it begins; hint: such as 11-20")
        if high - low + 1 + len(found) > 100_000:
            raise UserError(
                f"--seeds {text}: more than 100000 seeds; hint: fewer, in several sweeps"
            )
        found.extend(range(low, high + 1))
    return found

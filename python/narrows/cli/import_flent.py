"""`narrows import flent`: a data file of Flent into a run folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from narrows.cli.failure import Exit, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, argument, option

EXAMPLES = """\
# A measurement beside its simulation.
narrows import flent rrul-2026-11-30T120000.flent.gz --out runs/measured
narrows suite rrul --queue fq-codel --test rrul
narrows compare runs/measured runs/suite-rrul/flent/rrul-fq-codel
"""


def command(
    file: Annotated[Path, argument("FILE", "The file: .flent or .flent.gz.")],
    out: Annotated[
        Path | None, option("DIR", "The run folder. [default: runs/flent-1, -2, ..]")
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Read a data file of Flent into a run folder, for comparisons."""
    from narrows.flent import read_flent
    from narrows.results.folder import check_target
    from narrows.results.text import summary_table

    folder = out or free_folder(Path("runs"), "flent")
    check_target(folder)
    found = read_flent(file)
    run = found.run.save(folder)
    if json_output:
        print(json.dumps(run.summary, indent=2))
    else:
        summary_table(run).print(sys.stdout)
    if found.left_out and not quiet:
        say(f"left out, as neither TCP nor pings: {', '.join(found.left_out[:10])}")
    if not quiet:
        say(f"wrote {folder}")
    return Exit.DONE

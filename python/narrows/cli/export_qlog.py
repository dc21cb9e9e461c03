"""`narrows export qlog`: the sampled connections of a run, for viewers of qlog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import say
from narrows.cli.options import Quiet, argument

EXAMPLES = """\
# The run must have sampled connections: [monitor] flows = { groups = ["*"] }.
narrows export qlog runs/web-over-quic-1 pages.qlog
"""


def command(
    run: Annotated[Path, argument("RUN", "A run folder.", autocompletion=runs_and_sweeps)],
    file: Annotated[Path, argument("FILE", "The file to write; must not exist.")],
    quiet: Quiet = False,
) -> None:
    """Write windows, round trips, states and losses of sampled connections as qlog."""
    from narrows.report.qlog import write_qlog
    from narrows.results import Run

    write_qlog(Run.load(run), file)
    if not quiet:
        say(f"wrote {file}")

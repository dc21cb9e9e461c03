"""Output of `narrows monitor`, while it watches and afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from narrows.cli.failure import UserError, say
from narrows.progress import lines

if TYPE_CHECKING:
    from narrows.monitor import Reading, Watch
    from narrows.results import Run


def watched(watch: Watch, duration: float | None, *, quiet: bool) -> Run:
    """Watches until the end or an interrupt, and shows the samples.

    Without a duration, an interrupt is the normal end.

    Raises:
        UserError: No sample was taken.
    """
    interrupted = False
    try:
        _show(watch, duration, quiet=quiet)
    except KeyboardInterrupt:
        interrupted = True
    result = watch.run(complete=not (interrupted and duration is not None))
    if result.queues.is_empty():
        raise UserError("no sample was taken; hint: let it run for a second")
    return result


def say_missed(watch: Watch) -> None:
    """Prints how many samples were missed, and how many neighbours did not answer."""
    missed = watch.missed
    if missed:
        were = "1 sample was" if missed == 1 else f"{missed} samples were"
        say(f"{were} not taken in time: the machine is busy")
    else:
        say("no sample was missed")
    if watch.neighbours_failed:
        say(f"{watch.neighbours_failed} neighbours could not be resolved: see docs/monitor.md")


def _show(watch: Watch, duration: float | None, *, quiet: bool) -> None:
    """Watches and shows progress: live on a terminal, and elsewhere a line every ten seconds."""
    samples = watch.readings(duration)
    if not quiet and sys.stderr.isatty():
        _show_live(samples)
        return
    tell = lines(f"monitor {watch.device or 'all interfaces'}")
    for readings in samples:
        if readings and not quiet:
            passed_s = readings[-1].t_s
            done = None if duration is None else min(1.0, passed_s / duration)
            tell(done, f"watched for {passed_s:.0f} s")


def _show_live(samples: Iterator[list[Reading]]) -> None:
    from rich.console import Console
    from rich.live import Live

    from narrows.monitor.screen import Screen

    console = Console(stderr=True)
    screen = Screen(console.width)
    with Live(console=console, refresh_per_second=10, transient=True) as shown:
        for readings in samples:
            screen.add(readings)
            shown.update(screen.show())

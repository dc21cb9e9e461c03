"""Shows progress: a bar on a terminal or in a notebook, and elsewhere a line every ten seconds.

Lines are for log files and pipes. Work that takes less than ten seconds writes none.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY_S = 10.0
"""Seconds between two lines."""


class Update(Protocol):
    """Shows the completed share of the work, and what is being done."""

    def __call__(self, done: float | None, label: str = "") -> None:
        """`done` is a share from 0 to 1, or None if it is unknown; then only the label is shown."""
        ...


@contextmanager
def shown(title: str, *, quiet: bool) -> Iterator[Update]:
    """Shows progress while the block runs, unless `quiet` is set."""
    if quiet:
        yield lambda done, label="": None
    elif sys.stderr.isatty() or "ipykernel" in sys.modules:
        with _bar(title) as update:
            yield update
    else:
        yield lines(title)


@contextmanager
def _bar(title: str) -> Iterator[Update]:
    # Rich takes a tenth of a second to load, so it is loaded only if it is needed.
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[label]}"),
        # A notebook shows what is written to its own console.
        console=Console(stderr="ipykernel" not in sys.modules),
        transient=True,
    ) as progress:
        # A scenario's name may look like markup.
        task = progress.add_task(escape(title), total=1.0, label="")

        def update(done: float | None, label: str = "") -> None:
            progress.update(task, completed=done, label=escape(label))

        yield update


def lines(title: str, clock: Callable[[], float] = time.monotonic) -> Update:
    """Writes a line when ten seconds have passed since the last one.

    Examples:
        >>> import contextlib, io
        >>> seconds = iter([0.0, 5.0, 10.0, 12.0, 20.0])
        >>> with contextlib.redirect_stderr(io.StringIO()) as printed:
        ...     update = lines("a run", lambda: next(seconds))
        ...     for done in (0.1, 0.2, 0.3, 0.5):
        ...         update(done, "of two")
        >>> print(printed.getvalue(), end="")
        a run: 20 % done, about 40 s left, of two
        a run: 50 % done, about 20 s left, of two
    """
    started = last = clock()

    def update(done: float | None, label: str = "") -> None:
        nonlocal last
        now = clock()
        if now - last < EVERY_S:
            return
        last = now
        share = "" if done is None else f"{100.0 * done:.0f} % done"
        left = f"about {_span((now - started) * (1.0 - done) / done)} left" if done else ""
        words = ", ".join(filter(None, (share, left, label)))
        with contextlib.suppress(OSError):
            print(f"{title}: {words}", file=sys.stderr)

    return update


def _span(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    if seconds < 90.0 * 60.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.1f} h"

"""Progress with time left, on a terminal's stderr; silent everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Update(Protocol):
    """Takes how much is done, 0 to 1, and what is being done."""

    def __call__(self, done: float, label: str = "") -> None:
        """`done` is 0 to 1."""
        ...


@contextmanager
def shown(title: str, *, quiet: bool) -> Iterator[Update]:
    """A progress bar while the block runs, if stderr is a terminal and `quiet` is not set."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[label]}"),
        console=console,
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task(title, total=1.0, label="")

        def update(done: float, label: str = "") -> None:
            progress.update(task, completed=done, label=label)

        yield update

"""One sitting of a bench: the steps that earlier sittings left, in the plan's order.

A step must not be split. It is a round of a part, because arms are compared within a round, or
something that is measured once (the gateway's behaviour, memory). An interrupted step is measured
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .journal import Done, Journal
from .recording import Recording

OVERHEAD = 2.0
"""A step's expected seconds for each second of load, if none of its part has been measured."""


@dataclass(frozen=True)
class Step:
    """A step of the bench."""

    part: str
    round: int
    """From 1; steps that are done once have a number, too."""
    length_s: float
    """Load that it makes, in seconds."""
    measure: Callable[[Recording], Sequence[str]]
    """Measures it, and returns what could not be measured, each with the reason."""


def sit(
    steps: Sequence[Step],
    journal: Journal,
    clock: Callable[[], float],
    until_s: float = float("inf"),
) -> str:
    """Measures the remaining steps, and keeps each one when it is over.

    Args:
        steps: All steps of the bench.
        journal: The journal that keeps them; the sitting has begun.
        clock: Seconds from the start of the bench.
        until_s: When to end, by this clock. A step that would last longer does not begin, unless
            it is the first of the sitting, so that each sitting makes progress.

    Returns:
        Why it ended: `end`, `budget` or `interrupted`.
    """
    try:
        for count, step in enumerate(left(steps, journal)):
            start_s = clock()
            if count > 0 and start_s + expected_s(step, journal) > until_s:
                return "budget"
            recording = Recording()
            not_measured = list(step.measure(recording))
            end_s = clock()
            took_s = end_s - start_s
            journal.add(Done(step.part, step.round, took_s, end_s, not_measured, recording.rows))
    except KeyboardInterrupt:
        return "interrupted"
    return "end"


def left(steps: Sequence[Step], journal: Journal) -> list[Step]:
    """The steps that were not yet measured."""
    done = {(done.part, done.round) for done in journal.done}
    return [step for step in steps if (step.part, step.round) not in done]


def expected_s(step: Step, journal: Journal) -> float:
    """An estimate of a step's duration: that of the longest step of its part, if there is one."""
    known = [done.took_s for done in journal.done if done.part == step.part]
    return max(known) if known else OVERHEAD * step.length_s

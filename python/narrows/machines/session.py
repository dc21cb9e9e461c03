"""A part's session: it starts the conductor if needed, measures the clocks, waits for the start."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from narrows.machines import clocks
from narrows.machines.control import LINGER_S, Conductor
from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.member import Member
from narrows.machines.parts import Part, Parts
from narrows.machines.record import Clock

Report = Callable[[str], object]
"""Called with a line that says what the part is waiting for."""


class Session:
    """From the first connection to the last exchange of clocks."""

    def __init__(
        self, parts: Parts, part: Part, lab: Lab, secret: str, *, wait_s: float, report: Report
    ) -> None:
        """Finds the other machines.

        Args:
            parts: The parts of the scenario.
            part: This part.
            lab: The machines.
            secret: What all parts of the run know, and nobody else.
            wait_s: Seconds to wait for the conducting machine.
            report: Called with what the part is waiting for.

        Raises:
            MachineError: A port is in use, nobody listens, or the conductor refuses this part.
        """
        self._report = report
        self._conductor: Conductor | None = None
        self._lost: str | None = None
        self._stopped: str | None = None
        where = (lab.address(lab.clock), lab.control_port)
        if parts.conducting(lab) == part:
            monitors = [Part("monitor", node) for node in lab.monitors]
            self._conductor = Conductor(*where, parts.digest, [*parts.all, *monitors], secret)
        else:
            report(f"connecting to {lab.clock} at {where[0]}, which keeps the time")
        try:
            self._member = Member(part, where, parts.digest, secret, wait_s=wait_s)
            self._before = self._member.offset()
        except BaseException:
            if self._conductor is not None:
                self._conductor.close(linger_s=0.0)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._member.tell("interrupted")
        self._member.close()
        if self._conductor is not None:
            self._conductor.close(LINGER_S if kind is None else 0.0)

    @property
    def run(self) -> str:
        """The identifier of the run."""
        return self._member.run

    def start(self) -> float:
        """Waits for all parts; returns the start, by this machine's `CLOCK_MONOTONIC`.

        Raises:
            MachineError: The conducting machine has left.
        """
        missing: list[Part] | None = None

        def waiting() -> None:
            nonlocal missing
            if self._conductor is None:
                now: list[Part] = []
            else:
                now = list(self._conductor.missing)
            if now != missing:
                missing = now
                names = ", ".join(f"{each.role} at {each.node}" for each in now)
                self._report(f"waiting for {names or 'the others'}")

        begins = self._member.start(waiting) - self._before.offset_s
        self._report("all machines are ready")
        return time.monotonic() + (begins - clocks.now())

    def stopped(self) -> str | None:
        """Why the run has ended for everybody; None if it has not."""
        if self._lost is None and self._stopped is None:
            try:
                self._stopped = self._member.stopped()
            except MachineError as error:
                # The part continues to its end, so that no measurement is lost.
                self._lost = str(error)
        return self._stopped

    def tell(self, what: str) -> None:
        """Sends `done` or `interrupted`."""
        self._member.tell(what)

    def clock(self) -> Clock:
        """Measures the offset again; returns it together with the one before the run."""
        after = None
        if self._lost is None:
            try:
                after = self._member.offset()
            except MachineError as error:
                self._lost = str(error)
        return Clock(self._before, after)

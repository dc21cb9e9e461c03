"""The kernels that can run scenarios on this machine, as JSON values and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.backends.kernel.ways import NEEDED, Need, Way, look, missing_tools


@dataclass(frozen=True)
class Survey:
    """The ways to run a kernel on this machine, and the missing programs that all of them need."""

    ways: Sequence[Way]
    missing_tools: Sequence[Need]

    @property
    def chosen(self) -> str | None:
        """The way that a run uses; None if there is none."""
        if self.missing_tools:
            return None
        return next((way.name for way in self.ways if not way.lacks), None)

    def document(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "chosen": self.chosen,
            "ways": [
                {
                    "name": way.name,
                    "title": way.title,
                    "usable": not way.lacks,
                    "lacks": way.lacks,
                    "fix": way.fix,
                    "virtual_time": way.virtual,
                }
                for way in self.ways
            ],
            "queues": [] if all(way.lacks for way in self.ways) else list(NEEDED),
            "missing_tools": [need.package for need in self.missing_tools],
        }

    def lines(self) -> Iterator[str]:
        """A line for each way and each missing program, and a line for the way that a run uses."""
        for way in self.ways:
            mark = "*" if way.name == self.chosen else " "
            says = f"no: {way.lacks} ({way.fix})" if way.lacks else "yes"
            yield f"{mark} {way.name:<8} {way.title}: {says}"
        for need in self.missing_tools:
            yield f"  {need.command} is missing: apt-get install {need.package}"
        if self.chosen is None:
            yield "none can be used: run narrows kernel prepare"
        else:
            yield (
                f"a run on the backend kernel uses {self.chosen}; "
                "the backend kernel-NAME uses another"
            )


def survey() -> Survey:
    """Looks at what this machine has."""
    return Survey(look(), missing_tools())

"""The kernels that can run scenarios on this machine, as JSON values and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.backends.kernel.available import NEEDED, Kernel, Need, look, missing_tools


@dataclass(frozen=True)
class Survey:
    """The kernels that this machine offers, and the missing programs that all of them need."""

    kernels: Sequence[Kernel]
    missing_tools: Sequence[Need]

    @property
    def chosen(self) -> str | None:
        """The kernel that a run uses; None if there is none."""
        if self.missing_tools:
            return None
        return next((kernel.name for kernel in self.kernels if not kernel.lacks), None)

    def document(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "chosen": self.chosen,
            "kernels": [
                {
                    "name": kernel.name,
                    "title": kernel.title,
                    "usable": not kernel.lacks,
                    "lacks": kernel.lacks,
                    "fix": kernel.fix,
                    "virtual_time": kernel.virtual,
                }
                for kernel in self.kernels
            ],
            "queues": [] if all(kernel.lacks for kernel in self.kernels) else list(NEEDED),
            "missing_tools": [need.package for need in self.missing_tools],
        }

    def lines(self) -> Iterator[str]:
        """A line for each kernel, for each missing program, and for the kernel that a run uses."""
        for kernel in self.kernels:
            mark = "*" if kernel.name == self.chosen else " "
            says = f"no: {kernel.lacks} ({kernel.fix})" if kernel.lacks else "yes"
            yield f"{mark} {kernel.name:<8} {kernel.title}: {says}"
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

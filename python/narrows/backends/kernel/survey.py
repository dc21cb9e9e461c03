"""The kernels that can run scenarios on this machine, as JSON values and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrows.backends import Refusal, get
from narrows.backends.kernel.available import NEEDED, Kernel, Need, look, missing_tools
from narrows.backends.kernel.kernels import names
from narrows.scenario import Scenario


@dataclass(frozen=True)
class Survey:
    """The kernels that this machine offers, and the missing programs that all of them need."""

    kernels: Sequence[Kernel]
    missing_tools: Sequence[Need]
    refusals: Mapping[str, Sequence[Refusal]] = field(default_factory=dict)
    """The keys of a scenario that a kernel cannot honour, by the kernel's name."""

    @property
    def usable(self) -> list[str]:
        """The kernels that this machine has and that can run the scenario."""
        return [
            kernel.name
            for kernel in self.kernels
            if not (kernel.lacks or self.refusals.get(kernel.name))
        ]

    @property
    def chosen(self) -> str | None:
        """The kernel that a run on the backend `kernel` uses; None if there is none."""
        if self.missing_tools:
            return None
        first = next((kernel.name for kernel in self.kernels if not kernel.lacks), None)
        return first if first in self.usable and first not in names() else None

    def document(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "chosen": self.chosen,
            "kernels": [
                {
                    "name": kernel.name,
                    "title": kernel.title,
                    "usable": kernel.name in self.usable,
                    "lacks": kernel.lacks,
                    "fix": kernel.fix,
                    "virtual_time": kernel.virtual,
                    "refuses": [each._asdict() for each in self.refusals.get(kernel.name, ())],
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
            for refusal in self.refusals.get(kernel.name, ()):
                yield f"           cannot honour {refusal.key}: {refusal.why}"
        for need in self.missing_tools:
            yield f"  {need.command} is missing: apt-get install {need.package}"
        if self.missing_tools or all(kernel.lacks for kernel in self.kernels):
            yield "none can be used: run narrows kernel prepare"
        elif not self.usable:
            yield "none that is ready can run the scenario"
        elif self.chosen is None:
            yield f"a run needs --backend kernel-{self.usable[0]}"
        else:
            yield (
                f"a run on the backend kernel uses {self.chosen}; "
                "the backend kernel-NAME uses another"
            )


def survey(scenario: Scenario | None = None) -> Survey:
    """Looks at what this machine has, and which of its kernels can run a scenario."""
    offered = look()
    refusals = {
        kernel.name: get(f"kernel-{kernel.name}").refusals(scenario)
        for kernel in offered
        if scenario is not None
    }
    return Survey(offered, missing_tools(), refusals)

"""The interface of a backend: it runs scenarios, and names the keys that it cannot honour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from narrows.errors import MOST_TOGETHER, HintedError, together

if TYPE_CHECKING:
    from narrows.results import Run
    from narrows.scenario import Scenario

Progress = Callable[[float], object]
"""Called with the completed share of a run, from 0 to 1."""


class BackendError(HintedError):
    """A run that a backend cannot do; its text is one line."""

    @classmethod
    def of_private(cls, error: OSError) -> BackendError:
        """Makes the error for a private folder that cannot be made or used."""
        what = (error.strerror or str(error)).lower()
        return cls(error.filename or "", what, "set XDG_RUNTIME_DIR to a folder of yours alone")


class Refusal(NamedTuple):
    """A key of a scenario that a backend cannot honour."""

    key: str
    """Where it is, such as `links[0].jitter`."""
    why: str
    """A few words, such as `the kernel has no such queue`."""
    hint: str = ""
    """The remedy, if it is not to leave the key out or to change the backend."""


def nothing_to_say(_scenario: Scenario) -> Sequence[str]:
    """The `differences` of a backend that runs every scenario as the simulator does."""
    return ()


class Runner(Protocol):
    """Runs a scenario that its backend does not refuse."""

    def __call__(
        self,
        scenario: Scenario,
        *,
        seed: int | None = None,
        progress: Progress | None = None,
        event_limit: int | None = None,
    ) -> Run:
        """Returns a run, with the status `partial` if Ctrl-C ended it early.

        Raises:
            BackendError: It cannot do the run.
        """


@dataclass(frozen=True)
class Backend:
    """Something that runs scenarios."""

    name: str
    run: Runner
    refusals: Callable[[Scenario], Sequence[Refusal]]
    """Every key of a scenario that it cannot honour. A backend ignores no key quietly: it names the
    key here, and `check` refuses the run."""
    differences: Callable[[Scenario], Sequence[str]] = nothing_to_say
    """Sentences that say where it differs from the simulator in a scenario, so that a comparison of
    the two misleads nobody. `narrows check` prints them."""

    def check(self, scenario: Scenario) -> None:
        """Makes sure that it honours all of a scenario.

        Raises:
            BackendError: It does not. There is one error for each key.
        """
        refused = self.refusals(scenario)
        if not refused:
            return
        named, more = refused[:MOST_TOGETHER], len(refused) - MOST_TOGETHER
        cannot = f"the backend {self.name} cannot honour"
        found = [
            BackendError(f"{scenario.name}: {key}", f"{cannot} it: {why}", hint or _USUAL_HINT)
            for key, why, hint in named
        ]
        if more > 0:
            found.append(BackendError(scenario.name, f"{cannot} {more} more keys"))
        raise together(found)


_USUAL_HINT = "leave it out, or change the backend"

"""Errors in a sweep as a whole, and in its combinations."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.backends import BackendError
from narrows.errors import MOST_TOGETHER, HintedError, ScenarioError, together
from narrows.results.sweep_run import Axis, setting_text


class SweepError(HintedError):
    """A sweep is invalid or cannot go on; the error's text is one line.

    Examples:
        >>> str(SweepError("queue.limit", "has no values", "such as queue.limit=100,500"))
        'queue.limit: has no values; hint: such as queue.limit=100,500'
    """


_MOST_REFUSED = 50
"""After this many wrong combinations, the others are not checked."""


class Errors:
    """Collects the errors of combinations and keeps each only once."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._axes = axes
        self.checked = 0
        """How many combinations were checked."""
        self._refused = 0
        self._found: dict[str, _Found] = {}

    def add(self, error: ScenarioError | BackendError, places: Sequence[int]) -> None:
        """Keeps an error of a combination, and the further errors that it carries."""
        self._refused += 1
        for each in (error, *error.others):
            self._found.setdefault(str(each), _Found(each, places)).times += 1

    @property
    def are_many(self) -> bool:
        """Whether there are as many errors as narrows reports, or many combinations have them."""
        return len(self._found) >= MOST_TOGETHER or self._refused >= _MOST_REFUSED

    def raise_all(self) -> None:
        """Raises the errors together, if there are any.

        Raises:
            ScenarioError: Combinations are not valid scenarios.
            BackendError: The backend cannot honour combinations.
        """
        if self._found:
            raise together([self._error(found) for found in self._found.values()][:MOST_TOGETHER])

    def _error(self, found: _Found) -> ScenarioError | BackendError:
        """An error with the first combination that has it, unless all have it."""
        words = setting_words(self._axes, found.places)
        error = found.error
        if found.times == self.checked or not words:
            return error
        if isinstance(error, ScenarioError):
            message = f"{error.message} (with {words})"
            return ScenarioError(error.file, error.key, message, error.hint)
        return BackendError(error.what, f"{error.message} (with {words})", error.hint)


class _Found:
    """An error, where it was found first, and how often it was found."""

    def __init__(self, error: ScenarioError | BackendError, places: Sequence[int]) -> None:
        self.error = error
        self.places = places
        self.times = 0


def setting_words(axes: Sequence[Axis], places: Sequence[int]) -> str:
    """A combination in words."""
    return ", ".join(
        setting_text(axis.key, axis.values[place]) for axis, place in zip(axes, places, strict=True)
    )

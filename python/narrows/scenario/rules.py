"""Rules between the keys of a table: each yields its faults, and the table raises all of them.

If a file is refused, rules also run on partial tables (`partial`), which lack the wrong values. A
rule that reads such a value ends with `Unknown`, because whatever it reported might only follow
from another error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FunctionType
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from narrows.errors import MOST_TOGETHER

T = TypeVar("T")


Fault = PydanticCustomError
"""What `quantities.refuse` makes: a message, a hint, and a key below the table's place."""
Faults = Iterator[Fault]

FAULT = "fault"
"""The `type` of the errors that pydantic reports for what rules found."""


class Unknown(Exception):  # noqa: N818 - named after what it is
    """A value that is wrong in the file, so that a partial table lacks it."""


class Unreadable:
    """A table that cannot be read: it lacks every value."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unknown(name)


def rule(method: Callable[[Any], Faults]) -> Callable[[Any], Faults]:
    """Marks a method of a table that yields what is wrong between its keys."""
    _RULES.add(method)
    return method


_RULES: set[Callable[[Any], Faults]] = set()


def rules_of(table: type) -> tuple[str, ...]:
    """The names of a class's rules, those of its bases first."""
    marked = (
        name
        for base in reversed(table.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, FunctionType) and value in _RULES
    )
    return tuple(dict.fromkeys(marked))


def until_unknown(found: Iterable[T]) -> Iterator[T]:
    """Yields what is found before the first unknown value."""
    try:
        yield from found
    except Unknown:
        return


def known(table: Any, key: str) -> Any:
    """A table's value, or None if it is unknown."""
    try:
        return getattr(table, key)
    except Unknown:
        return None


MOST_FAULTS = 2 * MOST_TOGETHER
"""The most faults of a table that are looked for: some are of copies, and look alike. Each may have
a hint that takes time to find."""


def raise_all(table: Any, faults: Iterable[Fault]) -> None:
    """Raises the first faults of a table together, as pydantic's error.

    Raises:
        ValidationError: There are some.
    """
    lines = [
        InitErrorDetails(
            type=PydanticCustomError(FAULT, "{message}", fault.context), loc=(), input=table
        )
        for fault in islice(faults, MOST_FAULTS)
    ]
    if lines:
        raise ValidationError.from_exception_data(type(table).__name__, lines)

"""Errors that a user can cause. Each prints as one line that names the cause and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self, TypeVar

from narrows.foreign_text import printable

E = TypeVar("E", bound="NarrowsError")

MOST_TOGETHER = 20
"""The most errors reported together for one scenario or sweep, or keys reported for one run."""

_LONGEST_PART = 300


class NarrowsError(Exception):
    """An error that the user, a file or the machine caused; its text is one line.

    Attributes:
        others: Further errors in the same input.
    """

    others: tuple[Self, ...] = ()


class HintedError(NarrowsError):
    """An error in a file, a server, an option or the like; its text is one line.

    Attributes:
        what: Where the error is; empty if the message names it.
        message: What is wrong.
        hint: The remedy; empty if none is known.
    """

    def __init__(self, what: str | Path, message: str, hint: str = "") -> None:
        super().__init__(what, message, hint)
        self.what = one_line(str(what))
        self.message = one_line(message)
        self.hint = one_line(hint)

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.what, self.message) if part)
        return f"{text}; hint: {self.hint}" if self.hint else text


class ScenarioError(NarrowsError):
    """A scenario cannot be read, or is invalid.

    Attributes:
        file: The file, or `<text>` for a scenario that is not from a file.
        key: The key as a TOML path, such as `links[0].queue.min`; empty if the error is in the
            whole file.
        message: What is wrong.
        hint: The remedy; empty if none is known.

    Examples:
        >>> str(ScenarioError("a.toml", "links[0].rate", "has no unit", "use Mbit/s"))
        'a.toml: links[0].rate: has no unit; hint: use Mbit/s'
    """

    def __init__(self, file: str, key: str, message: str, hint: str = "") -> None:
        super().__init__(file, key, message, hint)
        self.file = one_line(file)
        self.key = one_line(key)
        self.message = one_line(message)
        self.hint = one_line(hint)

    def __str__(self) -> str:
        parts = [self.file, self.key, self.message]
        text = ": ".join(part for part in parts if part)
        return f"{text}; hint: {self.hint}" if self.hint else text


def argument(name: str, value: str | float = "") -> str:
    """An argument of the API as messages name it; the command line shows its option instead.

    Examples:
        >>> argument("out"), argument("count", 10)
        ('`out`', '`count=10`')
    """
    return f"`{name}`" if value == "" else f"`{name}={value}`"


def together(errors: Sequence[E]) -> E:
    """Returns the first of several errors, with the others in its `others`.

    Examples:
        >>> together([NarrowsError("one"), NarrowsError("two")]).others
        (NarrowsError('two'),)
    """
    first, *others = errors
    first.others = tuple(others)
    return first


def one_line(text: str) -> str:
    r"""Turns any text into one printable line of bounded length.

    Examples:
        >>> one_line("two\nlines")
        'two\\nlines'
    """
    if len(text) > _LONGEST_PART:
        text = text[: _LONGEST_PART - 3] + "..."
    return printable(text)

"""Puts Typer's help texts and complaints about the command line into this program's words.

Newer versions of Typer show `{RUN}... <list[Path]>` and `0<=x<=9223372036854775807`. This module
replaces methods that do not exist in older versions, which show `RUN...`.
"""

from __future__ import annotations

import re
from typing import Any

_NO_BOUND = 2**53
"""A bound of this size or more only keeps a number within a machine's word."""


def readable(command: Any) -> Any:
    """Returns the command with a help text that shows plain names, and ranges in words."""
    for parameter in command.params:
        words = range_in_words(getattr(parameter, "min", None), getattr(parameter, "max", None))
        _replace(parameter, "_get_number_range_help_str", words)
        if parameter.param_type_name == "argument":
            _replace(parameter, "display_type_rich", None)
            _replace(parameter, "_usage_display_name", _usage(parameter))
    return command


def complaint(message: str, command: str) -> tuple[str, str]:
    """Returns a complaint without a full stop, and the remedy.

    Examples:
        >>> complaint("No such option: --sed (Possible options: --seed, --set)", "narrows run")
        ('no such option: --sed', 'did you mean --seed or --set? See narrows run --help')
        >>> complaint("Invalid value for '--seed': Input should be a valid integer", "narrows run")
        ("invalid value for '--seed': must be a whole number", 'see narrows run --help')
    """
    text = " ".join(message.split()).rstrip(".")
    see = f"ee {command} --help"
    suggested = _SUGGESTED.search(text)
    hint = f"s{see}"
    if suggested is not None:
        text = text[: suggested.start()]
        words = (suggested["options"] or suggested["words"]).split(", ")
        hint = f"did you mean {' or '.join(words)}? S{see}"
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    return text[:1].lower() + text[1:], hint


_SUGGESTED = re.compile(
    r"\.? (?:\(Possible options: (?P<options>.*)\)|Did you mean (?P<words>.*)\?)$"
)

_PLAIN = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"Input should be a valid integer.*", "must be a whole number"),
        (r"Input should be a valid number.*", "must be a number"),
        (r"Input should be greater than or equal to ", "must be at least "),
        (r"Input should be less than or equal to ", "must be at most "),
        (r"Got unexpected extra arguments? ?\(s?\)? ?\((.*)\)", r"unexpected argument: \1"),
    )
]


def range_in_words(least: float | None, most: float | None) -> str | None:
    """A range in words; None without bounds.

    Examples:
        >>> range_in_words(0.1, 1000.0), range_in_words(1, None), range_in_words(0, 2**63 - 1)
        ('0.1 to 1000', 'at least 1', 'at least 0')
    """
    if most is not None and most >= _NO_BOUND:
        most = None
    if least is not None and most is not None:
        return f"{_number(least)} to {_number(most)}"
    if least is not None:
        return f"at least {_number(least)}"
    return None if most is None else f"at most {_number(most)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value}"


def _usage(argument: Any) -> str:
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return f"{name}..." if argument.nargs != 1 else name


def _replace(parameter: Any, method: str, result: str | None) -> None:
    if hasattr(parameter, method):
        setattr(parameter, method, lambda *_args, **_named: result)

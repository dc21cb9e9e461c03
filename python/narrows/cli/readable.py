"""Names of arguments and ranges of options in help texts, as people write them.

Newer versions of Typer show `{RUN}... <list[Path]>` and `0<=x<=9223372036854775807`. The methods
that are replaced here do not exist in older versions, which show `RUN...`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["readable"]

_NO_BOUND = 2**53
"""A bound from here on only keeps a number within a machine's word."""


def readable(command: Any) -> Any:
    """The command, with a help text that shows plain names and ranges in words."""
    for parameter in command.params:
        words = range_in_words(getattr(parameter, "min", None), getattr(parameter, "max", None))
        _replace(parameter, "_get_number_range_help_str", words)
        if parameter.param_type_name == "argument":
            _replace(parameter, "display_type_rich", None)
            _replace(parameter, "_usage_display_name", _usage(parameter))
    return command


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

"""A command parses its options, calls the library, and prints: its body is a few lines."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from narrows.cli.app import COMMANDS

MOST_LINES = 34
"""Of the longest, a third hand on one option each."""


def body_lines(function: Callable[..., Any]) -> int:
    """Lines of a function's body, without its docstring."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    first, *rest = tree.body
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = rest if is_docstring else tree.body
    last = body[-1].end_lineno
    assert last is not None, "parsed text has lines"
    return last - body[0].lineno + 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_short(name: str) -> None:
    assert body_lines(import_module(f"narrows.cli.{COMMANDS[name]}").command) <= MOST_LINES


def test_docstrings_do_not_count() -> None:
    def three_lines(much: bool) -> int:
        """One.

        Two.
        """
        if much:
            return 2
        return 1

    assert body_lines(three_lines) == 3

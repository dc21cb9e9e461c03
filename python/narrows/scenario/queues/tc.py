"""The queue `tc`: any queueing discipline that a kernel has, by tc(8)'s words."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from narrows.scenario.quantities import refuse
from narrows.scenario.queues.base import Undeclared
from narrows.scenario.rules import Faults, rule

NAME = "tc"
"""Its name in plans, where it is a queue from outside."""

_WORD = re.compile(r"[A-Za-z0-9_.:%+-]+(/[A-Za-z0-9_.:%+-]+)*")
_KIND = re.compile(r"[A-Za-z0-9_]+")
"""tc loads a library that is named after the discipline, so its name must be no path."""


class Tc(Undeclared):
    """Any discipline that the kernel of a kernel backend has; the simulator refuses it.

    On a kernel without a discipline of this name, the run ends with tc's message.
    """

    model_config = ConfigDict(extra="forbid")
    label: ClassVar[str] = "tc"
    declared: ClassVar[dict[str, Any]] = {"kind": {"kind": "words"}, "args": {"kind": "list"}}

    kind: Literal["tc"] = Field(default="tc", description="Which discipline this is.")
    args: tuple[str, ...] = Field(
        default=...,
        min_length=1,
        max_length=100,
        description="What `tc qdisc add` gets after the handle: the discipline and its settings, "
        'such as `["choke", "limit", "100", "bandwidth", "10mbit"]`.',
    )

    def plain(self) -> dict[str, Any]:
        """The plan's form, with an entry for each word."""
        words = [{"key": "args", "text": word, "number": None} for word in self.args]
        return {"plugin": {"name": NAME, "settings": words}}

    @rule
    def _is_possible(self) -> Faults:
        for index, word in enumerate(self.args):
            pattern, allowed = (_WORD, "_.:%+-/") if index else (_KIND, "_")
            if len(word) > 100 or ".." in word or not pattern.fullmatch(word):
                hint = f"write one word of letters, digits and {allowed}"
                yield refuse(f"{word[:40]!r} is no word for tc", hint, f"args[{index}]")

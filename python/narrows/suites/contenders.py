"""The queues that a suite compares: how users name them, and the settings that they leave open."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows.errors import HintedError, ScenarioError, argument
from narrows.queues import Queue
from narrows.scenario import Scenario
from narrows.scenario.overrides import set_all
from narrows.scenario.queues import DISCIPLINES
from narrows.scenario.reading import value_of
from narrows.scenario.suggestions import suggestion
from narrows.sweeps import SweepError, parse_variants

BDP_BYTES = 125_000
"""Bytes that a path of 10 Mbit/s and 100 ms holds, from which buffers follow."""

BDP_PACKETS = BDP_BYTES // 1500

USUAL: Mapping[str, Mapping[str, Any]] = {
    "pfifo": {"limit": BDP_PACKETS},
    "bfifo": {"limit": f"{BDP_BYTES} B"},
    "red": {"limit": f"{2 * BDP_BYTES} B", "probability": 0.1},
    "red-1993": {"limit": BDP_PACKETS, "min": 5, "max": 15},
    "blue": {"limit": BDP_PACKETS},
}
"""Settings of disciplines that have no defaults for them.

Buffers hold a bandwidth-delay product, as RFC 7928 (3.2) has it where nothing else is known. RED's
thresholds follow from its limit as in tc-red(8), a sixth and a half of the product; those of RED of
1993 are the paper's 5 and 15 packets.
"""

_FORM = 'such as codel, "codel:target=1 ms,ecn=true", or \'mine={ kind = "codel", limit = 50 }\''
_NAMED = re.compile(r"(?P<name>[^={}:]*)=\s*(?P<table>\{.*\})\s*", re.DOTALL)
_UNFIT = re.compile(r"[^\w .+/()%-]+")
_LONGEST = 26
"""The most letters of a name. A sweep's variant has it behind the scene's key, in 40 letters."""


class SuiteError(HintedError):
    """A suite cannot run as asked: a queue, a section or a test does not exist."""


@dataclass(frozen=True)
class Contender:
    """A queue under test."""

    name: str
    """The name in tables and plots."""
    queue: Mapping[str, Any] | Queue
    """A table of the language with its kind, or a queue of the user's own."""

    @property
    def own(self) -> bool:
        """Whether it is code from outside, which runs in this process."""
        return isinstance(self.queue, Queue) or self.queue.get("kind") == "plugin"

    @property
    def text(self) -> str:
        """Its settings, as the report shows them."""
        if isinstance(self.queue, Queue):
            record = self.queue.record()
            return f"{record['class']}({record['arguments']})"
        return ", ".join(f"{key} = {value}" for key, value in self.queue.items())


def contenders(
    given: Sequence[str] | Mapping[str, str | Mapping[str, Any] | Queue],
) -> list[Contender]:
    """The queues that texts or a mapping name, each once.

    Texts are `KIND`, `KIND:KEY=VALUE,...`, or `NAME={ kind = "KIND", ... }`. A mapping has texts,
    tables or queues of the user's own by their names.

    Raises:
        SuiteError: A text is in no such form, a kind is unknown, or a name comes twice.

    Examples:
        >>> [each.name for each in contenders(["codel", "codel:target=1 ms", "x={kind='fq'}"])]
        ['codel', 'codel target 1 ms', 'x']
        >>> contenders(["pfifo"])[0].queue
        {'kind': 'pfifo', 'limit': 83}
    """
    if isinstance(given, Mapping):
        found = [_of_value(name, value) for name, value in given.items()]
    else:
        found = [_of_text(text.strip()) for text in given]
    if not found:
        raise SuiteError(argument("queues"), "names no queue", _FORM)
    seen: set[str] = set()
    for each in found:
        if each.name in seen:
            raise SuiteError(each.name, "names two queues", "give one of them another name")
        seen.add(each.name)
    return found


def _of_value(name: str, value: str | Mapping[str, Any] | Queue) -> Contender:
    if isinstance(value, Queue):
        return Contender(_fit(name), value)
    if isinstance(value, str):
        return Contender(_fit(name), _of_text(value).queue)
    if isinstance(value, Mapping):
        return Contender(_fit(name), _whole(name, dict(value)))
    is_class = isinstance(value, type) and issubclass(value, Queue)
    hint = f"make one: {value.__name__}()" if is_class else "a text, a table or a Queue"
    raise SuiteError(f"queue {name}", "is no queue", hint)


def _of_text(text: str) -> Contender:
    if named := _NAMED.fullmatch(text):
        table = value_of(named["table"])
        if not isinstance(table, dict) or not named["name"].strip():
            raise SuiteError(f"queue {text}", "is not NAME={ kind = ..., ... }", _FORM)
        return Contender(_fit(named["name"].strip()), _whole(text, table))
    try:
        ((kind, settings),) = parse_variants([text]).items()
    except SweepError:
        raise SuiteError(f"queue {text}", "is in no form that is known", _FORM) from None
    table = {"kind": kind, **{key: value_of(value) for key, value in settings.items()}}
    shown = "".join(f" {key} {value}" for key, value in settings.items())
    return Contender(_fit(kind + shown), _whole(text, table))


def _fit(name: str) -> str:
    """A name that sweeps accept for a variant."""
    return _UNFIT.sub("", name)[:_LONGEST].strip()


def _whole(what: str, table: dict[str, Any]) -> dict[str, Any]:
    kind = table.get("kind")
    if kind not in DISCIPLINES:
        hint = suggestion(str(kind), list(DISCIPLINES)) or f"one of {', '.join(DISCIPLINES)}"
        raise SuiteError(f"queue {what}", "is no kind of queue", hint)
    return {"kind": kind, **USUAL.get(str(kind), {}), **table}


def refuse_wrong(
    each: Contender, scenario: Mapping[str, Any], keys: Sequence[str], plugins: Sequence[Path]
) -> None:
    """Refuses a queue whose settings are not valid, before anything runs.

    Raises:
        SuiteError: They are not, or the queue needs a plugin and there is none.
    """
    if isinstance(each.queue, Queue):
        return
    if each.own and not plugins:
        raise SuiteError(f"queue {each.name}", "needs its plugin", f"give {argument('plugins')}")
    values = copy.deepcopy(dict(scenario))
    try:
        set_all(values, {keys[0]: dict(each.queue)}, "")
        Scenario.from_dict(values)
    except ScenarioError as error:
        key = error.key.rpartition("queue.")[2]
        raise SuiteError(f"queue {each.name}: {key}", error.message, error.hint) from None

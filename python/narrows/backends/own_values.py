"""Queues of the user's own as values of a scenario's keys: `{"queue": MyAqm(target=0.005)}`.

A scenario has values as TOML has them. So such a queue becomes a table of the kind `plugin`: with
its class as the name, and the numbers among its arguments as settings. Tables and plots show these,
and two objects of a class that differ in numbers alone share a name.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from narrows.queues import Queue, QueueError


class OwnValues:
    """Takes queues out of values."""

    def __init__(self, others: Any = None) -> None:
        """`others` are queues by name; their names are taken."""
        self.queues: dict[str, Queue] = {}
        self._taken = set(others) if isinstance(others, Mapping) else set()
        self._names: dict[tuple[Any, ...], str] = {}

    def plain(self, value: Any, key: str) -> Any:
        """Returns the value with a table for each queue; errors name `key`.

        Raises:
            QueueError: It has a class in it instead of an object.
        """
        if isinstance(value, Queue):
            return {"kind": "plugin", "name": self._name(value), **value.numbers()}
        if isinstance(value, type) and issubclass(value, Queue):
            raise QueueError(key, "is a class", f"make one: {value.__name__}()")
        if isinstance(value, Mapping):
            made = {name: self.plain(each, key) for name, each in value.items()}
            return made if any(made[name] is not value[name] for name in made) else value
        if isinstance(value, list | tuple):
            found = [self.plain(each, key) for each in value]
            return found if any(a is not b for a, b in zip(found, value, strict=True)) else value
        return value

    def variants(self, variants: Any) -> Any:
        """The same for variants, by name.

        Raises:
            QueueError: A variant is a queue instead of keys.
        """
        for name, keys in variants.items() if isinstance(variants, Mapping) else ():
            if isinstance(keys, Queue):
                hint = f'give its key: {{"queue": {type(keys).__name__}()}}'
                raise QueueError(f"variant {name}", "is a queue", hint)
        return self.plain(variants, "variants")

    def varied(self, vary: Mapping[str, Iterable[Any]] | None) -> dict[str, Any]:
        """The same for the values of varied keys.

        Raises:
            QueueError: A key has one queue instead of a list.
        """
        found: dict[str, Any] = {}
        for key, values in (vary or {}).items():
            if isinstance(values, Queue):
                raise QueueError(key, "is varied over one queue", "give a list of values")
            is_one = isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)
            # Lazily, because there may be no end of them.
            found[key] = values if is_one else map(partial(self.plain, key=key), values)
        return found

    def _name(self, queue: Queue) -> str:
        """Its name, which it shares with those that the same settings make equal to it."""
        numbers = {name: type(number) for name, number in queue.numbers().items()}
        exact = tuple(map(_exact, queue.other_arguments().items()))
        key = (type(queue), queue.others(), exact, *numbers.items())
        if key not in self._names:
            # It stays in `queues`, so nothing else gets the identities of its arguments.
            others = queue.others()
            title = type(queue).__name__ + (f"({others})" if others else "")
            name, number = title, 1
            while name in self._taken:
                number += 1
                name = f"{title} {number}"
            self._taken.add(name)
            self._names[key] = name
            self.queues[name] = queue
        return self._names[key]


def _exact(argument: tuple[str, Any]) -> tuple[str, bytes | int]:
    """What tells an argument from others that look the same."""
    name, value = argument
    try:
        return name, pickle.dumps(value)
    except Exception:
        # A function made by another one, for example.
        return name, id(value)

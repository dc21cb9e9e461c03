"""What queues and congestion controls of your own have in common."""

from __future__ import annotations

import hashlib
import inspect
import random
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any, Self


class Part:
    """A queue or a congestion control of your own, of which each run makes its own objects.

    They are made with the arguments of the object that you made.
    """

    version: str = ""
    """A version of yours, which runs record."""

    random: random.Random
    """A generator whose seed follows from that of the run."""

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Remembers the arguments."""
        made = super().__new__(cls)
        made._arguments = (arguments, named)
        made.random = random.Random(0)
        return made

    def again(self, seed: int, settings: Mapping[str, Any] | None = None) -> Self:
        """A new object of this class, made with the same arguments and a seed.

        `settings` are those that a scenario gives it, which replace numbers among the arguments.

        Raises:
            ValueError: A setting is none of these numbers.
        """
        if settings:
            numbers = self.numbers()
            for key, value in settings.items():
                if key not in numbers:
                    known = f"one of {', '.join(numbers)}" if numbers else "it has none"
                    raise ValueError(f"{type(self).__name__} has no number {key}; hint: {known}")
                if not isinstance(value, int | float):
                    raise ValueError(f"{type(self).__name__}: {key} = {value!r} is no number")
            return self.changed(settings).again(seed)
        arguments, named = self._arguments
        made = type(self).__new__(type(self), *arguments, **named)
        made.random = random.Random(seed)
        made.__init__(*arguments, **named)  # type: ignore[misc]
        return made

    def numbers(self) -> dict[str, int | float]:
        """The arguments of its class that are numbers, also those left at their defaults."""
        arguments, named = self._arguments
        bound = inspect.signature(self.__init__).bind(*arguments, **named)  # type: ignore[misc]
        bound.apply_defaults()
        return {
            name: value
            for name, value in bound.arguments.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }

    def changed(self, numbers: Mapping[str, float]) -> Self:
        """One like it with other numbers, by the names of its arguments."""
        arguments, named = self._arguments
        bound = inspect.signature(self.__init__).bind(*arguments, **named)  # type: ignore[misc]
        for name, own in self.numbers().items():
            if name in numbers:
                number = numbers[name]
                whole = type(own) is int and float(number).is_integer()
                bound.arguments[name] = int(number) if whole else float(number)
        return type(self)(*bound.args, **bound.kwargs)

    def record(self) -> dict[str, Any]:
        """What run.json says about it: the class, its arguments, version, source and its digest."""
        arguments, named = self._arguments
        words = [*map(_words, arguments)]
        words += [f"{name}={_words(value)}" for name, value in named.items()]
        name = type(self).__qualname__
        return {"class": name, "arguments": ", ".join(words), **self._source()}

    def other_arguments(self) -> dict[str, Any]:
        """The given arguments that are no numbers."""
        arguments, named = self._arguments
        bound = inspect.signature(self.__init__).bind(*arguments, **named)  # type: ignore[misc]
        numbers = self.numbers()
        return {name: value for name, value in bound.arguments.items() if name not in numbers}

    def others(self) -> str:
        """The same in words, without addresses, which other processes do not have."""
        given = self.other_arguments().items()
        return ", ".join(
            f"{name}={_words(value)}" for name, value in given if type(value) is not int
        )

    def _source(self) -> dict[str, Any]:
        try:
            source = "\n".join(map(inspect.getsource, self._classes()))
            digest = hashlib.sha256(source.encode())
        except (OSError, TypeError):
            # Typed into an interpreter, for example.
            source = ""
            digest = hashlib.sha256(repr([*map(_code, self._classes())]).encode())
        return {"version": self.version, "source": source, "sha256": digest.hexdigest()}

    def _classes(self) -> list[type]:
        """The user's classes that it is made of."""
        return [
            each
            for each in type(self).__mro__
            if issubclass(each, Part) and not each.__module__.startswith("narrows.")
        ]

    def travels(self) -> tuple[type[Self], tuple[tuple[Any, ...], dict[str, Any]]]:
        """What another process needs to make it: the class and its arguments."""
        return type(self), self._arguments


def _words(value: Any) -> str:
    """An argument in words that other processes have for it, too, and not for another value.

    `repr` has the address of a function, and leaves out digits and the middle of an array.
    """
    if isinstance(value, FunctionType) and not value.__closure__:
        facts = (*_facts(value.__code__), value.__defaults__, value.__kwdefaults__)
        return f"{value.__qualname__} {_digits(repr(facts).encode())}"
    if getattr(value, "ndim", 0) and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        data = f"{value.dtype} {value.shape}".encode() + value.tobytes()
        return f"{' '.join(repr(value).split())} {_digits(data)}"
    return repr(value)


def _facts(code: CodeType) -> tuple[Any, ...]:
    constants = [_facts(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, constants


def _digits(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _code(made: type) -> list[Any]:
    """The compiled methods and the values of a class, for a digest."""
    found: list[Any] = []
    for name, value in sorted(vars(made).items()):
        code = getattr(value, "__code__", None)
        if code is not None:
            constants = [each for each in code.co_consts if not hasattr(each, "co_code")]
            found.append((name, code.co_code, code.co_names, repr(constants)))
        elif not name.startswith("__"):
            found.append((name, repr(value)))
    return found


class Functions:
    """Compiled functions of a part, and the state that they get.

    Args:
        functions: Addresses, objects that have one (``address``), or None.
        state: An array, of which each run has a copy.
    """

    def __init__(self, functions: tuple[Any, ...], state: Any) -> None:
        """Copies the state."""
        import numpy as np

        self._functions = functions
        self.state = np.zeros(1) if state is None else np.array(state, copy=True)

    def addresses(self) -> tuple[int, ...]:
        """The addresses of the functions, 0 for none."""
        return tuple(
            0 if each is None else int(getattr(each, "address", each)) for each in self._functions
        )

    @property
    def state_address(self) -> int:
        """The address of the state."""
        return int(self.state.ctypes.data)

    def record(self) -> dict[str, Any]:
        """The source of numba's functions, as far as they have one, and the state's beginning."""
        sources = [
            inspect.getsource(each.__wrapped__)
            for each in self._functions
            if hasattr(each, "__wrapped__")
        ]
        source = "\n".join(sources)
        digest = hashlib.sha256(source.encode() + self.state.tobytes()).hexdigest()
        return {"arguments": f"state={self.state.tolist()}", "source": source, "sha256": digest}

"""What all tables of the scenario language have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator

from narrows.scenario.rules import Faults, Unknown, raise_all, rules_of

_HIDDEN = frozenset(
    name
    for name, value in vars(BaseModel).items()
    if hasattr(getattr(value, "__func__", value), "__deprecated__")
) | {"model_construct", "model_copy"}
"""Names that completion leaves out: those of pydantic's first version, and methods that make
objects without validation. `Scenario.with_` validates."""


if TYPE_CHECKING:
    _Model = BaseModel
else:

    class _Names(type(BaseModel)):
        """The class of table classes, which says what completion offers for them."""

        def __dir__(cls) -> list[str]:
            return [name for name in super().__dir__() if name not in _HIDDEN]

    class _Model(BaseModel, metaclass=_Names):
        pass


class Table(_Model):
    """A table of a scenario: unknown keys are errors, values do not change once read.

    Methods that are marked with `rule` say what must hold between its keys.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=False,
        ser_json_inf_nan="strings",
    )

    _rules: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **_settings: Any) -> None:
        cls._rules = rules_of(cls)

    @model_validator(mode="after")
    def _obeys_its_rules(self) -> Self:
        # Pydantic asks again where a table that it has made is part of another.
        if self._rules and "_obeyed" not in self.__dict__:
            raise_all(self, self.faults())
            # Like a cached property, it is no part of what is compared and written.
            self.__dict__["_obeyed"] = True
        return self

    def faults(self) -> Faults:
        """What is wrong with its keys together, as far as their values are known."""
        for name in self._rules:
            with suppress(Unknown):
                yield from getattr(self, name)()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A value that a partial table lacks."""
            if name in type(self).model_fields:
                raise Unknown(name)
            return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _HIDDEN]

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What differs from the defaults, as a file would have it."""
        fields = type(self).model_fields
        for name, value in super().__repr_args__():
            if name is None or name not in fields or value != fields[name].default:
                yield name, value

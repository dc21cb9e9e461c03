"""What all tables of the scenario language have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import core_schema

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

    Methods that are marked with `rule` say what must hold between its keys. The docstrings below
    keys are their meanings (`narrows.scenario.schema.describe`).
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # A run uses few tables, and pydantic takes a millisecond to get ready for one.
        defer_build=True,
        validate_default=False,
        ser_json_inf_nan="strings",
    )

    _rules: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **_settings: Any) -> None:
        cls._rules = rules_of(cls)

    @classmethod
    def usual(cls) -> Self:
        """The table with its defaults, which are not validated; for defaults of other classes."""
        return cls.model_construct()

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


KINDS_KEY = "$kinds"
"""In a JSON schema, the names of the classes that a table may have, by their kinds."""


class OneOf:
    """In an annotation: a table of one of several kinds, which the key `kind` tells apart.

    A subclass has the `kinds`. The class of a kind is made when a table is first of that kind.
    """

    kinds: ClassVar[Mapping[str, type[Table]]] = {}
    _any: ClassVar[TypeAdapter[Any] | None] = None
    """Reads all kinds. If a table is wrong, its errors name its kind, or those that there are."""

    def __init_subclass__(cls, kinds: Mapping[str, type[Table]]) -> None:
        cls.kinds = kinds

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(cls._read)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: Any, _handler: Any) -> dict[str, Any]:
        # `narrows.scenario.schema` writes them out, because kinds may contain each other.
        return {KINDS_KEY: [(kind, table.__name__) for kind, table in cls.kinds.items()]}

    @classmethod
    def _read(cls, value: Any) -> Any:
        kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
        known = cls.kinds.get(kind) if isinstance(kind, str) else None
        if known is not None:
            with suppress(ValidationError):
                return known.model_validate(value)
        if cls._any is None:
            union: Any = Annotated[reduce(or_, cls.kinds.values()), Field(discriminator="kind")]
            cls._any = TypeAdapter(union)
        return cls._any.validate_python(value)

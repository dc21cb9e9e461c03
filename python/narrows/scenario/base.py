"""What all tables of the scenario language have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

__all__ = ["Table"]

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
    """A table of a scenario: unknown keys are errors, values do not change once read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=False,
        ser_json_inf_nan="strings",
    )

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _HIDDEN]

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What differs from the defaults, as a file would say it."""
        fields = type(self).model_fields
        for name, value in super().__repr_args__():
            if name is None or name not in fields or value != fields[name].default:
                yield name, value

"""What all tables of the scenario language have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Table"]


class Table(BaseModel):
    """A table of a scenario: unknown keys are errors, values do not change once read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=False,
        ser_json_inf_nan="strings",
    )

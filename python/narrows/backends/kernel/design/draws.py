"""The plan's fixed, listed or drawn amounts and times, in the agent's units."""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.network import PS, Plan


def seconds(form: Plan) -> dict[str, Any]:
    """A draw of times in picoseconds, converted to seconds."""
    ((kind, told),) = form.items()
    if kind == "constant":
        return {kind: told / PS}
    if kind == "list":
        return {kind: [each / PS for each in told]}
    return {kind: {**told, "mean": told["mean"] / PS}}

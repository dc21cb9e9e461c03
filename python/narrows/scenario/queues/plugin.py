"""The queue `plugin`: one of a shared object that the user has allowed (docs/extending.md)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from narrows.scenario import given
from narrows.scenario.quantities import refuse
from narrows.scenario.queues.base import Undeclared
from narrows.scenario.queues.tc import NAME as TC
from narrows.scenario.rules import Faults, rule


class Plugin(Undeclared):
    """A queue of a shared object that `--plugin` or `plugins=` loads; other keys are its settings.

    Its code runs only if the user names the object: no scenario loads one.
    """

    model_config = ConfigDict(extra="allow")
    label: ClassVar[str] = "Plugin"
    declared: ClassVar[dict[str, Any]] = {
        "kind": {"kind": "words"},
        "name": {"kind": "name"},
    }

    kind: Literal["plugin"] = Field(default="plugin", description="Which discipline this is.")
    name: str = Field(default=..., min_length=1, description="Its name in the shared object.")

    def plain(self) -> dict[str, Any]:
        """The plan's form: each setting as text, and as a number in base units if it is one."""
        return {"plugin": {"name": self.name, "settings": given.settings(self.model_extra)}}

    @rule
    def _is_possible(self) -> Faults:
        if self.name == TC:
            hint = 'write kind = "tc" for a discipline of a kernel'
            yield refuse("is no plugin's queue", hint, "name")
        yield from given.faults(self.model_extra)

"""What each setting of a knob changes in a scenario's plan, found by lowering both.

Two knobs may change the same place: RED's `bandwidth` follows the link's rate. Then the later
knob has patches for each setting of the earlier one: its *context*. Which knobs need one is found
by trying settings of many at once, and of halves of these where the plans differ.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from narrows.lab.knobs import Changes, active, changes_of, knobs
from narrows.scenario import Scenario, ScenarioError

Document = dict[str, Any]
"""A plan and the values of the TOML that it was lowered from."""
Patch = list[tuple[list[str | int], Any]]
"""Values, and where to put them."""

_LENGTH = "length"
"""The key under which a list has its length, as in JavaScript."""

_FEW = 4
"""Of a slider with more settings, only the ends are tried with other knobs."""


class Patches:
    """The knobs of a scenario, and what they change."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        """`folder`: where its file is. Names of files in it are shown without it."""
        self.scenario = scenario
        self._folder = f"{folder.absolute()}{os.sep}"
        self.knobs = knobs(scenario)
        self.own = tuple(knob.own for knob in self.knobs)
        self._lowered: dict[tuple[int, ...], Document] = {}
        self.base = self.lower(self.own)
        self.contexts: list[list[int]] = []
        self.patches: list[dict[tuple[int, ...], list[Patch]]] = []
        for number in range(len(self.knobs)):
            self._add(number)

    def lower(self, settings: Sequence[int]) -> Document:
        """The plan and the TOML of some settings, lowered in full.

        Raises:
            ScenarioError: The settings contradict each other.
        """
        key = tuple(settings)
        if key not in self._lowered:
            changed = self.scenario.with_(self.changes(key))
            self._lowered[key] = {
                "plan": apart(changed.plan()),
                "toml": self._beside(changed.written()),
            }
        return self._lowered[key]

    def _beside(self, written: Any) -> Any:
        """Values of a scenario, with files in its folder as its own file names them."""
        if isinstance(written, dict):
            return {key: self._beside(value) for key, value in written.items()}
        if isinstance(written, list | tuple):
            return [self._beside(value) for value in written]
        return written.removeprefix(self._folder) if isinstance(written, str) else written

    def changes(self, settings: Sequence[int]) -> Changes:
        """The keys that some settings change, in the order of the knobs."""
        return changes_of(self.knobs, settings)

    def active(self, number: int, settings: Sequence[int]) -> bool:
        """Whether a knob means something beside the other settings."""
        return active(self.knobs, number, settings)

    def apply(self, settings: Sequence[int], knobs: int | None = None) -> Document:
        """The same by patches, of the first `knobs` knobs; the page does this too."""
        document = self.base
        for number, context in enumerate(self.contexts[:knobs]):
            if self.active(number, settings):
                around = tuple(settings[other] for other in context)
                document = patched(document, self.patches[number][around][settings[number]])
        return document

    def _place(self, name: str) -> int:
        return next(at for at, knob in enumerate(self.knobs) if knob.name == name)

    def _add(self, number: int) -> None:
        needs = self.knobs[number].needs
        context = [self._place(needs[0])] if needs else []
        names = [knob.name for knob in self.knobs]
        context += [names.index(name) for name in self.knobs[number].beside if name in names]
        self.contexts.append(context)
        self.patches.append({})
        self._fill(number)
        # A knob of the context may reveal another one, such as the congestion control where some
        # connections have ECN.
        for known in range(number + 1):
            if len(context) < known:
                break
            if found := self._colliding(number, context[known - 1 : known]):
                context.extend(found)
                self._fill(number)

    def _fill(self, number: int) -> None:
        """Makes the patches of a knob for each setting of its context."""
        knob, context = self.knobs[number], self.contexts[number]
        self.patches[number] = {}
        choices = [range(len(self.knobs[other].settings)) for other in context]
        for around in itertools.product(*choices):
            settings = list(self.own)
            for other, at in zip(context, around, strict=True):
                settings[other] = at
            if self.active(number, settings):
                before = self.lower(settings)
                self.patches[number][around] = [
                    difference(before, self.lower(_with(settings, number, at)))
                    for at in range(len(knob.settings))
                ]

    def _colliding(self, number: int, around: list[int]) -> list[int]:
        """The earlier knobs outside the context whose patches need another one of this knob.

        `around` has a knob of the context whose settings are tried as well, or none.
        """
        if around and self.knobs[around[0]].name == "queue":
            return []
        own = self.knobs[number].needs
        groups: dict[tuple[str, int] | None, list[int]] = {}
        for other in range(number):
            needs = self.knobs[other].needs
            # Of two knobs that need different settings of a third, one means something at a time.
            apart = own and needs and own[0] == needs[0] and own != needs
            if other not in self.contexts[number] and not apart:
                groups.setdefault(needs, []).append(other)
        return sorted(
            other for group in groups.values() for other in self._among(group, number, around)
        )

    def _among(self, group: list[int], number: int, around: list[int]) -> list[int]:
        """Those of a group that collide; most groups have none, which one trial of all shows."""
        choices = [range(len(self.knobs[each].settings)) for each in around]
        if not any(
            self._collide_at(number, group, dict(zip(around, at, strict=True)))
            for at in itertools.product(*choices)
        ):
            return []
        half = len(group) // 2
        return (
            self._among(group[:half], number, around) + self._among(group[half:], number, around)
            if half
            else group
        )

    def _collide_at(self, number: int, group: list[int], around: dict[int, int]) -> bool:
        """Whether patches of a group and then of a knob give another plan than all together.

        The knobs of the group need the same setting, or none.
        """
        settings = [around.get(at, own) for at, own in enumerate(self.own)]
        for each in (number, group[0]):
            if needs := self.knobs[each].needs:
                settings[self._place(needs[0])] = needs[1]
        tried = [self._tried(other) for other in group]
        ends = {0, len(self.knobs[number].settings) - 1} - {self.own[number]}
        for turn in range(max(map(len, tried))):
            for other, values in zip(group, tried, strict=True):
                settings[other] = values[turn % len(values)]
            for settings[number] in sorted(ends):
                try:
                    if self.apply(settings, number + 1) != self.lower(settings):
                        return True
                except (LookupError, TypeError):
                    # The place of one patch is gone after the other.
                    return True
                except ScenarioError:
                    # Not two knobs contradict each other, but more may.
                    if len(group) == 1:
                        raise
                    return True
        return False

    def _tried(self, other: int) -> Sequence[int]:
        """Settings to try: of numbers in order, the ends tell; each choice can be special."""
        count = len(self.knobs[other].settings)
        return [0, count - 1] if self.knobs[other].slider and count > _FEW else range(count)


def _with(settings: list[int], number: int, at: int) -> list[int]:
    return [*settings[:number], at, *settings[number + 1 :]]


def apart(plan: Any) -> Any:
    """A plan whose applications have TCP settings of their own, in place of the plan's list.

    Otherwise the numbers of one application's settings would follow from another's.
    """
    made = {**plan, "tcp": [], "applications": []}
    for application in plan["applications"]:
        own: list[int] = []
        kind = _renumbered(application["kind"], own)
        tcp = [plan["tcp"][number] for number in own]
        made["applications"].append({**application, "kind": kind, "tcp": tcp})
    return made


def _renumbered(value: Any, own: list[int]) -> Any:
    """A part of an application, whose TCP settings get numbers in the order of their use."""
    if isinstance(value, dict):
        return {
            key: _number(part, own)
            if key == "tcp" and isinstance(part, int)
            else _renumbered(part, own)
            for key, part in value.items()
        }
    return [_renumbered(part, own) for part in value] if isinstance(value, list) else value


def _number(tcp: int, own: list[int]) -> int:
    if tcp not in own:
        own.append(tcp)
    return own.index(tcp)


def together(plan: Any) -> Any:
    """The plan again, with one list of TCP settings; the page does this too."""
    made = {**plan, "tcp": [], "applications": []}
    for application in plan["applications"]:
        numbers = []
        for tcp in application["tcp"]:
            if tcp not in made["tcp"]:
                made["tcp"].append(tcp)
            numbers.append(made["tcp"].index(tcp))
        kind = _numbered(application["kind"], numbers)
        made["applications"].append({"name": application["name"], "kind": kind})
    return made


def _numbered(value: Any, numbers: list[int]) -> Any:
    if isinstance(value, dict):
        return {
            key: numbers[part]
            if key == "tcp" and isinstance(part, int)
            else _numbered(part, numbers)
            for key, part in value.items()
        }
    return [_numbered(part, numbers) for part in value] if isinstance(value, list) else value


def difference(before: Any, after: Any) -> Patch:
    """What to put where so that one document becomes the other.

    Examples:
        >>> difference({"a": [1, 2], "b": 3}, {"a": [1, 5], "b": 3})
        [(['a', 1], 5)]
        >>> difference([1, 2, 3], [1, 5])
        [(['length'], 2), ([1], 5)]
    """
    if before == after and type(before) is type(after):
        return []
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() <= after.keys():
        found = [
            (key, difference(before[key], after[key]) if key in before else [([], after[key])])
            for key in after
        ]
    elif isinstance(before, list) and isinstance(after, list):
        found = [
            (at, difference(before[at], new) if at < len(before) else [([], new)])
            for at, new in enumerate(after)
        ]
        if len(before) != len(after):
            found.insert(0, (_LENGTH, [([], len(after))]))
    else:
        return [([], after)]
    return [([key, *path], value) for key, patch in found for path, value in patch]


def patched(document: Any, patch: Patch) -> Any:
    """A document with a patch; what does not change is shared.

    Examples:
        >>> patched({"a": [1, 2], "b": 3}, [(["a", 1], 5)])
        {'a': [1, 5], 'b': 3}
    """
    for path, value in patch:
        document = _put(document, path, value)
    return document


def _put(document: Any, path: list[str | int], value: Any) -> Any:
    if not path:
        return value
    copy = document.copy()
    if isinstance(copy, list) and path[0] == _LENGTH:
        return copy[:value] + [None] * (value - len(copy))
    copy[path[0]] = _put(document[path[0]], path[1:], value) if path[1:] else value
    return copy

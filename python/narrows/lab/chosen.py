"""A scenario with the settings of the page's knobs, as the page names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from narrows.errors import NarrowsError
from narrows.lab.knobs import Changes, Knob, active, changes_of, knobs, own_value, watched
from narrows.scenario import Scenario

MOST_VALUES = 9
"""The most values of a knob in a sweep."""

_SEED = "seed"
_NOT_IN_NAMES = re.compile(r"[^\w .+/()%-]")


class Chosen:
    """A scenario and its knobs, each at a setting."""

    def __init__(self, scenario: Scenario, settings: Mapping[str, str]) -> None:
        """Sets the knobs that `settings` names, each to the setting with that text.

        Raises:
            NarrowsError: There is no such knob or setting.
        """
        self.base = watched(scenario)
        self._knobs = knobs(self.base)
        self._at = [knob.own for knob in self._knobs]
        for name, text in settings.items():
            number = self._number(name)
            texts = [setting.text for setting in self._knobs[number].settings]
            if text not in texts:
                raise _unknown(f"{name} = {text}")
            self._at[number] = texts.index(text)

    @property
    def changes(self) -> Changes:
        """The keys that the settings change."""
        return changes_of(self._knobs, self._at)

    def varied(self, name: str) -> tuple[Changes, dict[str, Any], str]:
        """What a sweep over a knob sets for all runs, its `vary` or `variants`, and its label.

        Raises:
            NarrowsError: There is no such knob, or it means nothing beside the other settings.
        """
        number = self._number(name)
        knob = self._knobs[number]
        if name == _SEED or not active(self._knobs, number, self._at):
            raise _unknown(name)
        places = spread(len(knob.settings))
        each = [self._with(number, place) for place in places]
        # Some settings follow from the knob's, such as those of a queue.
        first = each[0]
        common = {
            key: value
            for key, value in first.items()
            if all(key in one and one[key] == value for one in each)
        }
        rest = [{key: one[key] for key in one if key not in common} for one in each]
        keys = {key for one in rest for key in one}
        if knob.slider and len(keys) == 1:
            (key,) = keys
            own = own_value(self.base.with_(common), key)
            return common, {"vary": {key: [one.get(key, own) for one in rest]}}, knob.label
        names = [_variant(knob, place) for place in places]
        return common, {"variants": dict(zip(names, rest, strict=True))}, knob.label

    def _with(self, number: int, place: int) -> Changes:
        settings = [*self._at[:number], place, *self._at[number + 1 :]]
        found = changes_of(self._knobs, settings)
        found.pop(_SEED, None)
        return found

    def _number(self, name: str) -> int:
        for number, knob in enumerate(self._knobs):
            if knob.name == name:
                return number
        raise _unknown(name)


def read(source: Mapping[str, Any]) -> Scenario:
    """A scenario from a file's path, or from values; `jobs.py` says which."""
    if "path" in source:
        return Scenario.load(Path(source["path"]))
    return Scenario.from_dict(source["values"])


def spread(count: int) -> list[int]:
    """Places of settings, from the first to the last, if there are too many for all.

    Examples:
        >>> spread(3), spread(11)
        ([0, 1, 2], [0, 1, 2, 4, 5, 6, 8, 9, 10])
    """
    if count <= MOST_VALUES:
        return list(range(count))
    return [round(each * (count - 1) / (MOST_VALUES - 1)) for each in range(MOST_VALUES)]


def _variant(knob: Knob, place: int) -> str:
    """The setting as a name of a variant."""
    return _NOT_IN_NAMES.sub("", knob.settings[place].text)


def _unknown(what: str) -> NarrowsError:
    return NarrowsError(
        f"this scenario has no knob or setting {what[:60]}; hint: load the page again"
    )

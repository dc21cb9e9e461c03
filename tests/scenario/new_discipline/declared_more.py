"""Makes the extension declare one discipline more, as it would with early_drop.rs in it."""

from __future__ import annotations

import json
from typing import Any

from narrows import _core

NAME = "early-drop"


def key(name: str, kind: str, about: str, default: Any, **more: Any) -> dict[str, Any]:
    rule = {"least": None, "most": None, "above": False, "below": False, "required": False}
    own = {"name": name, "kind": kind, "of": None, "about": f" {about}\n", "default": default}
    return {"optional": False, **own, **rule, **more}


TABLE = {
    "name": "Config",
    "about": " Early Random Drop (Hashem 1989).\n",
    "keys": [
        key("limit", "whole", "Packets that may wait.", 100, least=1.0, most=1e7),
        key("level", "whole", "Where it begins.", None, least=1.0, most=1e7, optional=True),
        key("probability", "number", "Of a drop.", 0.02, least=0.0, most=1.0, above=True),
        key("ecn", "switch", "Marks.", False),
    ],
}
LISTED = {"name": NAME, "label": "Early Random Drop", "decides_at_enqueue": True, "table": TABLE}
FACTS = {"unit": "packets", "levels": [["level", 10.0], ["limit", 20.0]], "target": None}

ours = {name: getattr(_core, name) for name in ("queue_disciplines", "check_queue", "queue_facts")}


def check_queue(text: str) -> Any:
    settings = json.loads(text).get(NAME)
    if settings is None:
        return None if NAME in text else ours["check_queue"](text)
    above = (settings["level"] or 0) > settings["limit"]
    return ("level", "is above limit", "lower it") if above else None


def queue_facts(text: str) -> str:
    if NAME not in text:
        return ours["queue_facts"](text)
    return json.dumps({**FACTS, "several_lines": False, "held": 0})


def settle_queue(text: str, _rate: int) -> tuple[str, None]:
    return text, None


_core.queue_disciplines = lambda: json.dumps([*json.loads(ours["queue_disciplines"]()), LISTED])
_core.check_queue = check_queue
_core.queue_facts = queue_facts
_core.settle_queue = settle_queue

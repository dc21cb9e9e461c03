"""The program narrows-live: where it is, what it gets, and the tables that it writes.

It plays the applications of a plan over real sockets (crates/live). `make setup` and the wheel put
it beside this file, statically linked, so that it runs in a guest too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from narrows import _core
from narrows.backends.backend import BackendError
from narrows.backends.kernel.inside.agent.live import TABLES

__all__ = ["PROGRAM", "give", "plays", "program", "tables"]

PROGRAM = Path(__file__).parent / "narrows-live"

_PLAN, _PLACES = "plan.json", "places.json"

_TYPES = {"f64": "<f8", "u64": "<u8", "u32": "<u4", "u8": "u1", "bool": "?"}


def plays(software: Mapping[str, Any]) -> bool:
    """Whether the program plays all applications; otherwise the agent does."""
    return not software and os.environ.get("NARROWS_KERNEL_TRAFFIC") == "live"


def program() -> Path:
    """The program.

    Raises:
        BackendError: It is missing.
    """
    if not PROGRAM.is_file():
        raise BackendError(PROGRAM, "no such program", "build it with make setup")
    return PROGRAM


def give(plan: Mapping[str, Any], places: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Writes what the program gets into a folder; returns the agent's part of the job.

    Args:
        plan: The simulator's input.
        places: The namespace and the addresses of each node.
        folder: The run's folder.
    """
    (folder / _PLAN).write_text(json.dumps(plan))
    (folder / _PLACES).write_text(json.dumps(places))
    return {"program": str(program()), "plan": _PLAN, "places": _PLACES}


def tables(folder: Path) -> dict[str, dict[str, Any]]:
    """Reads the columns that the program wrote, by table and name.

    Raises:
        OSError: The file is missing.
        ValueError: It is damaged.
    """
    found: dict[str, dict[str, Any]] = {}
    with (folder / TABLES).open("rb") as file:
        file.readline()
        for table in json.loads(file.readline())["tables"]:
            unreported = _unreported()[table["name"]]
            columns = found[table["name"]] = {}
            for column in table["columns"]:
                data = file.read(column["bytes"])
                if len(data) != column["bytes"]:
                    raise ValueError(f"{TABLES} ends early")
                if column["type"] == "string":
                    values = json.loads(data)
                else:
                    values = np.frombuffer(data, dtype=_TYPES[column["type"]])
                if column["name"] in unreported:
                    values = [None] * len(values)
                columns[column["name"]] = values
    return found


@cache
def _unreported() -> dict[str, set[str]]:
    """Counts that a kernel does not report, by table: the columns that may be null."""
    return {
        table["name"]: {
            column["name"]
            for column in table["columns"]
            if "null" in column["notes"] and column["type"] in ("u64", "u32", "u8")
        }
        for table in json.loads(_core.tables())
    }

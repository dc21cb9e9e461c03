"""The program narrows-live: where it is, what it gets, and the tables that it writes.

It plays the applications of a plan over real sockets (crates/live). `make setup` and the wheel put
it beside this file. A guest has the machine's files, and so finds it there, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from narrows import _core
from narrows.backends.backend import BackendError
from narrows.backends.kernel.inside.agent.live import TABLES
from narrows.builds import THIS

__all__ = ["NO_REAL", "PROGRAM", "ROOM_HINT", "give", "program", "refusals", "tables"]

ROOM_HINT = "set TMPDIR to a place with more room"

NO_REAL: Mapping[str, Any] = {"servers": [], "queries": {}}
"""No real servers."""

PROGRAM = Path(__file__).parent / "narrows-live"

_PLAN, _PLACES, _REAL = "plan.json", "places.json", "real.json"

_TYPES = {"f64": "<f8", "u64": "<u8", "u32": "<u4", "u8": "u1", "bool": "?"}


def refusals(plan: Mapping[str, Any], real: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the program cannot honour of a plan's encryption: names of groups, and why.

    Args:
        plan: The simulator's input.
        real: The real servers.

    Raises:
        BackendError: The program is missing, or fails.
    """
    if not any(map(_encrypts, plan["applications"])):
        return []
    # A pipe has room for the numbers of the servers.
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as pipe:
        json.dump({**real, "queries": {}}, pipe)
        pipe.close()
        done = subprocess.run(
            [program(), "/dev/stdin", "--check", "--real", f"/dev/fd/{reading}"],
            input=json.dumps(_without_queues(plan)),
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[reading],
        )
    if done.returncode:
        raise BackendError(PROGRAM, done.stderr.strip().removeprefix("error: "), "run make setup")
    return [
        (name, why) for name, _, why in (line.partition(": ") for line in json.loads(done.stdout))
    ]


def _without_queues(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan with a usual queue at each link: sockets need none, and only a kernel has all."""
    links = [{**link, "queue": {"pfifo": {"limit": 1000}}} for link in plan["links"]]
    return {**plan, "links": links, "changes": []}


def _encrypts(application: Mapping[str, Any]) -> bool:
    ((kind, settings),) = application["kind"].items()
    if kind == "dns-client":
        return bool(settings["tcp"] and settings["tcp"]["tls"])
    return bool(settings.get("secure"))


def program() -> Path:
    """The program.

    Raises:
        BackendError: It is missing.
    """
    if not PROGRAM.is_file():
        raise BackendError(PROGRAM, "no such program", "build it with make setup")
    return PROGRAM


def give(
    plan: Mapping[str, Any],
    places: Mapping[str, Any],
    arguments: Sequence[str],
    folder: Path,
    real: Mapping[str, Any] = NO_REAL,
) -> dict[str, Any]:
    """Writes what the program gets into a folder; returns the agent's part of the job.

    Args:
        plan: The simulator's input.
        places: The namespace and the addresses of each node.
        arguments: Further arguments.
        folder: The run's folder.
        real: The real servers, and the queries of their clients.

    Raises:
        BackendError: The program is missing, or the folder has no room.
    """
    try:
        written = ((_PLAN, _without_queues(plan)), (_PLACES, places), (_REAL, real))
        for name, value in written:
            (folder / name).write_text(json.dumps(value))
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise BackendError(error.filename or folder, what, ROOM_HINT) from None
    files = {"plan": _PLAN, "places": _PLACES, "real": _REAL}
    return {"program": str(program()), "narrows": THIS, **files, "arguments": arguments}


def check(plan: Mapping[str, Any], places: Mapping[str, Any], arguments: Sequence[str]) -> None:
    """Checks that the program can play a part here: that its addresses and ports are free.

    Args:
        plan: The simulator's input.
        places: The addresses of each node.
        arguments: Which part it plays.

    Raises:
        BackendError: It is missing, refuses the plan, or cannot make a socket.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            part = give(plan, places, arguments, Path(folder))
            words = [part["program"], _PLAN, "--places", _PLACES, "--prepared", *arguments]
            words += ["--check"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise BackendError(error.filename or "", what, ROOM_HINT) from None
    refused = json.loads(done.stdout) if done.returncode == 0 else [done.stderr.strip()]
    if refused:
        raise BackendError("", refused[0].removeprefix("error: "))


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

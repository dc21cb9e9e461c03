"""The sweep folder while a sweep fills it.

Each run appends its row as one line; everything else can be made from sweep.json and these lines.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from narrows import _core
from narrows.builds import THIS, named
from narrows.errors import argument
from narrows.foreign_text import regular_bytes
from narrows.results import RunFolderError
from narrows.results.folder import parquet, refuse_others
from narrows.results.locked_lines import LockedLines
from narrows.results.sweep import (
    ROWS_FILE,
    SWEEP_FILE,
    SWEEP_FORMAT,
    Status,
    Sweep,
    in_order,
    read_document,
    read_rows,
)
from narrows.results.sweep_run import canonical
from narrows.sweeps.plan import Plan, identity
from narrows.unfinished import write_whole

TABLE_FILE = "sweep.parquet"
CSV_FILE = "sweep.csv"
_ADD = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


class Store(LockedLines):
    """The rows of a sweep, on disk if there is a folder."""

    def __init__(self, plan: Plan, folder: Path | None) -> None:
        """Opens a folder, which is new or holds an earlier part of the same sweep.

        Raises:
            RunFolderError: It holds something else, another process fills it, or it cannot be
                written.
        """
        self._plan = plan
        self._folder = folder
        self.rows: list[Mapping[str, Any]] = []
        if folder is not None:
            try:
                self._open(folder)
            except OSError as error:
                self.close()
                raise RunFolderError.of_system(folder, error) from None
            except BaseException:
                self.close()
                raise

    @property
    def done(self) -> set[str]:
        """Digests of the runs that did not fail, which need not run again."""
        return {row["run"] for row in self.rows if row["status"] != "failed"}

    def add(self, row: Mapping[str, Any]) -> None:
        """Keeps a run's row.

        Raises:
            RunFolderError: The row cannot be written, as on a full disk; earlier rows stay.
        """
        if self._file is not None and self._folder is not None:
            self._append(self._folder / ROWS_FILE, row)
        self.rows.append(row)

    def sweep(self, status: Status) -> Sweep:
        """The sweep with the runs so far, in memory."""
        plan = self._plan
        # A sweep of some combinations may have had other combinations before.
        rows = [row for row in self.rows if plan.whole or row["run"] in plan.runs]
        return Sweep(
            name=plan.name,
            scenario=plan.base,
            axes=plan.axes,
            seeds=plan.seeds,
            runs=in_order(rows, plan.axes, plan.seeds, self._folder),
            narrows=_core.version,
            build=_core.build,
            backend=plan.backend,
            status=status,
            folder=self._folder,
            combinations=None if plan.whole else len(plan.digests),
        )

    def finish(self, status: Status, *, csv: bool) -> Sweep:
        """Writes the table, and how the sweep ended.

        Raises:
            RunFolderError: They cannot be written.
        """
        sweep = self.sweep(status)
        if self._folder is not None and self._file is not None:
            try:
                os.fsync(self._file)
                data = parquet(sweep.table)
                self._replace(TABLE_FILE, data)
                if csv:
                    self._replace(CSV_FILE, sweep.table.write_csv().encode())
                facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                self._write_document(status, sweep.counts(), {TABLE_FILE: facts})
            except OSError as error:
                raise RunFolderError.of_system(self._folder, error) from None
        return sweep

    def _open(self, folder: Path) -> None:
        refuse_others(folder, marks=[SWEEP_FILE], allowed=[ROWS_FILE])
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / ROWS_FILE, _ADD, 0o666)
        self._lock(folder, "sweep", "wait for it, or choose another folder")
        if (folder / SWEEP_FILE).exists():
            self._check_same(folder)
            self._drop_torn_line(folder / ROWS_FILE)
            rows = read_rows(folder / ROWS_FILE)
            # This checks the rows against the plan, because they are now part of it.
            in_order(rows, self._plan.axes, self._plan.seeds, folder)
            self.rows = list(rows)
        else:
            os.ftruncate(self._file, 0)
        self._write_document("running", None, {})

    def _check_same(self, folder: Path) -> None:
        """Refuses a folder that holds another sweep.

        A sweep may get more values and seeds; any other change makes it another sweep.
        """
        before, plan = read_document(folder), self._plan
        keys = [axis["key"] for axis in before["vary"]]
        theirs = named(before["narrows"], before["build"])
        if theirs != THIS:
            raise RunFolderError(
                folder,
                f"holds a sweep of narrows {theirs}, but this is {THIS}",
                f"choose another folder with {argument('out')}, or go on with the earlier narrows",
            )
        if before["backend"] != plan.backend:
            raise RunFolderError(
                folder,
                f"holds a sweep of the backend {before['backend']}, but this is of {plan.backend}",
                f"choose another folder with {argument('out')}",
            )
        if before.get("outside") != (plan.outside.record if plan.outside else None):
            raise RunFolderError(
                folder,
                f"holds a sweep with other parts: {_differing(before.get('outside'), plan)}",
                f"choose another folder with {argument('out')}",
            )
        ours = identity(plan.base, [axis.key for axis in plan.axes])
        if identity(before["scenario"], keys) != ours:
            what = "other keys varied" if keys != [a.key for a in plan.axes] else "another scenario"
            raise RunFolderError(
                folder,
                f"holds another sweep ({what})",
                f"choose another folder with {argument('out')}",
            )
        for old, axis in zip(before["vary"], plan.axes, strict=True):
            for name, sets in (old.get("sets") or {}).items():
                now = (axis.sets or {}).get(name, sets)
                if canonical(sets) != canonical(now):
                    raise RunFolderError(
                        folder,
                        f"holds a sweep whose variant {name} sets other keys or values",
                        f"give it another name, or choose another folder with {argument('out')}",
                    )
        lacking = [
            f"{axis.key}={value}"
            for old, axis in zip(before["vary"], plan.axes, strict=True)
            for value in map(canonical, old["values"])
            if value not in axis.places
        ]
        lacking += [f"seed {seed}" for seed in before["seeds"] if seed not in plan.seeds]
        if lacking:
            raise RunFolderError(
                folder,
                f"holds a sweep that also has {lacking[0]}",
                "give that too (a sweep may grow), or choose another folder with "
                f"{argument('out')}",
            )

    def _drop_torn_line(self, path: Path) -> None:
        """Removes a row that a crash left incomplete, so that the next row begins a new line."""
        assert self._file is not None, "the file was opened"
        data = regular_bytes(path)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)

    def _write_document(
        self, status: Status, counts: Mapping[str, int] | None, files: Mapping[str, Any]
    ) -> None:
        plan = self._plan
        document = {
            "format": SWEEP_FORMAT,
            "narrows": _core.version,
            "build": _core.build,
            "backend": plan.backend,
            "name": plan.name,
            "status": status,
            "runs": counts,
            "vary": [axis.document() for axis in plan.axes],
            "seeds": list(plan.seeds),
            "combinations": None if plan.whole else len(plan.digests),
            # The folder may hold runs of other parts of the same product.
            "only": None if plan.whole else sorted(plan.runs),
            "scenario": dict(plan.base),
            **({"outside": plan.outside.record} if plan.outside else {}),
            "files": dict(files),
        }
        text = json.dumps(document, indent=2, default=str) + "\n"
        self._replace(SWEEP_FILE, text.encode())

    def _replace(self, name: str, data: bytes) -> None:
        assert self._folder is not None, "there is a folder"
        write_whole(self._folder / name, data, sync=True)


def _differing(before: Any, plan: Plan) -> str:
    """The first part from outside that a folder's sweep has in another form, or does not have."""
    named = [
        {
            **{f"queues[{place!r}]": part for place, part in parts.get("queues", {}).items()},
            **{f"controls[{name!r}]": part for name, part in parts.get("controls", {}).items()},
            **{part["file"]: part for part in parts.get("plugins", [])},
        }
        for parts in (
            before if isinstance(before, dict) else {},
            plan.outside.record if plan.outside else {},
        )
    ]
    theirs, ours = named
    for place in [*ours, *theirs]:
        one, other = theirs.get(place), ours.get(place)
        if one is None or other is None:
            return f"{'this' if one is None else 'it'} alone has {place}"
        for key, words in _FORMS:
            if one.get(key) != other.get(key):
                return f"{place} had {words}"
    return "in another order"


_FORMS = (
    ("sha256", "other code"),
    ("arguments", "other arguments"),
    ("version", "another version"),
)

"""Makes one run from several machines' records.

All records must belong to the same run and scenario, and each part of the scenario must have one.
`merge` converts each machine's times to the clock that counts. Two exchanges of timestamps limit
this: the difference between their offsets plus their uncertainties must stay within a bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows import _core
from narrows.backends.kernel.tables import gap_flags
from narrows.errors import argument, one_line
from narrows.machines.errors import MachineError
from narrows.machines.parts import Part, Parts
from narrows.machines.record import FILE, SAMPLES, TABLES, Record
from narrows.results import Run
from narrows.scenario import Scenario

BOUND_S = 0.01
"""Seconds by which a machine's times may be off."""

LATE_S = 0.1
"""A part that began this many seconds after the start gets a line in `flags`."""


def merge(folders: Sequence[Path], *, bound_s: float = BOUND_S) -> Run:
    """Makes one run from records.

    Args:
        folders: The folders of the records.
        bound_s: Seconds by which a machine's times may be off.

    Raises:
        MachineError: They do not belong together, one is missing, or a clock is too far off.
    """
    records = {folder: Record.load(folder) for folder in folders}
    if not records:
        raise MachineError("no record is given; hint: narrows merge records/*")
    first_folder, first = next(iter(records.items()))
    for folder, record in records.items():
        if record.digest != first.digest:
            raise MachineError(
                f"{folder}: has another scenario or seed than {first_folder}; "
                "hint: give the records of one run"
            )
        if record.run != first.run:
            raise MachineError(
                f"{folder}: is of run {record.run}, but {first_folder} is of {first.run}; "
                "hint: give the records of one run"
            )
    with _damaged_otherwise():
        parts = Parts(Scenario.from_dict(first.scenario, file=str(first_folder / FILE)), first.seed)
    if parts.digest != first.digest:
        raise MachineError(
            f"{first_folder}: this version of narrows reads its scenario differently; "
            "hint: merge with the version that ran it"
        )
    by_part = _by_part(records, parts)
    _check_clocks(records, bound_s)
    with _damaged_otherwise():
        return _merged(by_part, parts, bound_s)


@contextlib.contextmanager
def _damaged_otherwise() -> Iterator[None]:
    """Says that records are damaged if what they hold cannot be made a run."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = one_line(" ".join(str(error).split()))
        raise MachineError(f"the records' rows are damaged ({what}); hint: run again") from None


def _merged(by_part: Mapping[Part, Record], parts: Parts, bound_s: float) -> Run:
    tables, missed = _tables(by_part, parts)
    stopped = _stopped(by_part)
    end_s = max(record.end_s for record in by_part.values())
    return Run.from_columns(
        tables,
        scenario=parts.scenario.resolved(),
        seed=parts.seed,
        backend="machines",
        status="partial" if stopped == "interrupted" else "complete",
        stopped=stopped,
        end_s=end_s,
        events=0,
        narrows=_core.version,
        wall={"started": min(record.started for record in by_part.values())},
        host={
            "machines": {
                f"{part.role} {part.node}": _facts(record) for part, record in by_part.items()
            },
            "clock_bound_s": bound_s,
            "kernel": {
                "missed_samples": missed,
                "flags": _flags(by_part, tables, missed),
            },
        },
        captures={},
    )


def _by_part(records: Mapping[Path, Record], parts: Parts) -> dict[Part, Record]:
    found: dict[Part, Record] = {}
    for folder, record in records.items():
        part = record.part
        if part in found:
            raise MachineError(f"{folder}: is a second record of {part}; hint: leave one out")
        if part.role != "monitor" and part not in parts.all:
            raise MachineError(f"{folder}: the scenario has no {part}")
        found[part] = record
    for part in parts.all:
        if part not in found:
            raise MachineError(
                f"the record of {part} is missing; hint: copy its folder from that machine"
            )
    return {part: found[part] for part in sorted(found)}


def _check_clocks(records: Mapping[Path, Record], bound_s: float) -> None:
    for folder, record in records.items():
        clock = record.clock
        if clock.after is None:
            raise MachineError(
                f"{folder}: its clock was not measured after the run, because it lost the "
                "connection; hint: run again"
            )
        if clock.uncertainty_s > bound_s:
            raise MachineError(
                f"{folder}: its times may be off by {1e3 * clock.uncertainty_s:.3g} ms, more than "
                f"{1e3 * bound_s:.3g} ms; hint: synchronise the clocks (chronyd), give the control "
                f"connection its own path, or raise {argument('bound_s')}"
            )


def _tables(
    records: Mapping[Part, Record], parts: Parts
) -> tuple[dict[str, dict[str, list[Any]]], dict[str, int]]:
    """The tables, and the number of missed samples by monitor node."""
    tables = {"flows": _flows(records, parts), **_dns(records)}
    missed = {}
    for part, record in records.items():
        if part.role != "monitor":
            continue
        samples = record.files[SAMPLES]
        missed[part.node] = int(samples["missed"])
        for name in ("queues", "links"):
            columns = tables.setdefault(name, {})
            for key, values in samples[name].items():
                columns.setdefault(key, []).extend(values)
    return {name: columns for name, columns in tables.items() if columns}, missed


_BY_RECEIVER = ("end_s", "bytes_received")
_BY_OPENER = ("start_s", "established_s")
"""The columns of `flows` that the sending end does not know, or not always."""


def _flows(records: Mapping[Part, Record], parts: Parts) -> dict[str, list[Any]]:
    """The rows of the connections, with what both ends know of each."""
    rows: dict[Part, dict[int, dict[str, Any]]] = {}
    for part in records:
        if part.role in ("serve", "drive"):
            table = records[part].files[TABLES].get("flows", {})
            rows[part] = {row["flow"]: row for row in _rows(table)}
    found: dict[str, list[Any]] = {}
    for flow, connection in enumerate(parts.connections):
        opener = rows[Part("drive", connection.opener)].get(flow)
        acceptor = rows[Part("serve", connection.acceptor)].get(flow)
        if opener is None or acceptor is None:
            raise MachineError(f"the records have no flow {flow}; hint: run again")
        sender, receiver = (acceptor, opener) if connection.is_download else (opener, acceptor)
        for column in sender:
            row = opener if column in _BY_OPENER else receiver if column in _BY_RECEIVER else sender
            found.setdefault(column, []).append(row[column])
    return found


def _dns(records: Mapping[Part, Record]) -> dict[str, dict[str, list[Any]]]:
    """The queries of all workers, and their attempts; each machine counts its own from zero."""
    found: dict[str, dict[str, list[Any]]] = {"queries": {}, "attempts": {}}
    for part, record in records.items():
        if part.role != "resolve":
            continue
        first = len(found["queries"].get("query", ()))
        for name, columns in found.items():
            for column, values in record.files[TABLES].get(name, {}).items():
                if column == "query":
                    values = [first + number for number in values]
                columns.setdefault(column, []).extend(values)
    return found


def _rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _stopped(records: Mapping[Part, Record]) -> str:
    """Why the run ended: the worst of the parts' reasons."""
    reasons = {record.stopped for record in records.values()}
    for reason in ("interrupted", "dns-done"):
        if reason in reasons:
            return reason
    return "end"


def _facts(record: Record) -> dict[str, Any]:
    clock = record.clock
    assert clock.after is not None, "it has been checked"
    return {
        "clock_ahead_ms": {
            "before": 1e3 * clock.before.offset_s,
            "after": 1e3 * clock.after.offset_s,
        },
        "times_off_at_most_ms": 1e3 * clock.uncertainty_s,
        "late_s": record.late_s,
        "stopped": record.stopped,
        "differs": list(record.differs),
        **record.host,
    }


def _flags(
    records: Mapping[Part, Record],
    tables: Mapping[str, Mapping[str, Sequence[Any]]],
    missed: Mapping[str, int],
) -> list[str]:
    """Reasons to distrust the run as a measurement, as sentences."""
    found = []
    for part, record in records.items():
        found += [f"{part.node}: {each}" for each in record.differs]
        if record.late_s > LATE_S:
            found.append(f"{part.role} at {part.node} began {record.late_s:.1f} s late")
    established = tables.get("flows", {}).get("established_s", ())
    never = sum(each is None for each in established)
    if never:
        found.append(f"{never} of {len(established)} connections were never established")
    for node, count in missed.items():
        found += gap_flags(f"at {node}", count, tables.get("queues"))
    return found

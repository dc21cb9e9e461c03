"""A job for the page, in a process of its own: a run folder, a sweep, or a run on a kernel.

The server starts this program with a socket as its input. A request comes in, with its length
before it, and messages go out, as in native.py: a line of JSON, in which `bytes` says how many
bytes follow. When the server closes the socket, because the page wants no more or is gone, this
process takes it as an interrupt (Ctrl-C). So a kernel leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import select
import signal
import socket
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError, one_line

if TYPE_CHECKING:
    from narrows.results import Run, Sweep
    from narrows.sweeps import Progress

MOST_SEEDS = 10
"""The most seeds of a sweep from the page."""
LENGTH_BYTES = 8
"""The length of a request's length."""

_MOST_EVENTS = 30_000_000
_MOST_S = {"folder": 60.0, "sweep": 600.0, "kernel": 900.0}
_OFTEN_S = 0.4
"""Seconds between two messages about the same job."""
_LATE = threading.Event()
"""Set once this job has had its time."""
_DRAWN = ("queries", "attempts", "queues", "links", "flow_states", "goodput")
"""The tables that the page reads."""

Say = Callable[..., None]


def main() -> None:
    """Does the job that the socket at standard input asks for."""
    page = socket.socket(fileno=os.dup(0))
    request = json.loads(_read(page, int.from_bytes(_read(page, LENGTH_BYTES), "little")))
    kind = request["job"]
    saying = threading.Lock()

    def say(facts: Mapping[str, Any], more: bytes = b"") -> None:
        head = json.dumps({**facts, "bytes": len(more)}).encode()
        # A page that is gone has ended this job already.
        with saying, contextlib.suppress(OSError):
            page.sendall(head + b"\n" + more)

    # Whatever started the server may ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=_interrupt, args=(page, _MOST_S[kind]), daemon=True).start()
        _JOBS[kind](request, say)
    except KeyboardInterrupt:
        say({"state": "refused", "why": _stopped(kind, "interrupted")})
    except NarrowsError as error:
        say({"state": "refused", "why": one_line(str(error))})


def _interrupt(page: socket.socket, within: float) -> None:
    """Interrupts this process when the page is gone, or after so many seconds."""
    if not select.select([page], [], [], within)[0]:
        _LATE.set()
    os.kill(os.getpid(), signal.SIGINT)


def _folder(request: Mapping[str, Any], say: Say) -> None:
    """Runs the scenario, and sends its run folder as a ZIP file."""
    done = _run(request, say, event_limit=_MOST_EVENTS)
    name = f"{done.scenario['name']}-{done.seed}"
    archive = io.BytesIO()
    with tempfile.TemporaryDirectory() as place:
        folder = done.save(Path(place) / name).folder
        assert folder is not None, "it was saved"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in sorted(folder.rglob("*")):
                zipped.write(path, Path(name) / path.relative_to(folder))
    say({"state": "done", "name": name, "why": _why(done, "folder")}, archive.getvalue())


def _kernel(request: Mapping[str, Any], say: Say) -> None:
    """Runs the scenario on a kernel, and sends its tables."""
    done = _run(request, say, backend="kernel")
    kernel = done.host["kernel"]
    facts = {"state": "done", "why": _why(done, "kernel"), "kernel": f"Linux {kernel['version']}"}
    say({**facts, "flags": kernel["flags"]}, tables(done))


def _run(request: Mapping[str, Any], say: Say, **how: Any) -> Run:
    from narrows.backends import run
    from narrows.lab.chosen import Chosen, read

    often = _Often()

    def progress(share: float) -> None:
        if often.now():
            say({"state": "running", "progress": share})

    chosen = Chosen(read(request["scenario"]), request["settings"])
    return run(
        chosen.base, set=chosen.changes, progress=progress, plugins=request["plugins"], **how
    )


def _why(done: Run, kind: str) -> str:
    if done.status == "complete":
        return ""
    return _stopped(kind, f"the run ended early ({done.stopped})")


def _stopped(kind: str, otherwise: str) -> str:
    """Why a job is not whole: a run and a sweep call the end of its time an interrupt."""
    return f"stopped after {_MOST_S[kind]:g} s" if _LATE.is_set() else otherwise


def _sweep(request: Mapping[str, Any], say: Say) -> None:
    """Runs a sweep over a knob, and sends its plots while it grows."""
    from narrows.lab.chosen import Chosen, read
    from narrows.sweeps import sweep

    seeds = int(request["seeds"])
    if not 1 <= seeds <= MOST_SEEDS:
        raise NarrowsError(f"{seeds} seeds: a sweep of the page has 1 to {MOST_SEEDS}")
    often, drawn = _Often(), 0

    def progress(at: Progress) -> None:
        nonlocal drawn
        if at.so_far is None or not often.now():
            return
        facts = {"state": "running", "progress": at.share, "words": at.words}
        if int(at.done) > drawn:
            drawn = int(at.done)
            facts["plots"] = _plots(at.so_far(), label)
        say(facts)

    chosen = Chosen(read(request["scenario"]), request["settings"])
    common, varied, label = chosen.varied(request["knob"])
    done = sweep(
        chosen.base,
        set=common,
        seeds=seeds,
        progress=progress,
        plugins=request["plugins"],
        **varied,
    )
    if not any(run.complete for run in done.runs):
        why = next((run.message for run in done.runs if run.message), "no run has ended")
        raise NarrowsError(f"no run of the sweep is complete: {_stopped('sweep', why)}")
    why = "" if done.status == "complete" else _stopped("sweep", f"the sweep is {done.status}")
    say(
        {
            "state": "done",
            "why": why,
            "words": f"{len(done.runs)} runs",
            "plots": _plots(done, label),
        }
    )


def _plots(sweep: Sweep, label: str) -> list[dict[str, Any]]:
    """A plot for each metric against the varied key; `label` replaces "variant"."""
    from narrows.report import plot_sweep
    from narrows.results.metrics import metrics

    def drawn(key: str) -> dict[str, Any]:
        found = plot_sweep(sweep, key, sweep.keys[0]).shown.drawing
        if sweep.axes[0].sets is not None:
            found = replace(found, x=replace(found.x, label=label))
        return found.document()

    named: dict[str, str] = {}
    seen: dict[str, set[float]] = {}
    runs = [metrics(run.summary) for run in sweep.runs if run.complete]
    for metric in itertools.chain(*runs):
        unit = f" ({metric.unit})" if metric.unit else ""
        named[metric.key] = f"{metric.section}: {metric.name}{unit}"
        seen.setdefault(metric.key, set()).add(metric.value)
    # What is the same in all runs would only make the list longer.
    keys = [key for key in named if len(seen[key]) > 1 or len(runs) == 1]
    return [{"key": key, "name": named[key], "drawing": drawn(key)} for key in keys]


def tables(done: Run) -> bytes:
    """The tables that the page draws, as `narrows_engine::write_tables` writes them."""
    import polars as pl

    heads, values = [], []
    for name in _DRAWN:
        columns = []
        for series in done.table(name).get_columns():
            if series.dtype.is_nested():
                continue
            if series.dtype == pl.Boolean:
                kind, data = "bool", series.fill_null(False).cast(pl.UInt8).to_numpy().tobytes()
            elif series.dtype.is_numeric():
                kind, data = "f64", series.cast(pl.Float64).to_numpy().astype("<f8").tobytes()
            else:
                texts = series.cast(pl.String).fill_null("").to_list()
                kind, data = "string", json.dumps(texts).encode()
            columns.append({"name": series.name, "type": kind, "bytes": len(data)})
            values.append(data)
        heads.append({"name": name, "columns": columns})
    return json.dumps({"tables": heads}).encode() + b"\n" + b"".join(values)


class _Often:
    """Says whether the last message was long enough ago."""

    def __init__(self) -> None:
        self._last = 0.0

    def now(self) -> bool:
        """Whether to send another one now; then this is the last."""
        if time.monotonic() - self._last < _OFTEN_S:
            return False
        self._last = time.monotonic()
        return True


def _read(page: socket.socket, length: int) -> bytes:
    read = bytearray()
    while len(read) < length:
        more = page.recv(length - len(read))
        if not more:
            raise SystemExit(0)
        read += more
    return bytes(read)


_JOBS: Mapping[str, Callable[[Mapping[str, Any], Say], None]] = {
    "folder": _folder,
    "sweep": _sweep,
    "kernel": _kernel,
}

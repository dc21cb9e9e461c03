"""The workers of a Dask cluster.

Runs are sent in batches of about a second. A worker that dies costs only time: the scheduler gives
its batch to another worker, and a row counts once it has arrived here. Each batch contains the
scenario, a few kilobytes, because data on a worker would be lost with it.

Workers must have the same build of narrows. Each is asked before the sweep, and also checks every
batch, because workers may join later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from narrows.builds import THIS
from narrows.errors import argument
from narrows.sweeps.errors import SweepError
from narrows.sweeps.local import TICK_S, Event
from narrows.sweeps.plan import Item
from narrows.sweeps.work import Fatal, Worker, failed_row

CONNECT_S = 10.0
"""Seconds that the sweep waits for the scheduler and a first worker."""
NO_WORKERS_S = 30.0
"""Seconds that the sweep waits for workers after all have gone."""

_BATCH_S = 1.0
_MOST_IN_BATCH = 64
_LOOK_S = 1.0
"""Seconds between two checks of the number of workers."""

_START_ONE = "start one: dask scheduler, and dask worker ADDRESS for each machine"

_CERTIFICATES = "docs/trust.md says how to make and name certificates"


async def _greet(address: str, settings: Mapping[str, Any]) -> None:
    """Connects to a scheduler once.

    Raises:
        Exception: The address is impossible, nobody answers, or one end lacks a certificate.
    """
    from distributed import comm as dask_comm

    untyped: Any = dask_comm
    comm = await untyped.connect(address, timeout=CONNECT_S, **settings)
    await comm.close()


class DaskCluster:
    """The workers behind a Dask scheduler; leaving the context cancels their remaining work."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._name = f"{argument('dask')} {address}"
        self._client: Any = None
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pending: dict[Any, list[Item]] = {}
        self._todo: deque[Item] = deque()
        self._alone: deque[Item] = deque()
        """Runs of batches whose workers died; each is sent by itself."""
        self._run_s: float | None = None
        self._threads = 0
        self._looked_at = self._seen_at = 0.0
        self._level = logging.NOTSET

    def __enter__(self) -> DaskCluster:
        """Connects, and checks the workers' builds.

        Raises:
            SweepError: There is no scheduler or no worker, or a worker is of another build.
        """
        try:
            import distributed
        except ImportError:
            raise SweepError(
                self._name, "needs Dask, which is not installed", "pip install 'narrows[dask]'"
            ) from None
        # One line replaces Dask's messages about a lost connection.
        logger = logging.getLogger("distributed")
        self._level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            # Dask has few types.
            dask: Any = distributed
            security = dask.Security()
            if self._address.startswith("tls:") and not security.tls_client_cert:
                raise SweepError(self._name, "needs a certificate", _CERTIFICATES)
            try:
                # Dask never closes a client that cannot connect, and complains at the end.
                # In a thread, because a notebook has an event loop in this one.
                greeting = _greet(self._address, security.get_connection_args("client"))
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, greeting).result()
                self._client = dask.Client(
                    self._address, timeout=CONNECT_S, set_as_default=False, security=security
                )
            except Exception:
                hint = _CERTIFICATES if self._address.startswith("tls:") else _START_ONE
                raise SweepError(self._name, "no scheduler answers there", hint) from None
            try:
                self._client.wait_for_workers(1, timeout=CONNECT_S)
            except TimeoutError:
                raise SweepError(self._name, "has no workers", _START_ONE) from None
            self._check_versions()
            self._look()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.cancel(list(self._pending), force=True)
            with contextlib.suppress(Exception):
                self._client.close(timeout=2.0)
        logging.getLogger("distributed").setLevel(self._level)

    def run(self, job: Mapping[str, Any], items: Iterator[Item]) -> Iterator[Event]:
        """Runs all items; yields an event for each that ends, and at least one every `TICK_S`.

        Raises:
            SweepError: The cluster is lost, or a worker found an error that concerns all runs.
        """
        self._todo = deque(items)
        while self._todo or self._alone or self._pending:
            self._look()
            while (self._todo or self._alone) and len(self._pending) < 2 * max(1, self._threads):
                self._submit(job)
            try:
                future = self._done.get(timeout=TICK_S)
            except queue.Empty:
                pass
            else:
                for row in self._rows(future, job):
                    yield Event(row, 0.0, self._label())
            yield Event(None, 0.0, self._label())

    def _label(self) -> str:
        return f"{self._threads} thread{'' if self._threads == 1 else 's'} on the cluster"

    def _look(self) -> None:
        """Checks how many workers there are.

        Raises:
            SweepError: There has been no worker for a while.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        try:
            self._threads = sum(self._client.nthreads().values())
        except Exception:
            self._threads = 0
        if self._threads or not self._seen_at:
            self._seen_at = now
        elif now - self._seen_at > NO_WORKERS_S:
            raise SweepError(
                self._name,
                f"has had no workers for {NO_WORKERS_S:.0f} s; what is done is kept",
                "start workers, and run the same command again",
            )

    def _submit(self, job: Mapping[str, Any]) -> None:
        if self._alone:
            batch = [self._alone.popleft()]
        else:
            count = 1
            if self._run_s is not None:
                fair = -(-len(self._todo) // (2 * max(1, self._threads)))
                count = int(_BATCH_S / max(self._run_s, 1e-6))
                count = max(1, min(_MOST_IN_BATCH, fair, count))
            batch = [self._todo.popleft() for _ in range(min(count, len(self._todo)))]
        items = [(item.run, item.places, item.seed) for item in batch]
        future = self._client.submit(do_batch, dict(job), items, pure=False)
        self._pending[future] = batch
        future.add_done_callback(self._done.put)

    def _rows(self, future: Any, job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The rows of a batch that ended."""
        batch = self._pending.pop(future)
        try:
            rows, took_s, fatal = future.result()
        except Exception as error:
            return self._lost(batch, job, error)
        if fatal:
            raise SweepError(self._name, fatal)
        run_s = took_s / len(batch)
        self._run_s = run_s if self._run_s is None else 0.7 * self._run_s + 0.3 * run_s
        for row in rows:
            if row["folder"] and not (Path(job["keep"]) / row["folder"]).exists():
                raise SweepError(
                    "--keep-runs",
                    f"what a worker wrote to {job['keep']} is not there",
                    "use a folder that all machines share",
                )
        return list(rows)

    def _lost(
        self, batch: Sequence[Item], job: Mapping[str, Any], error: Exception
    ) -> list[Mapping[str, Any]]:
        """Rows for a batch that failed; its runs may be tried again, each alone.

        Raises:
            SweepError: The batch did not cause the failure.
        """
        import distributed

        if isinstance(error, distributed.KilledWorker):
            if len(batch) > 1:
                self._alone.extend(batch)
                return []
            (item,) = batch
            values = [
                axis["values"][place] for axis, place in zip(job["axes"], item.places, strict=True)
            ]
            return [failed_row(item, values, "every worker that ran it died")]
        if type(error).__name__.endswith("CancelledError"):
            raise SweepError(
                self._name,
                "the connection was lost; what is done is kept",
                "run the same command again when the cluster is back",
            )
        raise SweepError(self._name, f"{type(error).__name__}: {error}")

    def _check_versions(self) -> None:
        def version() -> tuple[str, str]:
            # Sent by value, because a worker need not have narrows.
            try:
                from narrows import _core as theirs
            except ImportError as error:
                return "", str(error)
            # Not narrows.builds, which earlier versions lack.
            build = getattr(theirs, "build", "")
            return f"{theirs.version} ({build})" if build else theirs.version, ""

        try:
            found = self._client.run(version, on_error="return")
        except Exception as error:
            raise SweepError(self._name, f"its workers do not answer: {error}") from None
        for worker, answer in sorted(found.items()):
            theirs, why = answer if isinstance(answer, tuple) else ("", str(answer))
            if theirs != THIS:
                has = f"narrows {theirs}" if theirs else f"no narrows ({why})"
                raise SweepError(
                    self._name,
                    f"worker {worker} has {has}, but this is {THIS}",
                    "install the same build on all workers",
                )


def do_batch(
    job: Mapping[str, Any], items: Sequence[tuple[str, tuple[int, ...], int]]
) -> tuple[list[dict[str, Any]], float, str]:
    """Runs a batch on a worker, one run after the other.

    Returns:
        Their rows, the wall-clock time, and the error that ends the whole sweep, or an empty text.
    """
    began_at = time.monotonic()
    try:
        worker = Worker(job)
        rows = [worker.row(Item(run, tuple(places), seed)) for run, places, seed in items]
    except Fatal as error:
        return [], 0.0, f"a worker {error}"
    return rows, time.monotonic() - began_at, ""

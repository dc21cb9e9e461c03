"""A local worker process: it reads lines of JSON from stdin and writes lines of JSON to stdout.

    in:   the job (see `work.job_of`), then lists of items as [run, places, seed]
    out:  {"ready": true}, then {"row": ..., "took_s": ...} for each item in order, between them
          {"progress": 0.3}, and {"fatal": "..."} when the sweep cannot go on

When stdin ends, the process that started this one has gone, and this one exits at once. It leaves
interrupts from the terminal to the process that started it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from typing import Any

from narrows.starting import collect_rarely

_REPORT_S = 0.5
"""Seconds between two reports of a run's progress."""


def main() -> None:
    """Works until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Other output goes to stderr, so that it cannot come between the lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()

    collect_rarely()
    from narrows.sweeps.plan import Item
    from narrows.sweeps.work import Fatal, Worker

    def say(message: dict[str, Any]) -> None:
        # Floats survive JSON to the last bit.
        out.write(json.dumps(message) + "\n")
        out.flush()

    said_at = time.monotonic()

    def progress(done: float) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > _REPORT_S:
            said_at = time.monotonic()
            say({"progress": done})

    try:
        worker = Worker(json.loads(lines.get()))
        say({"ready": True})
        while True:
            for run, places, seed in json.loads(lines.get()):
                said_at = began_at = time.monotonic()
                row = worker.row(Item(run, tuple(places), seed), progress)
                say({"row": row, "took_s": time.monotonic() - began_at})
    except Fatal as error:
        say({"fatal": str(error)})
    except BrokenPipeError:
        os._exit(0)


def _read(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()

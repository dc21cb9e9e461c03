"""Incast over the kernel's sockets: a client asks all servers at once, and waits for the last.

It behaves like the simulator's (`incast.rs`). A round's timeouts are those that the hosts of all
servers count during it (`TCPTimeouts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .asking import Call, Servers
from .counters import Counters
from .draws import Draw
from .loop import Loop


class Incast:
    """A client and its servers."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._job = job
        self._loop = loop
        self._servers = Servers(job, loop, seed)
        self.goodput = self._servers.goodput
        self._block = Draw(job["block"], f"{seed} block")
        self._pause = Draw(job["pause"], f"{seed} pause")
        self._calls: list[Call | None] = [None] * len(job["servers"])
        # The number of answers that have not arrived, or of connections that are not open yet.
        self._awaited = 0
        self._wanted: list[int | None] = [None] * len(job["servers"])
        self._counters = [
            Counters(name) for name in sorted({each["namespace"] for each in job["servers"]})
        ]
        self._timeouts_before = 0
        self._rows: list[dict[str, Any]] = []
        loop.at(job["start_s"], self._warm_up if job["kept"] else self._begin)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """A row for each round."""
        if self._rows and self._awaited:
            self._count()
        return {"rounds": self._rows}

    def _warm_up(self) -> None:
        self._awaited = len(self._calls)
        for number in range(len(self._calls)):
            self._open(number)

    def _begin(self) -> None:
        turn = len(self._rows) * len(self._calls)
        self._timeouts_before = self._timeouts()
        self._rows.append(
            {
                "group": self._job["group"],
                "round": len(self._rows),
                "start_s": self._loop.now(),
                "first_s": None,
                "end_s": None,
                "blocks": len(self._calls),
                "failed": 0,
                "bytes": 0,
                "segments_retransmitted": 0,
                "timeouts": 0,
            }
        )
        self._awaited = len(self._calls)
        for number, call in enumerate(self._calls):
            self._wanted[number] = block = self._block.whole(turn + number)
            if call is None:
                self._open(number)
            elif call.is_open:
                call.ask(block, number)

    def _open(self, number: int) -> None:
        call = Call(
            self._servers,
            number,
            opened=self._opened,
            answered=self._answered,
            closed=self._closed,
        )
        call.tag = number
        self._calls[number] = call

    def _opened(self, call: Call) -> None:
        block = self._wanted[call.tag]
        if block is None:
            self._settle()
        else:
            call.ask(block, call.tag)

    def _answered(self, call: Call, number: int, length: int) -> None:
        row = self._rows[-1]
        row["segments_retransmitted"] += call.resent()
        row["first_s"] = self._loop.now() if row["first_s"] is None else row["first_s"]
        row["bytes"] += length
        self._wanted[number] = None
        if not self._job["kept"]:
            self._calls[number] = None
            call.close()
        self._settle()

    def _closed(self, call: Call) -> None:
        number = call.tag
        self._calls[number] = None
        if self._wanted[number] is not None:
            self._wanted[number] = None
            self._rows[-1]["segments_retransmitted"] += call.resent()
            self._rows[-1]["failed"] += 1
            self._settle()
        elif not self._rows:
            self._settle()

    def _settle(self) -> None:
        """Called when a block arrives or fails, or a connection opens; the last ends a round."""
        self._awaited -= 1
        if self._awaited:
            return
        if not self._rows:
            self._begin()
            return
        row = self._rows[-1]
        if not row["failed"]:
            row["end_s"] = self._loop.now()
        self._count()
        if len(self._rows) == self._job["rounds"]:
            for call in self._calls:
                if call is not None:
                    call.close()
            return
        pause = self._pause.next(len(self._rows) - 1)
        self._loop.at(self._loop.now() + pause, self._begin)

    def _count(self) -> None:
        self._rows[-1]["timeouts"] = self._timeouts() - self._timeouts_before

    def _timeouts(self) -> int:
        return sum(each.resent()[1] for each in self._counters)

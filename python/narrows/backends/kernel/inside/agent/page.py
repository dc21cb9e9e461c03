"""Browsers that load a page over the kernel's sockets, like the simulator's (`page.rs`)."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from .asking import Call, Servers
from .draws import Draw
from .loop import Loop


class Browsers:
    """A group of browsers at a host."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self.job = job
        self.loop = loop
        self.servers = Servers(job, loop, seed)
        self.goodput = self.servers.goodput
        self.needed_by: list[list[int]] = [[] for _ in job["objects"]]
        for number, each in enumerate(job["objects"]):
            for other in each["after"]:
                self.needed_by[other].append(number)
        self.pages: list[dict[str, Any]] = []
        self.objects: list[dict[str, Any]] = []
        for number in range(job["browsers"]):
            browser = _Browser(self, number, f"{seed} {number}")
            offset = job["spread_s"] * random.Random(f"{seed} {number} start").random()
            loop.at(job["start_s"] + offset, browser.begin)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """A row for each load, and a row for each of its objects."""
        return {"pages": self.pages, "objects": self.objects}


class _Pool:
    """A browser's connections to a server, and the requests that wait for a connection."""

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.calls: list[Call] = []


class _Browser:
    def __init__(self, group: Browsers, number: int, seed: str) -> None:
        self._group = group
        self._job = group.job
        self._number = number
        self._pause = Draw(self._job["pause"], f"{seed} pause")
        self._bytes = [
            Draw(each["bytes"], f"{seed} {place}")
            for place, each in enumerate(self._job["objects"])
        ]
        self._begun = 0
        self._page: dict[str, Any] | None = None
        self._rows: list[dict[str, Any]] = []
        self._missing = 0
        self._blocked: list[int] = []
        self._pools: list[_Pool] = []

    def begin(self) -> None:
        """Begins a load: requests the objects that depend on no others."""
        load = self._begun
        self._begun += 1
        same = {"group": self._job["group"], "browser": self._number, "load": load}
        self._page = {
            **same,
            "start_s": self._group.loop.now(),
            "first_s": None,
            "end_s": None,
            "failed": False,
            "bytes": 0,
            "connections": 0,
        }
        self._group.pages.append(self._page)
        objects = self._job["objects"]
        self._missing = len(objects)
        self._blocked = [len(each["after"]) for each in objects]
        self._pools = [_Pool() for _ in self._job["servers"]]
        self._rows = [
            {
                **same,
                "object": each["name"],
                "bytes": draw.whole(load),
                "ready_s": None,
                "asked_s": None,
                "end_s": None,
            }
            for each, draw in zip(objects, self._bytes, strict=True)
        ]
        self._group.objects.extend(self._rows)
        for number, each in enumerate(objects):
            if not each["after"]:
                self._free(number)

    def _free(self, number: int) -> None:
        """Called when everything that an object needs has arrived; requests it after its wait."""
        wait = self._job["objects"][number]["wait_s"]
        now = self._group.loop.now()
        self._rows[number]["ready_s"] = now + wait
        if wait:
            self._group.loop.at(now + wait, partial(self._want, number, self._begun))
        else:
            self._want(number, self._begun)

    def _want(self, number: int, load: int) -> None:
        """Sends a request on a connection with room, or lets it wait for one."""
        if self._page is None or load != self._begun:
            # The object belongs to a load that has failed.
            return
        server = self._job["objects"][number]["server"]
        pool = self._pools[server]
        pool.waiting.append(number)
        for call in pool.calls:
            if call.is_open and _asked(call) < self._job["streams"]:
                self._fill(pool, call)
                return
        opening = sum(not call.is_open for call in pool.calls)
        if (
            len(pool.calls) < self._job["connections"]
            and len(pool.waiting) > opening * self._job["streams"]
        ):
            self._page["connections"] += 1
            pool.calls.append(
                Call(
                    self._group.servers,
                    server,
                    opened=partial(self._fill, pool),
                    answered=partial(self._take, pool),
                    closed=partial(self._failed, pool),
                )
            )

    def _fill(self, pool: _Pool, call: Call) -> None:
        """Sends as many waiting requests as a connection has room for."""
        while call.is_open and pool.waiting and _asked(call) < self._job["streams"]:
            number = pool.waiting.popleft()
            row = self._rows[number]
            row["asked_s"] = self._group.loop.now()
            call.tag = _asked(call) + 1
            call.ask(row["bytes"], number)

    def _take(self, pool: _Pool, call: Call, number: int, length: int) -> None:
        """Called when an object has arrived."""
        page = self._page
        if page is None or call not in pool.calls:
            return
        call.tag = _asked(call) - 1
        now = self._group.loop.now()
        self._rows[number]["end_s"] = now
        page["bytes"] += length
        if number == 0:
            page["first_s"] = now
        self._missing -= 1
        if not self._missing:
            page["end_s"] = now
            self._end()
            return
        for other in self._group.needed_by[number]:
            self._blocked[other] -= 1
            if not self._blocked[other]:
                self._free(other)
        self._fill(pool, call)

    def _failed(self, pool: _Pool, call: Call) -> None:
        """Called when a connection has failed; its load fails too."""
        if self._page is not None and call in pool.calls:
            self._page["failed"] = True
            self._end()

    def _end(self) -> None:
        self._page = None
        for pool in self._pools:
            pool.waiting.clear()
            for call in pool.calls:
                call.close(at_once=not call.is_open or _asked(call) > 0)
            pool.calls = []
        if self._begun < self._job["loads"]:
            pause = self._pause.next(self._begun - 1)
            self._group.loop.at(self._group.loop.now() + pause, self.begin)


def _asked(call: Call) -> int:
    """The number of unanswered requests on a connection."""
    return int(call.tag or 0)

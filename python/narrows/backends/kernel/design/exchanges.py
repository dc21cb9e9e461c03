"""From the lengths of DNS messages in a plan to a table of exchanges: query, reply, weight.

The simulator draws lengths while it runs, but a server with a zone has to know them beforehand. So
this module draws `DRAWN` lengths from a distribution, and the run picks one of them at random each
time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from narrows.backends.kernel.design.network import Network, Plan
from narrows.backends.kernel.dns_messages import name_bytes
from narrows.backends.kernel.software import longest_name
from narrows.scenario.dns_messages import BELOW_DNS

Row = dict[str, Any]

DRAWN = 1000
"""How many lengths represent a distribution."""

MOST = 10_000
"""The most exchanges that a group may have."""

_SHORTEST, _LONGEST = 12, 65_535
_MARKS = "0123456789abcdefghijklmopqrstuvwxyz"
"""The characters of marks. Names are padded with `n`, which is not among them."""


class Exchanges:
    """The exchanges of a group of DNS clients with a real server."""

    def __init__(self, sizes: Plan, payload: int, seed: str) -> None:
        """Reads the plan's form.

        Args:
            sizes: The sizes of the client in the plan.
            payload: The longest reply that the client accepts over UDP, in bytes.
            seed: The seed of drawn lengths.

        Raises:
            ValueError: There are too many exchanges.
        """
        self._payload = payload
        if "chosen" in sizes:
            found = [dict(choice) for choice in sizes["chosen"]]
        else:
            found = self._drawn(sizes["drawn"], random.Random(seed))
        self.rows = [self._row(each) for each in found]

    def impossible(self) -> Iterable[tuple[str, int]]:
        """Lengths that no DNS message can have, each with the word `query` or `reply`."""
        for row in self.rows:
            if name_bytes(row["query"], self._payload) is None:
                yield "query", row["query"]
            elif row["longest_name"] < 1:
                yield "reply", row["reply"]

    def _row(self, each: Plan) -> Row:
        return {
            "query": each["query"],
            "reply": each["reply"],
            "over_udp": each.get("over_udp"),
            "payload": self._payload,
            "mark": "",
            "longest_name": self._longest_name(each["query"], each["reply"]),
        }

    def _longest_name(self, query: int, reply: int) -> int:
        """The longest name with which query and reply can have these lengths; 0 if none can."""
        most = longest_name(reply)
        return most if most > 0 and name_bytes(query, self._payload, most) is not None else 0

    def _drawn(self, settings: Plan, numbers: random.Random) -> list[Row]:
        forms = [settings["query"], settings["reply"]]
        listed = [form.get("list") for form in forms]
        drawn = any(not ("constant" in form or "list" in form) for form in forms)
        count = math.lcm(*(len(each) for each in listed if each is not None))
        if drawn:
            count *= -(-DRAWN // count)
        if count > MOST:
            raise ValueError(f"more than {MOST} pairs of lengths")
        pairs = zip(*(list(_lengths(form, count, numbers)) for form in forms), strict=True)
        found = [{"query": query, "reply": reply} for query, reply in pairs]
        return [self._possible(each) for each in found] if drawn else found

    def _possible(self, each: Row) -> Row:
        """The exchange, with its lengths raised to possible ones."""
        query, reply = each["query"], each["reply"]
        while name_bytes(query, self._payload) is None:
            query += 1
        while not self._longest_name(query, reply):
            reply += 1
        return {"query": query, "reply": reply}


def exchanges_of(network: Network, name: str, settings: Plan, payload: int) -> Exchanges | None:
    """The exchanges of a group of clients; None if they were refused.

    Args:
        network: Takes the refusals.
        name: The name of the group.
        settings: The clients of the plan.
        payload: The longest reply that they accept over UDP, in bytes.
    """
    refuse, key = network.refuse, f"dns.{name}."
    fixed = all("constant" in form for form in settings["sizes"].get("drawn", {"": ""}).values())
    try:
        seed = f"{network.plan['seed']} {name}"
        found = Exchanges(settings["sizes"], payload, seed)
    except ValueError as error:
        refuse(f"{key}messages", str(error))
        return None
    if any(row["over_udp"] is not None for row in found.rows):
        why = "a real server itself decides what it leaves out over UDP"
        refuse(f"{key}messages", why, "give lengths")
        return None
    wrong = list(found.impossible())
    for what, length in wrong[:1]:
        why = (
            f"no DNS {what} has {length} B"
            if what == "query"
            else f"a reply of {length} B is neither its query nor 11 B longer than its question"
        )
        if fixed:
            packet = length + BELOW_DNS
            refuse(f"{key}{what}_size", f"{why}, as an IP packet of {packet} B has")
        else:
            refuse(f"{key}messages", why)
    return None if wrong else found


class Names:
    """The names in a server's zone: each exchange has a unique name."""

    def __init__(self) -> None:
        self._marks: dict[tuple[Any, ...], str] = {}
        self._next: dict[int, int] = {}

    def mark(self, rows: Sequence[Row]) -> int | None:
        """Gives exchanges their marks, in place.

        Returns:
            The length of a query that is too short for its mark; None if all fit.
        """
        for row in rows:
            length = name_bytes(row["query"], row["payload"], row["longest_name"])
            assert length is not None, "impossible ones were refused"
            over_udp = row["over_udp"]
            shorter = None if over_udp is None else (over_udp["bytes"], over_udp["truncated"])
            same = (row["query"], row["reply"], shorter, row["payload"], row["longest_name"])
            if same not in self._marks:
                turn = self._next.setdefault(length, 0)
                self._next[length] += 1
                mark = _mark(turn)
                if len(mark) > max(0, length - 2):
                    return int(row["query"])
                self._marks[same] = mark
            row["mark"] = self._marks[same]
        return None


def _mark(turn: int) -> str:
    text = ""
    while turn:
        turn, digit = divmod(turn - 1, len(_MARKS))
        text = _MARKS[digit] + text
    return text


def _lengths(form: Plan, count: int, numbers: random.Random) -> Iterable[int]:
    ((kind, settings),) = form.items()
    for turn in range(count):
        if kind == "constant":
            yield settings
        elif kind == "list":
            yield settings[turn % len(settings)]
        else:
            yield min(max(_draw(settings, numbers), _SHORTEST), _LONGEST)


def _draw(settings: Plan, numbers: random.Random) -> int:
    mean: float = settings["mean"]
    if "shape" in settings:
        shape: float = settings["shape"]
        return round(mean * (shape - 1) / shape * numbers.paretovariate(shape))
    return round(numbers.expovariate(1.0 / mean))

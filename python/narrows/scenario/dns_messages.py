"""How long DNS queries and replies are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from narrows import dns_profiles
from narrows.scenario.base import Table
from narrows.scenario.declared import DeclaredTable, find
from narrows.scenario.draws import Amounts, Sizes, draw
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, rule

BELOW_DNS = 20 + 8
"""Bytes of the headers of IPv4 and UDP."""
OPT_BYTES = 11
"""An OPT record without options (RFC 6891, 6.1.2)."""
_SHORTEST, _LONGEST = (int(find("Exchange", "query")[end]) for end in ("least", "most"))

# A zone is a file (narrows.dns_profiles), and needs no line here.
if TYPE_CHECKING:
    ZoneName = str
else:
    ZoneName = Literal[tuple(dns_profiles.sizes_names())]


class Exchange(DeclaredTable, declares="Exchange", without=("over_udp",)):
    """A kind of query and its reply, as DNS messages without IP, UDP or TCP headers."""


class Lengths(Table):
    """Separate lengths of queries and replies. Drawn ones are limited to 12 B to 65535 B."""

    query: Sizes
    """Length of a query: a size, a list that starts again at its end, or a distribution."""
    reply: Sizes
    """Length of a whole reply, in the same forms."""

    @rule
    def _are_lengths_of_messages(self) -> Faults:
        for key, sizes in (("query", self.query), ("reply", self.reply)):
            listed = sizes if isinstance(sizes, tuple) else ()
            given = {key: sizes} if isinstance(sizes, int) else {}
            given |= {f"{key}[{index}]": size for index, size in enumerate(listed)}
            for place, size in given.items():
                if not _SHORTEST <= size <= _LONGEST:
                    yield refuse(
                        f'"{int(size)} B" is not the length of a DNS message',
                        f'"{_SHORTEST} B" to "{_LONGEST} B"',
                        place,
                    )


Messages = (
    ZoneName | Annotated[tuple[Exchange, ...], Field(min_length=1, max_length=10_000)] | Lengths
)
"""How long queries and replies are."""


@dataclass(frozen=True)
class Asking:
    """The EDNS of queries, on which a server's reply depends."""

    edns_bytes: int = OPT_BYTES
    """The bytes that EDNS adds to a query (RFC 6891); 0: it has no EDNS."""
    dnssec_ok: bool = True
    """Whether it asks for signatures (the DO bit, RFC 3225)."""

    def query(self, choice: dns_profiles.SizeChoice) -> int:
        """The measured length of a query with this EDNS."""
        return choice.query_bytes - OPT_BYTES + self.edns_bytes

    def reply(self, choice: dns_profiles.SizeChoice) -> dns_profiles.Reply:
        """The reply that the server sent to a query with this EDNS."""
        if not self.edns_bytes:
            return choice.without_edns
        return choice if self.dnssec_ok else choice.without_do


def messages_plan(messages: Messages, asking: Asking) -> dict[str, Any]:
    """The plan's form of the lengths of messages."""
    if isinstance(messages, Lengths):
        return {"drawn": {"query": draw(messages.query), "reply": draw(messages.reply)}}
    if isinstance(messages, str):
        choices = [_measured(choice, asking) for choice in dns_profiles.sizes(messages).choices]
    else:
        choices = [choice.plain() for choice in messages]
    return {"chosen": choices}


def _measured(choice: dns_profiles.SizeChoice, asking: Asking) -> dict[str, Any]:
    """An exchange as measured: its reply over TCP and, if that was shorter, over UDP."""
    reply = asking.reply(choice)
    plan: dict[str, Any] = {
        "query": asking.query(choice),
        "reply": reply.reply_bytes,
        "weight": choice.weight,
    }
    if reply.udp_reply_bytes < reply.reply_bytes:
        plan["over_udp"] = {"bytes": reply.udp_reply_bytes, "truncated": reply.truncated}
    return plan


def fixed_plan(query_size: int, reply_size: int) -> dict[str, Any]:
    """The plan's form of messages from fixed lengths of IP packets over UDP."""
    query, reply = ({"constant": size - BELOW_DNS} for size in (query_size, reply_size))
    return {"drawn": {"query": query, "reply": reply}}


def shortest(messages: Messages, asking: Asking) -> tuple[int, int]:
    """The shortest possible query and reply, in bytes of DNS."""
    if isinstance(messages, Lengths):
        return _least(messages.query), _least(messages.reply)
    choices = messages_plan(messages, asking)["chosen"]
    replies = (each["reply"] for each in choices)
    shorter = (each["over_udp"]["bytes"] for each in choices if "over_udp" in each)
    return min(each["query"] for each in choices), min([*replies, *shorter])


def _least(sizes: Amounts) -> int:
    if isinstance(sizes, int):
        return sizes
    return min(sizes) if isinstance(sizes, tuple) else _SHORTEST

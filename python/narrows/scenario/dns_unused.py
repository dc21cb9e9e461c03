"""Keys of a DNS group that have no effect, and values that its profile lacks.

Such keys are not refused, so that one file can be swept over transports. `narrows check` and
`narrows run` name them, so that nobody thinks that they have an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from narrows import dns_profiles
from narrows.scenario.dns_connections import OF_KEPT, captured

if TYPE_CHECKING:
    from narrows.scenario.base import Table
    from narrows.scenario.dns import Dns

__all__ = ["WORDS", "unused"]

_OF_UDP = ("retry", "tcp_if_truncated", "tcp_if_silent", "new_port")
_OF_TCP = ("fast_open", "writes")
_ANSWERS_OF_TCP = (
    "fast_open",
    "half_query_timeout",
    "max_syn_backlog",
    "nagle",
    "on_query",
    "synack_retries",
    "syncookies",
    "writes",
)
"""Keys of `answers` that have no effect on a server that is asked over QUIC."""

WORDS = {"tcp": "TCP", "tls": "TLS", "https": "HTTPS", "quic": "QUIC"}
"""Transports with connections, as texts spell them."""


def unused(group: Dns) -> Iterator[str]:
    """Sentences on keys that have no effect in a group, and on values that its profile lacks."""
    for why, keys in _without_effect(group):
        if keys:
            have = "have" if len(keys) > 1 else "has"
            yield f"{', '.join(keys)} {have} no effect {why}"
    if group.transport != "udp" and group.edns_size is not None:
        yield "edns_size only adds its record to queries, because it never asks over UDP"
    profile = None if group.profile is None else dns_profiles.client(group.profile)
    if group.encrypts and profile is not None and captured(profile, group.transport) is None:
        yield (
            f"{group.profile} was not captured over {WORDS[group.transport]}: handshakes, padding "
            "and Fast Open are as without a profile; timeouts, tries and kept connections are "
            "those that it has over TCP"
        )


def _without_effect(group: Dns) -> Iterator[tuple[str, list[str]]]:
    """Pairs of a reason and the keys that have no effect for that reason."""
    use = group.connections
    if not group.uses_tcp:
        yield "because it asks only over UDP", _given(group, ("connections",))
    elif use.reuse is False:
        yield "while connections.reuse is false", _given(use, OF_KEPT, "connections")
    if group.transport != "udp":
        keys = [*_given(group, _OF_UDP), *_given(use, ("udp_between",), "connections")]
        yield "because it never asks over UDP", keys
    if group.uses_tcp and not group.encrypts:
        yield "without TLS", _given(use, ("tls",), "connections")
    if not group.speaks_tls:
        yield "without QUIC", _given(group, ("quic",))
    if group.transport == "quic":
        keys = [
            *_given(group, ("tcp",)),
            *_given(use, _OF_TCP, "connections"),
            *_given(group.answers, _ANSWERS_OF_TCP, "answers"),
        ]
        yield "over QUIC, which has no TCP below it", keys
        if use.pipelining is False and use.reuse is not False:
            yield "over QUIC, where each query has a stream", ["connections.pipelining"]


def _given(table: Table, keys: tuple[str, ...], below: str = "") -> list[str]:
    """Those of the keys that differ from their defaults."""
    fields: dict[str, Any] = type(table).model_fields
    return [
        f"{below}.{key}" if below else key
        for key in keys
        if getattr(table, key) != fields[key].default
    ]

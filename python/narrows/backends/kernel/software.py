"""A job's real DNS servers: whether they are installed, their settings, and the zone they serve.

Each runs with its default settings, except those that the scenario gives. The names of settings are
from named.conf(5) of BIND 9.18, nsd.conf(5) of NSD 4.6, knot.conf(5) of Knot DNS 3.2 and
unbound.conf(5) of Unbound 1.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from narrows.backends.backend import BackendError
from narrows.backends.kernel.certificates import pem
from narrows.backends.kernel.dns_messages import asked_name, query
from narrows.scenario.amounts import SECOND
from narrows.testbed.needs import BedError
from narrows.testbed.software import SOFTWARE, Setup

FOLDER = "@FOLDER@"
"""Stands for a server's folder until the agent knows it."""

MOST_LINES = 1000
"""The most lines of a log that are kept, from its start."""

_QUESTION_AND_RECORD = 12 + 4 + 2 + 10
"""Bytes of a reply without name, data and EDNS record (RFC 1035, section 4); 2 are a pointer."""
_OPT = 11


class Chosen(NamedTuple):
    """What a scenario says about a real server."""

    name: str
    given: Mapping[str, Any]
    """The keys of `answers` that are given, except `software`."""
    refused: tuple[str, ...]
    """Given keys outside `answers` that a program decides itself."""
    threads: int = 1
    """The number of answering threads or processes."""


def named(scenario: Any) -> dict[str, Chosen]:
    """The real servers of a scenario, by the name of their group."""
    found = {}
    for group in scenario.dns:
        answers = group.answers
        if answers.software is not None:
            given = answers.model_fields_set - {"software", "profile", "threads"}
            own = [key for key in ("service", "service_jitter_mean") if getattr(group, key)]
            own += [
                f"transport.tcp.{key}"
                for key in ("nagle", "mss", "pacing")
                if getattr(group.tcp, key, None) is not None
            ]
            found[group.name] = Chosen(
                answers.software,
                {key: getattr(answers, key) for key in given},
                tuple(own),
                answers.threads or 1,
            )
    return found


def _whole(unit: float) -> Callable[[int], str | None]:
    """Writes a span in units of `unit` seconds, if it is a whole number of them."""

    def write(span: int) -> str | None:
        count = span / (unit * SECOND)
        return str(round(count)) if count >= 1 and abs(count - round(count)) < 1e-9 else None

    return write


def _number(value: int) -> str:
    return str(int(value))


# For each server: its setting for a key of `answers`, and how to write the value; None if missing.
_Setting = tuple[str, Callable[[Any], str | None]]
_SETTINGS: Mapping[str, Mapping[str, _Setting]] = {
    "bind": {
        "udp_size": ("max-udp-size", _number),
        "connections": ("tcp-clients", _number),
        "backlog": ("tcp-listen-queue", _number),
        "idle_timeout": ("tcp-idle-timeout", _whole(0.1)),
        "first_query_timeout": ("tcp-initial-timeout", _whole(0.1)),
    },
    "nsd": {
        "udp_size": ("ipv4-edns-size", _number),
        "connections": ("tcp-count", _number),
        "idle_timeout": ("tcp-timeout", _whole(1.0)),
        "queries_per_connection": ("tcp-query-count", _number),
        "when_full": (
            "tcp-reject-overflow",
            lambda how: {"reject": "yes", "wait": "no"}.get(how),
        ),
    },
    "knot": {
        "udp_size": ("udp-max-payload-ipv4", _number),
        "connections": ("tcp-max-clients", _number),
        "idle_timeout": ("tcp-idle-timeout", _whole(1.0)),
    },
    "unbound": {
        "tcp": ("do-tcp", lambda on: "yes" if on else "no"),
        "udp_size": ("max-udp-size", _number),
        "connections": ("incoming-num-tcp", _number),
        "idle_timeout": ("tcp-idle-timeout", _whole(0.001)),
    },
}
_ALWAYS: Mapping[str, Mapping[str, str]] = {
    # Replies have only the requested records.
    "bind": {"minimal-responses": "yes"},
    "nsd": {"minimal-responses": "yes"},
    "knot": {},
    "unbound": {"minimal-responses": "yes"},
}
_OF_THE_HOST = {"max_syn_backlog", "synack_retries", "synack_timers", "syncookies"}
# Beyond these bounds, named adjusts values silently (named.conf(5)); times in tenths of a second.
_LIMITS = {
    "bind": {
        "idle_timeout": (1, 1200),
        "first_query_timeout": (25, 1200),
        "udp_size": (512, 4096),
    }
}


def settings(chosen: Chosen, refuse: Callable[[str, str], None]) -> dict[str, str]:
    """The server's settings.

    Args:
        chosen: What the scenario says.
        refuse: Called with each key below `answers` that the server does not have.
    """
    found = dict(_ALWAYS[chosen.name])
    known = _SETTINGS[chosen.name]
    for key, value in chosen.given.items():
        if key in _OF_THE_HOST or value is None:
            continue
        if key == "tls":
            # The server gets its own certificate.
            for other in sorted(value.model_fields_set - {"certificates", "key"}):
                refuse(f"tls.{other}", f"{chosen.name} decides that itself")
            continue
        if key not in known:
            refuse(key, f"{chosen.name} has no setting for it")
            continue
        name, write = known[key]
        written = write(value)
        limits = _LIMITS.get(chosen.name, {}).get(key)
        if written is None or (limits and not limits[0] <= int(written) <= limits[1]):
            refuse(key, f"{chosen.name}'s {name} cannot have this value")
        else:
            found[name] = written
    return found


def longest_name(reply: int) -> int:
    """The longest name with which a reply can have this length; 0 or less if no name fits."""
    return min(255, reply - _QUESTION_AND_RECORD - _OPT - 1)


def complete(servers: Sequence[dict[str, Any]]) -> None:
    """Gives real servers their certificates, files and commands.

    Raises:
        BackendError: A program is not installed.
    """
    for server in servers:
        tls = server["tls"] and pem(server["tls"]["key"], server["tls"]["certificate_bytes"])
        software = SOFTWARE[server["software"]["name"]]
        try:
            software.need()
            version = software.version()
        except BedError as error:
            raise BackendError("", str(error)) from None
        setup = Setup(
            FOLDER,
            f"{FOLDER}/zone",
            server["addresses"],
            server["software"]["settings"],
            None if tls is None else f"{FOLDER}/pem",
            server["software"]["threads"],
        )
        server["software"] |= {
            "version": version,
            "command": software.command(FOLDER, server["software"]["threads"]),
            "files": {
                "config": software.configure(setup),
                "zone": zone(server["exchanges"]),
                **({} if tls is None else {"pem": tls}),
            },
        }


def logs(folder: Path, servers: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Version, settings and log of each real server, by the name of its group.

    Raises:
        OSError: A log is missing.
    """
    return {
        server["group"]: {
            "version": server["software"]["version"],
            "settings": server["software"]["settings"],
            "log": (folder / f"program-{number}" / "log")
            .read_text(errors="replace")
            .splitlines()[:MOST_LINES],
        }
        for number, server in enumerate(servers)
    }


def zone(exchanges: Iterable[Mapping[str, Any]]) -> str:
    """A root zone in which each name has a text that gives its reply the required length."""
    lines = {
        "$TTL 86400": None,
        ". IN SOA ns.example. host.example. 1 1800 900 604800 86400": None,
        ". IN NS ns.example.": None,
        "ns.example. IN A 192.0.2.1": None,
    }
    for each in exchanges:
        asked = query(0, each["query"], each["payload"], each["mark"], each["longest_name"])
        name = asked_name(asked)
        has_edns = asked[11] > 0
        # The root as owner takes one byte instead of a pointer.
        owner = 1 if len(name) == 1 else 0
        rest = each["reply"] - _QUESTION_AND_RECORD - len(name) + owner - _OPT * has_edns
        lines[f"{_text(name)} IN TXT {_strings(rest)}"] = None
    return "\n".join(lines) + "\n"


def _text(name: bytes) -> str:
    labels, at = [], 0
    while name[at]:
        labels.append(name[at + 1 : at + 1 + name[at]].decode())
        at += 1 + name[at]
    return ".".join(labels) + "."


def _strings(length: int) -> str:
    """Character strings of this many bytes, including their length bytes (RFC 1035, 3.3)."""
    full, rest = divmod(length, 256)
    return " ".join(['"' + "x" * 255 + '"'] * full + ['"' + "x" * (rest - 1) + '"'] * (rest > 0))

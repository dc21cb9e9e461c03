"""The real DNS servers of a job: what they are asked, and how their programs are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.backends.kernel.design.exchanges import Exchanges, Names, exchanges_of
from narrows.backends.kernel.design.network import Network, Plan
from narrows.backends.kernel.dns_messages import padded, padded_length, query
from narrows.backends.kernel.software import Chosen, settings
from narrows.scenario.dns_tls import SIGNATURES

__all__ = ["Programs"]

_PORT = 53
_TAKES_ALL = 65_507
"""The longest reply that fits a datagram."""

_MOST_CERTIFICATES = 100_000
"""The longest certificate list that OpenSSL's client accepts (SSL_CTX_set_max_cert_list(3))."""

_LEAST_CERTIFICATE = 500
_AROUND_CERTIFICATE = 4 + 1 + 3 + 3 + 2
"""Bytes that a Certificate message adds to its one certificate (RFC 8446, 4.4.2)."""


class Programs:
    """Real servers that narrows-live asks."""

    def __init__(self, network: Network, software: Mapping[str, Chosen]) -> None:
        """Creates none yet.

        Args:
            network: The network.
            software: The real servers, by the names of their groups.
        """
        self.queries: dict[int, list[dict[str, Any]]] = {}
        """What each client asks, by its number in the plan."""
        self._network = network
        self._software = software
        # By number in the plan.
        self._servers: dict[int, dict[str, Any]] = {}
        self._names: dict[int, Names] = {}

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The servers, for the agent, which starts them."""
        return list(self._servers.values())

    @property
    def numbers(self) -> list[int]:
        """The numbers of the servers in the plan."""
        return list(self._servers)

    def is_real(self, number: int) -> bool:
        """Whether a server of the plan is a real one."""
        return self._network.plan["applications"][number]["name"] in self._software

    def serve(self, number: int, node: int) -> None:
        """Adds a server at a node, unless it is there."""
        if number in self._servers:
            return
        application = self._network.plan["applications"][number]
        name = application["name"]
        tcp = application["kind"]["dns-server"]["tcp"]
        tls = self._tls(tcp and tcp["tls"], f"dns.{name}.answers.tls.")
        if any(mark["application"] == number for mark in self._network.plan.get("codepoints", ())):
            self._network.refuse(f"dns.{name}.answers.dscp", "real servers send with DSCP 0")
        self._names[number] = Names()
        self._servers[number] = {
            "group": name,
            "software": _program(self._network, f"dns.{name}.answers.", self._software[name]),
            "namespace": self._network.spaces[node],
            "addresses": [],
            "port": _PORT,
            "exchanges": [],
            "tls": tls,
        }

    def answer_at(self, number: int, address: str) -> None:
        """Lets a server, if it is a real one, answer at an address too."""
        if number in self._servers and address not in self._servers[number]["addresses"]:
            self._servers[number]["addresses"].append(address)

    def ask(self, client: int, name: str, application: dict[str, Any]) -> None:
        """Adds what a group of clients asks.

        Lengths that follow a distribution become a list in the plan, because the server has to know
        them.
        """
        payload = _TAKES_ALL if application["udp"] is None else application["udp"]["payload"]
        found = exchanges_of(self._network, name, application, payload)
        if found is None:
            return
        forms = application["sizes"].get("drawn", {}).values()
        if any(form.keys().isdisjoint({"constant", "list"}) for form in forms):
            listed = [
                {"query": row["query"], "reply": row["reply"], "over_udp": None, "weight": 1.0}
                for row in found.rows
            ]
            application["sizes"] = {"chosen": listed}
        tls = application["tcp"] and application["tcp"]["tls"]
        padding = tls["padding"] if tls else None
        self._add(client, application["server"], found, f"dns.{name}.messages", padding)

    def flood(self, flood: int, name: str, application: Plan) -> None:
        """Adds what a flood asks."""
        lengths = application["of"]["queries"]
        sizes = {"drawn": {part: {"constant": lengths[part]} for part in ("query", "reply")}}
        key = f"traffic.{name}."
        found = Exchanges(sizes, lengths["payload"], key)
        for what, length in found.impossible():
            self._network.refuse(f"{key}{what}", f"no DNS {what} has {length} B")
            return
        self._add(flood, application["server"], found, f"{key}query")

    def _add(
        self, client: int, server: int, found: Exchanges, key: str, padding: int | None = None
    ) -> None:
        short = self._names[server].mark(found.rows)
        if short is not None:
            self._network.refuse(key, f"queries of {short} B are too short to distinguish")
            return
        self._servers[server]["exchanges"].extend(found.rows)
        asked = self.queries[client] = []
        for row in found.rows:
            message = _query(row)
            if padding is not None:
                length = padded_length(len(message), padding)
                message = padded(message, padding)
                if len(message) != length:
                    why = f"queries of {row['query']} B have no room for padding"
                    self._network.refuse(key, why)
            asked.append({"reply": row["reply"], "bytes": message.hex()})

    def _tls(self, tls: Plan | None, key: str) -> dict[str, Any] | None:
        """The key and the certificate of a server; None without TLS."""
        if tls is None:
            return None
        handshake = tls["handshake"]
        certificate = handshake["certificate"] - _AROUND_CERTIFICATE
        if not _LEAST_CERTIFICATE <= certificate <= _MOST_CERTIFICATES:
            why = f"OpenSSL takes certificates of {_LEAST_CERTIFICATE} to {_MOST_CERTIFICATES} B"
            self._network.refuse(f"{key}certificates", why)
        keys = {length: name for name, length in SIGNATURES.items()}
        return {"key": keys[handshake["signature"]], "certificate_bytes": certificate}


def _program(network: Network, key: str, chosen: Chosen) -> dict[str, Any]:
    """A real server's program and settings.

    Args:
        network: Takes the refusals.
        key: The prefix of the server's keys.
        chosen: What the scenario says about it.
    """
    for refused in chosen.refused:
        start = key.removesuffix("answers.")
        network.refuse(f"{start}{refused}", f"{chosen.name} decides that itself")
    return {
        "name": chosen.name,
        "settings": settings(chosen, network.refuser(key)),
        "threads": chosen.threads,
    }


def _query(row: Mapping[str, Any]) -> bytes:
    return query(0, row["query"], row["payload"], row["mark"], row["longest_name"])

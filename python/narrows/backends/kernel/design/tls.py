"""The job's part on DNS over TLS: OpenSSL at both ends, as Python uses it.

OpenSSL decides how long a ClientHello or a ticket is. The simulator's ends without a profile use
the same lengths (`scenario/dns_tls.py`). This module refuses, by name, what OpenSSL cannot do.
"""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.network import PS, Network, Plan
from narrows.scenario.dns_tls import OPENSSL_CLIENT, OPENSSL_SERVER, SIGNATURES

TLS_PORT = 853

_MOST_CERTIFICATES = 100_000
"""The longest certificate list that OpenSSL's client accepts (SSL_CTX_set_max_cert_list(3))."""

_LEAST_CERTIFICATE = 500
_NO_EARLY_DATA = "the agent uses Python's TLS, which has none"
_AROUND_CERTIFICATE = 4 + 1 + 3 + 3 + 2
"""Bytes that a Certificate message adds to its one certificate (RFC 8446, 4.4.2)."""


class TlsDesign:
    """TLS of clients and servers."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def client(self, told: Plan | None, key: str, *, fast_open: bool) -> dict[str, Any] | None:
        """How a group of clients speaks TLS; None if it does not.

        Args:
            told: The plan's part on it.
            key: The prefix of the group's keys.
            fast_open: Whether the clients' SYNs carry data.
        """
        if told is None:
            return None
        handshake, refuse = told["handshake"], self._network.refuse
        known = OPENSSL_CLIENT
        for name, expected in (
            ("hello", known.hello_bytes),
            ("pads_hello", known.pads_hello),
            ("key_share", known.key_share_bytes),
            ("alpn", 0),
            ("apart", known.apart),
            ("close_notify", known.close_notify),
        ):
            if handshake[name] != expected:
                why = f"the agent's TLS is OpenSSL's, with a ClientHello of {known.hello_bytes} B"
                hint = "leave out both it and the group's profile"
                refuse(f"{key}transport.tls.hello", why, hint)
                break
        if handshake["early_data"]:
            refuse(f"{key}transport.tls.early_data", _NO_EARLY_DATA)
        if fast_open:
            refuse(f"{key}transport.fast_open", "only queries without TLS travel in a SYN")
        return {"padding": told["padding"], "resume": handshake["resume"]}

    def server(
        self, told: Plan | None, key: str, extra_service: int, *, is_real: bool
    ) -> dict[str, Any] | None:
        """How a server speaks TLS; None if it does not.

        Args:
            told: The plan's part on it.
            key: The prefix of the keys of its answers.
            extra_service: Time that a query over TCP takes on top of its service time.
            is_real: Whether it is a real server, which has its own TLS.
        """
        if told is None:
            return None
        handshake, refuse = told["handshake"], self._network.refuse
        certificate = handshake["certificate"] - _AROUND_CERTIFICATE
        if not _LEAST_CERTIFICATE <= certificate <= _MOST_CERTIFICATES:
            why = f"OpenSSL takes certificates of {_LEAST_CERTIFICATE} to {_MOST_CERTIFICATES} B"
            refuse(f"{key}tls.certificates", why)
        if not is_real:
            if handshake["early_data"]:
                refuse(f"{key}tls.early_data", _NO_EARLY_DATA)
            if handshake["ticket"] != OPENSSL_SERVER.ticket_bytes:
                why = f"the agent's tickets are OpenSSL's, of {OPENSSL_SERVER.ticket_bytes} B"
                refuse(f"{key}tls.ticket_size", why, "leave out both it and the profile")
        keys = {length: name for name, length in SIGNATURES.items()}
        extra = extra_service if told["extra_service"] is None else told["extra_service"]
        return {
            "port": TLS_PORT,
            "key": keys[handshake["signature"]],
            "certificate_bytes": certificate,
            "tickets": handshake["tickets"],
            "tickets_apart": handshake["tickets_apart"],
            "write": handshake["write"],
            "close_notify": handshake["close_notify"],
            "service_s": handshake["service"] / PS,
            "extra_service_s": extra / PS,
            "padding": told["padding"],
        }

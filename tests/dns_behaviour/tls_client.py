"""A client that asks each query on a separate TLS connection, and resumes the last session.

python tls_client.py @192.0.2.53 NAME ...

kdig resumes no session. TLS is OpenSSL's, as Python uses it, without Nagle's algorithm.
"""

from __future__ import annotations

import socket
import ssl
import sys

import dns.edns
import dns.message

BLOCK = 128
"""Queries are padded to multiples of this many bytes (RFC 8467, 4.1)."""


def padded(name: str) -> bytes:
    """A padded query after its length."""
    query = dns.message.make_query(name, "A", id=1, use_edns=0, payload=1232, pad=BLOCK).to_wire()
    return len(query).to_bytes(2) + query


def main() -> None:
    """The command line."""
    place, *names = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    session = None
    for name in names:
        plain = socket.create_connection((place.lstrip("@"), 853), timeout=10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, session=session) as sock:
            if session is not None and not sock.session_reused:
                print("not resumed", file=sys.stderr)
            sock.sendall(padded(name))
            with sock.makefile("rb") as stream:
                stream.read(int.from_bytes(stream.read(2)))
            session = sock.session


if __name__ == "__main__":
    main()

"""A client that sends several queries over TCP in one write, and reads until all are answered.

python pipeline.py @192.0.2.53 NAME ...
"""

from __future__ import annotations

import socket
import sys

import dns.message


def main() -> None:
    """The command line."""
    place, *names = (word for word in sys.argv[1:] if word != "+delayed")
    queries = [dns.message.make_query(name, "A", id=i).to_wire() for i, name in enumerate(names)]
    with socket.create_connection((place.lstrip("@"), 53), timeout=10) as sock:
        if "+delayed" in sys.argv:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        sock.sendall(b"".join(len(query).to_bytes(2) + query for query in queries))
        with sock.makefile("rb") as stream:
            for _ in queries:
                stream.read(int.from_bytes(stream.read(2)))


if __name__ == "__main__":
    main()

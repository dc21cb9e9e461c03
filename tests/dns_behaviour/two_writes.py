"""A server that writes the length and then the message, as some did until about 2012.

    python two_writes.py ADDRESS [nodelay]

Nagle's algorithm (RFC 896) then holds the message back until the length is acknowledged, unless
`nodelay` turns it off. It also answers over UDP.
"""

from __future__ import annotations

import selectors
import socket
import sys

import dns.message
import dns.rrset


def reply(query: bytes) -> bytes:
    """A reply with an address."""
    question = dns.message.from_wire(query)
    answer = dns.message.make_response(question)
    name = question.question[0].name
    answer.answer.append(dns.rrset.from_text(name, 3600, "IN", "A", "192.0.2.81"))
    return answer.to_wire()


def main() -> None:
    """The command line."""
    address, nodelay = sys.argv[1], "nodelay" in sys.argv[2:]
    selector = selectors.DefaultSelector()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, 53))
    tcp = socket.create_server((address, 53))
    for sock in (udp, tcp):
        selector.register(sock, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is udp:
                query, client = udp.recvfrom(65535)
                udp.sendto(reply(query), client)
            elif sock is tcp:
                accepted, _ = tcp.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
                selector.register(accepted, selectors.EVENT_READ)
            else:
                data = sock.recv(65535)
                if data:
                    message = reply(data[2:])
                    sock.send(len(message).to_bytes(2))
                    sock.send(message)
                else:
                    selector.unregister(sock)
                    sock.close()


if __name__ == "__main__":
    main()

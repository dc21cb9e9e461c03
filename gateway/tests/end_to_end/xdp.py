"""An XDP program that passes everything, for the peer of a link that sends with XDP_TX.

A virtual Ethernet device takes frames from its peer's XDP_TX only if it polls, which it does while
it has an XDP program (drivers/net/veth.c, Linux 6.12, veth_xdp_xmit). The program has two
instructions, and bpf(2) loads it directly; the attachment is a link that ends with its file
descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator

from tests.network import LIBC, Namespace

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
PROG_LOAD, LINK_CREATE = 5, 28
PROG_TYPE_XDP, ATTACH_XDP = 6, 37
XDP_HAS_FRAGS = 1 << 5
"""Without it, frames of more than a page keep the program out."""
# r0 = XDP_PASS; exit
INSTRUCTIONS = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)


def bpf(command: int, attributes: bytes) -> int:
    """Asks the kernel, and returns the file descriptor that it makes."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    made = int(LIBC.syscall(SYS_BPF, command, buffer, 128))
    if made < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return made


@contextlib.contextmanager
def passing(space: Namespace, link: str) -> Iterator[None]:
    """Puts the program on a link."""
    code = ctypes.create_string_buffer(INSTRUCTIONS)
    text = ctypes.create_string_buffer(b"GPL")
    head = struct.pack("<IIQQ", PROG_TYPE_XDP, 2, ctypes.addressof(code), ctypes.addressof(text))
    head += struct.pack("<IIQII", 0, 0, 0, 0, XDP_HAS_FRAGS)
    program = bpf(PROG_LOAD, head)
    try:
        with space.inside():
            attributes = struct.pack("<IIII", program, socket.if_nametoindex(link), ATTACH_XDP, 0)
            attached = bpf(LINK_CREATE, attributes)
        try:
            yield
        finally:
            os.close(attached)
    finally:
        os.close(program)

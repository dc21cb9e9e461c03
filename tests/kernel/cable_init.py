"""The first process of a guest: TCP from a over the router r to b, and what r learns from it.

Writes `found.json`: how many packets with a flow hash leave a (`sent`) and reach r (`received`), of
all that reach it (`packets`); and at the end, the age of r's last proof that b is there
(`proof_s`).
"""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from agent import system
from agent.rtnetlink import Netlink

LASTS_S = 5
FOLDER = Path("/run/found")

# Classic BPF (linux/filter.h): load skb->hash (SKF_AD_RXHASH), and take the packet if it is not 0.
HASHED = [(0x20, 0, 0, 0xFFFFF020), (0x15, 1, 0, 0), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0)]
ALL = [(0x06, 0, 0, 0xFFFF)]

ADDRESSES = {"a": ["a0 10.0.0.1"], "r": ["r0 10.0.0.2", "r1 10.0.1.2"], "b": ["b0 10.0.1.1"]}
ROUTES = {"a": ("10.0.1.0/24", "a0", "10.0.0.2"), "b": ("10.0.0.0/24", "b0", "10.0.1.2")}


def build() -> None:
    for name in ADDRESSES:
        system.add_namespace(name)
    spaces = {name: os.open(f"/run/netns/{name}", os.O_RDONLY) for name in ADDRESSES}
    netlink = Netlink()
    netlink.add_pair("a0", spaces["a"], "r0", spaces["r"], 1500, 1000)
    netlink.add_pair("r1", spaces["r"], "b0", spaces["b"], 1500, 1000)
    for name, devices in ADDRESSES.items():
        with system.inside(name):
            system.write_setting("ipv4/ip_forward", "1")
            netlink = Netlink()
            for device, address in map(str.split, devices):
                netlink.up(device)
                netlink.add_address(device, address, 24)
            if name in ROUTES:
                netlink.add_route(*ROUTES[name], None, {})


def tap(name: str, device: str, program: list[tuple[int, int, int, int]]) -> socket.socket:
    """A packet socket for the IPv4 packets at a device that a program takes."""
    with system.inside(name):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filter = struct.pack("HP", len(program), ctypes.addressof(code))
    made.setsockopt(socket.SOL_SOCKET, 26, filter)  # SO_ATTACH_FILTER
    made.bind((device, 3))  # ETH_P_ALL
    made.setblocking(False)
    return made


def count(tapped: socket.socket, kind: int) -> int:
    """How many packets of a kind (PACKET_HOST or PACKET_OUTGOING) it has."""
    found = 0
    try:
        while True:
            found += tapped.recvfrom(64)[1][2] == kind
    except BlockingIOError:
        return found


def transfer() -> None:
    with system.inside("b"):
        listener = socket.create_server(("10.0.1.1", 5000))
    with system.inside("a"):
        sender = socket.create_connection(("10.0.1.1", 5000))
    receiver, _ = listener.accept()
    for _ in range(10 * LASTS_S):
        sender.sendall(b"x" * 100)
        receiver.recv(100)
        time.sleep(0.1)


def main() -> None:
    for kind, place in (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run")):
        system.mount(kind, place, kind)
    FOLDER.mkdir()
    system.mount("none", str(FOLDER), "hostfs", sys.argv[1])
    try:
        build()
        taps = [tap("a", "a0", HASHED), tap("r", "r0", HASHED), tap("r", "r0", ALL)]
        transfer()
        with system.inside("r"):
            words = ["ip", "-s", "-j", "neigh", "show", "10.0.1.1"]
            path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
            entries = json.loads(subprocess.run(words, env=path, capture_output=True).stdout)
        found = {
            "sent": count(taps[0], socket.PACKET_OUTGOING),
            "received": count(taps[1], socket.PACKET_HOST),
            "packets": count(taps[2], socket.PACKET_HOST),
            "proof_s": entries[0]["confirmed"],
        }
        (FOLDER / "found.json").write_text(json.dumps(found))
    finally:
        system.halt()


main()

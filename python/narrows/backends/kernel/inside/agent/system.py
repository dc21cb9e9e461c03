"""System calls that Python lacks: mounts, namespaces, offloads, shutdown."""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import re
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from . import NAMESPACES

_CLOCK_MONOTONIC = 1
_CLONE_NEWNET = 0x40000000
_CLONE_NEWNS = 0x20000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_FILES = 65_536
_FINIT_MODULE = 313  # x86-64
_POWER_OFF = 0x4321FEDC

_libc = ctypes.CDLL(None, use_errno=True)

# linux/sockios.h, linux/ethtool.h: receive and transmit checksums, scatter-gather, TSO, GSO, GRO.
_SIOCETHTOOL = 0x8946
_SWITCHES = {
    "rx checksums": (0x14, 0x15),
    "tx checksums": (0x16, 0x17),
    "scatter-gather": (0x18, 0x19),
    "tso": (0x1E, 0x1F),
    "gso": (0x23, 0x24),
    "gro": (0x2B, 0x2C),
}


def mount(source: str, target: str, kind: str, data: str = "") -> None:
    """Mounts a file system.

    Raises:
        OSError: It fails.
    """
    _checked(
        _libc.mount(source.encode(), target.encode(), kind.encode(), 0, data.encode() or None),
        target,
    )


def add_scratch(target: str) -> None:
    """Gives this process and its children their own empty folder in place of `target`.

    Raises:
        OSError: It fails.
    """
    _checked(_libc.unshare(_CLONE_NEWNS), target)
    _checked(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), target)
    mount("tmpfs", target, "tmpfs")


def load_module(path: str) -> None:
    """Loads a kernel module; skips a module that the kernel refuses."""
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _libc.syscall(_FINIT_MODULE, number, b"", 0)
        finally:
            os.close(number)


def add_namespace(name: str) -> None:
    """Makes a network namespace whose name `ip netns` knows.

    Raises:
        OSError: It cannot be made.
    """
    Path(NAMESPACES).mkdir(parents=True, exist_ok=True)
    place = Path(NAMESPACES, name)
    os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o444))
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        _checked(_libc.unshare(_CLONE_NEWNET), name)
        _checked(
            _libc.mount(b"/proc/self/ns/net", os.fsencode(place), b"none", _MS_BIND, None), name
        )
    finally:
        _checked(_libc.setns(home, _CLONE_NEWNET), name)
        os.close(home)


def remove_namespace(name: str) -> None:
    """Removes a namespace; does nothing if it is missing or still in use."""
    place = Path(NAMESPACES, name)
    _libc.umount2(os.fsencode(place), _MNT_DETACH)
    with contextlib.suppress(OSError):
        place.unlink()


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Moves this process into a namespace while the block runs; sockets opened there stay there.

    An empty name stands for the current namespace.
    """
    if not name:
        yield
        return
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        there = os.open(Path(NAMESPACES, name), os.O_RDONLY)
        try:
            _checked(_libc.setns(there, _CLONE_NEWNET), name)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _checked(_libc.setns(home, _CLONE_NEWNET), name)
    finally:
        os.close(home)


def offloads_off(device: str) -> list[str]:
    """Turns a device's offloads off, from inside its namespace; returns those that are still on."""
    left = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, (read, write) in _SWITCHES.items():
            with contextlib.suppress(OSError):
                _ethtool(control, device, write, 0)
            with contextlib.suppress(OSError):
                if _ethtool(control, device, read, 0):
                    left.append(name)
    return left


def control_missing(name: str) -> str | None:
    """Why a socket cannot have a congestion control, or None if it can. It may load a module."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            return (error.strerror or str(error)).lower()
    return None


def is_at_least(major: int, minor: int) -> bool:
    """Whether the kernel has at least this version."""
    first, second = re.findall(r"\d+", os.uname().release)[:2]
    return (int(first), int(second)) >= (major, minor)


def write_setting(path: str, value: str) -> str | None:
    """Writes a setting below /proc/sys/net, from inside a namespace.

    Returns:
        The resulting value; None if the kernel has no such setting.
    """
    place = Path("/proc/sys/net") / path
    if not place.exists():
        return None
    place.write_text(value)
    return " ".join(place.read_text().split())


def allow_files() -> None:
    """Raises the limit on open files of this process and its children to what the kernel allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (_FILES, most):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, most)))
            return


def die_with_parent(number: int) -> None:
    """Makes the kernel send this process a signal when its parent ends, however that happens."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def timer() -> int:
    """A timer as a file descriptor that becomes readable (timerfd_create(2))."""
    made = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    _checked(min(made, 0), "timer")
    return int(made)


def set_timer(number: int, when: float) -> None:
    """Makes a timer readable at a `CLOCK_MONOTONIC` time, or at once if that has passed."""
    nanoseconds = max(1, round(when * 1e9))
    setting = struct.pack("4q", 0, 0, *divmod(nanoseconds, 10**9))
    _checked(_libc.timerfd_settime(number, 1, setting, None), "timer")


def halt() -> None:
    """Shuts the guest down, as its first process."""
    _libc.sync()
    _libc.reboot(_POWER_OFF)


def _ethtool(control: socket.socket, device: str, command: int, value: int) -> int:
    setting = array.array("I", [command, value])
    address, _ = setting.buffer_info()
    request = struct.pack("16sP", device.encode(), address)
    fcntl.ioctl(control.fileno(), _SIOCETHTOOL, request.ljust(40, b"\0"))
    return setting[1]


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)

"""Time that threads spend on a processor, summed in the kernel from switch to switch.

The program (switches.bpf.c) is loaded with bpftool and attached with bpf(2); it goes when the
process ends. The C library wraps no bpf(2), so its attributes are packed here: union bpf_attr of
include/uapi/linux/bpf.h, Linux 6.18.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from .lab import LabError, compiled, run

BPF = {"x86_64": 321, "aarch64": 280}
"""Number of the system call."""

LOOKUP, UPDATE, OBJECT_GET, TRACEPOINT_OPEN = 1, 2, 7, 17


class Switches:
    """Counts while the block lasts."""

    def __init__(self, folder: Path) -> None:
        """`folder` gets the compiled program."""
        self._folder = folder
        self._files: list[int] = []

    def __enter__(self) -> Switches:
        pins = Path(f"/sys/fs/bpf/bench-gateway-{os.getpid()}")
        built = compiled("switches", self._folder)
        try:
            run("bpftool", "prog", "loadall", str(built), str(pins), "pinmaps", str(pins))
            program = self._open(pins / "on_switch")
            self._map = self._open(pins / "spent")
            # The name is empty, because the program itself names its tracepoint.
            self._files.append(_bpf(TRACEPOINT_OPEN, struct.pack("=QI", 0, program)))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        finally:
            for pin in pins.glob("*"):
                pin.unlink()
            if pins.exists():
                pins.rmdir()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._files:
            os.close(self._files.pop())

    def watch(self, threads: Iterable[int]) -> None:
        """Starts to count these threads."""
        for thread in threads:
            self._element(UPDATE, thread, ctypes.c_uint64(0))

    def spent_ns(self, thread: int) -> int:
        """The nanoseconds so far of a watched thread."""
        value = ctypes.c_uint64(0)
        self._element(LOOKUP, thread, value)
        return value.value

    def _element(self, command: int, thread: int, value: ctypes.c_uint64) -> None:
        key = ctypes.c_uint32(thread)
        addresses = (ctypes.addressof(key), ctypes.addressof(value))
        _bpf(command, struct.pack("=IIQQQ", self._map, 0, *addresses, 0))

    def _open(self, path: Path) -> int:
        name = ctypes.create_string_buffer(os.fsencode(path))
        found = _bpf(OBJECT_GET, struct.pack("=QII", ctypes.addressof(name), 0, 0))
        self._files.append(found)
        return found


def _bpf(command: int, attributes: bytes) -> int:
    number = BPF.get(os.uname().machine)
    if number is None:
        raise LabError(f"bpf(2) has no known number on {os.uname().machine}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, command, buffer, len(attributes))
    if result < 0:
        error = ctypes.get_errno()
        raise LabError(f"bpf(2) command {command}: {os.strerror(error).lower()}")
    return result

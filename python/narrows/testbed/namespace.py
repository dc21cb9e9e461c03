"""A network namespace: makes it, lets a thread or a program enter it, and removes it at the end."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from narrows.testbed.needs import PATH, BedError

_CLONE_NEWNET = 0x40000000
_COUNT = itertools.count()

_START_S = 20.0
"""Seconds that a program may take to start."""

_END_S = 5.0
"""Seconds that it may usually continue after SIGTERM."""


@dataclass(frozen=True)
class Namespace:
    """A network namespace, by its name in /run/netns."""

    name: str

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Moves this thread inside until the block ends, with threads and programs it starts."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(Path("/run/netns") / self.name, os.O_RDONLY)
            try:
                _enter(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(home)

    def start(self, words: Sequence[str], log: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Starts a program inside."""
        command = ["nsenter", f"--net=/run/netns/{self.name}", *words]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": PATH},
        )

    @contextlib.contextmanager
    def running(
        self,
        words: Sequence[str],
        log: IO[bytes] | int = subprocess.DEVNULL,
        *,
        ends_within_s: float = _END_S,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a program inside until the block ends.

        Args:
            words: The program and its arguments.
            log: Where its output goes; by default nowhere.
            ends_within_s: Seconds that it may continue after SIGTERM, unless the block raises.
        """
        process = self.start(words, log)
        patience_s = _END_S
        try:
            yield process
            patience_s = ends_within_s
        finally:
            process.terminate()
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ip(self, *words: str) -> None:
        """Runs iproute2's `ip` inside."""
        ip("-n", self.name, *words)

    def setting(self, name: str, value: str) -> None:
        """Writes a setting to /proc/sys; skips a setting that this kernel lacks."""
        with self.inside():
            path = Path("/proc/sys") / name
            if path.exists():
                path.write_text(value)


@contextlib.contextmanager
def namespace(label: str) -> Iterator[Namespace]:
    """A new namespace, `nrw-lab-PID-N-LABEL`, which the end of the block removes with all in it."""
    made = Namespace(f"nrw-lab-{os.getpid()}-{next(_COUNT)}-{label}")
    ip("netns", "add", made.name)
    try:
        made.ip("link", "set", "lo", "up")
        yield made
    finally:
        ip("netns", "del", made.name)


def await_ready(process: subprocess.Popen[bytes], log: IO[bytes], name: str) -> None:
    """Waits until a program of the laboratory has printed `ready` to `log`.

    Raises:
        BedError: It has ended or takes too long; the message has its last words.
    """
    until = time.monotonic() + _START_S
    while os.pread(log.fileno(), 6, 0) != b"ready\n":
        if process.poll() is not None or time.monotonic() > until:
            said = os.pread(log.fileno(), 4096, 0).decode(errors="replace").splitlines()
            raise BedError(f"{name}: {said[-1] if said else 'does not start'}")
        time.sleep(0.01)


def ip(*words: str) -> None:
    """Runs iproute2's `ip`.

    Raises:
        BedError: It fails; the message is that of `ip`.
    """
    done = subprocess.run(
        ["ip", *words], capture_output=True, text=True, env={**os.environ, "PATH": PATH}
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise BedError(f"ip {' '.join(words)}: {said[-1] if said else 'failed'}")


def _enter(there: int) -> None:
    # Python has os.setns only since 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(there, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

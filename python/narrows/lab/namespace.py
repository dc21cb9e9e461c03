"""A network namespace: makes it, lets a thread or a program enter it, and removes it at the end."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from narrows.lab.needs import PATH, LabError

__all__ = ["Namespace", "ip", "namespace"]

_CLONE_NEWNET = 0x40000000
_COUNT = itertools.count()


@dataclass(frozen=True)
class Namespace:
    """A network namespace, by its name in /run/netns."""

    name: str

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Moves this thread inside until the block ends; threads and programs started there too."""
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
        self, words: Sequence[str], log: IO[bytes] | int = subprocess.DEVNULL
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a program inside until the block ends.

        Args:
            words: The program and its arguments.
            log: Where its output goes; nowhere by default.
        """
        process = self.start(words, log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ip(self, *words: str) -> None:
        """Runs iproute2's `ip` inside."""
        ip("-n", self.name, *words)

    def setting(self, name: str, value: str) -> None:
        """Writes a setting to /proc/sys; skips a setting that this kernel does not have."""
        with self.inside():
            path = Path("/proc/sys") / name
            if path.exists():
                path.write_text(value)


@contextlib.contextmanager
def namespace(label: str) -> Iterator[Namespace]:
    """A new namespace, `nrw-lab-PID-N-LABEL`, until the block ends; its contents go with it."""
    made = Namespace(f"nrw-lab-{os.getpid()}-{next(_COUNT)}-{label}")
    ip("netns", "add", made.name)
    try:
        made.ip("link", "set", "lo", "up")
        yield made
    finally:
        ip("netns", "del", made.name)


def ip(*words: str) -> None:
    """Runs iproute2's `ip`.

    Raises:
        LabError: It fails; the text is its message.
    """
    done = subprocess.run(
        ["ip", *words], capture_output=True, text=True, env={**os.environ, "PATH": PATH}
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(f"ip {' '.join(words)}: {said[-1] if said else 'failed'}")


def _enter(there: int) -> None:
    # Python has os.setns from 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(there, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

"""Starts real DNS servers in their namespaces, waits until they answer, and ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import system
from .network import ENVIRONMENT, NetworkError

START_S = 60.0
"""Seconds within which a server has to answer; a busy machine needs more than one."""

_FOLDER = "@FOLDER@"
_LOOK_S = 0.05
_SOA_OF_THE_ROOT = b"\x07\x07\0\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01"


class Programs:
    """The real servers of a job."""

    def __init__(self, job: Mapping[str, Any], folder: Path) -> None:
        """Each server has its own folder below `folder`, which keeps its log."""
        self._folder = folder
        self._servers: Sequence[Mapping[str, Any]] = job["dns_servers"]
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []

    def start(self) -> None:
        """Starts them.

        Raises:
            NetworkError: A server cannot be started.
        """
        for number, server in enumerate(self._servers):
            place = self._folder / f"program-{number}"
            place.mkdir()
            for name, text in server["software"]["files"].items():
                (place / name).write_text(text.replace(_FOLDER, str(place)))
            words = [word.replace(_FOLDER, str(place)) for word in server["software"]["command"]]
            self._logs.append(place / "log")
            try:
                with (place / "log").open("wb") as log, system.inside(server["namespace"]):
                    self._running.append(
                        subprocess.Popen(
                            words,
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            cwd=place,
                            preexec_fn=_in_its_place,
                            env={**ENVIRONMENT, "PATH": f"/usr/local/sbin:{ENVIRONMENT['PATH']}"},
                        )
                    )
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                name = server["software"]["name"]
                raise NetworkError(f"{name} cannot be started ({why})") from None

    def wait(self) -> None:
        """Waits until all of them answer.

        Raises:
            NetworkError: A server does not answer.
        """
        until = time.monotonic() + START_S
        for number, server in enumerate(self._servers):
            for address in server["addresses"]:
                with system.inside(server["namespace"]):
                    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                with asking:
                    asking.settimeout(_LOOK_S)
                    while not _answers(asking, (address, server["port"])):
                        if time.monotonic() > until:
                            raise NetworkError(f"{self._said(number)} does not answer")
                        self.check()

    def check(self) -> None:
        """Checks that all servers are running.

        Raises:
            NetworkError: A server has ended.
        """
        for number, process in enumerate(self._running):
            if process.poll() is not None:
                raise NetworkError(f"{self._said(number)} has ended")

    def end(self) -> None:
        """Ends them.

        They do not shut down by themselves: in a guest whose clock stands still while it computes,
        a thread of a server that waits busily for another one would wait forever.
        """
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()

    def _said(self, number: int) -> str:
        name = self._servers[number]["software"]["name"]
        lines = []
        with contextlib.suppress(OSError):
            lines = self._logs[number].read_text(errors="replace").split("\n")
        said = [" ".join(line.split()) for line in lines if line.strip()]
        return f"{name} ({said[-1][:200]})" if said else name


def _in_its_place() -> None:
    system.die_with_parent(signal.SIGKILL)
    if not os.access("/tmp", os.W_OK):
        # A guest's root is read-only, but Knot keeps its configuration in /tmp.
        system.add_scratch("/tmp")


def _answers(asking: socket.socket, address: tuple[str, int]) -> bool:
    try:
        asking.sendto(_SOA_OF_THE_ROOT, address)
        return asking.recv(4096)[3] & 15 == 0
    except TimeoutError:
        return False
    except OSError:
        # The host refuses the connection, because nobody listens yet.
        time.sleep(_LOOK_S)
        return False

"""A machine that is booted by systemd, in namespaces of its own.

`boot.sh` makes its root, which is the machine's own with a layer in memory over it, and becomes
systemd. So dpkg, systemctl and the journal are the real ones, the network namespace is one of the
laboratory's, and nothing is left: the layer, the bpf file system and all processes end with
systemd.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.network import Namespace

BOOT = Path(__file__).with_name("boot.sh")
TOOLS = ("setpriv", "unshare", "nsenter", "pivot_root", "systemctl")
SYSTEMD = Path("/lib/systemd/systemd")
PATIENCE = 120.0
"""The most seconds that anything here may take on a busy machine."""
HALT = signal.SIGRTMIN + 3
"""systemd(1)."""


def until(what: str, holds: Callable[[], bool]) -> None:
    """Waits until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@dataclass
class Booted:
    """The machine, by its PID 1."""

    pid: int
    folder: Path

    def run(self, *words: str, check: bool = True) -> str:
        """Runs a command there, and returns its output."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-a", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}"
        return done.stdout.strip()

    def path(self, name: str) -> Path:
        """The path on this machine of a file in the booted one."""
        return Path(f"/proc/{self.pid}/root") / name.lstrip("/")

    def shown(self, unit: str, key: str) -> str:
        """A property of a unit (systemctl(1))."""
        return self.run("systemctl", "show", "--property", key, "--value", unit)

    def status(self, link: str) -> dict[str, Any]:
        """What the gateway of an interface reports."""
        return dict(
            json.loads(self.run("narrows-gateway", "status", "--json", "--interface", link))
        )

    def layer(self) -> set[str]:
        """All files that differ from the machine's own."""
        root = self.path("/srv/layer")
        return {f"./{path.relative_to(root)}" for path in root.rglob("*")} | {"."}


@contextlib.contextmanager
def booted(space: Namespace, folder: Path, prepare: str) -> Iterator[Booted]:
    """Boots it in a network namespace; the shell script `prepare` runs in its root before that."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prepare").write_text(prepare)
    group = control_group() / f"nrw-boot-{os.getpid()}-{folder.name}"
    group.mkdir()
    namespaces = ["--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup"]
    words = ["setpriv", "--pdeathsig", "KILL", *space.command("unshare", *namespaces)]
    script = 'echo $$ >"$0" && exec "$@"'
    with (folder / "console").open("wb") as console:
        outside = subprocess.Popen(
            ["sh", "-c", script, str(group / "cgroup.procs"), *words, "sh", BOOT, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
        )
    try:
        machine = Booted(first_process(outside, folder), folder)
        until(
            "systemd is up",
            lambda: (
                machine.run("systemctl", "is-system-running", check=False)
                in {"running", "degraded"}
            ),
        )
        yield machine
        os.kill(machine.pid, HALT)
        outside.wait(PATIENCE)
    finally:
        outside.kill()
        outside.wait()
        events = group / "cgroup.events"
        until("its processes are gone", lambda: "populated 0" in events.read_text())
        for place, _, _ in os.walk(group, topdown=False):
            Path(place).rmdir()


def first_process(outside: subprocess.Popen[bytes], folder: Path) -> int:
    """The number on this machine of the namespaces' PID 1, once it has become systemd."""
    children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")

    def found() -> list[str]:
        files = [(folder / name) for name in ("console", "prepared")]
        said = "".join(path.read_text() for path in files if path.exists())
        assert outside.poll() is None, f"the boot failed: {said}"
        return children.read_text().split()

    until("there is a first process", lambda: bool(found()))
    pid = found()[0]
    until("it is systemd", lambda: bool(found()) and name_of(pid) == "systemd")
    return int(pid)


def name_of(pid: str) -> str:
    """The name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def control_group() -> Path:
    """Where control groups of version 2 are mounted; systemd needs one of them."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(place.split()[4])
    pytest.skip("no control groups of version 2 are mounted: mount -t cgroup2 cgroup2 FOLDER")

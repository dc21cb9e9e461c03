"""The kernels that a machine offers: its own, or a guest in virtual or real time."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import platform
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from narrows.backends.backend import BackendError
from narrows.backends.kernel import kernels, trial
from narrows.backends.kernel.kernels import PLAIN, Guest
from narrows.backends.kernel.workspace import PREFIX
from narrows.private import cache_folder

CONFIG = Path(__file__).parent / "guest.config"

NEEDED = ("tbf", "netem", "pfifo", "bfifo", "red", "codel", "fq_codel", "pie", "sfq", "prio", "htb")
"""Every queue discipline that a scenario may need."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEBIAN = "linux.uml"

_TRIALS = {
    "tbf": "tbf rate 1mbit burst 2000 limit 10000",
    "netem": "netem delay 1ms",
    "pfifo": "pfifo limit 10",
    "bfifo": "bfifo limit 10000",
    "red": "red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 probability 0.1",
    "codel": "codel",
    "fq_codel": "fq_codel",
    "pie": "pie",
    "sfq": "sfq",
    "prio": "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    "htb": "htb",
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with queues, and how it is started."""

    name: str
    """`host`, `virtual`, `real`, or the name of another guest."""
    title: str
    program: Path | None
    """The guest's program; None for the host's own kernel."""
    virtual: bool
    """Whether the guest has its own clock, which skips time in which nothing happens."""
    lacks: str = ""
    """Why it is not available; empty if it is."""
    fix: str = ""
    """What would help."""
    hint: str = "narrows kernel check lists the kernels"
    profile: str = "linux-6"
    """The TCP profile of the kernel."""
    arguments: Sequence[str] = ()
    """Further arguments for the guest's command line."""

    @property
    def stall_s(self) -> float:
        """Seconds for which the machine may stall; 0 if the guest's time stands still meanwhile."""
        return 0.0 if self.virtual else 0.002


class Need(NamedTuple):
    """A program that every kernel needs."""

    command: str
    package: str


_PROGRAMS = (Need("tc", "iproute2"),)


def look() -> Sequence[Kernel]:
    """All kernels, the preferred one first, each with what it lacks. Boots each guest to find out.

    A guest in virtual time comes before one in real time. The host's own kernel comes before both,
    because nothing is as real. Other guests come last: only their names choose them.
    """
    offered = [_host(), _virtual(), _real(), *(_other(name) for name in kernels.names())]
    return [_booted(kernel) if kernel.virtual else kernel for kernel in offered]


def choose(name: str | None = None) -> Kernel:
    """The first kernel that is available, or the named one.

    Raises:
        BackendError: No kernel is available, or the named one is not.
    """
    for need in missing_tools():
        raise BackendError("", f"{need.command} is missing", f"apt-get install {need.package}")
    if name is not None and name in kernels.names():
        candidates: Sequence[Callable[[], Kernel]] = [partial(_other, name)]
    else:
        candidates = [_host, _virtual, _real]
    for candidate in candidates:
        found = candidate()
        if name is not None and found.name != name:
            continue
        if not found.lacks:
            return found
        if name is not None:
            raise BackendError(found.title, found.lacks, found.fix)
    raise BackendError(
        "",
        "no kernel has the necessary queues, and no guest is ready",
        "run narrows kernel prepare, which builds one, or apt-get install user-mode-linux",
    )


def missing_tools() -> list[Need]:
    """Programs that every kernel needs but that are not installed."""
    return [need for need in _PROGRAMS if shutil.which(need.command, path=PATH) is None]


def has_control(name: str) -> bool:
    """Whether this machine's own kernel has a congestion control. Under root it may load it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except (OSError, AttributeError):
            return False
    return True


def guest_folder(guest: Guest = PLAIN) -> Path:
    """The folder of the guest kernel that `prepare` builds, named after its source."""
    made_of = CONFIG.read_bytes() + kernels.METER.read_bytes()
    name = f"guest-{platform.machine()}"
    if guest.file is not None:
        made_of += guest.file.read_bytes()
        name = f"{name}-{guest.name}"
    digest = hashlib.sha256(made_of).hexdigest()[:12]
    return cache_folder() / "narrows" / "kernel" / f"{name}-{digest}"


def guest_version(guest: Guest = PLAIN) -> str | None:
    """The version of the guest kernel; None if none is built, or only a part of one."""
    folder = guest_folder(guest)
    try:
        found = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError):
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if isinstance(version, str) and (folder / "linux").is_file() else None


def _host() -> Kernel:
    title = f"this machine's own kernel, {platform.release()}"
    kernel = Kernel("host", title, None, virtual=False)
    if platform.system() != "Linux":
        return _lacking(kernel, f"{platform.system()} is not Linux", "use a Linux machine")
    if os.geteuid() != 0:
        return _lacking(kernel, "it needs root", "use a guest, or run as root")
    missing = _refused_queues()
    if missing:
        return _lacking(
            kernel, f"it has no {', '.join(missing)}", "use a guest: narrows kernel prepare"
        )
    return kernel


def _virtual() -> Kernel:
    kernel = Kernel("virtual", "a guest in virtual time", guest_folder() / "linux", virtual=True)
    return _built(kernel, guest_version(), "narrows kernel prepare")


def _other(name: str) -> Kernel:
    guest = kernels.find(name)
    kernel = Kernel(
        name,
        "a guest in virtual time",
        guest_folder(guest) / "linux",
        virtual=True,
        profile=guest.profile,
        arguments=[f"{key}={value}" for key, value in guest.arguments.items()],
    )
    found = _built(kernel, guest_version(guest), f"narrows kernel prepare --kernel {name}")
    return replace(found, title=f"{found.title} with {guest.title}")


def _built(kernel: Kernel, version: str | None, command: str) -> Kernel:
    """The kernel, with the version in its title, or with what it lacks."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return _lacking(kernel, "User-Mode Linux is for x86-64", "use a Linux machine with x86-64")
    if version is None:
        return _lacking(kernel, "no kernel is built", f"run {command}")
    return replace(kernel, title=f"{kernel.title}, Linux {version}")


def _real() -> Kernel:
    found = shutil.which(_DEBIAN, path=PATH)
    program = Path(found or f"/usr/bin/{_DEBIAN}")
    kernel = Kernel(
        "real", "a guest in real time, Debian's user-mode-linux", program, virtual=False
    )
    if found is None:
        return _lacking(kernel, f"{_DEBIAN} is missing", "apt-get install user-mode-linux")
    return _booted(kernel)


def _booted(kernel: Kernel) -> Kernel:
    """The kernel, marked as lacking something if its guest does not boot."""
    if kernel.lacks or kernel.program is None:
        return kernel
    why = trial.why_not(kernel.program, virtual=kernel.virtual)
    return _lacking(kernel, why, "run narrows kernel prepare") if why else kernel


def _lacking(kernel: Kernel, lacks: str, fix: str) -> Kernel:
    return replace(kernel, lacks=lacks, fix=fix)


_NUMBERS = itertools.count()


def _refused_queues() -> list[str]:
    """Queue disciplines that the host's kernel refuses, tried in a temporary namespace."""
    name = f"{PREFIX}trial-{os.getpid()}-{next(_NUMBERS)}-{uuid.uuid4().hex[:6]}"
    environment = {**os.environ, "PATH": PATH, "LANG": "C.UTF-8"}

    def run(*words: str) -> bool:
        done = subprocess.run(words, capture_output=True, env=environment)
        return done.returncode == 0

    with contextlib.suppress(FileNotFoundError):
        if not run("ip", "netns", "add", name):
            return ["network namespaces"]
        try:
            if not run("ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"):
                return ["veth"]
            lacking = []
            for queue in NEEDED:
                words = _TRIALS[queue].split()
                start = ["tc", "-n", name, "qdisc"]
                if not run(*start, "replace", "dev", "v0", "root", "handle", "1:", *words):
                    lacking.append(queue)
                run(*start, "del", "dev", "v0", "root")
            return lacking
        finally:
            run("ip", "netns", "del", name)
    return ["iproute2"]

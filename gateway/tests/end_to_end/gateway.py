"""The gateway as a process; its binary is found where it was built."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.network import Namespace

CHECKOUT = Path(__file__).parents[3]


@functools.cache
def program() -> Path | None:
    """The newest binary that was built, or the one that NARROWS_GATEWAY names."""
    if named := os.environ.get("NARROWS_GATEWAY"):
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or CHECKOUT / "target")
    built = [target / profile / "narrows-gateway" for profile in ("release", "debug")]
    # Only a build with the feature `ebpf` contains the eBPF programs, and so this text.
    found = [p for p in built if p.exists() and b"bpf_sk_assign_tcp_reqsk" in p.read_bytes()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def absent() -> str:
    """Why a test of the gateway cannot run."""
    return "narrows-gateway is not built; build it with: make gateway"


@dataclass
class Gateway:
    """A running gateway."""

    space: Namespace
    link: str
    folder: Path
    words: Sequence[str]
    process: subprocess.Popen[bytes]

    def command(self, name: str, *words: str) -> str:
        """Runs another of its commands, in the same namespace."""
        return self.space.run(str(program()), name, *words)

    @property
    def pins(self) -> Path:
        """Where its maps and attachments are pinned."""
        (pins,) = Path("/sys/fs/bpf/narrows-gateway").glob(f"{self.link}@*")
        return pins

    def dump(self, name: str) -> list[Any]:
        """The contents of one of its maps."""
        return list(bpftool("map", "dump", "pinned", str(self.pins / name)))

    def map_bytes(self) -> int:
        """The memory of all its maps."""
        pinned = [path for path in self.pins.iterdir() if path.name in MAPS]
        assert len(pinned) >= 5
        return sum(
            int(bpftool("map", "show", "pinned", str(path))["bytes_memlock"]) for path in pinned
        )

    def counters(self) -> dict[str, int]:
        """How often each verdict occurred, read from the map itself."""
        dump = self.dump("counters")
        values = [sum(int(cpu["value"]) for cpu in entry["formatted"]["values"]) for entry in dump]
        return dict(zip(counter_names(), values, strict=True))

    def resident(self) -> int:
        """How many bytes of memory the process has."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends the process."""
        self.process.send_signal(how)
        self.process.wait(10)

    def restart(self, how: signal.Signals) -> None:
        """Ends the process in this way, and starts it again."""
        self.end(how)
        self.process = start(self.space, self.words, self.folder)


MAPS = {"flows", "ring", "ring_head", "sources", "large", "settings", "syncache_buckets"}


def bpftool(*words: str) -> Any:
    """What bpftool reports."""
    done = subprocess.run(["bpftool", "-j", *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@functools.cache
def counter_names() -> list[str]:
    """The names of the counters, in the order of the map."""
    text = (CHECKOUT / "gateway/bpf/types.h").read_text()
    return [name.lower() for name in re.findall(r"^\tX\((\w+),", text, re.MULTILINE)]


def start(space: Namespace, words: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts it, and waits until it says that it is attached."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "log"
    with path.open("ab") as log:
        begin = log.tell()
        process = space.start(words, log, stdin=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while b'"ready"' not in path.read_bytes()[begin:]:
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise RuntimeError(f"the gateway did not start: {path.read_text()[-2000:]}")
        time.sleep(0.05)
    return process


@contextlib.contextmanager
def running(
    space: Namespace,
    link: str,
    addresses: Sequence[str],
    folder: Path,
    options: Sequence[str] = (),
) -> Iterator[Gateway]:
    """Runs the gateway for those addresses until the block ends; native if no mode is named."""
    words = [str(program()), "run", "--interface", link, *options]
    # The gateway's own checks are queries too, and would be counted; and tests do not wait for
    # connections that they have left open.
    usual = {"--mode": "native", "--check-every": "0 s", "--drain-for": "0 s"}
    words += [word for pair in usual.items() if pair[0] not in options for word in pair]
    for address in addresses:
        words += ["--server", address]
    process = start(space, words, folder)
    gateway = Gateway(space, link, folder, words, process)
    try:
        yield gateway
    finally:
        if gateway.process.poll() is None:
            gateway.end()
        space.run(str(program()), "detach", "--interface", link, check=False)

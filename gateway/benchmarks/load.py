"""The load, on the clients' core: `dnsload` (an example of the gateway), and `kxdpgun`."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .lab import LabError, Link, run
from .servers import NAMES, ZONE

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Programs:
    """The programs that cargo built."""

    dnsload: Path
    gateway: Path | None
    """The gateway with the in-kernel data path; None if that does not build."""


def build() -> Programs:
    """Builds the generator and the gateway, optimised.

    Raises:
        LabError: The generator does not build.
    """
    found = _cargo("--features", "ebpf", "--bin", "narrows-gateway", "--example", "dnsload")
    if "dnsload" not in found:
        found = _cargo("--example", "dnsload")
    if "dnsload" not in found:
        raise LabError("gateway/examples/dnsload does not build; hint: see what cargo said")
    return Programs(found["dnsload"], found.get("narrows-gateway"))


def built(folder: Path) -> Programs:
    """The programs that cargo built into a folder earlier.

    Raises:
        LabError: One is missing.
    """
    found = Programs(folder / "examples/dnsload", folder / "narrows-gateway")
    for program in (found.dnsload, found.gateway):
        if program is None or not os.access(program, os.X_OK):
            command = "cargo build --release -p narrows-gateway --features ebpf --bins"
            raise LabError(f"no program {program}; hint: {command} --example dnsload")
    return found


def _cargo(*what: str) -> dict[str, Path]:
    command = ["cargo", "build", "--locked", "--quiet", "--release", "-p", "narrows-gateway"]
    done = subprocess.run(
        [*command, *what, "--message-format", "json"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        return {}
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        line["target"]["name"]: Path(line["executable"]) for line in said if line.get("executable")
    }


class Generator:
    """Runs `dnsload` in the clients' namespace."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def command(self, link: Link, transport: str, *more: str, v6: bool = False) -> list[str]:
        """The command line for one server."""
        server = f"[{link.server6}]:53" if v6 else f"{link.server}:53"
        sources = link.clients6 if v6 else link.clients
        return link.at_client(
            *(str(self.program), "--server", server, "--transport", transport),
            *("--zone", ZONE, "--names", str(NAMES)),
            *(word for source in sources for word in ("--source", source)),
            *more,
        )

    def start(
        self, link: Link, transport: str, *more: str, rate: float, seconds: float, seed: int
    ) -> subprocess.Popen[str]:
        """Starts a load of Poisson arrivals."""
        return subprocess.Popen(
            self.command(
                *(link, transport),
                *(*more, "--poisson"),
                *("--rate", f"{rate:g}", "--seconds", f"{seconds:g}", "--seed", str(seed)),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, link: Link, transport: str, *more: str, rate: float, seconds: float, seed: int = 1
    ) -> dict[str, Any]:
        """Runs a load; returns the results of `dnsload`."""
        return finish(self.start(link, transport, *more, rate=rate, seconds=seconds, seed=seed))

    def flood(self, link: Link, folder: Path, *, rate: float, seconds: float) -> dict[str, Any]:
        """Makes more connections than a client with real sockets can: `kxdpgun` makes its own.

        It needs the interface's XDP hook for itself, and is part of Knot's project.

        Raises:
            LabError: It failed.
        """
        questions = folder / "kxdpgun"
        questions.write_text("".join(f"h{n:07}.{ZONE}. A E\n" for n in range(NAMES)))
        length = max(1, round(seconds))
        command = ["kxdpgun", "--tcp", "-t", str(length), "-Q", f"{rate:.0f}", "-F", "0"]
        command += ["-I", link.client_interface, "-l", f"{link.clients[0]}/32"]
        link.attach_client_program(None)
        try:
            with processor_time() as own:
                said = run(*link.at_client(*command, "-i", str(questions), link.server))
        finally:
            # If it is interrupted, it leaves its own program attached.
            link.attach_client_program(None)
            link.attach_client_program(folder)
        counts = {
            name: int(number) for name, number in re.findall(r"total (\w+):\s+(\d+) \(", said)
        }
        if not counts.keys() >= {"SYNs", "replies"}:
            raise LabError("kxdpgun did not report its SYNs and replies")
        planned = round(rate * length)
        return {
            "took_s": float(length),
            "offered": planned,
            "answered": counts["replies"],
            "answered_in_time": counts["replies"],
            "lost": max(0, counts["SYNs"] - counts["replies"]),
            "failed": 0,
            "unsent": max(0, planned - counts["SYNs"]),
            "cpu_s": own[0],
            "latency_us": dict.fromkeys(("p50", "p90", "p99", "max")),
            "histogram_us": [],
        }

    def wait_for(self, link: Link, transport: str, seconds: float = 20.0) -> None:
        """Waits until the server answers.

        Raises:
            LabError: It does not.
        """
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            if self.run(link, transport, rate=20, seconds=0.1)["answered"] > 0:
                return
            time.sleep(0.1)
        raise LabError(f"{link.namespace}: nobody answers over {transport}")

    @contextmanager
    def held(self, link: Link, count: int, *, asked: bool) -> Iterator[dict[str, Any]]:
        """Keeps connections open while the block lasts; gives their number."""
        more = ["--count", str(count), "--timeout", "5", *(["--asked"] if asked else [])]
        process = subprocess.Popen(
            self.command(link, "hold", *more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdin is not None, "both are pipes"
        try:
            line = process.stdout.readline()
            if not line:
                raise LabError("dnsload hold ended early")
            yield json.loads(line)
        finally:
            process.stdin.close()
            process.stdout.read()
            process.wait()


@contextmanager
def processor_time() -> Iterator[list[float]]:
    """Gives a list whose one element is the processor time of children in the block, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = [0.0]
    yield found
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found[0] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Waits for a load's end; returns its results.

    Raises:
        LabError: It failed.
    """
    out, err = process.communicate()
    if process.returncode != 0:
        raise LabError(f"dnsload: {err.strip() or process.returncode}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found

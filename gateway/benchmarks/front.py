"""`narrows-gateway` as the bench runs it: in a server's namespace, with the settings of one arm."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .lab import LabError, Link, run

START_S = 20.0
"""How long it may take until it serves."""

PINS = Path("/sys/fs/bpf/narrows-gateway")

ARMS: dict[str, dict[str, object]] = {
    "gateway": {"axfr_detect": False},
    "gateway-axfr": {"axfr_detect": True},
    "gateway-fin": {"axfr_detect": False, "close": "fin"},
    "gateway-paper": {"preset": "hayes-2010", "active": True},
    "gateway-defaults": {"preset": "hayes-2010"},
}
"""Settings by arm; all else is the default."""

# The load comes from five addresses: their rates are not an attack.
LIMITS = {"limits.syn_rate": 0, "limits.query_rate": 0, "limits.adoptions": 0}


@dataclass
class Gateway:
    """A running gateway."""

    program: Path
    link: Link
    process: subprocess.Popen[bytes]
    folder: Path

    def stop(self) -> None:
        """Ends it, which detaches its programs, and makes sure of that."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._call("detach", check=False)

    def entries(self) -> int:
        """The number of connections for which its map has state."""
        said = run("bpftool", "-j", "map", "dump", "pinned", str(self.pins / "flows"))
        return len(json.loads(said))

    def counters(self) -> dict[str, int]:
        """Its counters by name."""
        found: dict[str, int] = self._status()["counters"]
        return found

    def settings(self) -> dict[str, object]:
        """The settings that it runs with, by name."""
        found: dict[str, object] = self._status()["settings"]
        return found

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call("status", "--json"))
        return found

    @property
    def pins(self) -> Path:
        """Where its maps and programs are pinned; namespaces may share names of interfaces."""
        (found,) = PINS.glob(f"{self.link.server_interface}@*")
        return found

    def log(self) -> str:
        """Its output."""
        return (self.folder / "gateway.log").read_text(errors="replace")

    def _call(self, command: str, *more: str, check: bool = True) -> str:
        words = [str(self.program), command, "--interface", self.link.server_interface, *more]
        return run(*self.link.at_server(*words, core=0), check=check)


def start(program: Path, link: Link, folder: Path, settings: dict[str, object]) -> Gateway:
    """Starts it, and waits until it serves.

    Raises:
        LabError: It ended; the text has its last output.
    """
    words = command(program, link, folder, settings)
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    gateway = Gateway(program, link, process, folder)
    end_at = time.monotonic() + START_S
    while time.monotonic() < end_at and process.poll() is None:
        if attached(link):
            return gateway
        time.sleep(0.1)
    gateway.stop()
    last = (gateway.log().strip().splitlines() or ["it said nothing"])[-1]
    raise LabError(f"narrows-gateway run: {last}")


def command(program: Path, link: Link, folder: Path, settings: dict[str, object]) -> list[str]:
    """The command line that runs it; `folder` gets its configuration."""
    lines = [
        f'interface = "{link.server_interface}"',
        f'server = ["{link.server}", "{link.server6}"]',
        "loglevel = 0",
        'check_every = "0 s"',
        # Nobody is left who needs its programs.
        'drain_for = "0 s"',
        # Both ends of the link have XDP programs; auto takes generic XDP on links of this kind.
        'mode = "native"',
        *(f"{key} = {json.dumps(value)}" for key, value in (LIMITS | settings).items()),
    ]
    configuration = folder / "gateway.toml"
    configuration.write_text("\n".join(lines) + "\n")
    return link.at_server(str(program), "run", "--config", str(configuration))


def attached(link: Link) -> bool:
    """Whether an XDP program is on the server's interface."""
    interface = link.server_interface
    said = run("ip", "-n", link.namespace, "-j", "-d", "link", "show", "dev", interface)
    return bool(json.loads(said)[0].get("xdp"))

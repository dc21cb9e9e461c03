"""The objects of measurement: servers in namespaces, alone or behind a gateway, with their arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import front, servers
from .cpu import Meter, core_busy_s
from .lab import SERVER_CORE, Lab, LabError, Link, napi_threads
from .load import Generator
from .switches import Switches

SPLIT = {
    "tcp-connect": ("connect",),
    "tcp-kept": ("kept",),
    "tcp-fastopen": ("tcp", "--fast-open"),
}
"""Arms that take the cost of the kernel's TCP apart, each with the load that `dnsload` makes:
connections without a query, queries without a connection of their own, and queries in the SYN."""


@dataclass(frozen=True)
class Arm:
    """A server with a transport."""

    server: str
    transport: str

    @property
    def load(self) -> tuple[str, ...]:
        """What the generator sends: the transport, and further arguments of dnsload."""
        if self.transport in SPLIT:
            return SPLIT[self.transport]
        return ("udp",) if self.transport.endswith("udp") else ("tcp",)

    def __str__(self) -> str:
        return f"{self.server} {self.transport}"


@dataclass
class Bed:
    """A running server, its namespace, and the gateway in front of it, if any."""

    server: servers.Server
    link: Link
    gateway: front.Gateway | None
    transports: Sequence[str]
    folder: Path
    """Where compiled programs are."""

    @property
    def arms(self) -> list[Arm]:
        """The arms that can be measured here."""
        return [Arm(self.server.name, transport) for transport in self.transports]

    def ended(self) -> str | None:
        """The process that ended by itself, with its last output; None if everything runs."""
        running = {self.server.name: (self.server.process, self.server.log)}
        if self.gateway is not None:
            running["narrows-gateway"] = (self.gateway.process, self.gateway.log)
        for name, (process, log) in running.items():
            if process.poll() is not None:
                last = (log().strip().splitlines() or ["it said nothing"])[-1]
                return f"{name} of {self.link.namespace} has ended; it said last: {last}"
        return None

    def stop(self) -> None:
        """Ends all processes of this bed."""
        if self.gateway is not None:
            self.gateway.stop()
        self.server.stop()

    def measure(
        self,
        arm: Arm,
        generator: Generator,
        switches: Switches,
        *,
        rate: float,
        seconds: float,
        seed: int,
        flood: bool = False,
    ) -> dict[str, Any]:
        """Measures an interval: the results of `dnsload`, and processor time by part."""
        gateway = [self.gateway.process.pid] if self.gateway is not None else []
        receivers = napi_threads(self.link.server_interface)
        meters = {
            "kernel": Meter(receivers, switches),
            "server": Meter(self.server.processes, switches),
            "gateway": Meter(gateway, switches),
        }
        receiving = Meter(napi_threads(self.link.client_interface), switches)
        busy_s, packets = core_busy_s(SERVER_CORE), self.link.packets()
        if flood:
            found = generator.flood(self.link, self.folder, rate=rate, seconds=seconds)
        else:
            found = generator.run(self.link, *arm.load, rate=rate, seconds=seconds, seed=seed)
        packets = self.link.packets() - packets
        spent = {f"{name}_s": meter.spent_s() for name, meter in meters.items()}
        others_s = core_busy_s(SERVER_CORE) - busy_s - sum(spent.values())
        return {
            **found,
            **spent,
            **{f"{name}_schedstat_s": meter.schedstat_s() for name, meter in meters.items()},
            "others_s": max(0.0, others_s),
            "generator_s": found["cpu_s"] + receiving.spent_s(),
            # Packets that XDP makes do not count in the interface's counters.
            "packets": None if flood else packets,
        }


@dataclass
class Beds:
    """All beds of a run. It ends what it started, even after a failure."""

    lab: Lab
    folder: Path
    generator: Generator
    gateway: Path | None
    made: list[Bed] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Arms that could not be had, each with the reason."""

    def __enter__(self) -> Beds:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all servers and gateways."""
        while self.made:
            self.made.pop().stop()

    def plain(self, server: str) -> Bed:
        """A server with the kernel's UDP and TCP; BIND also has the arms that split TCP's cost."""
        return self._start(server, "plain", ["udp", "tcp", *(SPLIT if server == "bind" else ())])

    def xdp(self, server: str) -> Bed:
        """Knot's own XDP mode."""
        return self._start(server, "xdp", ["xdp-udp", "xdp-tcp"], xdp=True)

    def behind(self, server: str, arm: str, **settings: object) -> Bed | None:
        """A server behind the gateway; None if the gateway does not run, which is noted."""
        bed = self._start(server, arm, [arm])
        try:
            if self.gateway is None:
                raise LabError("narrows-gateway was not built with its in-kernel data path")
            chosen = {**front.ARMS.get(arm, {}), **settings}
            bed.gateway = front.start(self.gateway, bed.link, bed.server.folder, chosen)
            self.generator.wait_for(bed.link, "tcp")
        except LabError as error:
            self.failed.append(f"{server} {arm}: {error}")
            self.made.remove(bed)
            bed.stop()
            return None
        return bed

    def _start(
        self, server: str, name: str, transports: Sequence[str], *, xdp: bool = False
    ) -> Bed:
        link = self.lab.link(f"{server}-{name}")
        running = servers.start(server, link, self.folder / f"{server}-{name}", xdp=xdp)
        bed = Bed(running, link, None, transports, self.folder)
        self.made.append(bed)
        try:
            self.generator.wait_for(link, "udp")
        except LabError:
            last = (running.log().strip().splitlines() or ["it said nothing"])[-1]
            raise LabError(f"{server} does not answer; it said last: {last}") from None
        servers.settle(running)
        return bed

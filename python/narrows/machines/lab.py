"""Maps the nodes of a scenario to machines.

clock = "server"          # whose clock counts; the first machine by default
control_port = 7053       # where the others reach it
monitors = ["router"]     # nodes whose monitors the others wait for

[machines]
server = "192.0.2.1"
client = "192.0.2.2"
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import argument
from narrows.machines.errors import MachineError

CONTROL_PORT = 7053

_KEYS = {"clock", "control_port", "machines", "monitors"}


@dataclass(frozen=True)
class Lab:
    """The machines of a run."""

    addresses: Mapping[str, str]
    """The IPv4 address of each node's machine."""
    clock: str
    """The node of the machine whose clock counts."""
    control_port: int = CONTROL_PORT
    monitors: Sequence[str] = ()
    """Nodes whose monitors must be ready before the run starts."""

    @classmethod
    def read(
        cls, file: Path | None = None, at: Sequence[str] = (), *, clock: str | None = None
    ) -> Lab:
        """Reads machines from a file, `NODE=ADDRESS` texts, or both; the texts take precedence.

        Raises:
            MachineError: They name no machine, or something is wrong with one.
        """
        given: dict[str, object] = {}
        if file is not None:
            given = _table(file)
        where = argument("at") if file is None else str(file)
        unknown = sorted(given.keys() - _KEYS)
        if unknown:
            raise MachineError(f"{where}: {unknown[0]}: no such key; hint: {', '.join(_KEYS)}")
        machines = given.get("machines", {})
        if not isinstance(machines, dict):
            raise MachineError(f"{where}: machines: not a table; hint: [machines]")
        addresses = dict(machines)
        for text in at:
            node, equals, address = text.partition("=")
            if not equals or not node:
                raise MachineError(
                    f"{argument('at')} {text}: not NODE=ADDRESS; hint: such as server=192.0.2.1"
                )
            addresses[node] = address
        for node, address in addresses.items():
            try:
                # `ipaddress` would also accept a number as an address.
                addresses[node] = str(ipaddress.IPv4Address(f"{address}"))
            except ValueError:
                raise MachineError(
                    f"{where}: {node}: {address!r} is not an IPv4 address; hint: such as 192.0.2.1"
                ) from None
        if not addresses:
            raise MachineError(
                "no machine is named; "
                f"hint: a file with [machines], or {argument('at')} NODE=ADDRESS for each"
            )
        chosen = clock or given.get("clock") or next(iter(addresses))
        if not isinstance(chosen, str) or chosen not in addresses:
            raise MachineError(
                f"clock: {chosen!r} is not one of the machines; hint: one of {', '.join(addresses)}"
            )
        port = given.get("control_port", CONTROL_PORT)
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 1 << 16:
            raise MachineError(f"{where}: control_port: {port!r} is not a port; hint: 1 to 65535")
        monitors = given.get("monitors", [])
        if not isinstance(monitors, list) or not all(isinstance(each, str) for each in monitors):
            raise MachineError(f'{where}: monitors: not a list of nodes; hint: ["router"]')
        return cls(addresses, chosen, port, monitors)

    def address(self, node: str) -> str:
        """The address of a node's machine.

        Raises:
            MachineError: The node has none.
        """
        if node not in self.addresses:
            raise MachineError(
                f"{node}: no machine is named for it; hint: {argument('at')} {node}=ADDRESS, "
                f"or a line in [machines]"
            )
        return self.addresses[node]


def _table(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise MachineError(
            f"{file}: {(error.strerror or str(error)).lower()}; hint: a TOML file with [machines]"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MachineError(f"{file}: {error}; hint: a TOML file with [machines]") from None

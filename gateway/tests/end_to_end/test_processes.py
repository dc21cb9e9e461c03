"""Servers with several processes at one address and port, among which the kernel distributes.

Sources: nsd.conf(5), `server-count` and `reuseport`; socket(7), SO_REUSEPORT.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from . import gateway, servers
from .clients import ask, connect, prefixed, receive
from .conftest import SMALL, Lab, laboratory

CONNECTIONS = 40
"""Enough that each process gets some: the odds that one gets none are 4 * (3/4)^40."""


@pytest.mark.parametrize("own_sockets", [False, True], ids=["one-socket", "reuseport"])
def test_each_process_answers(tmp_path: Path, own_sockets: bool) -> None:
    if gateway.program() is None:
        pytest.skip(gateway.absent())

    def configure(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
        words = servers.nsd(folder, files, addresses)
        config = folder / "nsd.conf"
        more = f"server-count: 4\n  reuseport: {'yes' if own_sockets else 'no'}"
        config.write_text(config.read_text().replace("server-count: 1", more))
        return words

    with laboratory(tmp_path / "lab", ("nsd",), configure=configure) as lab:
        address = lab.address("nsd", "gateway")
        expected = ask(lab.network.client, lab.address("nsd", "kernel"), SMALL)
        for _ in range(CONNECTIONS):
            assert ask(lab.network.client, address, SMALL) == expected
        assert served(lab) == (CONNECTIONS, 0, 0)
        # In two parts it goes to the kernel, whichever process has the listener.
        for _ in range(CONNECTIONS):
            with connect(lab.network.client, address) as stream:
                stream.sendall(prefixed(SMALL)[:20])
                stream.sendall(prefixed(SMALL)[20:])
                assert receive(stream) == expected
        assert served(lab) == (CONNECTIONS, CONNECTIONS, 0)


def served(lab: Lab) -> tuple[int, int, int]:
    """The gateway's replies, the connections that the kernel took over, and those it did not."""
    counters = lab.gateway.counters() if lab.gateway else {}
    return counters["reply"], counters["adopted"], counters["adopt_failed"]

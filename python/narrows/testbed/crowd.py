"""A server's other clients, which use its connections while a probe measures.

Each client connects, may send a query, keeps its connection for a time, closes it, and pauses. At
the end, waiting clients still get their answers, or give up as usual. If they closed earlier, the
server's kernel might forget queries that it holds. The crowd is a separate program, so that it
takes no time from the probe's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from narrows.testbed.bed import SERVER, Bed

QUERY = b"\0\x11\x07\x07\0\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01"
"""A query for the root's SOA, with its length prefix."""

ANSWER_S = 10.0
"""Seconds that a client waits for an answer."""

PROGRAM = "import sys; from narrows.testbed.crowd import main; main(sys.argv[1])"


@dataclass(frozen=True)
class Crowd:
    """The settings of a crowd of clients."""

    clients: int
    source: str
    """Their address."""
    hold_s: float = 0.2
    """Seconds that each keeps its connection after the answer."""
    think_s: float = 2.0
    """Mean of the exponentially distributed pauses before the next connection, in seconds."""
    silent: bool = False
    """Whether they connect but never ask."""
    server: str = SERVER
    seed: int = 1


@contextlib.contextmanager
def crowd(bed: Bed, settings: Crowd) -> Iterator[None]:
    """Lets clients come and go until the block ends."""
    words = [sys.executable, "-c", PROGRAM, json.dumps(asdict(settings))]
    with (
        tempfile.TemporaryFile() as log,
        bed.client.running(words, log, ends_within_s=ANSWER_S + 5.0),
    ):
        yield


async def _member(settings: Crowd, number: int, asking: set[int]) -> None:
    draw = random.Random(f"{settings.seed} {number}")
    await asyncio.sleep(draw.uniform(0.0, settings.think_s))
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            reader, writer = await asyncio.open_connection(
                settings.server, 53, local_addr=(settings.source, 0)
            )
            try:
                if not settings.silent:
                    asking.add(number)
                    writer.write(QUERY)
                    async with asyncio.timeout(ANSWER_S):
                        await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
                    asking.discard(number)
                await asyncio.sleep(settings.hold_s)
            finally:
                asking.discard(number)
                writer.close()
        await asyncio.sleep(draw.expovariate(1.0 / settings.think_s) if settings.think_s else 0.0)


async def _everyone(settings: Crowd) -> None:
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    asking: set[int] = set()
    members = {
        number: asyncio.create_task(_member(settings, number, asking))
        for number in range(settings.clients)
    }
    await leaving.wait()
    while members:
        for number in members.keys() - asking:
            members.pop(number).cancel()
        await asyncio.sleep(0.01)


def main(text: str) -> None:
    """Lets clients come and go until something ends the process."""
    asyncio.run(_everyone(Crowd(**json.loads(text))))

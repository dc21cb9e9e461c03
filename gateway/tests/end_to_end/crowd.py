"""Many ordinary clients at once, each with its own address and segment size, without threads."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.network import Namespace

from .clients import family, prefixed


@dataclass(frozen=True)
class Job:
    """A query on a connection of its own."""

    server: str
    message: bytes
    source: str = ""
    mss: int | None = None
    queries: int = 1
    """How often it is asked on the connection, one query after another."""


@dataclass
class Outcome:
    """The result of a query."""

    job: Job
    replies: list[bytes]
    seconds: float
    """Seconds from the SYN to the last byte of the first reply."""
    error: str = ""
    port: int = 0
    """The client's port."""


def ask_all(
    space: Namespace, jobs: Sequence[Job], timeout: float, apart: float = 0.002
) -> list[Outcome]:
    """Does all jobs, which begin that many seconds apart; each has `timeout` seconds."""
    return asyncio.run(crowd(space, jobs, timeout, apart))


async def crowd(
    space: Namespace, jobs: Sequence[Job], timeout: float, apart: float
) -> list[Outcome]:
    """All clients."""
    running = []
    for job in jobs:
        running.append(asyncio.create_task(client(space, job, timeout)))
        await asyncio.sleep(apart)
    return list(await asyncio.gather(*running))


async def client(space: Namespace, job: Job, timeout: float) -> Outcome:
    """One client."""
    with space.inside():
        stream = socket.socket(family(job.server), socket.SOCK_STREAM)
    outcome = Outcome(job, [], 0.0)
    with stream:
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if job.mss is not None:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, job.mss)
        begin = time.monotonic()
        try:
            if job.source:
                stream.bind((job.source, 0))
            async with asyncio.timeout(timeout):
                await exchange(stream, job, outcome, begin)
        except TimeoutError:
            outcome.error = "stuck"
        except OSError as error:
            outcome.error = str(error)
    return outcome


async def exchange(stream: socket.socket, job: Job, outcome: Outcome, begin: float) -> None:
    """Asks, and reads the reply."""
    loop = asyncio.get_running_loop()
    await loop.sock_connect(stream, (job.server, 53))
    outcome.port = stream.getsockname()[1]
    have = b""
    for _ in range(job.queries):
        await loop.sock_sendall(stream, prefixed(job.message))
        while len(have) < 2 or len(have) < 2 + int.from_bytes(have[:2]):
            part = await loop.sock_recv(stream, 65536)
            if not part:
                raise ConnectionError("closed in the middle of a reply")
            have += part
        length = int.from_bytes(have[:2])
        outcome.replies.append(have[2 : 2 + length])
        have = have[2 + length :]
        if len(outcome.replies) == 1:
            outcome.seconds = time.monotonic() - begin

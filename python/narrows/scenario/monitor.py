"""What a run samples, and which packets it keeps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from narrows.scenario.amounts import DataSize
from narrows.scenario.base import Table
from narrows.scenario.declared import Declared
from narrows.scenario.quantities import LinkPattern, Name

Links = Annotated[tuple[LinkPattern, ...], Field(max_length=10_000, fail_fast=True)]


SampleRate = Annotated[float, Field(ge=1e-6, le=10_000, strict=True)]


class Sampler(Table):
    """Samples at a fixed rate."""

    links: Links
    """Which links: `NAME.forward` or `NAME.backward`; `NAME` means both, and `*` any part of a
    name."""
    rate: SampleRate
    """Samples a second, in Hz; 0.000001 to 10000."""


class GoodputSampler(Table):
    """Samples what groups of TCP connections have delivered."""

    rate: SampleRate = 10.0
    """Samples a second, in Hz; 0.000001 to 10000. The end of the run is sampled too."""


class Capture(Table):
    """Packets that are kept for capture files."""

    link: LinkPattern
    """Which links, named as for samplers. There is a file for each direction, as its sender sees
    it. With `at`, give names of links without a direction."""
    at: Name | None = None
    """A node at one end of each link. One file, `LINK@NODE.pcapng`, then has the packets that leave
    this node, and those that reach it, at the time of their arrival."""
    snaplen: Annotated[DataSize, Declared("Capture", "snaplen")] | None = None
    """Bytes kept of each frame, from the Ethernet header on, 14 B to 65535 B; all by default. `"96
    B"` holds all headers of most packets."""


class Monitor(Table):
    """What a run samples, and which packets it keeps."""

    queues: Sampler | None = None
    """Samples queues: backlog, RED's average, sojourn, drops and marks."""
    links: Sampler | None = None
    """Samples links: packets, bytes, busy time, losses."""
    queue_delays: Links = ()
    """Links whose queues measure how long packets wait, by their ECN field; see the table
    `queue_delays` of run folders. The names are those of samplers."""
    goodput: GoodputSampler = GoodputSampler()
    """Samples what each group of TCP connections has delivered to its receivers; see the table
    `goodput` of run folders."""
    capture: Annotated[
        tuple[LinkPattern | Capture, ...], Field(max_length=10_000, fail_fast=True)
    ] = ()
    """Links whose packets are kept for capture files (pcapng): names as for samplers, or tables
    such as `{ link = "wan", at = "R1", snaplen = "96 B" }`."""

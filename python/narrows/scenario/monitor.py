"""What a run samples, and which packets it keeps."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from narrows.scenario.amounts import DataSize
from narrows.scenario.base import Table
from narrows.scenario.declared import Declared
from narrows.scenario.quantities import GroupPattern, LinkPattern, Name, refuse

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


Groups = Annotated[tuple[GroupPattern, ...], Field(min_length=1, max_length=10_000, fail_fast=True)]


class FlowSampler(Table):
    """Samples the windows, round trips, rates and states of connections, for `flow_states`."""

    groups: Groups
    """Whose TCP and QUIC connections: names of groups of traffic and of resolver workers, with `*`
    for any part of a name, such as `["*"]`."""
    rate: SampleRate = 10.0
    """Samples a second, in Hz; 0.000001 to 10000."""


class DelaySampler(Table):
    """Measures how long packets take from host to host, for `delays`."""

    groups: Groups
    """Whose packets: names of groups of traffic and of resolver workers, with `*` for any part of a
    name, such as `["*"]`. A DNS server's replies belong to the workers that asked."""
    flows: bool = False
    """Whether each flow has rows of its own: each TCP or QUIC connection, and the datagrams between
    two applications. The run stops if there are more than 50000 flows."""
    packets: bool = False
    """Whether each packet has a row, in the table `packet_delays`. The run stops if there are more
    than two million packets."""


def _read_groups(value: Any) -> Any:
    """Makes a table of groups that are given alone."""
    if isinstance(value, str):
        raise refuse("is not an array", f'put it in brackets: ["{value[:64]}"]')
    return {"groups": value} if isinstance(value, list | tuple) else value


Flows = Annotated[
    FlowSampler, BeforeValidator(_read_groups, json_schema_input_type=Groups | FlowSampler)
]


Delays = Annotated[
    DelaySampler, BeforeValidator(_read_groups, json_schema_input_type=Groups | DelaySampler)
]


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
    """Links whose queues measure how long packets wait, by their ECN field and by the classes of
    the queue (bands, tins); see the tables `queue_delays`, `queue_delay_bins` and
    `queue_class_delays` of run folders. The names are those of samplers."""
    delays: Delays | None = None
    """Measures how long the packets of some groups take from when their host sends them until their
    last bit arrives; see the tables `delays` and `delay_bins` of run folders. Give the groups
    alone, such as `delays = ["web", "dns"]`, or a table."""
    goodput: GoodputSampler = GoodputSampler.usual()
    """Samples what each group of TCP connections has delivered to its receivers; see the table
    `goodput` of run folders."""
    flows: Flows | None = None
    """Samples the window, round trip, rates and state of each connection of some groups; see the
    table `flow_states` of run folders. Give the groups alone, such as `flows = ["web"]`, or a
    table."""
    capture: Annotated[
        tuple[LinkPattern | Capture, ...], Field(max_length=10_000, fail_fast=True)
    ] = ()
    """Links whose packets are kept for capture files (pcapng): names as for samplers, or tables
    such as `{ link = "wan", at = "R1", snaplen = "96 B" }`."""

"""What a run samples, and which packets it keeps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.quantities import LinkPattern

__all__ = ["Monitor", "Sampler"]

Links = Annotated[tuple[LinkPattern, ...], Field(max_length=10_000, fail_fast=True)]


class Sampler(Table):
    """Samples at a fixed rate."""

    links: Links
    """Which links: `NAME.forward` or `NAME.backward`; `NAME` is both, and `*` stands for any
    part of a name."""
    rate: Annotated[float, Field(ge=1e-6, le=10_000)]
    """Samples a second, in Hz; 0.000001 to 10000."""


class Monitor(Table):
    """What a run samples, and which packets it keeps."""

    queues: Sampler | None = None
    """Samples queues: backlog, RED's average, sojourn, drops and marks."""
    links: Sampler | None = None
    """Samples links: packets, bytes, busy time, losses."""
    capture: Links = ()
    """Links whose packets are kept for a capture file (pcapng)."""

"""Queues and congestion controls that numba has compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import narrows
from narrows import controls, queues
from narrows.controls import CompiledControl
from narrows.queues import Compiled

from .own import scenario

LINK = "wan.forward"
MOST = 2.5
"""How many times as long as a built-in queue one may take here; docs/extending.md has the
measured number, which is lower. Tests share their machine with others."""


def tail() -> Compiled:
    """A pfifo of 20 packets."""
    numba = pytest.importorskip("numba")

    @numba.cfunc(queues.signature(np.float64))  # type: ignore[untyped-decorator,unused-ignore]
    def admit(state: Any, backlog: int, _bytes: int, _now: int, packet: Any) -> int:
        state[1] += numba.carray(packet, 1)[0].bytes
        return 2 if backlog >= int(state[0]) else 0

    return Compiled(admit=admit, state=np.array([20.0, 0.0]))


def test_a_queue_is_the_built_in_one() -> None:
    queue = tail()
    ours, theirs = narrows.run(scenario(), queues={LINK: queue}), narrows.run(scenario())
    assert ours.flows.equals(theirs.flows)
    assert queue.state[1] == 0
    record = ours.outside["queues"][LINK]
    assert "def admit" in record["source"] and record["arguments"] == "state=[20.0, 0.0]"


def test_a_control_is_reno_unless_it_says_otherwise() -> None:
    numba = pytest.importorskip("numba")

    @numba.cfunc(controls.signature(np.float64))  # type: ignore[untyped-decorator,unused-ignore]
    def on_loss(state: Any, ack: Any, sending: Any) -> None:
        sets = numba.carray(sending, 1)
        sets[0].ssthresh = max(np.floor(state[0] * sets[0].cwnd), 2.0)
        state[1] = numba.carray(ack, 1)[0].mss

    def with_share(share: float) -> narrows.Run:
        control = CompiledControl(on_loss=on_loss, state=np.array([share, 0.0]))
        return narrows.run(scenario({"congestion": "mine"}), controls={"mine": control})

    reno = narrows.run(scenario({"congestion": "reno"}))
    assert with_share(0.5).flows.equals(reno.flows) and not with_share(0.8).flows.equals(reno.flows)


def test_a_queue_costs_hardly_more_than_a_built_in_one() -> None:
    queue = tail()
    values = scenario(duration="200 s")

    def took(run: Callable[[], object]) -> float:
        before = time.process_time()
        run()
        return time.process_time() - before

    both = [
        (
            took(lambda: narrows.run(values, queues={LINK: queue})),
            took(lambda: narrows.run(values)),
        )
        for _ in range(5)
    ]
    assert min(ours for ours, _ in both) < MOST * min(theirs for _, theirs in both), both

"""The environment: a line whose rate, round trip and buffer differ from episode to episode.

An action holds for a step of simulated time. It says how a sender changes its window or its pace,
or with which probability the line's queue drops:

    action     who acts                      space          meaning
    window     the sender of one connection  [-1, 1]        the window is multiplied by 2**action
    pacing     the sender of one connection  [-1, 1]        the pace is multiplied by 2**action
    drop       the queue of the line         [0, 1]         each packet that comes is dropped with
                                                            the probability action**2

Observations of a sender are what a sender can know, and those of a queue what a queue can know; see
`SENDER` and `QUEUE`. The reward of a step is

    utilisation - delay_weight * queueing delay / round trip - loss_weight * share of lost packets

where the utilisation is the share of the line's rate that was delivered, and the round trip is that
of the empty path. A full line without delay and loss has a reward of 1 in each step. A sender's
queueing delay is that of the round trips that it measured, and a step without any counts with the
one before.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium  # type: ignore[import-not-found,unused-ignore]
import numpy as np

from narrows import _core
from narrows.controls import Ack, Control
from narrows.queues import DROP, PASS, Packet, Queue
from narrows.scenario import Scenario

Floats = np.ndarray[Any, np.dtype[np.float32]]

SENDER = (
    "logarithm (base 2) of the window in segments, or of the pace in kbit/s, divided by 20",
    "mean round trip of the step over the shortest so far, less 1, at most 4, divided by 4",
    "rate of delivery in the step over the largest so far",
    "share of lost segments in the step",
    "1 if acknowledgements came in the step",
    "the action before",
)
"""What a sender observes; all between -1 and 1."""
QUEUE = (
    "mean wait of packets that left in the step, over 100 ms, at most 1",
    "backlog over the buffer",
    "share of the line's rate that left in the step",
    "bytes that arrived in the step over what the line carries, at most 2, divided by 2",
    "the action before",
)
"""What a queue observes; all between 0 and 1."""

PACKET = 1500
_EVENTS = 20
"""Events at a time; the simulator stops so many events after a step's end at the latest."""
_LEAST_WINDOW, _LARGEST_WINDOW = 1.0, 2.0**16
_LEAST_PACE, _LARGEST_PACE = 2.0**6, 2.0**20
"""In kbit/s."""


class _Step:
    """What happened in a step."""

    def __init__(self) -> None:
        self.acked = 0
        self.lost = 0
        self.rtts: list[float] = []
        self.waits: list[float] = []
        self.arrived_bytes = 0
        self.left_bytes = 0
        self.arrived = 0
        self.dropped = 0


class _Sender(Control):
    """A congestion control whose window and pace the environment sets."""

    owns_window = True

    def __init__(self, env: Bottleneck) -> None:
        self.env = env

    def on_ack(self, ack: Ack) -> None:
        """Notes what an acknowledgement says, and sets what the agent has chosen."""
        env = self.env
        env.now.acked += ack.acked
        env.now.lost += ack.lost
        if ack.rtt is not None:
            env.now.rtts.append(ack.rtt)
        if env.action == "pacing":
            self.pacing_rate = 1e3 * env.level
            # The window only has to be large enough.
            self.cwnd = _LARGEST_WINDOW
        else:
            self.cwnd = env.level


class _Dropper(Queue):
    """A FIFO that drops with the probability that the environment sets."""

    def __init__(self, env: Bottleneck, limit: int) -> None:
        self.env = env
        self.limit = limit

    def admit(self, backlog: int, bytes: int, now: float, packet: Packet) -> int:
        """Drops by chance."""
        env = self.env
        env.backlog = backlog
        env.now.arrived += 1
        env.now.arrived_bytes += packet.bytes
        if backlog >= self.limit or self.random.random() < env.level:
            env.now.dropped += 1
            return DROP
        return PASS

    def release(self, backlog: int, bytes: int, now: float, packet: Packet) -> int:
        """Notes how long a packet has waited."""
        env = self.env
        env.backlog = backlog
        env.now.left_bytes += packet.bytes
        env.now.waits.append(now - packet.arrived)
        return PASS


class Bottleneck(gymnasium.Env[Floats, Floats]):  # type: ignore[misc,unused-ignore]
    """A bottleneck, whose rate, round trip and buffer are drawn at each reset.

    Args:
        action: What an action changes: `window`, `pacing` or `drop`.
        rates_mbit: The least and the largest rate of the line, between which each episode's is
            drawn (its logarithm evenly).
        rtts_ms: The same for the round trip of the empty path.
        buffers: The same for the buffer, in products of both.
        flows: With `drop`: the least and the largest number of CUBIC connections.
        step_s: How long a step lasts in simulated time, in seconds.
        steps: Steps of an episode, which is then truncated.
        delay_weight: What a queueing delay of a round trip costs.
        loss_weight: What the loss of all packets costs.

    Raises:
        ValueError: An argument is out of range.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as the base class has it

    def __init__(
        self,
        action: Literal["window", "pacing", "drop"] = "window",
        *,
        rates_mbit: Sequence[float] = (2.0, 20.0),
        rtts_ms: Sequence[float] = (20.0, 100.0),
        buffers: Sequence[float] = (0.5, 4.0),
        flows: Sequence[int] = (1, 8),
        step_s: float = 0.1,
        steps: int = 100,
        delay_weight: float = 0.5,
        loss_weight: float = 2.0,
    ) -> None:
        if action not in ("window", "pacing", "drop"):
            raise ValueError(f"action: {action!r} is none of window, pacing, drop")
        for name, pair, least in (
            ("rates_mbit", rates_mbit, 0.1),
            ("rtts_ms", rtts_ms, 1.0),
            ("buffers", buffers, 0.1),
            ("flows", flows, 1),
        ):
            if len(pair) != 2 or not least <= pair[0] <= pair[1] <= 10_000:
                raise ValueError(f"{name}: {pair} is not a least and a largest value")
        if not 0.001 <= step_s <= 60.0 or not 1 <= steps <= 1_000_000:
            raise ValueError("step_s is not within 0.001 and 60, or steps not within 1 and 1000000")
        if not math.isfinite(delay_weight) or not math.isfinite(loss_weight):
            raise ValueError("delay_weight or loss_weight is not a finite number")
        self.action = action
        self.step_s = step_s
        self.steps = steps
        self.delay_weight = delay_weight
        self.loss_weight = loss_weight
        self._rates, self._rtts, self._buffers, self._flows = rates_mbit, rtts_ms, buffers, flows
        names = QUEUE if action == "drop" else SENDER
        self._low = 0.0 if action == "drop" else -1.0
        box = gymnasium.spaces.Box
        self.observation_space = box(self._low, 1.0, (len(names),), np.float32)
        self.action_space = box(self._low, 1.0, (1,), np.float32)
        self.level = 0.0
        """The window in segments, the pace in kbit/s, or the probability of drops."""
        self.now = _Step()
        self.backlog = 0
        self._simulation: _core.Simulation | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begins an episode on another line; `info` says which."""
        super().reset(seed=seed)
        draw = self.np_random
        self._rate = self._between(self._rates)
        self._rtt_s = 1e-3 * self._between(self._rtts)
        product = self._rate * 1e6 * self._rtt_s / (8 * PACKET)
        self._limit = max(2, round(self._between(self._buffers) * product))
        count = int(draw.integers(self._flows[0], self._flows[1], endpoint=True))
        self._count = count if self.action == "drop" else 1
        self.level = {"window": 10.0, "pacing": 1000.0, "drop": 0.0}[self.action]
        self.backlog = 0
        self.now = _Step()
        self._steps = 0
        self._before = 0.0
        self._shortest = math.inf
        self._most = 0.0
        self._delay_s = 0.0
        self._simulation = self._engine(int(draw.integers(2**31)))
        # The connection opens before the agent acts.
        self._run_until(2.0 * self._rtt_s)
        self._began_s = self._simulation.now_s
        return self._observation(), self._info()

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Holds an action for a step; one beyond the space counts as the space's end.

        Raises:
            ValueError: The action is not one number, such as NaN of a policy that has diverged.
        """
        assert self._simulation is not None, "gymnasium asks for a reset before"
        given = np.asarray(action)
        if given.size != 1 or given.dtype.kind not in "fiu" or np.isnan(given).any():
            raise ValueError(f"action: {action!r} is not an array of one number")
        chosen = min(1.0, max(self._low, float(given.item())))
        self._act(chosen)
        self.now = _Step()
        self._steps += 1
        self._run_until(self._began_s + self._steps * self.step_s)
        self._before = chosen
        observation = self._observation()
        reward = self._reward()
        return observation, reward, False, self._steps >= self.steps, self._info()

    def _act(self, chosen: float) -> None:
        if self.action == "drop":
            self.level = chosen**2
            return
        least, most = (
            (_LEAST_PACE, _LARGEST_PACE)
            if self.action == "pacing"
            else (_LEAST_WINDOW, _LARGEST_WINDOW)
        )
        self.level = min(most, max(least, self.level * 2.0**chosen))

    def _between(self, pair: Sequence[float]) -> float:
        low, high = map(math.log, pair)
        return math.exp(float(self.np_random.uniform(low, high)))

    def _engine(self, seed: int) -> _core.Simulation:
        delay = f"{round(5e5 * self._rtt_s)} us"
        tcp = {"congestion": "cubic" if self.action == "drop" else "agent"}
        scenario = Scenario.from_dict(
            {
                "name": "environment",
                "duration": f"{math.ceil(self.steps * self.step_s + 10.0)} s",
                "links": [
                    {
                        "name": "line",
                        "between": ["a", "b"],
                        "rate": f"{round(1e3 * self._rate)} kbit/s",
                        "delay": delay,
                        "backward": {"rate": "1 Gbit/s"},
                        "queue": {"kind": "pfifo", "limit": self._limit},
                    }
                ],
                "traffic": [
                    {
                        "kind": "bulk",
                        "name": "data",
                        "sender": "a",
                        "receiver": "b",
                        "connections": self._count,
                        "tcp": {"receive_buffer": "64 MiB", **tcp},
                    }
                ],
            }
        )
        plan = json.dumps(scenario.plan(seed))
        if self.action == "drop":
            queue = _Dropper(self, self._limit)
            return _core.Simulation(plan, [], {"line.forward": queue.again}, {})
        agent: Callable[[int], object] = _Sender(self).again
        return _core.Simulation(plan, [], {}, {"agent": agent})

    def _run_until(self, at: float) -> None:
        assert self._simulation is not None, "a reset has made it"
        while self._simulation.now_s < at:
            if self._simulation.advance(_EVENTS):
                return

    def _observation(self) -> Floats:
        now = self.now
        capacity = self._rate * 1e6 * self.step_s / 8.0
        if self.action == "drop":
            mean = sum(now.waits) / len(now.waits) if now.waits else 0.0
            self._delay_s = mean if now.waits else self._delay_s
            values: tuple[float, ...] = (
                min(1.0, mean / 0.1),
                self.backlog / self._limit,
                now.left_bytes / capacity,
                min(2.0, now.arrived_bytes / capacity) / 2.0,
                self._before,
            )
        else:
            if now.rtts:
                self._shortest = min(self._shortest, *now.rtts)
                self._delay_s = max(0.0, sum(now.rtts) / len(now.rtts) - self._rtt_s)
            mean = sum(now.rtts) / len(now.rtts) if now.rtts else self._shortest
            self._most = max(self._most, now.acked)
            heard = now.acked + now.lost
            values = (
                math.log2(self.level) / 20.0,
                min(4.0, mean / self._shortest - 1.0) / 4.0 if now.rtts else 0.0,
                now.acked / self._most if self._most else 0.0,
                now.lost / heard if heard else 0.0,
                float(bool(now.rtts)),
                self._before,
            )
        clipped: Floats = np.clip(np.array(values, np.float32), self._low, 1.0)
        return clipped

    def _reward(self) -> float:
        now = self.now
        capacity = self._rate * 1e6 * self.step_s / 8.0
        if self.action == "drop":
            used, lost = now.left_bytes / capacity, now.dropped / max(1, now.arrived)
        else:
            used = now.acked * PACKET / capacity
            lost = now.lost / max(1, now.acked + now.lost)
        delay = self._delay_s / self._rtt_s
        return float(min(1.0, used) - self.delay_weight * delay - self.loss_weight * lost)

    def _info(self) -> dict[str, Any]:
        return {
            "rate_mbit": self._rate,
            "rtt_ms": 1e3 * self._rtt_s,
            "buffer_packets": self._limit,
            "flows": self._count,
            "level": self.level,
            "queueing_delay_ms": 1e3 * self._delay_s,
        }

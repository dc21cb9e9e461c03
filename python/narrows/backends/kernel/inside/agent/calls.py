"""Telephone calls: speech in datagrams, both ways.

Speakers behave like the simulator's (crates/apps, voip): they send a packet when its last sample
has been spoken, and nothing in the pauses. The rows say which packets arrived, in which order and
after how long. Other code computes from them what a listener hears.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .datagrams import LOST_S, Group, Sender
from .draws import Draw
from .loop import Loop


class _Speech:
    """When a speaker sends."""

    def __init__(self, job: Mapping[str, Any], start_s: float, seed: str) -> None:
        self._packet_s: float = job["packet_s"]
        self._length: int = job["packet_bytes"]
        self._due = start_s
        self._count = 0
        self._left: int | None = 0
        self._talk: tuple[Draw, Draw] | None = None
        if job["talk"] is not None:
            spurt, pause = (Draw(job["talk"][key], f"{seed} {key}") for key in ("spurt", "pause"))
            self._talk = spurt, pause
        self.firsts: list[int] = []
        """The number of the first packet of each talk spurt."""

    def next(self) -> tuple[float, int]:
        """When the next packet is due, and its length."""
        pause_s = 0.0
        if self._left == 0:
            turn = len(self.firsts)
            self._left = None
            if self._talk is not None:
                spurt, pause = self._talk
                pause_s = pause.next(turn - 1) if turn else 0.0
                self._left = max(1, _ceil(spurt.next(turn), self._packet_s))
            self.firsts.append(self._count)
        if self._left is not None:
            self._left -= 1
        self._count += 1
        self._due += pause_s + self._packet_s
        return self._due, self._length


def _ceil(span_s: float, packet_s: float) -> int:
    """Packets of a spurt, computed in whole picoseconds as the simulator does."""
    return -(-round(span_s * 1e12) // round(packet_s * 1e12))


class Calls(Group):
    """The calls of a group. Each call has two streams, there and back."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        """Waits for the first spurts.

        Args:
            job: The group's job.
            loop: The loop of the process.
            seed: The seed for the lengths of spurts and pauses.
        """
        self._speech: list[_Speech] = []
        self._sent: list[list[float]] = [[] for _ in job["streams"]]
        self._arrivals: list[list[tuple[int, float]]] = [[] for _ in job["streams"]]
        super().__init__(job, loop, seed)

    def times(self, number: int, start_s: float) -> _Speech:
        """When a direction's speaker sends."""
        self._speech.append(_Speech(self.job, start_s, f"{self.seed} {number}"))
        return self._speech[-1]

    def on_sent(self, sender: Sender, now: float, _length: int) -> None:
        """Notes when a packet is sent."""
        self._sent[sender.number].append(now)

    def on_received(self, number: int, count: int, sent_s: float, _length: int) -> None:
        """Notes how long a packet took."""
        self._arrivals[number].append((count, max(0.0, self.loop.now() - sent_s)))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each direction of each call."""
        end = self.loop.now()
        found = []
        for number, told in enumerate(self.job["streams"]):
            sent, arrivals = self._sent[number], self._arrivals[number]
            there = {count for count, _ in arrivals}
            found.append(
                {
                    "call": number // 2,
                    "direction": ("there", "back")[number % 2],
                    "start_s": told["start_s"],
                    "sent": len(sent),
                    "spurts": self._speech[number].firsts,
                    "arrivals": arrivals,
                    "lost": [
                        count
                        for count, sent_s in enumerate(sent)
                        if count not in there and sent_s <= end - LOST_S
                    ],
                }
            )
        return found

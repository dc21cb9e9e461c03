"""Queues of your own, in Python or compiled (docs/extending.md).

A queue is a class with methods that decide about packets. `narrows.run` puts it at a link:

    >>> import narrows
    >>> from narrows.queues import DROP, PASS, Queue
    >>> class Short(Queue):
    ...     '''Drops what finds `most` packets waiting.'''
    ...     def __init__(self, most: int) -> None:
    ...         self.most = most
    ...     def admit(self, backlog, bytes, now, packet):
    ...         return DROP if backlog >= self.most else PASS
    >>> run = narrows.run(
    ...     {
    ...         "name": "mine",
    ...         "duration": "5 s",
    ...         "links": [{"name": "wan", "between": ["a", "b"], "rate": "2 Mbit/s"}],
    ...         "traffic": [{"kind": "bulk", "name": "up", "sender": "a", "receiver": "b"}],
    ...     },
    ...     queues={"wan.forward": Short(most=20)},
    ... )
    >>> run.flows["segments_retransmitted"].sum() > 0
    True
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.errors import HintedError
from narrows.part import Functions, Part

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DROP",
    "MARK",
    "PASS",
    "Compiled",
    "Packet",
    "Queue",
    "QueueError",
    "QueueFault",
    "signature",
]

INCLUDE = Path(__file__).parent / "include"
"""The folder of narrows.h."""

PASS = 0
"""The packet stays as it is."""
MARK = 1
"""The packet is marked (Congestion Experienced), or dropped if it is not ECN-capable."""
DROP = 2
"""The packet is dropped."""

Packet = _core.Packet
"""What a queue sees of a packet."""

QueueFault = _core.QueueFault
"""A queue has broken a rule, for example given a packet twice."""


class QueueError(HintedError):
    """A queue that cannot be used, such as one at a link that does not exist."""


class Queue(Part):
    """A queue of your own. Subclass it in one of two forms.

    The short form decides about packets, which wait first in, first out. It has one of these
    methods, or both:

    - ``admit(backlog, bytes, now, packet)``: about a packet that arrives; ``backlog`` packets and
      ``bytes`` wait without it.
    - ``release(backlog, bytes, now, packet)``: about the packet in front when it could leave;
      ``backlog`` and ``bytes`` count it.

    They return `PASS` (or nothing), `MARK` or `DROP`. ``now`` and ``packet.arrived`` are seconds.

    The full form keeps its packets itself:

    - ``enqueue(now, packet)``: returns a decision. If the packet passes, the queue has it, and may
      call ``packet.mark()`` or ``packet.drop()`` later.
    - ``dequeue(now)``: returns the packet that leaves now, or None.
    - ``ready_at(now)``: when ``dequeue`` has returned None although packets wait, when to ask
      again, in seconds. Queues that never hold packets back need it not.

    Each run and each link has a queue of its own: the class is called again with the arguments of
    the object that you made. Take random numbers from ``self.random``, so that a seed gives the
    same run again.
    """

    limit: int = 1000
    """The most packets that wait in the short form."""


class Compiled(Queue):
    """The short form as compiled functions: those of ``narrows.h``, or numba's ``cfunc``.

    Args:
        admit: An address, or an object that has one (``address``), of a function with the form of
            ``admit`` in narrows.h. numba's signature for it is `signature`.
        release: The same for ``release``.
        state: What the functions get as their first argument: an array, of which each run has a
            copy.
        limit: The most packets that wait.

    The functions run unchecked, like any compiled code.
    """

    def __init__(
        self,
        *,
        admit: Any = None,
        release: Any = None,
        state: np.ndarray[Any, Any] | None = None,
        limit: int = 1000,
    ) -> None:
        """Takes the functions over."""
        if admit is None and release is None:
            raise QueueError("Compiled", "needs admit or release")
        self.limit = limit
        self._compiled = Functions((admit, release), state)

    @property
    def state(self) -> np.ndarray[Any, Any]:
        """The state of this object; each run has a copy."""
        return self._compiled.state

    @property
    def addresses(self) -> tuple[int, ...]:
        """The addresses of both functions, 0 for none, and of the state."""
        return (*self._compiled.addresses(), self._compiled.state_address)

    def numbers(self) -> dict[str, int | float]:
        """Those that are no addresses of functions."""
        numbers = super().numbers().items()
        return {name: number for name, number in numbers if name not in ("admit", "release")}

    def record(self) -> dict[str, Any]:
        """The source of numba's functions, as far as they have one."""
        return {**super().record(), **self._compiled.record()}


def packet_type() -> np.dtype[Any]:
    """The packet of narrows.h as a NumPy type, for compiled functions."""
    import numpy as np

    return np.dtype(
        [
            ("handle", "u8"), ("flow", "u8"), ("arrived", "u8"), ("bytes", "u4"), ("source", "u4"),
            ("destination", "u4"), ("source_port", "u2"), ("destination_port", "u2"),
            ("ecn", "u1"), ("protocol", "u1"), ("dscp", "u1"), ("reserved", "u1", 5),
        ]
    )  # fmt: skip


def signature(state: Any) -> Any:
    """The signature, for numba, of `admit` and `release` whose state is an array of a NumPy type.

    In the function, ``state[0]`` and ``numba.carray(packet, 1)[0].bytes`` are values; times are
    picoseconds.
    """
    from numba import from_dtype, types  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return types.int32(
        types.CPointer(from_dtype(state)),
        types.uint32,
        types.uint64,
        types.uint64,
        types.CPointer(from_dtype(packet_type())),
    )

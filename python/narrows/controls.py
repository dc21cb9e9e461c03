"""Congestion controls of your own, in Python or compiled (docs/extending.md).

A congestion control is a class that sets TCP's window, and its pace if it wants to. A scenario
names it:

    >>> import narrows
    >>> from narrows.controls import Ack, Control
    >>> class Gentle(Control):
    ...     '''Reno, but a loss takes a fifth of the window instead of half.'''
    ...     def on_loss(self, now):
    ...         self.ssthresh = 0.8 * self.cwnd
    >>> run = narrows.run(
    ...     {
    ...         "name": "mine",
    ...         "duration": "5 s",
    ...         "links": [{"name": "wan", "between": ["a", "b"], "rate": "2 Mbit/s"}],
    ...         "traffic": [{"kind": "bulk", "name": "up", "sender": "a", "receiver": "b",
    ...                      "tcp": {"congestion": "gentle"}}],
    ...     },
    ...     controls={"gentle": Gentle()},
    ... )
    >>> run.outside["controls"]["gentle"]["class"]
    'Gentle'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.errors import HintedError
from narrows.part import Functions, Part

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Ack", "CompiledControl", "Control", "ControlError", "ControlFault", "signature"]

Ack = _core.Ack
"""What an acknowledgement tells a congestion control."""

ControlFault = _core.ControlFault
"""A congestion control has broken a rule, for example set a window of 0."""


class ControlError(HintedError):
    """A congestion control that cannot be used, such as an object of another class."""


class Control(Part):
    """A congestion control of your own. It begins as Reno (RFC 5681): write what differs.

    TCP calls these methods if there are any. They set `cwnd`, `ssthresh` and `pacing_rate`:

    - ``on_start(mss, rtt)``: the connection is established. ``mss``: the payload of a full segment
      in bytes; ``rtt``: the handshake's round trip in seconds, or None.
    - ``on_ack(ack)``: an acknowledgement of something in flight.
    - ``grow(ack)``: after ``on_ack``, if the window limits the sender and is not shrinking. Here
      the window grows.
    - ``on_loss(now)``: a loss, at most once in a window, and a timeout. Set `ssthresh`, which is
      infinite at the call, or `cwnd` to where the window has to fall: TCP takes it there within a
      round trip (RFC 6937). It stays if neither is set.
    - ``on_ecn(now)``: the same for an ECN echo; without it, ``on_loss`` is called.
    - ``on_timeout(now)``: after ``on_loss``; TCP has set the window to what is in flight plus one.
    - ``on_undo(now)``: a reduction was needless; TCP has put window and threshold back.
    - ``on_restart(now, idle)``: something is sent after ``idle`` seconds without anything in
      flight.

    Times are seconds of simulated time. TCP finds out what is lost, and it changes `cwnd` and
    `ssthresh` itself, which then have its values at the next call.

    A control that models the path, as BBR does, sets ``owns_window = True``: TCP then leaves the
    window to ``on_ack`` in every state, and ``grow`` is never called.

    Each end of a connection has an object of its own: the class is called again with the arguments
    of the object that you made. Take random numbers from ``self.random``, so that a seed gives the
    same run again.
    """

    owns_window: bool = False
    """Whether TCP leaves the window to the control in every state. Only a timeout makes it what is
    in flight plus one."""

    cwnd: float
    """The window in segments, at least 1, of which TCP uses the whole part. Set it in ``__init__``
    for another initial window than the scenario's."""

    ssthresh: float
    """The slow-start threshold in segments; infinite at first. Less than 2 counts as 2."""

    pacing_rate: float | None = None
    """How fast payload leaves, in bit/s; None: as fast as the windows allow, or at the usual pace
    if the scenario has ``tcp.pacing``."""


CALLS = (
    *("on_start", "on_ack", "grow", "on_loss", "on_ecn"),
    *("on_timeout", "on_undo", "on_restart"),
)
"""The methods, in the order of narrows.h."""


class CompiledControl(Control):
    """A congestion control as compiled functions: those of ``narrows.h``, or numba's ``cfunc``.

    Args:
        state: What the functions get as their first argument: an array, of which each connection
            has a copy.
        owns_window: Whether TCP leaves the window to it.
        **functions: By the names of `Control`'s methods, addresses or objects that have one
            (``address``), of functions with the form ``narrows_hear`` of narrows.h. numba's
            signature for them is `signature`.

    The functions run unchecked, like any compiled code. What they set is checked.
    """

    def __init__(
        self,
        *,
        state: np.ndarray[Any, Any] | None = None,
        owns_window: bool = False,
        **functions: Any,
    ) -> None:
        """Takes the functions over."""
        for name in functions.keys() - set(CALLS):
            raise ControlError("CompiledControl", f"has no function {name}", ", ".join(CALLS))
        if not functions:
            raise ControlError("CompiledControl", "needs a function", ", ".join(CALLS))
        self.owns_window = owns_window
        self._compiled = Functions(tuple(functions.get(name) for name in CALLS), state)

    @property
    def addresses(self) -> tuple[tuple[int, ...], int]:
        """The addresses of the functions, 0 for none, and of the state."""
        return self._compiled.addresses(), self._compiled.state_address

    def record(self) -> dict[str, Any]:
        """The source of numba's functions, as far as they have one."""
        return {**super().record(), **self._compiled.record()}


def ack_type() -> np.dtype[Any]:
    """The acknowledgement of narrows.h as a NumPy type, for compiled functions."""
    import numpy as np

    return np.dtype(
        [
            ("now", "u8"), ("rtt", "u8"), ("smoothed_rtt", "u8"), ("shortest_rtt", "u8"),
            ("idle", "u8"), ("delivery_rate", "f8"), ("acked", "u4"), ("lost", "u4"),
            ("marked", "u4"), ("in_flight", "u4"), ("prior_in_flight", "u4"), ("delivered", "u4"),
            ("prior_delivered", "u4"), ("mss", "u4"), ("state", "u1"), ("app_limited", "u1"),
            ("window_limited", "u1"), ("reserved", "u1", 5),
        ]
    )  # fmt: skip


def sending_type() -> np.dtype[Any]:
    """What a control sets (narrows_sending), as a NumPy type."""
    import numpy as np

    return np.dtype([("cwnd", "f8"), ("ssthresh", "f8"), ("pacing_rate", "f8")])


def signature(state: Any) -> Any:
    """The signature, for numba, of functions whose state is an array of a NumPy type.

    In the function, ``state[0]`` and ``numba.carray(ack, 1)[0].acked`` are values, and
    ``numba.carray(sending, 1)[0].cwnd`` is one that can be set; times are picoseconds.
    """
    from numba import from_dtype, types  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return types.void(
        types.CPointer(from_dtype(state)),
        types.CPointer(from_dtype(ack_type())),
        types.CPointer(from_dtype(sending_type())),
    )

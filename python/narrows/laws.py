"""Laws that every queue and congestion control obeys, to be called in tests of your own.

>>> from narrows import laws
>>> from narrows.queues import DROP, PASS, Queue
>>> class Short(Queue):
...     def admit(self, backlog, bytes, now, packet):
...         return DROP if backlog >= 20 else PASS
>>> laws.check(Short)
>>> from narrows.controls import Control
>>> class Gentle(Control):
...     def on_loss(self, now):
...         self.ssthresh = 0.8 * self.cwnd
>>> laws.check(Gentle)
"""

from __future__ import annotations

from narrows import _core
from narrows.controls import Control
from narrows.errors import NarrowsError
from narrows.queues import Queue, QueueError

__all__ = ["LawBroken", "check"]


class LawBroken(NarrowsError):  # noqa: N818 - named after what happened
    """A queue or congestion control has broken a law; the text says which."""


def check(part: Queue | Control | type[Queue | Control], *, shapes: bool = False) -> None:
    """Checks a queue or a congestion control under random calls, with eight seeds.

    A queue gets 160,000 packets and calls:

    - Each packet comes out once or is dropped once; packets and bytes balance.
    - The packets of a flow leave in their order. Only ECN-capable packets are marked.
    - A packet comes out whenever one waits. If the queue `shapes`, it comes out at the time that
      ``ready_at`` names, and not before.

    A congestion control gets 160,000 calls of connections over paths from a microsecond to ten
    seconds, and from a segment in ten seconds to 100 Gbit/s:

    - Window, threshold and pace stay within their bounds, and are numbers.
    - A loss and an ECN echo do not make the window grow, unless the control owns it.
    - The same calls and seed give the same window, also if several connections take turns.

    Args:
        part: A queue or congestion control, or a class that needs no arguments.
        shapes: Whether a queue holds packets back.

    Raises:
        LawBroken: It broke a law, or a rule of `Queue` or `Control`.
        Exception: What it raises itself.
    """
    made = part() if isinstance(part, type) else part
    try:
        if isinstance(made, Control):
            broken = _core.check_control_laws(made.again)
        elif isinstance(made, Queue):
            broken = _core.check_queue_laws(made.again, shapes)
        else:
            hint = "subclass narrows.queues.Queue or narrows.controls.Control"
            raise QueueError("laws.check", "needs a queue or a congestion control", hint)
    except (_core.QueueFault, _core.ControlFault) as fault:
        raise LawBroken(str(fault)) from None
    if broken is not None:
        raise LawBroken(f"{type(made).__name__}: {broken}")

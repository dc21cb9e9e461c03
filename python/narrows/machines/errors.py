"""Errors between machines."""

from narrows.errors import NarrowsError


class MachineError(NarrowsError):
    """A machine, a peer or a record does not fit; the message is one line with the remedy."""

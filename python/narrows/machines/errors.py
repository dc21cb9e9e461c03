"""What can go wrong between machines."""

from narrows.errors import NarrowsError


class MachineError(NarrowsError):
    """A machine, a peer or a record that does not fit; its text is one line with the remedy."""

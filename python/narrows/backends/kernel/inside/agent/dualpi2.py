"""dualpi2 over netlink, because the `tc` of Debian 12 (iproute2 6.1) does not know it.

Source: tc-dualpi2(8), whose words a job has; the attributes of linux/pkt_sched.h (TCA_DUALPI2_*) in
Linux 6.17.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

KIND = "dualpi2"

Attribute = tuple[int, bytes]

_NUMBERS = {
    "limit": (1, "I", 1),
    "memlimit": (2, "I", 1),
    "target": (3, "I", 1),
    "tupdate": (4, "I", 1),
    "alpha": (5, "I", 256),
    "beta": (6, "I", 256),
    "min_qlen_step": (9, "I", 1),
    "coupling_factor": (10, "B", 1),
    "classic_protection": (13, "B", 1),
}
"""The attribute of a word with a number, its format, and what the number is multiplied by. Times
are in microseconds."""

_STEP = {"p": 7, "us": 8}
"""The attribute of `step_thresh`, by the unit."""

_SWITCHES = {
    "overflow": (11, 0),
    "drop_on_overload": (11, 1),
    "drop_dequeue": (12, 0),
    "drop_enqueue": (12, 1),
    "l4s_ect": (14, 1),
    "any_ect": (14, 3),
    "no_split_gso": (15, 0),
    "split_gso": (15, 1),
}
"""The attribute of a word that stands alone, and its value."""


def attributes(words: Sequence[str]) -> Iterator[Attribute]:
    """The attributes for tc's words after `dualpi2`.

    Raises:
        ValueError: A word is not known.
    """
    rest = iter(words)
    for word in rest:
        if word in _SWITCHES:
            number, value = _SWITCHES[word]
            yield number, struct.pack("B", value)
        elif word == "step_thresh":
            text = next(rest)
            amount = text.rstrip("ups")
            yield _STEP[text[len(amount) :]], struct.pack("I", int(amount))
        elif word in _NUMBERS:
            number, form, units = _NUMBERS[word]
            yield number, struct.pack(form, round(float(next(rest).rstrip("us%")) * units))
        else:
            raise ValueError(f"{KIND} has no {word}")

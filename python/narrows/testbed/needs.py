"""What the laboratory requires of a machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from narrows.errors import NarrowsError

PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""Where to look for programs: servers are in folders that a user's PATH does not contain."""


class BedError(NarrowsError):
    """This machine cannot do something; the message is one line."""


def missing(programs: Sequence[str] = ()) -> str | None:
    """Why the laboratory is not available, with the remedy, in one line; None if it is.

    Args:
        programs: Programs that must be installed besides iproute2.
    """
    if sys.platform != "linux":
        return "needs network namespaces, which only Linux has"
    if os.geteuid() != 0:
        return "needs root for network namespaces; hint: run it as root"
    if not Path("/dev/net/tun").exists():
        return "needs /dev/net/tun; hint: modprobe tun"
    for program in ("ip", "nsenter", *programs):
        if not shutil.which(program, path=PATH):
            return f"{program} is not installed; hint: sh tools/install_test_tools.sh"
    return None

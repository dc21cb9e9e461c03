"""What the laboratory requires of a machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from narrows.errors import NarrowsError

__all__ = ["PATH", "LabError", "missing"]

PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""Where programs are looked for: servers stand where an ordinary user's PATH does not look."""


class LabError(NarrowsError):
    """What this machine cannot do; its text is one line."""


def missing(programs: Sequence[str] = ()) -> str | None:
    """Why the laboratory cannot be had, with the mend, in one line; None where it can.

    Args:
        programs: What must be installed besides iproute2.
    """
    if sys.platform != "linux":
        return "needs network namespaces, which Linux alone has"
    if os.geteuid() != 0:
        return "needs root for network namespaces; hint: run it as root"
    if not Path("/dev/net/tun").exists():
        return "needs /dev/net/tun; hint: modprobe tun"
    for program in ("ip", "nsenter", *programs):
        if not shutil.which(program, path=PATH):
            return f"{program} is not installed; hint: sh tools/install_test_tools.sh"
    return None

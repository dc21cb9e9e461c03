"""`narrows kernel prepare`: builds the guest kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from narrows.cli.failure import say
from narrows.cli.options import Quiet, option
from narrows.progress import shown

EXAMPLES = """\
# Builds a guest kernel into the user's cache, once.
narrows kernel prepare

# Builds one with the TCP and the RED of 2010, for --backend kernel-2010.
narrows kernel prepare --kernel 2010

# Builds one of Linux 7, which has DualPI2, for --backend kernel-7.
narrows kernel prepare --kernel 7

# Builds one from your own source.
narrows kernel prepare --source linux-6.1.tar.xz
"""


def command(
    source: Annotated[
        Path | None,
        option(
            "FILE",
            "A kernel's source, as a tarball or a folder, instead of the distribution's.",
            exists=True,
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        option("NAME", "Build another kernel: 2010 (the TCP of that year), or 7 (Linux 7)."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Build the guest kernel that runs in virtual time, into the user's cache.

    If the kernel is there already, nothing is built.
    """
    from narrows.backends.kernel import kernels
    from narrows.backends.kernel import prepare as build
    from narrows.backends.kernel.available import guest_version

    chosen = kernels.PLAIN if kernel is None else kernels.find(kernel)
    if not quiet and guest_version(chosen) is None:
        build.check_tools()
        say(f"building a guest kernel: about {build.estimate_s() / 60.0:.0f} minutes")
    with shown("prepare", quiet=quiet) as update:
        print(build.prepare(lambda what, done: update(done, what), source, chosen))

"""A folder for each run, and the certainty that nothing of a run stays.

Whatever a run makes carries its name: the folder, the guest's process group, namespaces. A keeper,
a small shell process, ends and removes all of it as soon as this process is gone, however it goes:
it reads from a pipe that nobody writes to. Should the keeper be ended too, the next run finds
folders whose owner is gone and does the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from narrows.backends.backend import BackendError

__all__ = ["PREFIX", "Workspace", "remove_leftovers", "workspace"]

PREFIX = "nrwk"
"""What names of namespaces on the host begin with."""

_NETNS = Path("/run/netns")

_KEEPER = """\
cat >/dev/null
group=$(cat "$1/group" 2>/dev/null) && kill -s KILL -- "-$group" 2>/dev/null
for name in /run/netns/"$2"*; do
    [ ! -e "$name" ] || { umount -l "$name"; rm -f "$name"; } 2>/dev/null
done
rm -rf "$1"
"""


class Workspace:
    """A run's folder, with what the run made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"{PREFIX}{folder.name}-"
        """Names of the run's namespaces begin with it."""

    def owns_group(self, number: int) -> None:
        """Notes the process group that has to end with the run."""
        (self.folder / "group").write_text(str(number))


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    """A folder of a run's own; at the end, all that the run made is gone.

    Raises:
        BackendError: There is no place for it.
    """
    remove_leftovers()
    try:
        base = _base()
        folder = Path(tempfile.mkdtemp(dir=base, prefix=""))
        (folder / "owner").write_text(f"{os.getpid()} {_started(os.getpid())}")
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise BackendError(
            f"{error.filename}: {what}; hint: let TMPDIR name a place with room"
        ) from None
    made = Workspace(folder)
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "narrows-keeper", str(folder), made.prefix],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield made
    finally:
        assert keeper.stdin is not None, "it was asked for"
        keeper.stdin.close()
        while True:
            # A second Ctrl-C does not keep the keeper from its work.
            with contextlib.suppress(KeyboardInterrupt):
                keeper.wait()
                break


def remove_leftovers() -> None:
    """Removes what runs have left whose process is gone, and whose keeper was ended as well."""
    with contextlib.suppress(OSError):
        for folder in _base().iterdir():
            if _is_left(folder):
                _remove(Workspace(folder))


def _base() -> Path:
    base = Path(tempfile.gettempdir()) / f"narrows-kernel-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.stat().st_uid != os.getuid():
        raise PermissionError(13, "belongs to somebody else", str(base))
    return base


def _is_left(folder: Path) -> bool:
    try:
        number, started = (folder / "owner").read_text().split()
    except (OSError, ValueError):
        # One that is just being made, or that is older than any that is.
        with contextlib.suppress(OSError):
            return time.time() - folder.stat().st_mtime > 60.0
        return False
    return _started(int(number)) != started


def _remove(left: Workspace) -> None:
    with contextlib.suppress(OSError, ValueError):
        group = int((left.folder / "group").read_text())
        # The number may be another's by now: only what names the folder is ended.
        if str(left.folder).encode() in Path(f"/proc/{group}/cmdline").read_bytes():
            os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(OSError):
        for place in _NETNS.glob(f"{left.prefix}*"):
            subprocess.run(["umount", "-l", str(place)], capture_output=True)
            with contextlib.suppress(OSError):
                place.unlink()
    shutil.rmtree(left.folder, ignore_errors=True)


def _started(process: int) -> str:
    """When a process was started: tells it from a later one of its number."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]

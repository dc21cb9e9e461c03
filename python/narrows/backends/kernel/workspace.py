"""A folder for each run, and the guarantee that a run leaves nothing behind.

Everything that a run makes carries its name: the folder, the guest's process group, the namespaces.
A keeper, which is a small shell process, ends and removes all of it as soon as this process has
ended, however that happens: the keeper reads from a pipe that nobody writes to. If the keeper is
killed too, the next run finds folders without an owner, and does the same. It finds them by notes
in a private folder. A note says which folder it is about (device and inode), so nothing is removed
that has come in a folder's place.

There is no race. A new command first notes its process group and then looks for the file `owner`.
The cleaner first removes `owner` and then looks for the group. So the cleaner either ends the
command, or the command does not begin.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from narrows.backends.backend import BackendError
from narrows.private import private_folder
from narrows.unfinished import write_whole

PREFIX = "nrwk"
"""The prefix of the names of namespaces on the host."""

_NETNS = Path("/run/netns")

_VARIABLE = "NARROWS_WORKSPACE"
"""Distinguishes a run's processes from later ones with the same process number."""

_STARTER = """\
echo $$ >"$1/group.part" && mv "$1/group.part" "$1/group" && [ -e "$1/owner" ] && shift && exec "$@"
"""

# Killed processes may still be making files and namespaces for a moment.
_KEEPER = """\
cat >/dev/null
rm -f "$1/owner"
if group=$(cat "$1/group" 2>/dev/null); then
    turn=0
    while kill -s KILL -- "-$group" 2>/dev/null && [ $turn -lt 100 ]; do
        turn=$((turn + 1))
        sleep 0.05
    done
fi
for name in /run/netns/"$2"*; do
    [ ! -e "$name" ] || { umount -l "$name"; rm -f "$name"; } 2>/dev/null
done
also=$(tail -n +2 "$1/also" 2>/dev/null)
turn=0
until rm -rf "$1" ${also:+"$also"} 2>/dev/null || [ $turn -ge 100 ]; do
    turn=$((turn + 1))
    sleep 0.05
done
rm -f "$3"
"""

_FOLDER = "narrows-kernel-"
_RUNS = "runs"
_NEW_S = 60.0
_PATIENCE_S = 5.0
_LOOK_S = 0.02


Popen = subprocess.Popen[bytes]


class Workspace:
    """A run's folder, and everything else that the run makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name.removeprefix(_FOLDER)
        """A random word, which all that the run makes has in its name."""
        self.prefix = f"{PREFIX}{self.name}-"
        """The prefix of the names of the run's namespaces."""

    def owns_folder(self, other: Path) -> None:
        """Notes another folder, which exists and is the run's, to remove together with this one."""
        (self.folder / "also").write_text(_note(other))

    def start(self, command: Sequence[str], *, output: IO[bytes], path: str) -> Popen:
        """Starts a command in its own process group, which ends with the run.

        Args:
            command: The program and its arguments.
            output: Where its output goes.
            path: Its variable PATH.
        """
        environment = {**os.environ, "PATH": path, _VARIABLE: str(self.folder)}
        if "TMPDIR" in environment:
            # A guest keeps its memory in a file in this folder.
            environment["TMPDIR"] = tempfile.gettempdir()
        return subprocess.Popen(
            ["/bin/sh", "-c", _STARTER, "narrows", str(self.folder), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            start_new_session=True,
            env=environment,
        )


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    """A separate folder for a run; at the end, removes everything that the run made.

    Raises:
        BackendError: The folder cannot be made.
    """
    remove_leftovers()
    try:
        notes = private_folder(_RUNS)
    except OSError as error:
        raise BackendError.of_private(error) from None
    made = Workspace(Path(tempfile.gettempdir()) / f"{_FOLDER}{secrets.token_hex(4)}")
    folder, note = made.folder, notes / made.name
    try:
        # A kill between these two lines leaves a note about an empty folder at most.
        write_whole(note, f"\n{folder}".encode())
        folder.mkdir(mode=0o700)
        write_whole(note, _note(folder).encode())
        (folder / "owner").write_text(f"{os.getpid()} {_started(os.getpid())}")
    except OSError as error:
        note.unlink(missing_ok=True)
        what = (error.strerror or str(error)).lower()
        raise BackendError(error.filename, what, "set TMPDIR to a place with more room") from None
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "narrows-keeper", str(folder), made.prefix, str(note)],
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
            # A second Ctrl-C does not stop the keeper's work.
            with contextlib.suppress(KeyboardInterrupt):
                keeper.wait()
                break


def remove_leftovers() -> None:
    """Cleans up after runs whose process and keeper are both gone."""
    with contextlib.suppress(OSError):
        for note in private_folder(_RUNS).iterdir():
            folder = _noted(note)
            if folder is not None and _is_left(folder):
                _remove(Workspace(folder))
            if not (folder.exists() if folder is not None else _is_being_made(note)):
                note.unlink(missing_ok=True)


def _is_being_made(note: Path) -> bool:
    """Whether a note is so new that its folder may still be made.

    Otherwise, its run was killed early, and the folder, which is empty, is removed.
    """
    same, _, path = note.read_text().partition("\n")
    if same:
        return False
    if _is_new(note):
        return True
    with contextlib.suppress(OSError):
        Path(path).rmdir()
    return False


def _is_new(path: Path) -> bool:
    return time.time() - path.stat().st_mtime <= _NEW_S


def _note(folder: Path) -> str:
    found = folder.lstat()
    return f"{found.st_dev} {found.st_ino}\n{folder}"


def _noted(note: Path) -> Path | None:
    """The folder that a note is about, if it is still there and the same."""
    try:
        same, _, path = note.read_text().partition("\n")
        return Path(path) if _note(Path(path)).startswith(f"{same}\n") else None
    except OSError:
        return None


def _is_left(folder: Path) -> bool:
    try:
        number, started = (folder / "owner").read_text().split()
    except (OSError, ValueError):
        # A keeper may have removed the owner, and be at work.
        with contextlib.suppress(OSError):
            return not _is_new(folder)
        return False
    return _started(int(number)) != started


def _remove(left: Workspace) -> None:
    (left.folder / "owner").unlink(missing_ok=True)
    with contextlib.suppress(OSError, ValueError):
        _end(int((left.folder / "group").read_text()), left.folder)
    with contextlib.suppress(OSError):
        for place in _NETNS.glob(f"{left.prefix}*"):
            subprocess.run(["umount", "-l", str(place)], capture_output=True)
            with contextlib.suppress(OSError):
                place.unlink()
    also = _noted(left.folder / "also")
    if also is not None:
        shutil.rmtree(also, ignore_errors=True)
    shutil.rmtree(left.folder, ignore_errors=True)


def _end(group: int, folder: Path) -> None:
    """Ends a run's process group, and waits until it is gone."""
    deadline = time.monotonic() + _PATIENCE_S
    # The number may belong to another group by now.
    while _is_of(group, folder) and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _is_of(group: int, folder: Path) -> bool:
    """Whether a live process of this group was started for the folder."""
    word = f"{_VARIABLE}={folder}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, of = (place / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                # The guest kernel has the folder among its arguments.
                words = (place / "environ").read_bytes() + b"\0" + (place / "cmdline").read_bytes()
                if word in words.split(b"\0") or f"uml_dir={folder}".encode() in words:
                    return True
    return False


def _started(process: int) -> str:
    """When a process started, which distinguishes it from later ones with the same number."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]

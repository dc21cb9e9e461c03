"""Builds the guest kernel from the distribution's source, for `ARCH=um`, into the user's cache.

Only the installation of the compiler's packages needs root. The source comes from apt: the package
`linux-source-6.1` (or another version), which is unpacked beside the cache and removed after the
build.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from narrows.backends.backend import BackendError
from narrows.backends.kernel import trial
from narrows.backends.kernel.available import CONFIG, guest_folder, guest_version
from narrows.backends.kernel.kernels import PeriodKernel, apply, meter
from narrows.backends.kernel.workspace import Workspace, workspace
from narrows.errors import argument
from narrows.private import open_lock

Step = Callable[[str, float], object]
"""Called with the current step, and the completed share of the build, from 0 to 1."""

ROOM_BYTES = 3 << 30
"""Bytes that source and object files take during the build."""

CPU_S = 300.0
"""The approximate processor time of the build, in seconds."""

FETCH_S = 40.0

OBJECTS = 870
"""The approximate number of lines that make prints, for the progress."""

_TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "ld": "binutils",
    "xz": "xz-utils",
    "tar": "tar",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
}

_SOURCE = re.compile(r"^linux-source-(6\.\d+)$")
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def check_tools() -> None:
    """Checks that the programs that a build needs are installed.

    Raises:
        BackendError: One is missing.
    """
    missing = [
        package
        for tool, package in _TOOLS.items()
        if shutil.which(tool, path=_ENVIRONMENT["PATH"]) is None
    ]
    if missing:
        raise BackendError("", f"{missing[0]} is missing", f"apt-get install {' '.join(missing)}")


def estimate_s() -> float:
    """The approximate duration of a build on this machine, in seconds."""
    return FETCH_S + CPU_S / (os.cpu_count() or 1)


def prepare(progress: Step, source: Path | None = None, kernel: PeriodKernel | None = None) -> Path:
    """Builds the guest kernel if it does not exist yet, and returns its path.

    Args:
        progress: Called with the progress.
        source: A tarball or folder with a kernel's source, instead of the distribution's.
        kernel: A period kernel, whose edits change the source; None leaves the source unchanged.

    Raises:
        BackendError: Something is missing, there is no room, or the build fails.
        KeyboardInterrupt: Ctrl-C was pressed; the unfinished build is removed.
    """
    folder = guest_folder(kernel)
    program = folder / "linux"
    if guest_version(kernel) is not None:
        return program
    check_tools()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            _alone(folder.parent / "lock"),
            workspace() as place,
            _work_folder(folder, place) as work,
        ):
            if guest_version(kernel) is not None:
                return program
            free = shutil.disk_usage(work).free
            if free < ROOM_BYTES:
                raise BackendError(
                    work.parent,
                    f"{free >> 20} MB are free, but the build needs {ROOM_BYTES >> 20} MB",
                    "set XDG_CACHE_HOME to a place with more room",
                )
            version = _build(work, progress, source, kernel, place)
            progress("trying it", 0.99)
            why = trial.why_not(work / "linux", virtual=True)
            if why:
                raise BackendError(
                    "",
                    f"the guest kernel is built, but {why}",
                    f"give {argument('source')} another Linux 6.1",
                )
            folder.mkdir(exist_ok=True)
            shutil.move(work / "linux", program)
            (folder / "about.json").write_text(json.dumps({"version": version}))
            progress("removing the source", 1.0)
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise BackendError(
            error.filename, what, "set XDG_CACHE_HOME to a place that can be written"
        ) from None
    return program


def _build(
    work: Path, progress: Step, source: Path | None, kernel: PeriodKernel | None, place: Workspace
) -> str:
    if source is None:
        progress("fetching the kernel's source", 0.0)
        source = _fetch(work)
    if source.is_dir():
        tree = work / "tree"
        progress("copying the source", 0.05)
        shutil.copytree(source, tree, symlinks=True)
    else:
        progress("unpacking the source", 0.05)
        tree = work / "tree"
        tree.mkdir()
        _run(["tar", "xf", str(source), "-C", str(tree), "--strip-components=1"], work)
    progress("changing the source", 0.14)
    apply([*meter(), *(kernel.edits if kernel is not None else [])], tree)
    progress("configuring", 0.15)
    make = ["make", "ARCH=um", "-C", str(tree)]
    _run([*make, "allnoconfig"], work, KCONFIG_ALLCONFIG=str(CONFIG))
    _check_config((tree / ".config").read_text())
    version = _run([*make, "-s", "kernelversion"], work).strip().splitlines()[-1]
    _compile([*make, f"-j{os.cpu_count() or 1}", "linux"], work, progress, place)
    _run(["strip", "-o", str(work / "linux"), str(tree / "linux")], work)
    return version


def _fetch(work: Path) -> Path:
    """The tarball of the distribution's kernel source.

    Raises:
        BackendError: There is no such package, or it cannot be downloaded.
    """
    # Debian's package has the tarball in /usr/src, Ubuntu's in a folder below it.
    for pattern in ("linux-source-6.*.tar.*", "linux-source-6.*/linux-source-6.*.tar.*"):
        for place in sorted(Path("/usr/src").glob(pattern)):
            return place
    package = _package(work)
    _run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=", package], work)
    (archive,) = work.glob("linux-source-*.deb")
    _run(["dpkg-deb", "-x", str(archive), str(work / "package")], work)
    archive.unlink()
    (tarball,) = (work / "package").glob("usr/src/linux-source-*.tar.*")
    return tarball


def _package(work: Path) -> str:
    names = _run(["apt-cache", "pkgnames", "linux-source-6"], work).split()
    known = [name for name in names if _SOURCE.match(name)]
    if not known:
        raise BackendError(
            "",
            "apt does not know a linux-source-6 package",
            f"apt-get update, or give {argument('source')}",
        )
    if "linux-source-6.1" in known:
        return "linux-source-6.1"
    return min(known, key=lambda name: int(name.rpartition(".")[2]))


def _check_config(text: str) -> None:
    """Checks that the kernel's configuration has every requested option."""
    wanted = re.findall(r"^CONFIG_\w+=y$", CONFIG.read_text(), re.MULTILINE)
    lines = set(text.splitlines())
    lacking = [line for line in wanted if line not in lines]
    if lacking:
        raise BackendError(
            "",
            f"this kernel's source does not accept {lacking[0]}",
            f"give {argument('source')} a tarball of Linux 6.1",
        )


def _compile(command: Sequence[str], work: Path, progress: Step, place: Workspace) -> None:
    log = work / "build.log"
    with log.open("wb") as file:
        process = place.start(command, output=file, path=_ENVIRONMENT["PATH"])
        try:
            while process.poll() is None:
                time.sleep(0.5)
                done = log.read_text(errors="replace").count("\n")
                progress("compiling", min(0.99, 0.2 + 0.8 * done / OBJECTS))
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if process.returncode:
        raise BackendError("", f"the build failed ({_last(log.read_text(errors='replace'))})")


def _run(words: Sequence[str], work: Path, **environment: str) -> str:
    done = subprocess.run(
        words,
        cwd=work,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **_ENVIRONMENT, **environment},
    )
    if done.returncode:
        said = _last(done.stderr or done.stdout)
        raise BackendError(words[0], said, f"apt-get update, or see {words[0]}(1)")
    return done.stdout


def _last(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return (errors or lines or ["it printed nothing"])[-1][:300]


@contextmanager
def _work_folder(folder: Path, place: Workspace) -> Iterator[Path]:
    """A folder beside the cache, removed at the end; also removes folders of earlier builds."""
    for left in folder.parent.glob(f"{folder.name}.building*"):
        shutil.rmtree(left, ignore_errors=True)
    work = folder.with_name(f"{folder.name}.building-{place.name}")
    work.mkdir()
    place.owns_folder(work)
    yield work


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lets only one build run at a time; others wait for it."""
    file = open_lock(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)

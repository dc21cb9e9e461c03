"""Builds the guest kernel from the distribution's source, for `ARCH=um`, into the user's cache.

Only the installation of the compiler's packages needs root. The source comes from apt: the package
`linux-source-6.1` (or another version), which is unpacked beside the cache and removed after the
build. Linux 7 comes from Debian's backports, whose list of packages apt keeps beside the build, so
that the system's lists stay as they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from narrows.backends.backend import BackendError
from narrows.backends.kernel import trial
from narrows.backends.kernel.available import CONFIG, guest_folder, guest_version
from narrows.backends.kernel.kernels import PLAIN, Guest, Version, apply, meter
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

_SOURCE = re.compile(r"^linux-source-(\d+)\.(\d+)$")

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
BACKPORTS = f"deb [signed-by={KEYRING}] http://deb.debian.org/debian trixie-backports main"
"""Where Debian 13 has newer kernels; Debian 12's keyring has the keys."""
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


def prepare(progress: Step, source: Path | None = None, kernel: Guest = PLAIN) -> Path:
    """Builds the guest kernel if it does not exist yet, and returns its path.

    Args:
        progress: Called with the progress.
        source: A tarball or folder with a kernel's source, instead of the distribution's.
        kernel: The kernel to build.

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
            about = _build(work, progress, source, kernel, place)
            progress("trying it", 0.99)
            why = trial.why_not(work / "linux", virtual=True)
            if why:
                raise BackendError(
                    "",
                    f"the guest kernel is built, but {why}",
                    f"give {argument('source')} another Linux {kernel.source}",
                )
            folder.mkdir(exist_ok=True)
            shutil.move(work / "linux", program)
            (folder / "about.json").write_text(json.dumps(about))
            progress("removing the source", 1.0)
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise BackendError(
            error.filename, what, "set XDG_CACHE_HOME to a place that can be written"
        ) from None
    return program


def _build(
    work: Path, progress: Step, source: Path | None, kernel: Guest, place: Workspace
) -> dict[str, str]:
    """Builds `linux` in the folder `work`, and returns what the guest was made of."""
    if source is None:
        progress("fetching the kernel's source", 0.0)
        source = _fetch(work, kernel)
    about = {"source": source.name}
    tree = work / "tree"
    if source.is_dir():
        progress("copying the source", 0.05)
        shutil.copytree(source, tree, symlinks=True)
    else:
        progress("unpacking the source", 0.05)
        with source.open("rb") as file:
            about["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        tree.mkdir()
        _run(["tar", "xf", str(source), "-C", str(tree), "--strip-components=1"], work)
    progress("changing the source", 0.14)
    version = Version.of(tree)
    if not kernel.takes(version):
        raise BackendError(
            source.name,
            f"is Linux {version}, but this guest is made of Linux {kernel.source}",
            f"give {argument('source')} a tarball of Linux {kernel.source}",
        )
    apply([*meter(), *kernel.edits], tree, version, kernel.source)
    progress("configuring", 0.15)
    make = ["make", "ARCH=um", "-C", str(tree)]
    lines = [line for line in CONFIG.read_text().splitlines() if line not in kernel.unknown] + list(
        kernel.config
    )
    wanted = work / "guest.config"
    wanted.write_text("\n".join([*lines, ""]))
    _run([*make, "allnoconfig"], work, KCONFIG_ALLCONFIG=str(wanted))
    _check_config((tree / ".config").read_text(), lines, kernel.source)
    about["version"] = _run([*make, "-s", "kernelversion"], work).strip().splitlines()[-1]
    _compile([*make, f"-j{os.cpu_count() or 1}", "linux"], work, progress, place)
    _run(["strip", "-o", str(work / "linux"), str(tree / "linux")], work)
    return about


def _fetch(work: Path, kernel: Guest) -> Path:
    """The tarball of the distribution's kernel source.

    Raises:
        BackendError: There is no such package, or it cannot be downloaded.
    """
    # Debian's package has the tarball in /usr/src, Ubuntu's in a folder below it.
    for pattern in ("linux-source-*.tar.*", "linux-source-*/linux-source-*.tar.*"):
        found = {path.name.partition(".tar")[0]: path for path in Path("/usr/src").glob(pattern)}
        name = chosen(found, kernel)
        if name is not None:
            return found[name]
    options: list[str] = []
    name = chosen(_names(options, work), kernel)
    if name is None and kernel.source == "7" and Path(KEYRING).exists():
        options = _backports(work)
        name = chosen(_names(options, work), kernel)
    if name is None:
        raise BackendError(
            "",
            f"apt does not know a linux-source-{kernel.source} package",
            f"apt-get update, or give {argument('source')} a tarball of Linux {kernel.source}",
        )
    _run(["apt-get", *options, "download", "-q", "-o", "APT::Sandbox::User=", name], work)
    (archive,) = work.glob("linux-source-*.deb")
    _run(["dpkg-deb", "-x", str(archive), str(work / "package")], work)
    archive.unlink()
    (tarball,) = (work / "package").glob("usr/src/**/linux-source-*.tar.*")
    return tarball


def _names(options: Sequence[str], work: Path) -> list[str]:
    return _run(["apt-cache", *options, "pkgnames", "linux-source-"], work).split()


def chosen(names: Iterable[str], kernel: Guest) -> str | None:
    """The package to build the kernel from; None if no name fits.

    Of Linux 6 it is the oldest, because the edits are for 6.1. Of later kernels it is the newest.
    """
    known = {
        Version(int(found[1]), int(found[2])): name
        for name in names
        if (found := _SOURCE.match(name))
    }
    fitting = sorted(version for version in known if kernel.takes(version))
    if not fitting:
        return None
    return known[fitting[0] if fitting[0].major == 6 else fitting[-1]]


def _backports(work: Path) -> list[str]:
    """Options of apt by which it sees Debian's backports alone, with lists of its own."""
    place = work / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (place / folder).mkdir(parents=True)
    (place / "sources.list").write_text(f"{BACKPORTS}\n")
    options = {
        "Dir::Etc::sourcelist": place / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": place / "lists",
        "Dir::Cache": place / "cache",
        "APT::Sandbox::User": "",
    }
    found = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    _run(["apt-get", *found, "update", "-q"], work)
    return found


def _check_config(text: str, wanted: Sequence[str], source: str) -> None:
    """Checks that the kernel's configuration has every requested option."""
    lines = set(text.splitlines())
    lacking = [line for line in wanted if line.endswith("=y") and line not in lines]
    if lacking:
        raise BackendError(
            "",
            f"this kernel's source does not accept {lacking[0]}",
            f"give {argument('source')} a tarball of Linux {source}",
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

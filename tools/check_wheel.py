"""Builds a wheel, installs it into an empty environment, and runs an example from there.

The wheel has the extension and narrows-live as `make setup` builds them, which are there already.
Nothing here depends on how far they are optimised. `make release` tries the optimised wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
COPY_EXAMPLES = """
from narrows.scenario import copy_example, examples
for each in examples():
    copy_example(each.name, "examples")
"""

LIVE = """
import subprocess
from narrows.backends.kernel.live import program
done = subprocess.run([program()], capture_output=True, text=True)
assert done.returncode == 2 and "usage" in done.stderr, done
"""
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
PAGE = ROOT / "python/narrows/lab/site/engine.wasm"


def main() -> int:
    """Returns 0 if the wheel works by itself."""
    (ROOT / ".venv" / "tmp").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".venv" / "tmp") as name:
        folder = Path(name)
        call("sh", "tools/build_live.sh", "quick", cwd=ROOT)
        call(
            ROOT / ".venv" / "bin" / "maturin",
            *("build", "--profile", "quick", "--locked", "--quiet", "--out", folder / "dist"),
            cwd=ROOT,
        )
        (wheel,) = (folder / "dist").glob("*.whl")
        bin_ = install(wheel, folder / "venv")
        check(bin_, wheel, folder, page=PAGE.exists())
    return 0


def install(package: Path, folder: Path) -> Path:
    """Installs a wheel or a source distribution into a new environment; its commands' folder."""
    venv.create(folder, with_pip=True, symlinks=True)
    bin_ = folder / "bin"
    call(bin_ / "pip", "install", "--quiet", "--disable-pip-version-check", package, cwd=folder)
    return bin_


def check(bin_: Path, wheel: Path, folder: Path, *, page: bool) -> None:
    """Uses an installed wheel from a folder, where nothing of the checkout can be imported.

    Raises:
        SystemExit: It lacks something, or does not work.
    """
    inside = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    if missing := {"LICENSE-APACHE", "LICENSE-MIT", "LICENSE-THIRD-PARTY", "NOTICE"} - inside:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    runs(bin_, folder)
    # Every example is in the wheel, with the files that it names.
    call(bin_ / "python", "-c", COPY_EXAMPLES, cwd=folder)
    copied = {path.name for path in (folder / "examples").iterdir()}
    if missing := {path.name for path in (ROOT / "scenarios").iterdir()} - copied:
        sys.exit(f"{wheel.name} lacks examples: {', '.join(sorted(missing))}")
    # The program for kernels is there and runs.
    call(bin_ / "python", "-c", LIVE, cwd=folder)
    if page:
        serves_the_page(bin_, folder)


def runs(bin_: Path, folder: Path, *options: str) -> Path:
    """Runs an example with an installed narrows; the run's folder.

    Raises:
        SystemExit: It does not run.
    """
    call(bin_ / "narrows", "--version", cwd=folder)
    call(bin_ / "narrows", "examples", "copy", "dns-behind-fifo", "--into", folder, cwd=folder)
    example = folder / "dns-behind-fifo.toml"
    arguments = ("run", example, "--set", 'duration="20 s"', "--out", folder / "run", *options)
    call(bin_ / "narrows", *arguments, cwd=folder)
    if not (folder / "run" / "run.json").is_file():
        sys.exit("narrows left no run folder")
    return folder / "run"


def serves_the_page(bin_: Path, folder: Path) -> None:
    """Asks `narrows lab` for the page and its engine.

    Raises:
        SystemExit: It does not answer.
    """
    command = (bin_ / "narrows", "lab", "--no-open")
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, **quiet) as lab:
        assert lab.stdout is not None
        try:
            address = lab.stdout.readline().decode().strip()
            for name, begins in (("", b"<!doctype html>"), ("engine.wasm", b"\0asm")):
                with urlopen(urljoin(address, name), timeout=20) as answer:
                    body = answer.read()
                if not body.lower().startswith(begins):
                    sys.exit(f"narrows lab: {name or 'the page'} begins with {body[:20]!r}")
        finally:
            lab.terminate()


def call(*command: str | Path, cwd: Path, more: Mapping[str, str] | None = None) -> None:
    """Runs a command. If it fails, prints its output and fails too."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**ENVIRONMENT, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())

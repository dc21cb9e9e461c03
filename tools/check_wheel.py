"""Builds a wheel, installs it into an empty environment, and runs an example from there.

The wheel has the extension and narrows-live as `make setup` builds them, which are there already.
Nothing here depends on how far they are optimised. The workflow wheels.yml tries optimised wheels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

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
needs = subprocess.run(["ldd", program()], capture_output=True, text=True)
said = needs.stdout + needs.stderr
assert "statically linked" in said or "not a dynamic executable" in said, said
"""

LAB = (
    "from narrows.lab.server import site; assert {'engine.wasm', 'examples.json'} <= site().keys()"
)
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
        inside = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
        if missing := {"LICENSE-APACHE", "LICENSE-MIT", "LICENSE-THIRD-PARTY", "NOTICE"} - inside:
            print(f"the wheel lacks {', '.join(sorted(missing))}", file=sys.stderr)
            return 1
        venv.create(folder / "venv", with_pip=True, symlinks=True)
        bin_ = folder / "venv" / "bin"
        call(bin_ / "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
        # From another folder, so that nothing of the checkout can be imported by chance.
        call(bin_ / "narrows", "--version", cwd=folder)
        # Every example is in the wheel, with the files that it names.
        call(bin_ / "python", "-c", COPY_EXAMPLES, cwd=folder)
        copied = {path.name for path in (folder / "examples").iterdir()}
        if missing := {path.name for path in (ROOT / "scenarios").iterdir()} - copied:
            print(f"the wheel lacks examples: {', '.join(sorted(missing))}", file=sys.stderr)
            return 1
        call(
            bin_ / "narrows",
            *("run", "examples/lossy-link.toml", "--set", "dns.queries=5", "--out", folder / "run"),
            cwd=folder,
        )
        if not (folder / "run" / "run.json").is_file():
            print("the wheel's narrows left no run folder", file=sys.stderr)
            return 1
        # The program for kernels is there, runs, and needs no shared library.
        call(bin_ / "python", "-c", LIVE, cwd=folder)
        # So is the laboratory page, if it was built.
        if PAGE.exists():
            call(bin_ / "python", "-c", LAB, cwd=folder)
    return 0


def call(*command: str | Path, cwd: Path) -> None:
    """Runs a command. If it fails, prints its output and fails too."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())

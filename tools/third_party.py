"""Writes LICENSE-THIRD-PARTY: whose code a wheel contains besides ours, with the licences' texts.

    .venv/bin/python tools/third_party.py

It asks cargo for the crates of the extension, of narrows-live and of the laboratory page, and takes
the texts from the packages that cargo has unpacked. Run it after `make lock` and after a new
dependency.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]
WRITTEN = CHECKOUT / "LICENSE-THIRD-PARTY"
IN_THE_WHEEL = ("narrows-python", "narrows-live", "narrows-web")
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin")

_HEAD = """\
Code of others in a wheel of narrows
====================================

tools/third_party.py writes this file. A wheel contains the crates below, compiled into the
extension narrows._core, into the program narrows-live, and into the laboratory page. Where the
authors of a crate offer a choice that includes the Apache License 2.0, narrows takes that licence,
whose text is in LICENSE-APACHE. NOTICE names what else a wheel contains.

Under the Apache License 2.0
----------------------------

"""
_TEXTS = """\

Under other licences
--------------------

"""


class Crate(NamedTuple):
    """A crate of others that is compiled into a wheel."""

    name: str
    version: str
    licence: str
    """Its SPDX expression, as the crate declares it."""

    @property
    def takes_apache(self) -> bool:
        """Whether its authors offer it under Apache-2.0 alone."""
        parts = re.split(r" OR |/", self.licence)
        return "Apache-2.0" in parts and "(" not in self.licence

    @property
    def line(self) -> str:
        """The crate in the file. Without its version, so that updates leave the file alone."""
        return f"{self.name} ({self.licence})"


def crates() -> list[Crate]:
    """The crates of others that a wheel for Linux or macOS contains, in order of their names.

    Raises:
        subprocess.CalledProcessError: cargo says no.
    """
    found = set()
    for target in TARGETS:
        command = ["cargo", "tree", "--locked", "--quiet", "--prefix", "none", "--target", target]
        command += ["--edges", "normal,no-proc-macro", "--format", "{p}|{l}"]
        for package in IN_THE_WHEEL:
            command += ["--package", package]
        told = subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True)
        for line in told.stdout.splitlines():
            package, _, licence = line.removesuffix(" (*)").partition("|")
            # Our own have a path behind the version.
            if package and "(" not in package:
                name, version = package.split()
                found.add(Crate(name, version.removeprefix("v"), licence))
    return sorted(found)


def texts(crate: Crate) -> list[str]:
    """The licences' texts in a crate's package.

    Raises:
        SystemExit: The package is not there, or has no text.
    """
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    folders = sorted((home / "registry/src").glob(f"*/{crate.name}-{crate.version}"))
    files = [
        path
        for folder in folders[:1]
        for path in sorted(folder.iterdir())
        if re.match(r"(?i)(licen[cs]e|copying|copyright|notice|unlicense)", path.name)
        and path.is_file()
    ]
    if not files:
        raise SystemExit(f"{crate.name}: no licence in its package; hint: cargo fetch --locked")
    if crate.licence == "Unlicense OR MIT":
        files = [path for path in files if path.name == "LICENSE-MIT"]
    return [path.read_text(encoding="utf-8").strip() for path in files]


def whole() -> str:
    """The text of the file."""
    ours = crates()
    names = dict.fromkeys(crate.line for crate in ours if crate.takes_apache)
    parts = [_HEAD, *(f"{line}\n" for line in names), _TEXTS]
    shown: dict[str, list[str]] = {}
    for crate in ours:
        if not crate.takes_apache:
            shown.setdefault("\n\n".join(texts(crate)), []).append(crate.line)
    for text, lines in shown.items():
        parts += ["\n".join(dict.fromkeys(lines)), "\n\n", text, "\n\n" + "-" * 40 + "\n\n"]
    clean = "".join(parts).replace("\r\n", "\n").replace("\f", "")
    return re.sub(r"[ \t]+$", "", clean, flags=re.M).rstrip("-\n ") + "\n"


if __name__ == "__main__":
    WRITTEN.write_text(whole(), encoding="utf-8")

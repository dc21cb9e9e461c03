"""Writes LICENSE-THIRD-PARTY, here and in gateway/: the code of others that we distribute.

    .venv/bin/python tools/third_party.py

It asks cargo for the crates in a wheel and in the gateway, and takes the licences' texts from the
packages that cargo has unpacked. Run it after `make lock` and after a new dependency.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]


class Product(NamedTuple):
    """What we distribute with crates of others in it."""

    written: Path
    """The file that names them."""
    packages: Sequence[str]
    features: str
    targets: Sequence[str]
    title: str
    contains: str


WHEEL = Product(
    CHECKOUT / "LICENSE-THIRD-PARTY",
    ("narrows-python", "narrows-live", "narrows-web"),
    "",
    ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin"),
    "Code of others in a wheel of narrows",
    """\
A wheel contains the crates below, compiled into the extension narrows._core, into the program
narrows-live, and into the laboratory page. NOTICE names what else a wheel contains.
""",
)
GATEWAY = Product(
    CHECKOUT / "gateway/LICENSE-THIRD-PARTY",
    ("narrows-gateway",),
    "narrows-gateway/ebpf",
    ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"),
    "Code of others in narrows-gateway",
    """\
The program contains the crates below, and libbpf, which the crate libbpf-sys compiles. Of libbpf's
licences, narrows takes BSD-2-Clause. Libraries such as libelf come from the machine.
""",
)
PRODUCTS = (WHEEL, GATEWAY)

CHOSEN = {
    "Unlicense OR MIT": "LICENSE-MIT",
    "LGPL-2.1-only OR BSD-2-Clause": "LICENSE.BSD-2-Clause",
}
"""The file of the licence that we take where the authors offer a choice without Apache-2.0."""

_HEAD = """\
{title}
{line}

{contains}
Where the authors of a crate offer a choice that includes the Apache License 2.0, narrows takes that
licence, whose text is in LICENSE-APACHE. tools/third_party.py writes this file.

Under the Apache License 2.0
----------------------------

"""
_TEXTS = """\

Under other licences
--------------------

"""


class Crate(NamedTuple):
    """A crate of others that is compiled into a product."""

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


def crates(product: Product) -> list[Crate]:
    """The crates of others that a product contains, in order of their names.

    Raises:
        subprocess.CalledProcessError: cargo says no.
    """
    found = set()
    for target in product.targets:
        command = ["cargo", "tree", "--locked", "--quiet", "--prefix", "none", "--target", target]
        command += ["--edges", "normal,no-proc-macro", "--format", "{p}|{l}"]
        for package in product.packages:
            command += ["--package", package]
        command += ["--features", product.features]
        done = subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True)
        for line in done.stdout.splitlines():
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
    if chosen := CHOSEN.get(crate.licence):
        files = [path for path in files if path.name == chosen]
    # The library itself, which the crate compiles.
    files += [path for folder in folders[:1] for path in folder.glob("libbpf/LICENSE.BSD-2-Clause")]
    return [path.read_text(encoding="utf-8").strip() for path in files]


def whole(product: Product) -> str:
    """The text of a product's file."""
    ours = crates(product)
    names = dict.fromkeys(crate.line for crate in ours if crate.takes_apache)
    title, contains = product.title, product.contains
    head = _HEAD.format(title=title, line="=" * len(title), contains=contains)
    parts = [head, *(f"{line}\n" for line in names), _TEXTS]
    shown: dict[str, list[str]] = {}
    for crate in ours:
        if not crate.takes_apache:
            shown.setdefault("\n\n".join(texts(crate)), []).append(crate.line)
    for text, lines in shown.items():
        parts += ["\n".join(dict.fromkeys(lines)), "\n\n", text, "\n\n" + "-" * 40 + "\n\n"]
    clean = "".join(parts).replace("\r\n", "\n").replace("\f", "")
    return re.sub(r"[ \t]+$", "", clean, flags=re.M).rstrip("-\n ") + "\n"


if __name__ == "__main__":
    for product in PRODUCTS:
        product.written.write_text(whole(product), encoding="utf-8")

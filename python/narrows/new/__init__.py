"""Crates to start from: a queue, a congestion control or an application of one's own, in Rust.

The parts beside this file (`queue.rs`, `control.rs`, `application.rs`) are also modules of the
crate narrows-example, which tests them in networks. Each has a `main` that puts it into a scenario.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from narrows.errors import HintedError

HERE = Path(__file__).parent


class Part(NamedTuple):
    """What a kind of crate needs."""

    crates: Sequence[str]
    """The crates of narrows that it uses."""
    others: Sequence[str]
    """Other crates that it uses; their versions are those of narrows."""
    arguments: str
    """Arguments of its program that suit most examples."""


PARTS = {
    "queue": Part(("engine", "qdisc", "units"), ("rand_core", "rand_pcg"), ""),
    "control": Part(("engine", "sim", "units"), (), ""),
    "application": Part(("engine", "sim", "units"), (), " downloads home"),
}
"""The kinds of crates."""

_OTHERS = {
    name: f'{name} = {{ version = "0.10", default-features = false }}'
    for name in PARTS["queue"].others
}
_FOLDERS = ("build", "deps", "examples", "incremental")
"""Cargo refuses programs with these names."""
_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


def checkout() -> Path | None:
    """The checkout that this package is part of; None if it was installed without one."""
    root = HERE.parents[2]
    return root if (root / "crates" / "engine" / "Cargo.toml").is_file() else None


def make(kind: str, name: str, folder: Path, *, crates: Path | None, version: str) -> list[Path]:
    """Writes a crate and returns its files.

    Args:
        kind: One of `PARTS`.
        name: The crate's name, and that of its part in run folders.
        folder: Where it goes: a new or an empty folder.
        crates: The checkout of narrows whose crates it uses; None for those of a registry.
        version: The version of narrows' crates in a registry.

    Raises:
        HintedError: The name is impossible, the folder is in use, or there is no checkout.
        OSError: The folder cannot be written.
    """
    part = PARTS[kind]
    if not _NAME.fullmatch(name) or len(name) > 64:
        raise HintedError(name, "is no name of a crate", "write it like my-queue")
    if name.startswith("narrows-") or name.replace("-", "_") in part.others:
        raise HintedError(name, "is a crate that this one needs", "choose another name")
    if name in _FOLDERS:
        raise HintedError(name, "is a folder of Cargo's in target", "choose another name")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise HintedError(folder, "already exists", "move it, or choose another --out")
    if folder.is_dir() and any(folder.iterdir()):
        raise HintedError(folder, "is not empty", "move it, or choose another --out")
    if crates is not None and not (crates / "crates" / "engine" / "Cargo.toml").is_file():
        raise HintedError(crates, "is no checkout of narrows", "give its folder to --checkout")
    needs = [_dependency(crate, crates, version) for crate in part.crates]
    needs += [_OTHERS[crate] for crate in part.others]
    try:
        manifest = _MANIFEST.format(name=name, needs="\n".join(needs)).encode()
    except UnicodeEncodeError:
        what = "has a path that is not UTF-8, as Cargo.toml must be"
        raise HintedError(str(crates), what, "rename its folder") from None
    files = {
        "Cargo.toml": manifest,
        ".gitignore": b"/target/\n",
        "src/main.rs": (HERE / f"{kind}.main.rs").read_bytes().replace(b"NAME", name.encode()),
        f"src/{kind}.rs": (HERE / f"{kind}.rs").read_bytes(),
    }
    if crates is not None:
        # The versions with which narrows itself is tested.
        files["Cargo.lock"] = (crates / "Cargo.lock").read_bytes()
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return [folder / path for path in files]


def _dependency(crate: str, crates: Path | None, version: str) -> str:
    if crates is None:
        return f'narrows-{crate} = "{version}"'
    path = json.dumps(str(crates.resolve() / "crates" / crate), ensure_ascii=False)
    return f"narrows-{crate} = {{ path = {path} }}"


_MANIFEST = """\
[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
publish = false

[dependencies]
{needs}

# It is no part of a workspace around it.
[workspace]
"""

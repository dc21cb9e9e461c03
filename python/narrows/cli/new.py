"""`narrows new`: a crate to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from narrows.cli.failure import UserError, say
from narrows.cli.options import argument, option

EXAMPLES = """\
# Writes ./my-aqm, tests it, and runs it in an example.
narrows new queue my-aqm
cargo test --manifest-path my-aqm/Cargo.toml
cargo build --release --manifest-path my-aqm/Cargo.toml
narrows run scenarios/dns-behind-fifo.toml \\
    --backend program:my-aqm/target/release/my-aqm
"""


def command(
    kind: Annotated[
        Literal["queue", "control", "application"],
        argument("KIND", "queue, control (a congestion control), or application."),
    ],
    name: Annotated[str, argument("NAME", "The crate's name, such as my-aqm.")],
    out: Annotated[Path | None, option("DIR", "The crate's folder. [default: ./NAME]")] = None,
    checkout: Annotated[
        Path | None,
        option("DIR", "The checkout of narrows. [default: the one that this command is from]"),
    ] = None,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="Use released crates of narrows instead of a checkout."),
    ] = False,
) -> None:
    """Write a crate with a queue, a congestion control or an application of your own, in Rust.

    It compiles, has tests, and is a program for `--backend`. The names of its files go to stdout.
    """
    from narrows import __version__, new

    if registry and checkout is not None:
        raise UserError("--registry: excludes --checkout; hint: leave one out")
    crates = None if registry else checkout or new.checkout()
    if crates is None and not registry:
        raise UserError(
            "new: this narrows is not from a checkout; hint: --checkout DIR, or --registry for "
            "released crates"
        )
    folder = out or Path(name)
    try:
        written = new.make(kind, name, folder, crates=crates, version=__version__)
    except OSError as error:
        raise UserError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
    for path in written:
        print(path)
    manifest = shlex.quote(str(folder / "Cargo.toml"))
    program = shlex.quote(str(folder / "target" / "release" / name)) + new.PARTS[kind].arguments
    say(f"test it with: cargo test --manifest-path {manifest}")
    say(f"build it with: cargo build --release --manifest-path {manifest}")
    say(f'run it with: narrows run SCENARIO --backend "program:{program}"')

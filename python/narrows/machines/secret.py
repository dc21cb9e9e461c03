"""The secret that all machines of a run share.

The machine that keeps the time makes it, or all machines get the same one beforehand. It never
stands on a command line, because `ps` shows command lines to every user.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from narrows.errors import argument
from narrows.machines.errors import MachineError

VARIABLE = "NARROWS_SECRET"
"""The environment variable that may contain the secret."""

SHORTEST = 16
"""Characters; whoever sees one message can try shorter secrets until one fits."""

_BYTES = 16
_LONGEST = 1024


def make() -> str:
    """A new secret of 128 random bits."""
    return secrets.token_hex(_BYTES)


def given(file: Path | None) -> str | None:
    """The secret in a file, or in the environment; None if there is none.

    Raises:
        MachineError: The file cannot be read, other users can read it, or its secret is too short.
    """
    if file is not None:
        return checked(_read(file), str(file))
    text = os.environ.get(VARIABLE)
    return None if text is None else checked(text, VARIABLE)


def checked(text: str, where: str) -> str:
    """A secret without the white space around it.

    Raises:
        MachineError: It is too short, too long, or not printable ASCII.
    """
    text = text.strip()
    if not SHORTEST <= len(text) <= _LONGEST or not (text.isascii() and text.isprintable()):
        raise MachineError(
            f"{where}: not a secret of {SHORTEST} to {_LONGEST} printable ASCII characters; "
            "hint: such as the output of openssl rand -hex 16"
        )
    return text


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise MachineError(
                    f"{argument('secret_file')} {file}: other users may read or change it; "
                    f"hint: chmod 600 {file}"
                )
            return opened.read(_LONGEST + 2).decode("ascii", "replace")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise MachineError(f"{argument('secret_file')} {file}: {why}") from None

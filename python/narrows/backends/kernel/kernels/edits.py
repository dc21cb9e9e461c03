"""Edits to a kernel's source: new definitions and functions, and code at the end of a file.

Edits find their place by name, so they fit many versions and quote nothing else from the kernel. A
source that they do not fit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from narrows.backends.backend import BackendError
from narrows.errors import argument


class Version(NamedTuple):
    """The version of a kernel's source."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def of(cls, tree: Path) -> Version:
        """The version that a source states at the head of its Makefile.

        Raises:
            BackendError: The folder has no such Makefile.
        """
        try:
            text = (tree / "Makefile").read_text()
        except (OSError, UnicodeDecodeError):
            text = ""
        found = re.search(r"(?m)^VERSION = (\d{1,4})\nPATCHLEVEL = (\d{1,4})$", text)
        if found is None:
            raise BackendError(
                "",
                "the source has no Makefile of Linux",
                f"give {argument('source')} a tarball or a folder of Linux",
            )
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change to a file: `define` and `value`, `function` and its new text, or `append`."""

    file: str
    define: str | None = None
    value: str | None = None
    function: str | None = None
    body: str | None = None
    """What replaces everything between the function's braces."""
    find: str | None = None
    by: str | None = None
    """What replaces `find` in the function."""
    append: str | None = None
    """Code that follows the file's last line."""
    below: int | None = None
    """Only sources below this major version need the edit; None if all do."""

    def applied(self, text: str) -> str | None:
        """The file's text with this change; None if the edit does not fit."""
        if self.define is not None:
            name = re.escape(self.define)
            pattern = rf"(?m)^(#define[ \t]+{name}[ \t]+)[^\n\\]+?(?=\s*(?:/\*|$))"
            changed, count = re.subn(pattern, rf"\g<1>{self.value}", text)
            return changed if count == 1 else None
        if self.append is not None:
            return text + self.append
        if self.function is None:
            return None
        # In the kernel's style, a function's braces stand alone on their lines.
        words = rf"^[a-z][^;{{}}\n]*\b{re.escape(self.function)}\([^;{{}}]*\)"
        found = re.findall(rf"(?ms)({words}\n{{\n)(.*?)(^}}$)", text)
        if len(found) != 1:
            return None
        head, old, foot = found[0]
        if self.body is not None:
            new = self.body.lstrip("\n")
        elif self.find is not None and self.by is not None and old.count(self.find) == 1:
            new = old.replace(self.find, self.by)
        else:
            return None
        return text.replace(f"{head}{old}{foot}", f"{head}{new}{foot}")


def apply(edits: Sequence[Edit], tree: Path, version: Version, wanted: str) -> None:
    """Changes a kernel's source.

    Args:
        edits: The edits, in the order in which they apply.
        tree: The folder of the source.
        version: The version of the source.
        wanted: The version that is known to fit, for the message.

    Raises:
        BackendError: An edit does not fit the source.
    """
    for edit in edits:
        if edit.below is not None and version.major >= edit.below:
            continue
        path = tree / edit.file
        what = edit.define or edit.function or "the end"
        try:
            changed = edit.applied(path.read_text())
        except (OSError, UnicodeDecodeError):
            changed = None
        if changed is None:
            raise BackendError(
                "",
                f"the edit of {what} in {edit.file} does not fit Linux {version}",
                f"give {argument('source')} a tarball of Linux {wanted}",
            )
        path.write_text(changed)

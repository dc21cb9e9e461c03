"""Edits to a kernel's source: new definitions and functions, and code at the end of a file.

Edits find their place by name, so they fit every 6.1.x and quote nothing else from the kernel. A
source that they do not fit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from narrows.backends.backend import BackendError
from narrows.errors import argument


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


def apply(edits: Sequence[Edit], tree: Path) -> None:
    """Changes a kernel's source.

    Raises:
        BackendError: An edit does not fit the source.
    """
    for edit in edits:
        path = tree / edit.file
        what = edit.define or edit.function or "the end"
        try:
            changed = edit.applied(path.read_text())
        except (OSError, UnicodeDecodeError):
            changed = None
        if changed is None:
            raise BackendError(
                "",
                f"the edit of {what} in {edit.file} does not fit this kernel's source",
                f"give {argument('source')} a tarball of Linux 6.1",
            )
        path.write_text(changed)

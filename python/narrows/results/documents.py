"""The JSON document of a folder: run.json of a run, sweep.json of a sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows.foreign_text import parsed, regular_bytes
from narrows.results.errors import RunFolderError

LARGEST_JSON = 64 * 2**20
"""The largest document that is read, in bytes."""


@dataclass(frozen=True)
class Kind:
    """What a document describes, and what messages say of it."""

    name: str
    """`run` or `sweep`."""
    file: str
    format: int
    hint: str
    """What to name instead of a folder without one."""
    again: str
    """What to do if it is damaged."""
    anew: str
    """What to do if it has another format, besides using another narrows."""
    mistaken: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Files of other folders that people name instead: what to say, and the hint."""

    def read(self, folder: Path) -> dict[str, Any]:
        """Reads the document of a folder, and checks its format.

        Raises:
            RunFolderError: There is none, or it is damaged or of another format.
        """
        path = folder / self.file
        try:
            if not folder.is_dir():
                what = "is not a folder" if folder.exists() else "does not exist"
                raise RunFolderError(folder, what, self.hint)
            if not path.is_file():
                others = (say for file, say in self.mistaken.items() if (folder / file).is_file())
                missing = (f"holds no {self.name} ({self.file} is missing)", self.hint)
                raise RunFolderError(folder, *next(others, missing))
            if path.stat().st_size > LARGEST_JSON:
                what = f"is larger than {LARGEST_JSON} bytes, too large for a {self.file}"
                raise RunFolderError(path, what)
            document = parsed(regular_bytes(path))
        except OSError as error:
            raise RunFolderError.of_system(path, error) from None
        except ValueError as error:
            raise RunFolderError(path, f"is damaged ({error})", self.again) from None
        if not isinstance(document, dict) or "format" not in document:
            what = f"is not that of a {self.name} (it has no format)"
            raise RunFolderError(path, what, f"name a {self.name} folder")
        found = document["format"]
        if found != self.format or isinstance(found, bool):
            what = f"has format {json.dumps(found)}, but this narrows reads {self.format}"
            raise RunFolderError(path, what, f"use the narrows that wrote it, or {self.anew}")
        return document

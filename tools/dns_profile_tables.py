"""Writes the tables in docs/dns-clients.md and docs/dns-servers.md from the profiles.

With --check: writes nothing, and exits with 1 if a document is out of date.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from pydantic import BaseModel

from narrows import dns_profiles
from narrows.dns_profiles.models import DESCRIPTION, Profile

ROOT = Path(__file__).parent.parent
WIDTH = 100
"""Columns at which prose wraps."""


def shown(value: object, absent: str = "-") -> str:
    """A value as the text of a table's cell."""
    if value is None:
        return absent
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        if value and isinstance(value[0], tuple):
            return "; ".join(f"{share:g}: {span:g} s" for share, span in value)
        cells = [shown(item) for item in value]
        if len(cells) > 2 and len(set(cells[1:])) == 1:
            return f"{cells[0]}, then {len(cells) - 1} times {cells[1]}"
        return ", ".join(cells) or absent
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def table(profiles: list[Profile], first: str) -> list[str]:
    """A table with a column for each profile and a row for each value."""
    names = [profile.name for profile in profiles]
    lines = [f"| {first} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += ["| version | " + " | ".join(profile.version for profile in profiles) + " |"]
    for key in type(profiles[0]).model_fields:
        values = [getattr(profile, key) for profile in profiles]
        table = next((value for value in values if isinstance(value, BaseModel)), None)
        if table is not None:
            for below in type(table).model_fields:
                cells = [shown(getattr(value, below, None)) for value in values]
                lines.append(f"| `{key}.{below}` | " + " | ".join(cells) + " |")
        elif key not in DESCRIPTION:
            lines.append(f"| `{key}` | " + " | ".join(map(shown, values)) + " |")
    return lines


def sources(profiles: list[Profile]) -> list[str]:
    """Lines with the notes, and the values by their source."""
    lines = []
    for profile in profiles:
        lines += ["", f"### {profile.name}", ""]
        lines += textwrap.wrap(f"{profile.program}; version {profile.version}.", WIDTH)
        lines += [""] if profile.notes else []
        for note in profile.notes:
            lines += textwrap.wrap(f"- {note}", WIDTH, subsequent_indent="  ")
        shown_by: dict[str, list[str]] = {}
        for key in type(profile).model_fields:
            if key in profile.sources:
                value = getattr(profile, key)
                value = "as above" if isinstance(value, BaseModel) else shown(value)
                shown_by.setdefault(profile.sources[key], []).append(f"`{key}`: {value}")
        lines += ["", "| shown by | values |", "|---|---|"]
        lines += [f"| {source} | {'; '.join(values)} |" for source, values in shown_by.items()]
    return lines


def filled(text: str, name: str, lines: list[str]) -> str:
    """The document with these lines between its two marks."""
    begin, end = f"<!-- {name}: made by make docs -->\n", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return before + begin + "\n".join(["", *lines, ""]) + "\n" + end + after


def documents() -> dict[Path, str]:
    """The documents as they should be."""
    clients: list[Profile] = [dns_profiles.client(name) for name in dns_profiles.clients()]
    servers: list[Profile] = [dns_profiles.server(name) for name in dns_profiles.servers()]
    made = {}
    for file, word, profiles in (
        ("dns-clients.md", "client", clients),
        ("dns-servers.md", "server", servers),
    ):
        path = ROOT / "docs" / file
        if profiles and path.exists():
            text = filled(path.read_text(), "table", table(profiles, word))
            made[path] = filled(text, "sources", sources(profiles))
    return made


def main() -> int:
    """Returns 1 if --check finds a difference."""
    stale = [path for path, text in documents().items() if path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in documents().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

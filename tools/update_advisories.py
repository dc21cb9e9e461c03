"""Writes tests/dependencies/advisories.toml from a checkout of RustSec's advisory database.

    git clone https://github.com/RustSec/advisory-db ~/advisory-db
    .venv/bin/python tools/update_advisories.py ~/advisory-db

It keeps the advisories of packages in the lock files. Withdrawn ones do not count.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
LOCKS = ("Cargo.lock", "fuzz/Cargo.lock", "benchmarks/memory/Cargo.lock")
WRITTEN = CHECKOUT / "tests/dependencies/advisories.toml"

_HEAD = """\
# Known vulnerabilities of packages in the lock files, and the versions without them: facts from
# RustSec's database (its numbers are the ids), as of {date}. tools/update_advisories.py writes
# this file from a checkout of that database.
"""


def advisories(database: Path, packages: Iterable[str]) -> Mapping[str, Mapping[str, list[str]]]:
    """The advisories of packages: by package and id, the versions that they do not affect."""
    found: dict[str, dict[str, list[str]]] = {}
    for package in sorted(set(packages)):
        for file in sorted((database / "crates" / package).glob("RUSTSEC-*.md")):
            _, _, rest = file.read_text(encoding="utf-8").partition("```toml\n")
            read = tomllib.loads(rest.partition("\n```")[0])
            if "withdrawn" not in read["advisory"] and "0000" not in file.stem:
                versions = read["versions"]
                good = [*versions.get("patched", ()), *versions.get("unaffected", ())]
                found.setdefault(package, {})[file.stem] = good
    return found


def written(found: Mapping[str, Mapping[str, list[str]]]) -> str:
    """The text of the file."""
    lines = [_HEAD.format(date=datetime.now(UTC).date().isoformat())]
    for package, those in found.items():
        lines.append(f"[{package}]")
        for name, good in those.items():
            lines.append(f"{name} = {json.dumps(good)}")
        lines.append("")
    return "\n".join(lines)


def locked(lock: str) -> list[tuple[str, str]]:
    """The packages of a lock file, with their versions."""
    read = tomllib.loads((CHECKOUT / lock).read_text(encoding="utf-8"))
    return [(package["name"], package["version"]) for package in read["package"]]


def main() -> None:
    """Runs the command."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("database", type=Path, help="the checkout of the database")
    database = options.parse_args().database
    if not (database / "crates").is_dir():
        options.error(f"{database}: no folder crates; hint: a checkout of RustSec's advisory-db")
    found = advisories(database, [name for lock in LOCKS for name, _ in locked(lock)])
    WRITTEN.write_text(written(found), encoding="utf-8")
    print(f"{WRITTEN}: {sum(map(len, found.values()))} advisories of {len(found)} packages")


if __name__ == "__main__":
    main()

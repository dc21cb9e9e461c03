"""Which trials of other people's DNS programs have passed: a digest of each file that they concern.

The trials have the marker `servers`. What they watch changes with Debian's packages, and not with
our commits, so `make test` leaves them out and compares the digests; `make test-servers` runs them
and calls this:

    .venv/bin/python -m tests.dns_behaviour.digest

The file has the form that `sha256sum --check` reads, and names the programs that were tried.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIGESTS = Path(__file__).with_name("trials.sha256")
CONCERNED = (
    "python/narrows/dns_profiles/**/*.toml",
    "tests/dns_behaviour/*.[cp]*",
    "tests/dns_behaviour/captures/*.json",
    "tests/dns_behaviour/certificates/*",
)
OTHERS = ("digest", "test_observe", "test_profiles", "test_simulated")
"""Modules beside the trials that no trial uses."""


def digests() -> dict[str, str]:
    """The digest of each file that the trials concern, by its path."""
    files = {path for pattern in CONCERNED for path in ROOT.glob(pattern) if path.is_file()}
    return {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path.stem not in OTHERS or path.parent != DIGESTS.parent
    }


def kept() -> dict[str, str]:
    """The digests of the last trials."""
    lines = DIGESTS.read_text().splitlines()
    rows = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
    return {path: digest for digest, path in rows}


def write() -> None:
    """Keeps the digests, after the trials have passed."""
    from .clients import CLIENTS
    from .real_servers import SERVERS

    programs = {program.name: program.version() for program in (*CLIENTS, *SERVERS)}
    lines = ["# Written by `make test-servers`. These programs were tried:"]
    lines += [f"# {name} {version}" for name, version in sorted(programs.items())]
    lines += [f"{digest}  {path}" for path, digest in digests().items()]
    DIGESTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write()

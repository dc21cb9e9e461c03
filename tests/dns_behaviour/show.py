"""Runs the trials and prints every packet of each.

python -m tests.dns_behaviour.show --client unbound --case truncate --watch 30
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from . import lab
from .cases import CASES
from .clients import CLIENTS
from .observe import line


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=[c.name for c in CLIENTS])
    parser.add_argument("--case", action="append", choices=[c.name for c in CASES])
    parser.add_argument("--watch", type=float)
    asked = parser.parse_args()
    clients = [c for c in CLIENTS if not asked.client or c.name in asked.client]
    cases = [c for c in CASES if not asked.case or c.name in asked.case]
    folder = Path(tempfile.mkdtemp(prefix="nrw-dns-"))
    for trial in lab.run(folder, clients, cases, asked.watch):
        print(f"\n== {trial.client} {trial.version}: {trial.case.name}")
        for ask in trial.asks:
            when = "never" if ask.answered is None else f"{ask.answered:.3f}"
            print(f"   asked {ask.name} at {ask.asked:.3f}, told at {when}: {ask.outcome}")
        for packet in trial.packets:
            print("  ", line(packet))


if __name__ == "__main__":
    main()

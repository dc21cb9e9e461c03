"""TCP settings of a scenario that no socket option can make: sysctls, and metrics of routes.

They are compared with those of the machine. `Setting.SET` sets the sysctls for the run and restores
them afterwards; routes always remain the machine's own.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from narrows.backends.kernel.ways import PATH
from narrows.errors import argument
from narrows.machines.errors import MachineError

__all__ = ["Setting", "held"]

_PLACE = Path("/proc/sys/net")
_ECN = "ipv4/tcp_ecn"


class Setting(StrEnum):
    """What is done about differences."""

    CHECK = "check"
    """They are an error."""
    SET = "set"
    """Sysctls are set for the run, and restored at its end."""
    AS_IS = "as-is"
    """They are noted in the record."""


@contextlib.contextmanager
def held(
    setting: Setting,
    sysctls: Mapping[str, str],
    metrics: Mapping[str, Mapping[str, int]],
) -> Iterator[Sequence[str]]:
    """Keeps the machine's TCP as the scenario asks while the block runs, as far as `setting` says.

    The block gets the settings that still differ, in words.

    Args:
        setting: What is done about differences.
        sysctls: The wanted sysctls, by their paths below /proc/sys/net.
        metrics: The wanted metrics of routes, by the address of the peer.

    Raises:
        MachineError: Something differs, or cannot be set.
    """
    wrong = {}
    for path, wanted in sysctls.items():
        place = _PLACE / path
        # A machine that asks every peer for ECN needs no metric for it.
        if place.exists() and path != _ECN and _words(place.read_text()) != wanted:
            wrong[path] = wanted
    if setting is Setting.CHECK and wrong:
        words = " ".join(f"{_name(path)}='{value}'" for path, value in wrong.items())
        raise MachineError(
            f"this machine's {_name(next(iter(wrong)))} differs from the scenario; "
            f"hint: sysctl -w {words}, or {argument('setting', 'set')} for this run, "
            f"or {argument('setting', 'as-is')} to only record it"
        )
    left = [f"{peer} {each}" for peer, asked in metrics.items() for each in _differs(peer, asked)]
    if left and setting is not Setting.AS_IS:
        raise MachineError(
            f"the route to {left[0]}, unlike the scenario; hint: ip route replace with these "
            f"metrics (ip-route(8)), or {argument('setting', 'as-is')} to only record it"
        )
    before: dict[str, str] = {}
    try:
        if setting is Setting.SET:
            for path, wanted in wrong.items():
                place = _PLACE / path
                before[path] = place.read_text()
                _write(place, wanted)
            yield []
        else:
            yield [
                *(f"{_name(path)} is not {value}" for path, value in wrong.items()),
                *(f"the route to {each}" for each in left),
            ]
    finally:
        for path, value in before.items():
            with contextlib.suppress(OSError):
                (_PLACE / path).write_text(value)


def _write(place: Path, value: str) -> None:
    try:
        place.write_text(value)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise MachineError(
            f"{place}: {why}; hint: {argument('setting', 'set')} needs root"
        ) from None


def _differs(peer: str, wanted: Mapping[str, int]) -> Sequence[str]:
    """The metrics of the route to a peer that are not as wanted, in words."""
    has: Mapping[str, object] = {}
    with contextlib.suppress(ValueError, LookupError, OSError):
        ip = shutil.which("ip", path=PATH) or "ip"
        found = subprocess.run(
            [ip, "-j", "route", "get", peer], capture_output=True, text=True, check=False
        )
        has = json.loads(found.stdout)[0].get("metrics", [{}])[0]
    ecn = "ecn" in has or _words((_PLACE / _ECN).read_text()) == "1"
    wrong = []
    if ecn != bool(wanted.get("features", 0)):
        wrong.append("has ECN" if ecn else "has no ECN")
    for key in ("initcwnd", "rto_min"):
        if key in wanted and has.get(key) != wanted[key]:
            wrong.append(f"has no {key} {wanted[key]}")
    return wrong


def _words(text: str) -> str:
    return " ".join(text.split())


def _name(path: str) -> str:
    return f"net.{path.replace('/', '.')}"

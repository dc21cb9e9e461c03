"""TCP settings of a scenario that need more than a socket option: sysctls and route metrics.

This module compares them with the machine's. `Setting.SET` sets the sysctls for the run and
restores them afterwards. It never changes the machine's routes.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from narrows.backends.kernel.available import PATH
from narrows.errors import argument
from narrows.machines.errors import MachineError

_PLACE = Path("/proc/sys/net")
_ECN = "ipv4/tcp_ecn"


class Setting(StrEnum):
    """What to do about differences."""

    CHECK = "check"
    """Raise an error."""
    SET = "set"
    """Set the sysctls for the run, and restore them at its end."""
    AS_IS = "as-is"
    """Note them in the record."""


@contextlib.contextmanager
def held(
    setting: Setting,
    sysctls: Mapping[str, str],
    metrics: Mapping[str, Mapping[str, int]],
) -> Iterator[Sequence[str]]:
    """Keeps the machine's TCP settings as `setting` demands while the block runs.

    The block gets the settings that still differ, in words.

    Args:
        setting: What to do about differences.
        sysctls: The required sysctls, by path below /proc/sys/net.
        metrics: The required route metrics, by peer address.

    Raises:
        MachineError: Something differs, or cannot be set.
    """
    wrong = {}
    for path, wanted in sysctls.items():
        place = _PLACE / path
        # A machine that requests ECN from every peer needs no metric for it.
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
    """The metrics of the route to a peer that differ from `wanted`, in words."""
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

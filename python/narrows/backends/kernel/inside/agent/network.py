"""Builds the network of a job, and removes it: namespaces, devices, addresses, routes, queues."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import NAMESPACES, dualpi2, system
from .counters import Counters
from .rtnetlink import Netlink

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}


class NetworkError(Exception):
    """The kernel refuses a part of the network; the message says which."""


def build(job: Mapping[str, Any]) -> dict[str, Any]:
    """Builds the network, and returns the settings that took effect.

    Raises:
        NetworkError: The kernel refuses.
    """
    settings: dict[str, dict[str, str | None]] = {}
    _check_features(job["features"])
    try:
        for name in job["namespaces"]:
            system.add_namespace(name)
        _add_pairs([*job["pairs"], *job["sinks"]])
        for name in job["namespaces"]:
            with system.inside(name):
                settings[name] = _write_settings(
                    job["settings"].get(name, {}), job["needed"].get(name, {})
                )
                devices = [
                    pair[f"{end}_device"]
                    for pair in job["pairs"]
                    for end in "ab"
                    if pair[f"{end}_namespace"] == name
                ]
                _set_up(devices, job["addresses"].get(name, ()), job["routes"].get(name, ()))
    except OSError as error:
        raise NetworkError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
    for name, commands in job["tc"].items():
        _make_queues(name, commands, job["keys"].get(name, {}))
    return {"settings": settings}


def change(namespace: str, commands: Sequence[str]) -> None:
    """Changes queue disciplines during the run.

    Raises:
        NetworkError: The kernel refuses.
    """
    _tc(namespace, ["-batch", "-"], "\n".join(commands) + "\n")


def remove(names: Sequence[str]) -> None:
    """Removes namespaces and everything in them."""
    for name in names:
        with contextlib.suppress(OSError):
            system.remove_namespace(name)


def read_back(job: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel's current queue disciplines, and its TCP counters."""
    counters = {name: Counters(name).changed() for name in job["namespaces"]}
    return {
        "qdiscs": {
            name: _tc(name, ["-s", "-d", "qdisc", "show"], "").splitlines() for name in job["tc"]
        },
        "filters": {
            f"{name} {device}": _tc(
                name, ["filter", "show", "dev", device, "parent", parent], ""
            ).splitlines()
            for name, device, parent in job["filters"]
        },
        "counters": {name: counted for name, counted in counters.items() if counted},
        "syns_dropped": {
            name: counted["TCPReqQFullDrop"]
            for name, counted in counters.items()
            if "TCPReqQFullDrop" in counted
        },
    }


def _add_pairs(pairs: Sequence[Mapping[str, Any]]) -> None:
    opened: dict[str, int] = {}
    netlink = Netlink()
    try:
        for pair in pairs:
            for end in "ab":
                name = pair[f"{end}_namespace"]
                if name not in opened:
                    opened[name] = os.open(Path(NAMESPACES, name), os.O_RDONLY)
            netlink.add_pair(
                pair["a_device"],
                opened[pair["a_namespace"]],
                pair["b_device"],
                opened[pair["b_namespace"]],
                pair["mtu"],
                1000,
            )
    finally:
        netlink.close()
        for number in opened.values():
            os.close(number)


def _check_features(features: Mapping[str, str]) -> None:
    """Refuses congestion controls and other features that the kernel does not have.

    Args:
        features: Features of TCP and queues, each with the key that needs it.
    """
    for name, key in features.items():
        if key.endswith("queue.bands") and not system.is_at_least(6, 7):
            raise NetworkError(f"{key}: this kernel has no {name}; hint: use the backend kernel-7")
        if name == "TCP of Linux 7" and not system.is_at_least(7, 0):
            raise NetworkError(f"{key}: this kernel has no {name}; hint: use the backend kernel-7")
        why = system.control_missing(name) if key.endswith(".congestion") else None
        if why is not None:
            hint = f"load tcp_{name}, or use the backend kernel-virtual or kernel-7"
            raise NetworkError(f"{key}: this kernel has no {name} ({why}); hint: {hint}")


def _write_settings(
    settings: Mapping[str, str], needed: Mapping[str, str]
) -> dict[str, str | None]:
    """Writes a host's settings, from inside its namespace; returns those that took effect.

    Args:
        settings: Values by path below /proc/sys/net.
        needed: The paths of those that the run cannot do without, each with the key that needs it.
    """
    written = {}
    for path, value in settings.items():
        try:
            written[path] = system.write_setting(path, value)
        except OSError as error:
            if path not in needed or error.errno != errno.EINVAL:
                raise
            what = f"{path.rpartition('/')[2]} = {value}"
            raise NetworkError(f"{needed[path]}: this kernel has no {what}") from None
    for path, key in needed.items():
        if written.get(path) is None:
            raise NetworkError(f"{key}: this kernel has no {path.rpartition('/')[2]}")
    return written


def _set_up(
    devices: Sequence[str],
    addresses: Sequence[Sequence[Any]],
    routes: Sequence[Mapping[str, Any]],
) -> None:
    netlink = Netlink()
    try:
        netlink.up("lo")
        for device in devices:
            left = system.offloads_off(device)
            if left:
                raise OSError(0, f"{', '.join(left)} cannot be turned off", device)
            netlink.one_segment(device)
            netlink.up(device)
        for device, address, prefix in addresses:
            netlink.add_address(device, address, prefix)
        for route in routes:
            netlink.add_route(
                route["to"], route["device"], route["via"], route["source"], route["metrics"]
            )
    finally:
        netlink.close()


def _make_queues(namespace: str, commands: Sequence[str], keys: Mapping[str, str]) -> None:
    """Makes queue disciplines and their filters; `keys` has the scenario's keys by command."""
    others = [command for command in commands if dualpi2.KIND not in command.split()]
    try:
        _tc(namespace, ["-batch", "-"], "\n".join(others) + "\n")
    except NetworkError as error:
        said, _, number = str(error).removeprefix("tc: ").partition(" Command failed -:")
        command = others[int(number) - 1] if number.isdecimal() else ""
        if command not in keys:
            raise
        if "qdisc kind is unknown" in said or "Unknown qdisc" in said:
            # qdisc add dev DEVICE parent PARENT handle HANDLE KIND ...
            raise NetworkError(
                f"{keys[command]}.kind: this kernel has no {command.split()[8]}"
            ) from None
        raise NetworkError(f"{keys[command]}: {said}") from None
    with system.inside(namespace), contextlib.closing(Netlink()) as netlink:
        # `tc` has made their parents.
        for command in commands:
            words = command.split()
            if dualpi2.KIND not in words:
                continue
            # qdisc add dev DEVICE parent PARENT handle HANDLE dualpi2 ...
            pairs = dict(zip(words[2:8:2], words[3:8:2], strict=True))
            options = dualpi2.attributes(words[9:])
            place = (_handle(pairs["parent"]), _handle(pairs["handle"]))
            try:
                netlink.add_qdisc(pairs["dev"], *place, dualpi2.KIND, options)
            except FileNotFoundError:
                why = f"this kernel has no {dualpi2.KIND}; Linux has it since 6.17"
                raise NetworkError(f"{keys[command]}.kind: {why}") from None
            except OSError as error:
                raise NetworkError(f"{error.filename}: {str(error.strerror).lower()}") from None


def _handle(text: str) -> int:
    """The number of a handle such as `10:` or `1:1`, whose parts are hexadecimal."""
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def _tc(namespace: str, words: Sequence[str], text: str) -> str:
    with system.inside(namespace):
        done = subprocess.run(
            ["tc", *words], input=text, capture_output=True, text=True, env=ENVIRONMENT
        )
    if done.returncode:
        said = " ".join(done.stderr.split()) or "tc failed"
        raise NetworkError(f"tc: {said}")
    return done.stdout

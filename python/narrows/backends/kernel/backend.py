"""Runs a scenario on a real Linux kernel."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.backends.backend import Backend, BackendError, Progress, Refusal
from narrows.backends.interrupts import Held, held
from narrows.backends.kernel import kernels, live
from narrows.backends.kernel.available import Kernel, choose, has_control
from narrows.backends.kernel.cables import unlike_cables
from narrows.backends.kernel.design import Design
from narrows.backends.kernel.fq_differences import fq_differences
from narrows.backends.kernel.guest import conduct
from narrows.backends.kernel.idles import idles_not_followed
from narrows.backends.kernel.quic_probes import quic_probes, without_probes
from narrows.backends.kernel.slots import slot
from narrows.backends.kernel.small_queues import small_queues
from narrows.backends.kernel.software import complete, logs, named
from narrows.backends.kernel.tables import captures, captures_missed, gap_flags, gaps, read_tables
from narrows.backends.kernel.tcp_settings import not_followed
from narrows.backends.kernel.workspace import Workspace, workspace
from narrows.backends.sim import host_facts
from narrows.results import Run

if TYPE_CHECKING:
    from narrows.scenario import Scenario


_LEAD_S = 30.82
"""Seconds that a guest waits before a run. In virtual time they take no time.

A kernel that has just booted is unlike one that has run for long. CoDel keeps its count if its last
drop was less than 16 intervals ago, and a new queue's last drop counts as at boot
(`codel_dequeue`). If slow start overflows it in the first second, it would mark every packet for a
long time. PIE's timer first fires half a second after its queue was set up. The wait is 0.1 s,
which it once was, and a multiple of 5.12 s, so that Linux's timer
wheel (HZ 100) stands where it stood then."""


def run_kernel(
    scenario: Scenario,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    event_limit: int | None = None,
    kernel: str | None = None,
) -> Run:
    """Runs a scenario on a kernel.

    An interrupt (Ctrl-C) ends the run early and returns the results so far as `partial`. Other
    exceptions from `progress` propagate. The run leaves nothing behind on the machine.

    Args:
        scenario: What to run.
        seed: Replaces the scenario's own. It determines start times, service times and pauses. The
            kernel's own random numbers have no seed.
        progress: Called about twenty times a second.
        event_limit: Refused if given, because a kernel counts no events.
        kernel: `host`, `virtual`, `real`, or the name of another guest; by default the first of
            the three that is available.

    Raises:
        BackendError: No kernel is available, or it refuses a part of the network.
    """
    if event_limit is not None:
        raise BackendError("event_limit", "a kernel counts no events", "leave it out")
    chosen = scenario.seed if seed is None else seed
    with held() as interrupts:
        return _run(scenario, chosen, progress, choose(kernel), interrupts)


def refusals(
    scenario: Scenario,
    profile: str = "linux-6",
    lacks: Sequence[str] = (),
    is_own: bool = False,
) -> Sequence[Refusal]:
    """Every key of a scenario that Linux cannot honour, or that is not supported yet.

    Args:
        scenario: What would be run.
        profile: The TCP profile of the kernel.
        lacks: Queue disciplines and features of TCP that the kernel does not have.
        is_own: Whether it is this machine's own kernel, which then says itself what it lacks.
    """
    design = _design(scenario, scenario.plan(), "", 0.0, profile)
    missing = [
        Refusal(key, f"this guest has no {kind}", "use the backend kernel-7")
        for kind, key in {**design.kinds, **design.features}.items()
        if kind in lacks
    ]
    hint = "load tcp_{}, or use the backend kernel-virtual"
    missing += [
        Refusal(key, f"this machine's kernel has no {name}", hint.format(name))
        for name, key in design.features.items()
        if is_own and key.endswith(".congestion") and not has_control(name)
    ]
    return [*design.refusals, *missing]


def differences(scenario: Scenario, kernel: str | None = None) -> Sequence[str]:
    """Sentences that say where a kernel differs from the simulator in a scenario.

    Args:
        scenario: What would be run.
        kernel: As for `run_kernel`.
    """
    plan = scenario.plan()
    cables = unlike_cables(scenario, kernel) if plan["tcp"] else []
    profile = kernels.find(kernel).profile if kernel in kernels.names() else "linux-6"
    return [
        *small_queues(plan),
        *idles_not_followed(scenario),
        *fq_differences(scenario, kernel),
        *quic_probes(plan),
        *cables,
        *not_followed(scenario, json.loads(_core.tcp_profile(profile))),
    ]


def job_of(scenario: Scenario) -> Mapping[str, Any]:
    """The job that a kernel gets for a scenario. Scenarios with equal jobs give the same run.

    Raises:
        BackendError: The kernel refuses the scenario.
    """
    design = _design(scenario, scenario.plan(), "", 0.0, "linux-6")
    try:
        job = design.job()
        # What narrows-live plays.
        played = without_probes({key: design.plan[key] for key in ("applications", "tcp")})
        return {**job, "places": design.places(), **played}
    except ValueError as error:
        raise BackendError(scenario.name, f"the kernel cannot honour {error}") from None


def _design(
    scenario: Scenario, plan: Mapping[str, Any], prefix: str, stall_s: float, profile: str
) -> Design:
    own = json.loads(_core.tcp_profile(profile))
    software = named(scenario)
    return Design(plan, own, prefix=prefix, stall_s=stall_s, software=software)


def _run(
    scenario: Scenario, seed: int, progress: Progress | None, kernel: Kernel, interrupts: Held
) -> Run:
    started = datetime.now(UTC)
    clock = time.perf_counter()
    plan = scenario.plan(seed)

    def waiting() -> None:
        if interrupts.take():
            raise KeyboardInterrupt
        if progress is not None:
            progress(0.0)

    # Runs in real time would disturb each other, so only one runs at a time.
    cores = sorted(os.sched_getaffinity(0), reverse=True) if kernel.virtual else [None]
    with slot(len(cores), waiting) as number, workspace() as place:
        design = _design(scenario, plan, place.prefix, kernel.stall_s, kernel.profile)
        job = {**design.job(), "lead_s": _LEAD_S if kernel.virtual else 3.0}
        complete(job["dns_servers"])
        job["live"] = live.give(design.plan, design.places(), (), place.folder, design.real())
        done = conduct(
            kernel, job, place, core=cores[number], progress=progress, interrupts=interrupts
        )
        try:
            tables = read_tables(place.folder, plan, job)
            missed = gaps(place.folder, job)
            servers = logs(place.folder, job["dns_servers"])
            captured = captures(place.folder, job)
            lost = captures_missed(place.folder, job)
        except (OSError, ValueError, KeyError) as error:
            raise BackendError("", f"the agent's results cannot be read ({error})") from None
        version = (
            os.uname().release
            if kernel.program is None
            else (place.folder / "booted").read_text().split()[2]
        )
    stopped, end_s = done["stopped"], float(done["end_s"])
    facts = host_facts()
    facts["kernel"] = {
        "way": kernel.name,
        "version": version,
        "virtual_time": kernel.virtual,
        "missed_samples": missed,
        "servers": servers,
        "flags": [
            *_flags(missed, lost, tables),
            *_no_cookies(job, done["applied"], place, plan),
            *differences(scenario, kernel.name),
        ],
        "applied": _by_node(done["applied"], place.prefix, plan["nodes"]),
    }
    return Run.from_columns(
        tables,
        scenario=scenario.resolved(),
        seed=seed,
        backend="kernel",
        status="partial" if stopped == "interrupted" else "complete",
        stopped=stopped,
        end_s=end_s,
        events=0,
        narrows=_core.version,
        build=_core.build,
        wall={
            "started": started.isoformat(timespec="seconds"),
            "simulation_s": time.perf_counter() - clock,
            "events_per_s": None,
        },
        host=facts,
        captures=captured,
    )


def _flags(
    missed: Mapping[str, int], lost: int, tables: Mapping[str, Mapping[str, Sequence[Any]]]
) -> list[str]:
    """Reasons to distrust the run as a measurement, as sentences."""
    flags = [f"captures lack {lost} packets"] if lost else []
    for name, count in missed.items():
        flags += gap_flags(f"of {name}", count, tables.get(name))
    return flags


def _no_cookies(
    job: Mapping[str, Any], applied: Mapping[str, Any], place: Workspace, plan: Mapping[str, Any]
) -> list[str]:
    """Sentences about dropped SYNs if the scenario has SYN cookies but the kernel has none."""
    path = "ipv4/tcp_syncookies"
    return [
        f"{_node(name, place.prefix, plan['nodes'])}: {count} SYNs were dropped that cookies would "
        "have answered; this kernel has no cookies"
        for name, count in applied["syns_dropped"].items()
        if applied["settings"][name].get(path, "") is None and job["settings"][name][path] != "0"
    ]


def _by_node(applied: Any, prefix: str, nodes: Sequence[str]) -> Any:
    """The same data, with the names of nodes in place of their namespaces."""
    if isinstance(applied, dict):
        return {
            _node(key, prefix, nodes): _by_node(value, prefix, nodes)
            for key, value in applied.items()
        }
    return applied


def _node(key: str, prefix: str, nodes: Sequence[str]) -> str:
    if not key.startswith(prefix):
        return key
    name, _, rest = key.removeprefix(prefix).partition(" ")
    known = nodes[int(name)] if name.isdecimal() else name
    return f"{known} {rest}".rstrip()


def _backend(name: str, kernel: str | None) -> Backend:
    runner: Callable[..., Run] = partial(run_kernel, kernel=kernel)
    guest = kernels.find(kernel) if kernel in kernels.names() else kernels.PLAIN
    # What the host's own kernel and Debian's guest lack, a run finds out.
    lacks = guest.lacks if kernel == "virtual" or kernel in kernels.names() else ()
    refuses = partial(refusals, profile=guest.profile, lacks=lacks, is_own=kernel == "host")
    return Backend(name, runner, refuses, partial(differences, kernel=kernel))


BACKEND = _backend("kernel", None)
"""Uses the first available kernel."""

HOST = _backend("kernel-host", "host")
VIRTUAL = _backend("kernel-virtual", "virtual")
REAL = _backend("kernel-real", "real")
OF_2010 = _backend("kernel-2010", "2010")
LINUX_7 = _backend("kernel-7", "7")

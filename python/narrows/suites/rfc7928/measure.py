"""The metrics of a run, as RFC 7928 defines them in its section 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from narrows.results import Run
from narrows.suites.measuring import (
    delays,
    delivered,
    goodputs,
    jain,
    of_connections,
    pooled_delay,
    streams,
    synchronisation,
)

Found = dict[str, float | None]

MEASURED = f"{__name__}:measure"


def measure(run: Run) -> Mapping[str, Found]:
    """The section `suite` of a run's summary."""
    scene = str(run.scenario["name"]).removeprefix("rfc7928-")
    goodput = goodputs(run)
    start, end = run.window or (0.0, run.end_s)
    found: Found = {
        **delays(run, "bottleneck.forward"),
        "utilisation_percent": _utilisation(run, "bottleneck.forward"),
        **({"goodput": delivered(run, start, end)} if goodput else {}),
    }
    kind = scene.partition("-")[0] if scene.startswith("6-") else scene
    return {"suite": {**found, **_OF_SCENE.get(kind, _nothing)(run, goodput)}}


def _utilisation(run: Run, link: str) -> float | None:
    value: float | None = run.summary["links"][link]["run"]["utilisation_percent"]
    return value


def _nothing(run: Run, goodput: Mapping[str, float]) -> Found:
    return {}


def _alike(run: Run, goodput: Mapping[str, float]) -> Found:
    return {"jain": jain(of_connections(run)), "sync_percent": synchronisation(run)}


def _initial_windows(run: Run, goodput: Mapping[str, float]) -> Found:
    groups = run.summary["bursts"]["groups"]
    found: Found = {}
    for name in ("iw3", "iw10"):
        found[f"fct_{name}"] = groups[name]["completion_mean_s"]
        found[f"fct_p99_{name}"] = groups[name]["completion_p99_s"]
    found["unfinished"] = float(sum(g["bursts"] - g["completed"] for g in groups.values()))
    return found


def _shares(of: str) -> Callable[[Run, Mapping[str, float]], Found]:
    def shares(run: Run, goodput: Mapping[str, float]) -> Found:
        rates = {**goodput, **streams(run)}
        whole = sum(rates.values())
        return {
            "share_percent": 100.0 * rates[of] / whole if whole else None,
            "jain": jain(list(rates.values())),
        }

    return shares


def _overload(run: Run, goodput: Mapping[str, float]) -> Found:
    return {"received": streams(run)["stream"]}


def _round_trips(run: Run, goodput: Mapping[str, float]) -> Found:
    fixed, other = goodput["fixed"], goodput["other"]
    return {"ratio": other / fixed if fixed else None, "jain": jain([fixed, other])}


def _bursts(run: Run, goodput: Mapping[str, float]) -> Found:
    pages = run.summary["pages"]
    return {
        "page_p50": pages["load_p50_s"],
        "page_p95": pages["load_p95_s"],
        "pages": float(pages["completed"]),
        "video_lost_percent": _lost(run, "video"),
        "video_delay_max": _longest(run, "video"),
        **({"cbr_lost_percent": _lost(run, "cbr")} if _has(run, "cbr") else {}),
    }


def _mix(run: Run, goodput: Mapping[str, float]) -> Found:
    calls = run.summary["voip"]
    return {
        **_bursts(run, goodput),
        "mos": calls["mos_mean"],
        "mouth_to_ear": calls["mouth_to_ear_mean_ms"],
    }


def _within(run: Run, group: str) -> pl.DataFrame:
    start, end = run.window or (0.0, run.end_s)
    between = pl.col("t_s").is_between(start, end, closed="left")
    return run.table("streams").filter(between, group=group)


def _has(run: Run, group: str) -> bool:
    return not _within(run, group).is_empty()


def _lost(run: Run, group: str) -> float | None:
    rows = _within(run, group)
    lost, came = (int(rows[f"{what}_packets"].sum()) for what in ("lost", "received"))
    return 100.0 * lost / (lost + came) if lost + came else None


def _longest(run: Run, group: str) -> float | None:
    value = _within(run, group)["delay_max_ms"].max()
    return float(value) if isinstance(value, int | float) else None


def _phases(run: Run, goodput: Mapping[str, float]) -> Found:
    third = run.end_s / 3.0
    return {
        f"delay_{name}": pooled_delay(run, n * third, (n + 1) * third)
        for n, name in enumerate(("mild", "medium", "heavy"))
    }


def _capacity(run: Run, goodput: Mapping[str, float]) -> Found:
    quarter = run.end_s / 4.0
    return {
        "delay_before": pooled_delay(run, 0.5 * quarter, quarter),
        "delay_drop": pooled_delay(run, quarter, 1.25 * quarter),
        "delay_slow": pooled_delay(run, 1.5 * quarter, 2.0 * quarter),
        "goodput_after": delivered(run, 2.0 * quarter, 3.0 * quarter),
    }


def _both_ways(run: Run, goodput: Mapping[str, float]) -> Found:
    other = delays(run, "bottleneck.backward")
    return {
        "goodput_there": goodput["there"],
        "goodput_back": goodput["back"],
        "delay_mean_back": other["delay_mean"],
        "loss_back_percent": other["loss_percent"],
        "utilisation_back_percent": _utilisation(run, "bottleneck.backward"),
    }


def _two_queues(run: Run, goodput: Mapping[str, float]) -> Found:
    second = delays(run, "second.forward")
    return {
        "goodput_whole": goodput["whole"],
        "goodput_first": goodput["first"],
        "goodput_last": goodput["last"],
        "delay_mean_second": second["delay_mean"],
        "loss_second_percent": second["loss_percent"],
        "jain": jain(list(goodput.values())),
    }


_OF_SCENE: Mapping[str, Callable[[Run, Mapping[str, float]], Found]] = {
    "5-1-1": _alike,
    "5-1-2": _initial_windows,
    "5-2": _shares("aggressive"),
    "5-3-alone": _overload,
    "5-3-beside": _shares("stream"),
    "6": _round_trips,
    "7-2": _bursts,
    "8-2-2": _alike,
    "8-2-3": _alike,
    "8-2-4": _alike,
    "8-2-5": _phases,
    "8-2-6-slow": _capacity,
    "9-1": _mix,
    "9-2": _both_ways,
    "10": _two_queues,
}

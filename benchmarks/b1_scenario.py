"""Scenario B1 from `b1/b1.toml`, and what the peers have to be told to run the same."""

import tomllib
from pathlib import Path
from typing import Any

from narrows import Scenario

FOLDER = Path(__file__).parent / "b1"
DISCIPLINES = ("droptail", "red")
PICOSECONDS = 1e12


def scenario(discipline: str, seconds: float) -> Scenario:
    """B1 with Drop Tail or RED at the bottleneck, for so many simulated seconds."""
    return Scenario.from_dict(_values(discipline, seconds))


def scaled(discipline: str, seconds: float, flows: int) -> Scenario:
    """B1 with another number of flows and the same share of rate and buffer for each.

    From 500 flows on, hosts have several connections each, and their links are as much faster.
    """
    values = _values(discipline, seconds)
    links = {link["name"]: link for link in values["links"]}
    (traffic,) = values["traffic"]
    original = traffic["count"]
    hosts = min(flows, original)
    if flows % hosts:
        raise ValueError(f"{flows} flows cannot be spread over {hosts} hosts")
    bottleneck = links["bottleneck"]
    queue = bottleneck["forward"]["queue"]
    for key in ("limit", "min", "max"):
        if key in queue:
            queue[key] = type(queue[key])(queue[key] * flows / original)
    bottleneck["queue"]["limit"] = max(bottleneck["queue"]["limit"], 20 * flows)
    bottleneck["rate"] = _times(bottleneck["rate"], flows / original)
    for name in ("sender{i}", "receiver{i}"):
        links[name]["count"] = hosts
        links[name]["rate"] = _times(links[name]["rate"], flows / hosts)
        links[name]["queue"]["limit"] *= flows // hosts
    traffic["count"] = hosts
    traffic["connections"] = flows // hosts
    return Scenario.from_dict(values)


def parameters(seconds: float) -> dict[str, dict[str, str]]:
    """What ns-2 and ns-3 are told, for each discipline: their keys and values, as text.

    Everything is read from the plans that narrows runs.

    Raises:
        ValueError: The scenario asks for something that the peers' scripts do not do.
    """
    plans = {d: scenario(d, seconds).plan() for d in DISCIPLINES}
    (red,) = _link(plans["red"], "bottleneck.forward")["queue"].values()
    result = {}
    for discipline, plan in plans.items():
        _check(plan)
        bottleneck = _link(plan, "bottleneck.forward")
        sender = _link(plan, "sender0.forward")
        receiver = _link(plan, "receiver0.forward")
        (queue,) = bottleneck["queue"].values()
        (tcp,) = plan["tcp"]
        source = plan["sources"][0]["on-off"]
        interval = plan["queue_monitors"][0]["interval"]
        values: dict[str, Any] = {
            "sources": len(plan["connections"]),
            "seconds": plan["end"] / PICOSECONDS,
            "seed": plan["seed"],
            "access_bps": sender["rate"],
            "bottleneck_bps": bottleneck["rate"],
            "sender_delay_s": sender["delay"] / PICOSECONDS,
            "bottleneck_delay_s": bottleneck["delay"] / PICOSECONDS,
            "receiver_delay_s": receiver["delay"] / PICOSECONDS,
            "discipline": {"droptail": "DropTail", "red": "RED"}[discipline],
            "limit_packets": queue["limit"],
            "access_limit_packets": sender["queue"]["pfifo"]["limit"],
            "red_min": red["min"],
            "red_max": red["max"],
            "red_weight": red["weight"],
            "red_max_p": red["max_p"],
            "red_gentle": str(red["gentle"]).lower(),
            "red_wait": str(red["wait"]).lower(),
            "segment_bytes": tcp["mss"],
            "header_bytes": 40,
            "ack_bytes": 40,
            "burst_packets": source["burst"]["constant"] // tcp["mss"],
            "idle_mean_s": source["idle"]["exponential"]["mean"] / PICOSECONDS,
            "initial_window": tcp["initial_window"],
            "min_rto_s": tcp["min_rto"] / PICOSECONDS,
            "initial_rto_s": tcp["initial_rto"] / PICOSECONDS,
            "sample_hz": PICOSECONDS / interval,
        }
        result[discipline] = {key: str(value) for key, value in values.items()}
    return result


def summary(tables: dict[str, dict[str, Any]], seconds: float) -> dict[str, float]:
    """A run's results, by the names that the peers' scripts use.

    Args:
        tables: What `Simulation.tables()` gave.
        seconds: Simulated time.
    """
    flows, bursts = tables["flows"], tables["bursts"]
    durations = bursts["end_s"] - bursts["start_s"]
    finished = durations[durations == durations]
    link, queue = tables["links"], tables["queues"]
    return {
        "packets": int(link["packets"][-1]),
        "drops": sum(
            int(queue[f"dropped_{reason}"][-1]) for reason in ("overflow", "early", "forced")
        ),
        "goodput_mbps": float(flows["bytes_acked"].sum()) * 8e-6 / seconds,
        "bursts": len(finished),
        "completion_s": float(finished.mean()) if len(finished) else 0.0,
        "utilisation": float(link["busy_s"][-1] / link["t_s"][-1]),
        "backlog_packets": float(queue["backlog_packets"].mean()),
        "retransmitted": int(flows["segments_retransmitted"].sum()),
        "timeouts": int(flows["timeouts"].sum()),
    }


def _values(discipline: str, seconds: float) -> dict[str, Any]:
    values = tomllib.loads((FOLDER / "b1.toml").read_text("utf-8"))
    values["duration"] = f"{seconds:g} s"
    if discipline == "red":
        (bottleneck,) = (link for link in values["links"] if link["name"] == "bottleneck")
        bottleneck["forward"]["queue"] = tomllib.loads((FOLDER / "red.toml").read_text("utf-8"))
    return values


def _link(plan: dict[str, Any], name: str) -> dict[str, Any]:
    (link,) = (link for link in plan["links"] if link["name"] == name)
    found: dict[str, Any] = link
    return found


def _times(quantity: str, factor: float) -> str:
    number, unit = quantity.split(" ")
    return f"{float(number) * factor:g} {unit}"


def _check(plan: dict[str, Any]) -> None:
    (tcp,) = plan["tcp"]
    fixed = {
        "congestion": "reno",
        "acks": "every-segment",
        "restart_after_idle": "fresh",
        "timestamps": False,
        "ecn": False,
    }
    for key, value in fixed.items():
        if tcp[key] != value:
            raise ValueError(f"tcp.{key}: the peers' scripts have {value!r}, not {tcp[key]!r}")
    for name in ("bottleneck.forward", "sender0.forward", "receiver0.forward"):
        framing = _link(plan, name)["framing"]
        if any(framing.values()):
            raise ValueError(f"{name}: the peers' scripts have no framing")

"""The parameters with which ns-2 and ns-3 run the same scenario, read from narrows' plan."""

from typing import Any

PICOSECONDS = 1e12

Plan = dict[str, Any]


def parameters(plan: Plan) -> dict[str, str]:
    """Keys and values, as text, for the peers' scripts of a dumbbell: ns-3's, and most of ns-2's.

    Raises:
        ValueError: The scenario asks for something that the scripts cannot do.
    """
    _check(plan)
    bottleneck = link(plan, "bottleneck.forward")
    sender = link(plan, "sender0.forward")
    receiver = link(plan, "receiver0.forward")
    ((kind, queue),) = bottleneck["queue"].items()
    red = queue if kind == "red-1993" else {}
    (tcp,) = plan["tcp"]
    bursts = _bursts(plan)
    values: dict[str, Any] = {
        "sources": len(_connections(plan)),
        "seconds": plan["end"] / PICOSECONDS,
        "seed": plan["seed"],
        "access_bps": int(sender["rate"]),
        "bottleneck_bps": int(bottleneck["rate"]),
        "sender_delay_s": sender["delay"] / PICOSECONDS,
        "bottleneck_delay_s": bottleneck["delay"] / PICOSECONDS,
        "receiver_delay_s": receiver["delay"] / PICOSECONDS,
        "discipline": {"pfifo": "DropTail", "red-1993": "RED", "drr": "DRR"}[kind],
        "limit_packets": queue["limit"],
        "access_limit_packets": sender["queue"]["pfifo"]["limit"],
        # Without RED, values that its set-up accepts.
        "red_min": red.get("min", 1.0),
        "red_max": red.get("max", 2.0),
        "red_weight": red.get("weight", 0.5),
        "red_max_p": red.get("max_p", 0.5),
        "red_gentle": str(red.get("gentle", False)).lower(),
        "red_wait": str(red.get("wait", False)).lower(),
        "segment_bytes": tcp["mss"],
        "header_bytes": 40,
        "ack_bytes": 40,
        "burst_packets": _burst_bytes(bursts) // tcp["mss"],
        "idle_mean_s": _idle_mean(bursts) / PICOSECONDS,
        "initial_window": tcp["initial_window"],
        "min_rto_s": tcp["min_rto"] / PICOSECONDS,
        "initial_rto_s": tcp["initial_rto"] / PICOSECONDS,
        "sample_hz": PICOSECONDS / plan["queue_monitors"][0]["interval"],
    }
    return {key: str(value) for key, value in values.items()}


def ns2_words(plan: Plan) -> list[str]:
    """The command line of `ns2/dumbbell.tcl`, from the script on."""
    (queue,) = link(plan, "bottleneck.forward")["queue"].values()
    (tcp,) = plan["tcp"]
    starts = " ".join(f"{c['start'] / PICOSECONDS:.9f}" for c in _connections(plan))
    values = {
        **parameters(plan),
        "ecn": str(int(tcp["ecn"] and queue.get("ecn", False))),
        "drr_quantum": str(queue.get("quantum", 1500)),
        "starts_s": starts,
    }
    return [word for pair in values.items() for word in pair]


def summary(tables: dict[str, dict[str, Any]], seconds: float) -> dict[str, float]:
    """A run's results, by the names that the peers' scripts use.

    Args:
        tables: What `Simulation.tables()` gave.
        seconds: Simulated time, in seconds.
    """
    flows, bursts = tables["flows"], tables["bursts"]
    durations = bursts["end_s"] - bursts["start_s"]
    finished = durations[durations == durations]
    links, queues = tables["links"], tables["queues"]
    return {
        "packets": int(links["packets"][-1]),
        "drops": sum(int(column[-1]) for name, column in queues.items() if name in DROP_COLUMNS),
        "goodput_mbps": float(flows["bytes_acked"].sum()) * 8e-6 / seconds,
        "bursts": len(finished),
        "completion_s": float(finished.mean()) if len(finished) else 0.0,
        "utilisation": float(links["busy_s"][-1] / links["t_s"][-1]),
        "backlog_packets": float(queues["backlog_packets"].mean()),
        "retransmitted": int(flows["segments_retransmitted"].sum()),
        "timeouts": int(flows["timeouts"].sum()),
    }


def link(plan: Plan, name: str) -> dict[str, Any]:
    """A directed link of a plan, by its name."""
    (found,) = (link for link in plan["links"] if link["name"] == name)
    result: dict[str, Any] = found
    return result


DROP_COLUMNS = ("dropped_overflow", "dropped_early", "dropped_forced")
"""Columns of the table `queues` that count drops by reason, for the disciplines that peers have."""


def _groups(plan: Plan) -> list[dict[str, Any]]:
    """The settings of all groups of connections."""
    return [
        settings
        for application in plan["applications"]
        for settings in application["kind"].values()
    ]


def _connections(plan: Plan) -> list[dict[str, Any]]:
    return [connection for group in _groups(plan) for connection in group["connections"]]


def _bursts(plan: Plan) -> dict[str, Any]:
    """The bursts that all connections send; empty if they send without end."""
    first, *others = (
        {key: value for key, value in group.items() if key != "connections"}
        for group in _groups(plan)
    )
    if any(other != first for other in others):
        raise ValueError("the peers' scripts have one kind of source")
    return first


def _burst_bytes(bursts: dict[str, Any]) -> int:
    """The length of a burst in bytes; 0 if a source sends without end."""
    burst = bursts.get("burst", {"constant": 0})
    if "constant" not in burst:
        raise ValueError(f"the peers' scripts have bursts of one length, not {burst}")
    length: int = burst["constant"]
    return length


def _idle_mean(bursts: dict[str, Any]) -> int:
    """The mean idle time in picoseconds; a second if a source never pauses."""
    idle = bursts.get("idle", {"exponential": {"mean": 10**12}})
    if "exponential" not in idle:
        raise ValueError(f"the peers' scripts have exponential idle times, not {idle}")
    mean: int = idle["exponential"]["mean"]
    return mean


def _check(plan: Plan) -> None:
    (tcp,) = plan["tcp"]
    fixed = {
        "congestion": "reno",
        "recovery": "reno",
        "acks": "every-segment",
        "limited_transmit": True,
        "restart_after_idle": "fresh",
        "timestamps": False,
    }
    for key, value in fixed.items():
        if tcp[key] != value:
            raise ValueError(f"tcp.{key}: the peers' scripts have {value!r}, not {tcp[key]!r}")
    for name in ("bottleneck.forward", "sender0.forward", "receiver0.forward"):
        if any(link(plan, name)["framing"].values()):
            raise ValueError(f"{name}: the peers' scripts have no framing")

"""From queues of the plan to tc(8)'s words, and the keys that Linux does not have.

Source: tc-pfifo(8), tc-red(8), tc-codel(8), tc-fq_codel(8), tc-pie(8), tc-fq_pie(8), tc-sfq(8),
tc-prio(8), tc-htb(8), tc-fq(8), tc-cake(8) of iproute2 6.1; tc-dualpi2(8) of a later one. Scenario
keys have tc's names, so most keys map one to one. The differences:

- `classes` are token buckets that do not borrow. Here they become HTB classes, each with its rate
  as its ceiling. HTB may go into debt by one packet.
- `red` with `adaptive` is refused: tc sends that flag in an attribute that `sch_red` ignores, so
  nothing would adapt.
- A rate becomes a shaper above the queue. It never asks an empty queue for a packet, so RED does
  not notice that it is idle, nor do DualPI2, FQ-CoDel and FQ-PIE (`idles = false`). Linux has no
  setting for this. `idles.py` names each of them for which a scenario requests something else.
- CAKE's `overhead` counts from the IP packet. Linux subtracts the header of the device, 14 bytes,
  from a length in which a size table has already set `framing.queue_overhead`.
- PIE's timer has the kernel's granularity: 15 ms become 30 ms at HZ 100. `jiffy` is a property of
  the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from narrows.scenario.queues.tc import NAME as TC

Plan = Mapping[str, Any]
Refuse = Callable[[str, str], None]
"""Called with a key below the queue, and the reason in a few words."""

MTU_IN_QUEUES = 1514
"""The largest packet on a device for CoDel and PIE: its MTU and Ethernet's header, in bytes."""

_ETHERNET = 14
FIRST_HOST = 0xAC100001
"""The first host's address, 172.16.0.1. A host has an address of 172.16.0.0/12 for each flavour of
connections; four bits of the address say which."""
_HOST_MASK = 0xFFF0FFFF
_US = 10**6
_JIFFIES = (None, 10**9, 4 * 10**9, 10**10)
"""None, or a jiffy in picoseconds at HZ 1000, 250 or 100; a kernel has one of these three."""


def commands(
    device: str,
    parent: str,
    handle: int,
    queue: Plan,
    refuse: Refuse,
    header: int = _ETHERNET,
) -> Iterator[str]:
    """The commands of tc that put a queue below a parent.

    Args:
        device: The device.
        parent: The parent's handle, such as `1:1`.
        handle: The queue's own handle, as a number: 0x10 is tc's `10:`. Queues inside it get larger
            numbers.
        queue: The queue as in the plan: its kind and settings.
        refuse: Called for each key that Linux cannot honour.
        header: The bytes of each packet's length that are not of the IP packet.
    """
    ((kind, settings),) = queue.items()
    start = f"qdisc add dev {device} parent {parent} handle {handle:x}:"
    for key in settings.keys() - _KEYS.get(kind, settings.keys()):
        if settings[key]:
            refuse(key, "not supported yet")
    if kind == "prio":
        yield from _prio(device, start, handle, settings["bands"], refuse, header)
    elif kind == "classes":
        yield from _classes(device, start, handle, settings["classes"], refuse, header)
    elif kind == "cake":
        yield f"{start} {' '.join(_cake(settings, refuse, header))}"
    elif kind == "plugin" and settings["name"] == TC:
        yield f"{start} {' '.join(word['text'] for word in settings['settings'])}"
    elif kind == "plugin":
        refuse("kind", "a plugin's queue runs in the simulator")
    elif kind in _WORDS:
        yield f"{start} {' '.join(_WORDS[kind](settings, refuse))}"
    else:
        refuse("kind", _OTHERS.get(kind, f"Linux has no {kind}"))


def _pfifo(queue: Plan, _refuse: Refuse) -> Sequence[str]:
    return ["pfifo", "limit", str(queue["limit"])]


def _bfifo(queue: Plan, _refuse: Refuse) -> Sequence[str]:
    return ["bfifo", "limit", str(queue["limit"])]


def _red(queue: Plan, refuse: Refuse) -> Sequence[str]:
    if queue["adaptive"]:
        refuse("adaptive", "tc passes it in an attribute that this kernel's RED ignores")
    words = ["red"]
    for key in ("limit", "min", "max", "avpkt", "burst"):
        words += [key, str(queue[key])]
    words += ["probability", f"{queue['probability']:.9g}", "bandwidth", f"{queue['bandwidth']}bit"]
    return words + [key for key in ("ecn", "harddrop", "nodrop") if queue[key]]


def _codel(queue: Plan, refuse: Refuse) -> Sequence[str]:
    _own_mtu(queue, refuse)
    words = ["codel", "limit", str(queue["limit"])]
    words += ["target", _time(queue["target"]), "interval", _time(queue["interval"])]
    words.append("ecn" if queue["ecn"] else "noecn")
    return words + _threshold(queue)


def _fq_codel(queue: Plan, refuse: Refuse) -> Sequence[str]:
    _own_mtu(queue, refuse)
    if queue["when_empty"] != "forget":
        refuse("when_empty", "the kernel decides this")
    words = ["fq_codel"]
    for key in ("limit", "flows", "quantum", "memory_limit", "drop_batch"):
        words += [key, str(queue[key])]
    words += ["target", _time(queue["target"]), "interval", _time(queue["interval"])]
    words.append("ecn" if queue["ecn"] else "noecn")
    words += _threshold(queue)
    if mask := queue["ce_threshold_mask"]:
        words += ["ce_threshold_selector", f"{queue['ce_threshold_selector']}/{mask}"]
    return words


def _fq(queue: Plan, _refuse: Refuse) -> Sequence[str]:
    words = ["fq"]
    for key in ("limit", "flow_limit", "quantum", "initial_quantum", "orphan_mask"):
        words += [key, str(queue[key])]
    for key in ("maxrate", "low_rate_threshold"):
        words += [] if queue[key] is None else [key, f"{queue[key]}bit"]
    words += ["refill_delay", _time(queue["refill_delay"]), "horizon", _time(queue["horizon"])]
    words.append("horizon_drop" if queue["horizon_drop"] else "horizon_cap")
    return words + _threshold(queue)


def _dualpi2(queue: Plan, refuse: Refuse) -> Sequence[str]:
    _own_mtu(queue, refuse)
    words = ["dualpi2", "limit", str(queue["limit"])]
    if queue["memlimit"] is not None:
        words += ["memlimit", str(queue["memlimit"])]
    words += ["target", _time(queue["target"]), "tupdate", _time(queue["tupdate"])]
    words += ["alpha", f"{queue['alpha']:.9g}", "beta", f"{queue['beta']:.9g}"]
    step = queue["step_packets"]
    words += ["step_thresh", _time(queue["step_thresh"]) if step is None else f"{step}p"]
    for key in ("min_qlen_step", "coupling_factor"):
        words += [key, str(queue[key])]
    percent = queue["classic_protection"] * 100
    if abs(percent - round(percent)) > 1e-9:
        refuse("classic_protection", "Linux has whole per cents")
    words += ["classic_protection", f"{round(percent)}%"]
    words.append("drop_on_overload" if queue["drop_on_overload"] else "overflow")
    words.append("drop_enqueue" if queue["drop_enqueue"] else "drop_dequeue")
    words.append("any_ect" if queue["any_ect"] else "l4s_ect")
    return [*words, "split_gso"]


def _pie(queue: Plan, refuse: Refuse) -> Sequence[str]:
    _own_mtu(queue, refuse)
    if queue["jiffy"] not in _JIFFIES:
        refuse("jiffy", "a kernel's jiffy is 1, 4 or 10 ms")
    words = ["pie", "limit", str(queue["limit"])]
    words += ["target", _time(queue["target"]), "tupdate", _time(queue["tupdate"])]
    words += ["alpha", str(queue["alpha"]), "beta", str(queue["beta"])]
    words.append("ecn" if queue["ecn"] else "noecn")
    words.append("bytemode" if queue["bytemode"] else "nobytemode")
    words.append("dq_rate_estimator" if queue["dq_rate_estimator"] else "no_dq_rate_estimator")
    return words


def _fq_pie(queue: Plan, refuse: Refuse) -> Sequence[str]:
    words = ["fq_pie", *_pie(queue, refuse)[1:]]
    words += ["flows", str(queue["flows"]), "quantum", str(queue["quantum"])]
    percent = queue["ecn_prob"] * 100
    if abs(percent - round(percent)) > 1e-9:
        refuse("ecn_prob", "Linux has whole per cents")
    return [*words, "ecn_prob", str(round(percent))]


def _cake(queue: Plan, refuse: Refuse, header: int) -> Sequence[str]:
    _own_mtu(queue, refuse)
    words = ["cake"]
    words += ["unlimited"] if queue["rate"] is None else ["bandwidth", f"{queue['rate']}bit"]
    words += [queue["tins"], queue["isolation"], "rtt", _time(queue["rtt"])]
    if queue["memory_limit"] is not None:
        words += ["memlimit", str(queue["memory_limit"])]
    if queue["overhead"] is not None:
        overhead = queue["overhead"] + _ETHERNET - header
        if not -64 <= overhead <= 256:
            refuse("overhead", "with framing.queue_overhead it is beyond what Linux can add")
        words += ["overhead", str(overhead)]
    words += ["mpu", str(queue["mpu"]), queue["link_layer"], queue["ack_filter"]]
    words.append("ingress" if queue["ingress"] else "egress")
    return [*words, "wash" if queue["wash"] else "nowash", "split-gso"]


def _sfq(queue: Plan, refuse: Refuse) -> Sequence[str]:
    words = ["sfq"]
    for key in ("limit", "depth", "divisor", "flows", "quantum"):
        words += [key, str(queue[key])]
    if queue["perturb"]:
        seconds, rest = divmod(queue["perturb"], 10**12)
        if rest:
            refuse("perturb", "tc accepts only whole seconds")
        words += ["perturb", str(seconds)]
    return words + (["headdrop"] if queue["headdrop"] else [])


def _prio(
    device: str, start: str, handle: int, bands: Sequence[Plan], refuse: Refuse, header: int
) -> Iterator[str]:
    if not 2 <= len(bands) <= 16:
        refuse("bands", "prio has 2 to 16 bands")
        return
    last = len(bands) - 1
    yield f"{start} prio bands {len(bands)} priomap {' '.join([str(last)] * 16)}"
    for number, band in enumerate(bands):
        yield from _filters(device, handle, number, band, f"bands[{number}]", refuse)
        inner = _below(refuse, f"bands[{number}].queue")
        below = 16 * handle + number + 1
        parent = f"{handle:x}:{number + 1:x}"
        yield from commands(device, parent, below, band["queue"], inner, header)


def _classes(
    device: str, start: str, handle: int, classes: Sequence[Plan], refuse: Refuse, header: int
) -> Iterator[str]:
    if len(classes) > 15:
        refuse("classes", "at most 15 are supported")
        return
    yield f"{start} htb default {len(classes):x}"
    for number, entry in enumerate(classes, 1):
        key = f"classes[{number - 1}]"
        # A class without its own rate may use the whole line; the shaper above limits it.
        rate = entry["rate"] or 10**10
        burst = entry["burst"] or 65_536
        yield (
            f"class add dev {device} parent {handle:x}: classid {handle:x}:{number:x} htb "
            f"rate {rate}bit ceil {rate}bit burst {burst} cburst {burst} prio {min(number - 1, 7)} "
            "quantum 1514"
        )
        yield from _filters(device, handle, number - 1, entry, key, refuse)
        inner = _below(refuse, f"{key}.queue")
        below = 16 * handle + number
        yield from commands(device, f"{handle:x}:{number:x}", below, entry["queue"], inner, header)


def _filters(
    device: str, handle: int, number: int, entry: Plan, key: str, refuse: Refuse
) -> Iterator[str]:
    """u32 filters that send matching packets to their class; earlier entries take precedence."""
    for index, match in enumerate(entry["match"]):
        place = f"{key}.match[{index}]"
        for other in ("min_bytes", "max_bytes", "ecn"):
            if match[other] is not None:
                refuse(f"{place}.{other}", "narrows has no u32 filter for it")
        protocols = {"udp": [17], "tcp": [6], None: [6, 17] if _has_port(match) else [None]}
        for protocol in protocols[match["protocol"]]:
            for ports in _ports(match):
                words = [] if protocol is None else [f"match ip protocol {protocol} 0xff"]
                words += [f"match ip {side} {port} 0xffff" for side, port in ports]
                if match["dscp"] is not None:
                    words.append(f"match ip dsfield {match['dscp'] << 2:#x} 0xfc")
                # The offsets of both addresses: RFC 791, 3.1.
                words += [
                    f"match u32 {FIRST_HOST + match[end]:#x} {_HOST_MASK:#x} at {offset}"
                    for end, offset in (("source", 12), ("destination", 16))
                    if match[end] is not None
                ]
                yield (
                    f"filter add dev {device} parent {handle:x}: protocol ip prio {number + 1} u32 "
                    f"{' '.join(words)} flowid {handle:x}:{number + 1:x}"
                )


def _has_port(match: Plan) -> bool:
    return any(match[key] is not None for key in ("port", "sport", "dport"))


def _ports(match: Plan) -> list[list[tuple[str, int]]]:
    fixed = [(side, match[side]) for side in ("sport", "dport") if match[side] is not None]
    if match["port"] is None:
        return [fixed]
    return [[*fixed, (side, match["port"])] for side in ("sport", "dport")]


def _below(refuse: Refuse, key: str) -> Refuse:
    return lambda inner, why: refuse(f"{key}.{inner}", why)


def _own_mtu(queue: Plan, refuse: Refuse) -> None:
    if queue["mtu"] != MTU_IN_QUEUES:
        refuse("mtu", f"Linux uses the device's, {MTU_IN_QUEUES} B")


def _threshold(queue: Plan) -> list[str]:
    found = queue["ce_threshold"]
    return [] if found is None else ["ce_threshold", _time(found)]


def _time(picoseconds: int) -> str:
    return f"{max(1, round(picoseconds / _US))}us"


_OTHERS = {
    # sch_drr.c: a scheduler of classes, each with its own queue and limit.
    "drr": "Linux's drr has no limit that all flows share; sfq has one",
}
"""Why Linux's discipline of the same name differs."""

_WORDS: Mapping[str, Callable[[Plan, Refuse], Sequence[str]]] = {
    "pfifo": _pfifo,
    "bfifo": _bfifo,
    "red": _red,
    "codel": _codel,
    "fq-codel": _fq_codel,
    "fq": _fq,
    "dualpi2": _dualpi2,
    "fq-pie": _fq_pie,
    "pie": _pie,
    "sfq": _sfq,
}

_PIE = frozenset(
    {
        *("limit", "target", "tupdate", "jiffy", "alpha", "beta", "ecn", "bytemode"),
        *("dq_rate_estimator", "mtu"),
    }
)

_KEYS: Mapping[str, frozenset[str]] = {
    "pfifo": frozenset({"limit"}),
    "bfifo": frozenset({"limit"}),
    "red": frozenset(
        {
            *("limit", "min", "max", "avpkt", "burst", "probability", "bandwidth"),
            *("ecn", "harddrop", "nodrop", "adaptive", "idles"),
        }
    ),
    "codel": frozenset({"limit", "target", "interval", "ecn", "ce_threshold", "mtu"}),
    "fq-codel": frozenset(
        {
            *("limit", "memory_limit", "flows", "quantum", "target", "interval", "ecn"),
            *("ce_threshold", "ce_threshold_selector", "ce_threshold_mask"),
            *("drop_batch", "mtu", "when_empty", "idles"),
        }
    ),
    "fq": frozenset(
        {
            *("limit", "flow_limit", "quantum", "initial_quantum", "maxrate"),
            *("low_rate_threshold", "refill_delay", "orphan_mask", "ce_threshold"),
            *("horizon", "horizon_drop", "bands"),
        }
    ),
    "dualpi2": frozenset(
        {
            *("limit", "memlimit", "target", "tupdate", "alpha", "beta", "step_thresh"),
            *("step_packets", "min_qlen_step", "coupling_factor", "classic_protection"),
            *("drop_on_overload", "drop_enqueue", "any_ect", "mtu", "idles"),
        }
    ),
    "cake": frozenset(
        {
            *("rate", "tins", "isolation", "rtt", "memory_limit", "overhead", "mpu", "link_layer"),
            *("ack_filter", "ingress", "wash", "mtu"),
        }
    ),
    "pie": _PIE,
    "fq-pie": _PIE | {"flows", "quantum", "ecn_prob", "idles"},
    "sfq": frozenset({"limit", "depth", "divisor", "flows", "quantum", "perturb", "headdrop"}),
    "prio": frozenset({"bands"}),
    "classes": frozenset({"classes"}),
}
"""The known keys of each discipline. Any other key that the plan sets is refused."""

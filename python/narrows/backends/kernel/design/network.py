"""The network of a job: namespaces, devices, queues, addresses, routes, and its samples."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.backends.backend import Refusal
from narrows.backends.kernel import disciplines, fq_differences, middleboxes, shapers, tcp_settings
from narrows.backends.kernel.tcp_settings import TcpUse
from narrows.scenario.amounts import SECOND

Plan = Mapping[str, Any]

PS = SECOND

MOST_NODES = 400
MOST_CONNECTIONS = 5000
WIRES = "wires"

FEWER = "set it lower, in this group or in others"
"""The remedy for too many of a kind, which may be the sum of defaults."""

# The keys of a plan that this module knows. It refuses any other key that a scenario sets, by name.
_PLAN_KEYS = {
    *("seed", "end", "end_when_done", "event_limit", "nodes", "links", "changes", "tcp", "paths"),
    *("applications", "queue_monitors", "link_monitors", "goodput_interval", "captures"),
    *("flow_samples", "flow_monitor", "codepoints"),
    # Known, but needs nothing: Linux resolves addresses on every link.
    "neighbours",
}
_LINK_KEYS = {
    *("name", "from", "to", "rate", "delay", "jitter", "loss", "dns_exempt", "framing", "queue"),
    *("ring", "mtu", "middlebox"),
}
_SCENARIO_KEYS = {
    "opportunities_ms": "rate_trace",
    "delay_monitors": "monitor.queue_delays",
    "one_way_monitor": "monitor.delays",
}
_WHY = {
    "opportunities_ms": "no discipline of Linux sends at listed milliseconds",
    "delay_monitors": "no discipline of Linux tells how long each packet waited",
    "one_way_monitor": "no packet of a kernel tells when it was sent",
}

_ETHERNET = 14
# RFC 2544, appendix C.2.2: addresses for benchmarks, which belong to nobody.
_FORGED = ("198.18.0.0/16", "198.19.0.0/16")
_NETEM_LIMIT = 200_000
_FAST = 1_000_000_000
"""Bits per second from which transmission time may be ignored: a frame takes 12 microseconds."""
_FLAVOURS = 16
_KEEPING = ("pfifo", "bfifo", "codel", "pie")
"""Queues that keep their packets if their settings change, here and in the simulator."""
_ROOT = 0x10000
_QUEUE = 0x100000
_STAGE = 0x10000


class Network:
    """Everything but the traffic, and the parts of the plan that it cannot honour."""

    def __init__(self, plan: Plan, profile: Plan, *, prefix: str, stall_s: float) -> None:
        """Designs nodes and links.

        Args:
            plan: The plan, as the simulator would get it.
            profile: The settings of the kernel's TCP profile.
            prefix: The prefix of the namespaces' names.
            stall_s: Seconds for which the machine may stall; token buckets are larger by this time.
        """
        self.refusals: list[Refusal] = []
        self.plan = plan
        self.nodes: Sequence[str] = plan["nodes"]
        self.spaces = [f"{prefix}{number}" for number in range(len(self.nodes))]
        self._stall_s = stall_s
        self._wires = f"{prefix}{WIRES}"
        self._pairs: list[dict[str, Any]] = []
        self._tc: dict[str, list[str]] = {}
        self._addresses: dict[str, list[tuple[str, str, int]]] = {}
        self._routes: dict[tuple[str, str], dict[str, Any]] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._flavours: list[tuple[tuple[tuple[str, int], ...], int]] = [((), 0)]
        self._given: set[tuple[int, int]] = set()
        self._stages: dict[int, tuple[str, str, int]] = {}
        self._filters: list[tuple[str, str, str]] = []
        self._sinks: set[str] = set()
        self._forged: list[str] = []
        self._needed: dict[str, dict[str, str]] = {}
        self.kinds: dict[str, str] = {}
        self._keys: dict[str, dict[str, str]] = {}
        """For each kind of queue that not every kernel has, the key of a queue of this kind."""
        self.features: dict[str, str] = {}
        """For each feature of TCP or a queue that not every kernel has, a key that needs it."""
        self._profile = profile
        self._uses: dict[int, TcpUse] = {}
        # For each direction: namespace, its device, the device behind, size table, extra framing.
        self._places: dict[int, tuple[str, str, str | None, str, int]] = {}
        self._changing = {change["link"] for change in plan["changes"]}
        self._lossy_later = {change["link"] for change in plan["changes"] if change.get("loss")}
        self._bound()
        for number in range(0, len(plan["links"]), 2):
            self._link(number)
        self._changes = self._later(plan["changes"])

    def job(self) -> dict[str, Any]:
        """The job's part on the network."""
        spaces = [*self.spaces, self._wires]
        for name in spaces:
            self._settings.setdefault(name, {}).update(
                {
                    "ipv6/conf/all/disable_ipv6": "1",
                    "ipv4/ip_forward": "1",
                    "ipv4/conf/all/send_redirects": "0",
                    "ipv4/conf/all/rp_filter": "0",
                    "ipv4/conf/all/arp_announce": "2",
                }
            )
        for pair in self._pairs:
            for end in "ab":
                name, device = pair[f"{end}_namespace"], pair[f"{end}_device"]
                self._settings[name][f"ipv4/conf/{device}/rp_filter"] = "0"
                self._settings[name][f"ipv4/conf/{device}/send_redirects"] = "0"
        routes: dict[str, list[dict[str, Any]]] = {}
        for (name, _), route in self._routes.items():
            routes.setdefault(name, []).append(route)
        return {
            "namespaces": spaces,
            "pairs": self._pairs,
            "sinks": [_sink(name) for name in sorted(self._sinks)],
            "captures": [self._capture(*each) for each in enumerate(self.plan["captures"])],
            "addresses": self._addresses,
            "routes": routes,
            "settings": self._settings,
            "needed": self._needed,
            "keys": self._keys,
            "features": self.features,
            "tc": self._tc,
            "filters": self._filters,
            "changes": self._changes,
            "samples": {
                "queues": self._samples(self.plan["queue_monitors"]),
                "links": self._samples(self.plan["link_monitors"]),
            },
        }

    def refuse(self, key: str, why: str, hint: str = "") -> None:
        """Notes a key of the scenario that cannot be honoured."""
        refusal = Refusal(key, why, hint)
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    def refuser(self, start: str) -> Any:
        """`refuse` for the keys that begin with `start`."""
        return lambda key, why: self.refuse(f"{start}{key}", why)

    def unknown(self, start: str, table: Plan, known: set[str]) -> None:
        """Refuses keys of a table in the plan that are not in `known`."""
        for key in sorted(table.keys() - known):
            if table[key]:
                why = _WHY.get(key, "not supported yet")
                self.refuse(f"{start}{_SCENARIO_KEYS.get(key, key)}", why)

    # For the designs of traffic.

    def use(self, number: int, start: str) -> TcpUse:
        """How Linux sets TCP up as the plan's settings with this number say.

        Args:
            number: The number of the settings.
            start: The prefix of their group's keys, such as `dns.a.`.
        """
        if number not in self._uses:
            refuse = self.refuser(f"{start}tcp.")
            settings = self.plan["tcp"][number]
            self._uses[number] = use = tcp_settings.use(settings, self._profile, refuse)
            for feature, key in use.features.items():
                self.features.setdefault(feature, f"{start}tcp.{key}")
        return self._uses[number]

    def hold(self, node: int, use: TcpUse, start: str) -> None:
        """Sets a host's sysctls for TCP; refuses them if another group wants other values."""
        self.set_sysctls(node, use.sysctls, f"{start}tcp")
        for path, key in use.needed.items():
            self.need(node, path, f"{start}tcp.{key}")

    def set_sysctls(self, node: int, sysctls: Mapping[str, str], key: str) -> None:
        """Sets a host's sysctls, below /proc/sys/net; `key` is the key that requests them."""
        held = self._settings.setdefault(self.spaces[node], {})
        for path, value in sysctls.items():
            if held.setdefault(path, value) != value:
                name = path.rpartition("/")[2]
                why = f"{name} is one setting for all of {self.nodes[node]}"
                self.refuse(key, why, "give the groups nodes of their own")

    def need(self, node: int, path: str, key: str) -> None:
        """Notes a sysctl that the run cannot do without; `key` is the key that requests it."""
        self._needed.setdefault(self.spaces[node], {})[path] = key

    def forge(self, back: Plan, key: str) -> str | None:
        """A network of forged addresses, with routes along a path; None if none is left."""
        if len(self._forged) == len(_FORGED):
            self.refuse(f"{key}addresses", f"more than {len(_FORGED)} floods")
            return None
        network = _FORGED[len(self._forged)]
        self._forged.append(network)
        for number in back["links"]:
            self._routes[self.spaces[self.plan["links"][number]["from"]], network] = {
                "to": network,
                "device": f"l{number // 2}",
                "via": self._addresses_of_link(number),
                "source": None,
                "metrics": {},
            }
        # At the end of the path, a route without a device discards packets.
        self._routes[self.spaces[back["to"]], network] = {
            **{"to": network, "device": None, "via": None, "source": None, "metrics": {}},
        }
        return network

    def flavour(self, metrics: tuple[tuple[str, int], ...], start: str, turn: int = 0) -> int:
        """The number of a flavour whose routes have these metrics.

        Args:
            metrics: The metrics of the routes to its addresses.
            start: The prefix of the keys that request it.
            turn: Distinguishes flavours with equal metrics.
        """
        if (metrics, turn) not in self._flavours:
            if len(self._flavours) == _FLAVOURS:
                self.refuse(f"{start}tcp", f"more than {_FLAVOURS} different settings")
                return 0
            self._flavours.append((metrics, turn))
        return self._flavours.index((metrics, turn))

    def address(self, node: int, flavour: int) -> str:
        """The node's address for a flavour; adds it if the node does not have it yet."""
        address = str(ipaddress.IPv4Address(disciplines.FIRST_HOST + (flavour << 16) + node))
        if (node, flavour) not in self._given:
            self._given.add((node, flavour))
            self._addresses.setdefault(self.spaces[node], []).append(("lo", address, 32))
        return address

    def route(self, path: Plan, flavour: int, key: str) -> None:
        """Adds a route to the end of a path at every node on it."""
        target = self.address(path["to"], flavour)
        metrics = dict(self._flavours[flavour][0])
        for number in path["links"]:
            link = self.plan["links"][number]
            name = self.spaces[link["from"]]
            is_first = link["from"] == path["from"]
            other = self._addresses_of_link(number)
            # Only the first node needs the metrics.
            route = {
                "to": target,
                "device": f"l{number // 2}",
                "via": other,
                "source": self.address(path["from"], flavour) if is_first else None,
                "metrics": metrics if is_first else {},
            }
            held = self._routes.setdefault((name, target), route)
            if held["device"] != route["device"]:
                self.refuse(key, "Linux routes by destination, and another group goes elsewhere")
            elif is_first:
                self._routes[name, target] = route

    def _addresses_of_link(self, number: int) -> str:
        """The address at the far end of a directed link."""
        base = int(ipaddress.IPv4Address("10.0.0.0")) + 4 * (number // 2)
        return str(ipaddress.IPv4Address(base + (1 if number % 2 else 2)))

    # Links.

    def _bound(self) -> None:
        if len(self.nodes) > MOST_NODES:
            self.refuse("nodes", f"more than {MOST_NODES} of them")
        self.unknown("", self.plan, _PLAN_KEYS)

    def _link(self, number: int) -> None:
        forward, backward = self.plan["links"][number : number + 2]
        label = number // 2
        a, b = self.spaces[forward["from"]], self.spaces[forward["to"]]
        mtu = forward["mtu"]
        if backward["mtu"] != mtu:
            self.refuse(f"links.{backward['name']}.mtu", "a link has one MTU for both directions")
        device = f"l{label}"
        wired = self._has_stage(forward) or self._has_stage(backward)
        wired = wired or not self._changing.isdisjoint((number, number + 1))
        if wired:
            near, far = f"w{label}a", f"w{label}b"
            self._pair(a, device, self._wires, near, mtu)
            self._pair(self._wires, far, b, device, mtu)
            for here, there in ((near, far), (far, near)):
                self._commands(self._wires).extend(
                    [
                        f"qdisc add dev {here} ingress",
                        f"filter add dev {here} parent ffff: matchall "
                        f"action mirred egress redirect dev {there}",
                    ]
                )
                self._filters.append((self._wires, here, "ffff:"))
        else:
            near = far = device
            self._pair(a, device, b, device, mtu)
        base = int(ipaddress.IPv4Address("10.0.0.0")) + 4 * label
        for offset, name in ((1, a), (2, b)):
            address = str(ipaddress.IPv4Address(base + offset))
            self._addresses.setdefault(name, []).append((device, address, 30))
        for position, link, name, stage in (
            (number, forward, a, far),
            (number + 1, backward, b, near),
        ):
            self._direction(position, link, name, device, stage if wired else None)

    def _has_stage(self, link: Plan) -> bool:
        return bool(
            link["delay"]
            or link["jitter"]
            or link["loss"]
            or _ring_bytes(link)
            or link["rate"] < _FAST
        )

    def _direction(
        self, number: int, link: Plan, name: str, device: str, stage: str | None
    ) -> None:
        key = f"links.{link['name']}."
        self.unknown(key, link, _LINK_KEYS)
        framing = link["framing"]
        ring = link["ring"]
        if ring is not None and ring["packets"] not in (None, 1):
            self.refuse(f"{key}ring.packets", "the kernel's ring counts bytes")
        beyond = framing["overhead"] - framing["queue_overhead"]
        if beyond < 0:
            self.refuse(f"{key}framing.queue_overhead", "it exceeds framing.overhead")
        table = framing["queue_overhead"] - _ETHERNET
        stab = f"stab overhead {table} " if table else ""
        self._places[number] = (name, device, stage, stab, beyond)
        commands = self._commands(name)
        commands.extend(self._shaper(device, stab, link))
        refuse = self.refuser(f"{key}queue.")
        header = framing["queue_overhead"]
        queues = list(disciplines.commands(device, "1:1", 0x10, link["queue"], refuse, header))
        commands.extend(queues)
        self._note_kinds(queues, f"{key}queue.kind")
        self._keys.setdefault(name, {}).update(dict.fromkeys(queues, f"{key}queue"))
        if fq_differences.wanted(link["queue"]):
            self.features.setdefault(fq_differences.FEATURE, f"{key}queue.bands")
        if link["middlebox"] is not None:
            refuse = self.refuser(f"{key}middlebox.")
            commands.extend(middleboxes.commands(device, link["middlebox"], refuse))
            self._filters.append((name, device, "ffff:fff3"))
            self._sinks.add(name)
        if stage is not None:
            self._stage(number, link, stage, stab, beyond)

    def _shaper(self, device: str, stab: str, link: Plan) -> Sequence[str]:
        stall = round(link["rate"] / 8 * self._stall_s)
        return shapers.commands(device, stab, link, _ring_bytes(link), stall)

    def _later(self, changes: Sequence[Plan]) -> list[dict[str, Any]]:
        """The tc commands during the run. Of two changes at the same time, the later one counts."""
        links = dict(enumerate(self.plan["links"]))
        found = []
        for change in sorted(changes, key=lambda change: change["at"]):
            number = change["link"]
            keys = ("rate", "delay", "jitter", "loss", "queue")
            given = {key: change[key] for key in keys if change.get(key) is not None}
            before, link = links[number], {**links[number], **given}
            links[number] = link
            if change["state"] is not None:
                why = "Linux empties the queue of a device that loses its carrier"
                self.refuse("changes.state", why)
            if _ring_bytes(link):
                self.refuse("changes", f"they are not supported with the ring of {link['name']}")
            if link["jitter"] is not None and not link["jitter"]["reorder"]:
                self.refuse("changes.jitter.reorder", "netem's jitter lets packets overtake")
            name, device, stage, stab, beyond = self._places[number]
            queue = []
            if "queue" in given:
                header = link["framing"]["queue_overhead"]
                queue = self._new_queue(device, before["queue"], link["queue"], header)
            shaper = [
                command.replace(" add ", " change ", 1)
                for command in self._shaper(device, stab, link)
                if " htb default " not in command
            ]
            wires = f"qdisc change dev {stage} root handle 1: {stab}"
            if link["dns_exempt"]:
                wires = f"qdisc change dev {stage} parent 1:2 handle 20: "
            for namespace, commands in (
                (name, shaper + queue),
                (self._wires, [wires + _netem(link, beyond)]),
            ):
                found.append(
                    {"at_s": change["at"] / PS, "namespace": namespace, "commands": commands}
                )
        return found

    def _new_queue(self, device: str, before: Plan, after: Plan, header: int) -> list[str]:
        """The commands that change a queue's settings, or replace it and drop its packets."""
        refuse = self.refuser("changes.queue.")
        made = list(disciplines.commands(device, "1:1", 0x10, after, refuse, header))
        ((kind, _),), ((other, _),) = before.items(), after.items()
        if kind == other and kind in _KEEPING:
            return [command.replace(" add ", " change ", 1) for command in made]
        self._note_kinds(made, "changes.queue.kind")
        if fq_differences.wanted(after):
            self.features.setdefault(fq_differences.FEATURE, "changes.queue.bands")
        return [f"qdisc del dev {device} parent 1:1", *made]

    def _note_kinds(self, commands: Sequence[str], key: str) -> None:
        """Notes what tc calls the queues that a key asks for, in case a kernel lacks one."""
        for command in commands:
            words = command.split()
            if words[0] == "qdisc":
                # qdisc add dev DEVICE parent PARENT handle HANDLE KIND ...
                self.kinds.setdefault(words[8], key)

    def _stage(self, number: int, link: Plan, device: str, stab: str, beyond: int) -> None:
        """Adds the stage that packets pass between the ends of a link."""
        key = f"links.{link['name']}."
        if link["jitter"] is not None:
            if _ring_bytes(link):
                self.refuse(f"{key}jitter", "not supported with a ring below the queue")
            if not link["jitter"]["reorder"]:
                self.refuse(f"{key}jitter.reorder", "netem's jitter lets packets overtake")
        words = _netem(link, beyond)
        commands = self._commands(self._wires)
        if not link["dns_exempt"]:
            commands.append(f"qdisc add dev {device} root handle 1: {stab}{words}")
            self._stages[number] = (self._wires, device, _STAGE)
            return
        if _ring_bytes(link):
            self.refuse(f"{key}dns_exempt", "not supported with a ring below the queue")
        # DNS goes through the first band, which delays nothing; all else goes through netem.
        commands.append(
            f"qdisc add dev {device} root handle 1: {stab}prio bands 2 priomap {' '.join('1' * 16)}"
        )
        commands.append(f"qdisc add dev {device} parent 1:1 handle 10: pfifo limit 100000")
        commands.append(f"qdisc add dev {device} parent 1:2 handle 20: {words}")
        for protocol in (17, 6):
            for side in ("sport", "dport"):
                commands.append(
                    f"filter add dev {device} parent 1: protocol ip prio 1 u32 "
                    f"match ip protocol {protocol} 0xff match ip {side} 53 0xffff flowid 1:1"
                )
        self._filters.append((self._wires, device, "1:"))
        self._stages[number] = (self._wires, device, _STAGE)

    def _pair(self, a: str, a_device: str, b: str, b_device: str, mtu: int) -> None:
        self._pairs.append(
            {
                "a_namespace": a,
                "a_device": a_device,
                "b_namespace": b,
                "b_device": b_device,
                "mtu": mtu,
            }
        )

    def _commands(self, name: str) -> list[str]:
        return self._tc.setdefault(name, [])

    # Captures and samples.

    def _capture(self, number: int, capture: Plan) -> dict[str, Any]:
        link = capture["link"]
        return {
            "link": capture["name"],
            "namespace": self.spaces[self.plan["links"][link]["from"]],
            "device": f"l{link // 2}",
            "file": f"capture-{number}.pcapng",
            "both_ways": capture["back"] is not None,
            "snaplen": capture["snaplen"],
        }

    def _samples(self, monitors: Sequence[Plan]) -> dict[str, Any] | None:
        if not monitors:
            return None
        entries = []
        for monitor in monitors:
            number = monitor["link"]
            link = self.plan["links"][number]
            name, device = self.spaces[link["from"]], f"l{number // 2}"
            namespace, stage, handle = self._stages.get(number, (name, device, _ROOT))
            entries.append(
                {
                    "link": link["name"],
                    "node": self.plan["nodes"][link["from"]],
                    "queue": (name, device),
                    "root_handle": _ROOT,
                    "queue_handle": _QUEUE,
                    "wire": (namespace, stage),
                    "wire_handle": handle,
                    "ring": bool(_ring_bytes(link)),
                    "propagation_bytes": round(link["rate"] / 8 * link["delay"] / PS),
                    "lossy": bool(link["loss"]) or number in self._lossy_later,
                }
            )
        return {"rate": PS / monitors[0]["interval"], "of": entries}


def _sink(name: str) -> dict[str, Any]:
    """A pair of devices that stays down."""
    return {
        "a_namespace": name,
        "a_device": middleboxes.SINK,
        "b_namespace": name,
        "b_device": f"{middleboxes.SINK}-end",
        "mtu": 1500,
    }


def _netem(link: Plan, beyond: int) -> str:
    """The arguments for netem, which adds transmission time, delay, jitter and losses."""
    jitter, delay = link["jitter"], link["delay"]
    if jitter is not None and not jitter["deviation"]:
        jitter = None
    words = f"netem limit {_NETEM_LIMIT}"
    if jitter is not None:
        words += f" delay {_time(delay)} {_time(jitter['deviation'])}"
        if jitter["correlation"]:
            words += f" {100 * jitter['correlation']:.6g}%"
        if jitter["distribution"] != "uniform":
            words += f" distribution {jitter['distribution']}"
    elif delay:
        words += f" delay {_time(delay)}"
    if link["loss"]:
        words += f" loss {_loss(link['loss'])}"
    if jitter is None:
        words += f" rate {link['rate']}bit" + (f" {beyond}" if beyond else "")
    return words


def _loss(loss: float | Plan) -> str:
    """What netem is told of random losses, or of those in bursts."""
    if not isinstance(loss, Mapping):
        return _percent(loss)
    states = loss["gilbert-elliott"]
    becomes_good = 1 - states["p"] if states["r"] is None else states["r"]
    shares = (states["p"], becomes_good, states["loss_bad"], states["loss_good"])
    return " ".join(["gemodel", *map(_percent, shares)])


def _percent(share: float) -> str:
    return f"{100 * share:.9g}%"


def _ring_bytes(link: Plan) -> int:
    ring = link["ring"]
    return 0 if ring is None else ring["bytes"] or 0


def _time(picoseconds: int) -> str:
    # tc accepts decimals, but has no unit below a microsecond.
    return f"{round(picoseconds / 1000) / 1000:.12g}us"

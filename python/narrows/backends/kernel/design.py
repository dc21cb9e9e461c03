"""From a plan to a job: namespaces, devices, addresses, routes, queues, traffic, samples.

A node is a namespace. A link is a pair of veth devices; where it has a delay, a jitter, losses, a
ring or a low rate, its two devices end in one more namespace, the *wires*, which redirects packets
between them:

    node a, device l0: tbf (rate, framing) over the queue
      | veth
    wires, w0a --redirect--> w0b: netem (transmission, delay, jitter, loss)
                              | veth
                            node b, device l0

- `tbf` holds the rate and no queue of its own. Its bucket is one frame, or the ring and one frame:
  then the queue may send as long as the ring has room, and netem below, which sends at the link's
  rate, is the ring.
- netem counts a packet's transmission, so that it arrives when its last bit has been sent, and the
  delay. With jitter netem lets packets overtake each other only without a rate: transmission is
  left out then, and on links of 100 Mbit/s and more without delay, which need no netem.
- A size table (`stab`) makes queues count what `framing.queue_overhead` says.

Addresses: a link has a /30 of 10.0.0.0/8. A node has an address of 172.16.0.0/12 on its loopback
device for each *flavour*: metrics of the routes to it, such as ECN. Neighbours are resolved as the
kernel does it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.backends.backend import Refusal
from narrows.backends.kernel import disciplines, tcp_settings
from narrows.backends.kernel.inside.agent.datagrams import LEAST_BYTES
from narrows.backends.kernel.tcp_settings import TcpUse

__all__ = ["Design"]

Plan = Mapping[str, Any]

MOST_NODES = 400
MOST_CONNECTIONS = 5000
MOST_WORKERS = 5000
MOST_STREAMS = 1000

WIRES = "wires"

# What is known here of a plan: anything else that a scenario sets is refused by its name.
_PLAN_KEYS = {
    *("seed", "end", "end_with_dns", "event_limit", "nodes", "links", "changes", "tcp", "paths"),
    *("applications", "queue_monitors", "link_monitors", "captures", "collapse"),
    # Linux resolves addresses on every link.
    "neighbours",
}
_LINK_KEYS = {
    *("name", "from", "to", "rate", "delay", "jitter", "loss", "dns_exempt", "framing", "queue"),
    *("ring", "mtu", "middlebox"),
}

_BULK_KEYS = {"connections"}
_CONNECTION_KEYS = {"name", "there", "back", "tcp", "opener", "start", "stop"}
_STREAM_KEYS = {
    *("streams", "packet_bytes", "interval", "spacing", "probes", "rate", "packets", "period"),
}
_CLIENT_KEYS = {
    *("server", "there", "back", "workers", "start", "spread", "warm_up", "queries"),
    *("think_mean", "sizes", "udp", "tcp"),
}
_SERVER_KEYS = {"service", "service_jitter_mean", "udp_payload", "tcp"}
_SCENARIO_KEYS = {"opportunities_ms": "rate_trace", "on_off": "on"}

_PS = 10**12
_ETHERNET = 14
_NETEM_LIMIT = 200_000
_FAST = 100_000_000
_FLAVOURS = 16
_BULK_PORT = 5001
_DATAGRAM_PORT = 7001
_FIRST_PORT = 10_000
_ROOT = 0x10000
_QUEUE = 0x100000
_STAGE = 0x10000

_SHORTEST_QUERY = 17
_BELOW_DNS = 28


class Design:
    """A job for the agent, and what of the plan it cannot honour."""

    def __init__(self, plan: Plan, profile: Plan, *, prefix: str, stall_s: float) -> None:
        """Designs everything.

        Args:
            plan: What the simulator would be told.
            profile: The settings of TCP's profile `linux-6`.
            prefix: What the names of namespaces begin with.
            stall_s: For how long the machine may not get to sending: buckets are so much larger.
        """
        self.refusals: list[Refusal] = []
        self._plan = plan
        self._stall_s = stall_s
        self._nodes: Sequence[str] = plan["nodes"]
        self._spaces = [f"{prefix}{number}" for number in range(len(self._nodes))]
        self._wires = f"{prefix}{WIRES}"
        self._pairs: list[dict[str, Any]] = []
        self._tc: dict[str, list[str]] = {}
        self._addresses: dict[str, list[tuple[str, str, int]]] = {}
        self._routes: dict[tuple[str, str], dict[str, Any]] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._flavours: list[tuple[tuple[str, int], ...]] = [()]
        self._given: set[tuple[int, int]] = set()
        self._stages: dict[int, tuple[str, str, int]] = {}
        self._filters: list[tuple[str, str, str]] = []
        self._ports: dict[str, int] = {}
        self._profile = profile
        self._bound()
        for number in range(0, len(plan["links"]), 2):
            self._link(number)
        self._uses: dict[int, TcpUse] = {}
        self._bulk: list[dict[str, Any]] = []
        self._dns: list[dict[str, Any]] = []
        self._datagrams: list[dict[str, Any]] = []
        self._flow_rows: list[dict[str, Any]] = []
        for position, application in enumerate(plan["applications"]):
            self._application(position, application)
        for key in ("changes", "captures"):
            if plan[key]:
                self._refuse({"captures": "monitor.capture"}.get(key, key), "not supported yet")

    def job(self) -> dict[str, Any]:
        """What the agent is told.

        Raises:
            ValueError: There are refusals.
        """
        if self.refusals:
            raise ValueError(self.refusals[0].key)
        plan = self._plan
        spaces = [*self._spaces, self._wires]
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
            "seed": plan["seed"],
            "duration_s": plan["end"] / _PS,
            "end_with_dns": plan["end_with_dns"],
            "namespaces": spaces,
            "pairs": self._pairs,
            "addresses": self._addresses,
            "routes": routes,
            "settings": self._settings,
            "tc": self._tc,
            "filters": self._filters,
            "bulk": self._bulk,
            "dns": self._dns,
            "datagrams": self._datagrams,
            "samples": {
                "queues": self._samples(plan["queue_monitors"]),
                "links": self._samples(plan["link_monitors"]),
            },
        }

    @property
    def flows(self) -> Sequence[Mapping[str, Any]]:
        """Of each connection in the order of the table: name, group, ends, ECN."""
        return self._flow_rows

    def _refuse(self, key: str, why: str) -> None:
        refusal = Refusal(key, why)
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    def _refuser(self, start: str) -> Any:
        return lambda key, why: self._refuse(f"{start}{key}", why)

    def _bound(self) -> None:
        if len(self._nodes) > MOST_NODES:
            self._refuse("nodes", f"more than {MOST_NODES} of them")
        self._unknown("", self._plan, _PLAN_KEYS)

    def _unknown(self, start: str, table: Plan, known: set[str]) -> None:
        """Refuses what is set in a table of the plan and not known here."""
        for key in sorted(table.keys() - known):
            if table[key]:
                self._refuse(f"{start}{_SCENARIO_KEYS.get(key, key)}", "not supported yet")

    # Links.

    def _link(self, number: int) -> None:
        forward, backward = self._plan["links"][number : number + 2]
        label = number // 2
        a, b = self._spaces[forward["from"]], self._spaces[forward["to"]]
        mtu = forward["mtu"]
        if backward["mtu"] != mtu:
            self._refuse(f"links.{backward['name']}.mtu", "a link has one for both directions")
        device = f"l{label}"
        wired = self._has_stage(forward) or self._has_stage(backward)
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
        for position, way, name, stage in (
            (number, forward, a, far),
            (number + 1, backward, b, near),
        ):
            self._direction(position, way, name, device, stage if wired else None)

    def _has_stage(self, way: Plan) -> bool:
        return bool(
            way["delay"] or way["jitter"] or way["loss"] or _ring_bytes(way) or way["rate"] < _FAST
        )

    def _direction(self, number: int, way: Plan, name: str, device: str, stage: str | None) -> None:
        key = f"links.{way['name']}."
        self._unknown(key, way, _LINK_KEYS)
        framing, rate = way["framing"], way["rate"]
        if way["middlebox"] is not None:
            self._refuse(f"{key}middlebox", "not supported yet")
        ring = way["ring"]
        if ring is not None and "bytes" not in ring and ring != {"packets": 1}:
            self._refuse(f"{key}ring.packets", "the kernel's ring is had in bytes")
        frame = max(way["mtu"] + framing["overhead"], framing["min"]) + 64
        bucket = frame + _ring_bytes(way) + round(rate / 8 * self._stall_s)
        beyond = framing["overhead"] - framing["queue_overhead"]
        if beyond < 0:
            self._refuse(f"{key}framing.queue_overhead", "it is above framing.overhead")
        table = framing["queue_overhead"] - _ETHERNET
        stab = f"stab overhead {table} " if table else ""
        words = f"tbf rate {rate}bit burst {bucket} limit 10000000"
        if beyond or framing["min"]:
            words += f" overhead {max(beyond, 0)} mpu {framing['min']}"
        commands = self._commands(name)
        commands.append(f"qdisc add dev {device} root handle 1: {stab}{words}")
        commands.extend(
            disciplines.commands(device, "1:1", 0x10, way["queue"], self._refuser(f"{key}queue."))
        )
        if stage is not None:
            self._stage(number, way, stage, stab, beyond)

    def _stage(self, number: int, way: Plan, device: str, stab: str, beyond: int) -> None:
        """What a packet goes through between the ends of a link."""
        key = f"links.{way['name']}."
        jitter, delay = way["jitter"], way["delay"]
        words = f"netem limit {_NETEM_LIMIT}"
        if jitter is not None:
            if _ring_bytes(way):
                self._refuse(f"{key}jitter", "with a ring below the queue it is not supported")
            if not jitter["reorder"]:
                self._refuse(f"{key}jitter.reorder", "netem's jitter lets packets overtake")
            words += f" delay {_time(delay)} {_time(jitter['deviation'])}"
            if jitter["correlation"]:
                words += f" {100 * jitter['correlation']:.6g}%"
            if jitter["distribution"] != "uniform":
                words += f" distribution {jitter['distribution']}"
        elif delay:
            words += f" delay {_time(delay)}"
        if way["loss"]:
            words += f" loss {100 * way['loss']:.9g}%"
        if jitter is None:
            words += f" rate {way['rate']}bit" + (f" {beyond}" if beyond else "")
        commands = self._commands(self._wires)
        if not way["dns_exempt"]:
            commands.append(f"qdisc add dev {device} root handle 1: {stab}{words}")
            self._stages[number] = (self._wires, device, _STAGE)
            return
        if _ring_bytes(way):
            self._refuse(f"{key}dns_exempt", "with a ring below the queue it is not supported")
        # DNS in the first band, which holds nothing back; everything else through netem.
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

    # Traffic.

    def _application(self, position: int, application: Plan) -> None:
        ((kind, told),) = application["kind"].items()
        name = application["name"]
        if kind == "bulk":
            self._unknown(f"traffic.{name}.", told, _BULK_KEYS)
            self._add_bulk(name, told["connections"])
        elif kind == "dns-client":
            self._add_dns(name, told)
        elif kind in ("udp", "ping"):
            self._add_datagrams(name, kind, told)
        elif kind != "dns-server":
            self._refuse(f"traffic.{name}.kind", f"{kind} is not supported yet")

    def _add_bulk(self, name: str, connections: Sequence[Plan]) -> None:
        if len(self._flow_rows) + len(connections) > MOST_CONNECTIONS:
            self._refuse(f"traffic.{name}.connections", f"more than {MOST_CONNECTIONS} in all")
            return
        groups: dict[tuple[Any, ...], dict[str, Any]] = {}
        for connection in connections:
            self._unknown(f"traffic.{name}.", connection, _CONNECTION_KEYS)
            there, back = (self._plan["paths"][connection[key]] for key in ("there", "back"))
            use = self._use(connection["tcp"], name)
            self._hold(there["from"], use, name)
            self._hold(there["to"], use, name)
            flavour = self._flavour(use, name)
            self._route(there, flavour, f"traffic.{name}.route")
            self._route(back, flavour, f"traffic.{name}.route_back")
            download = connection["opener"] == "receiver"
            opener = there["to"] if download else there["from"]
            acceptor = there["from"] if download else there["to"]
            address = self._address(opener, flavour)
            port = self._ports.get(address, _FIRST_PORT)
            self._ports[address] = port + 1
            same = (use.congestion, use.mss, use.nodelay, connection["stop"])
            if same not in groups:
                stop = connection["stop"]
                groups[same] = {
                    "port": _BULK_PORT + len(self._bulk) + len(groups),
                    "congestion": use.congestion,
                    "mss": use.mss,
                    "nodelay": use.nodelay,
                    "stop_s": None if stop is None else stop / _PS,
                    "flows": [],
                }
            groups[same]["flows"].append(
                {
                    "flow": len(self._flow_rows),
                    "opener": self._spaces[opener],
                    "opener_address": address,
                    "opener_port": port,
                    "acceptor": self._spaces[acceptor],
                    "acceptor_address": self._address(acceptor, flavour),
                    "download": download,
                    "start_s": connection["start"] / _PS,
                }
            )
            self._flow_rows.append(
                {
                    "name": connection["name"],
                    "group": name,
                    "sender": self._nodes[there["from"]],
                    "receiver": self._nodes[there["to"]],
                }
            )
        self._bulk.extend(groups.values())

    def _add_dns(self, name: str, told: Plan) -> None:
        key = f"dns.{name}."
        if told["workers"] + sum(group["workers"] for group in self._dns) > MOST_WORKERS:
            self._refuse(f"{key}workers", f"more than {MOST_WORKERS} in all")
        if told["udp"] is None or told["tcp"] is not None:
            self._refuse(f"{key}transport", "only UDP is supported yet")
            return
        self._unknown(key, told, _CLIENT_KEYS)
        sizes = [
            size["constant"]
            for size in told["sizes"].get("drawn", {}).values()
            if isinstance(size, Mapping) and "constant" in size
        ]
        if len(sizes) != 2:
            self._refuse(f"{key}messages", "only query_size and reply_size are supported yet")
            return
        query, reply = sizes
        if query < _SHORTEST_QUERY or query == _SHORTEST_QUERY + 1:
            self._refuse(f"{key}query_size", "no DNS query has this length")
        if not (reply == query or reply >= query + 11):
            self._refuse(f"{key}reply_size", "a reply is as long as its query, or 11 B longer")
        ((_, server),) = self._plan["applications"][told["server"]]["kind"].items()
        self._unknown(f"{key}answers.", server, _SERVER_KEYS)
        if reply > min(told["udp"]["payload"], server["udp_payload"]):
            self._refuse(f"{key}edns_size", "replies are not truncated yet")
        there, back = (self._plan["paths"][told[way]] for way in ("there", "back"))
        self._route(there, 0, f"{key}route")
        self._route(back, 0, f"{key}route_back")
        address = self._address(there["to"], 0)
        self._dns.append(
            {
                "group": name,
                "client": self._spaces[there["from"]],
                "client_address": self._address(there["from"], 0),
                "server": self._spaces[there["to"]],
                "server_address": address,
                "answers": all(group["server_address"] != address for group in self._dns),
                "workers": told["workers"],
                "warm_up": told["warm_up"],
                "queries": told["queries"],
                "start_s": told["start"] / _PS,
                "spread_s": told["spread"] / _PS,
                "think_mean_s": told["think_mean"] / _PS,
                "timeouts_s": [timeout / _PS for timeout in told["udp"]["timeouts"]],
                "query_bytes": query,
                "reply_bytes": reply,
                "service_s": server["service"] / _PS,
                "service_jitter_s": server["service_jitter_mean"] / _PS,
            }
        )

    def _add_datagrams(self, name: str, kind: str, told: Plan) -> None:
        key = f"traffic.{name}."
        self._unknown(key, told, _STREAM_KEYS)
        if told["packet_bytes"] < LEAST_BYTES:
            self._refuse(f"{key}packet", f"a datagram needs {LEAST_BYTES} B here")
        if len(told["streams"]) + sum(len(each["streams"]) for each in self._datagrams) > (
            MOST_STREAMS
        ):
            self._refuse(f"{key}pairs", f"more than {MOST_STREAMS} streams in all")
        streams = []
        for stream in told["streams"]:
            self._unknown(key, stream, {"name", "there", "back", "start", "stop"})
            there, back = (self._plan["paths"][stream[way]] for way in ("there", "back"))
            self._route(there, 0, f"{key}route")
            self._route(back, 0, f"{key}route_back")
            streams.append(
                {
                    "sender": self._spaces[there["from"]],
                    "sender_address": self._address(there["from"], 0),
                    "receiver": self._spaces[there["to"]],
                    "receiver_address": self._address(there["to"], 0),
                    "start_s": stream["start"] / _PS,
                    "stop_s": None if stream["stop"] is None else stream["stop"] / _PS,
                }
            )
        is_ping = kind == "ping"
        packet = told["packet_bytes"]
        self._datagrams.append(
            {
                "group": name,
                "answers": is_ping,
                "port": _DATAGRAM_PORT + len(self._datagrams),
                "packet_bytes": packet,
                "gap_s": told["interval"] / _PS if is_ping else 8 * packet / told["rate"],
                "poisson": told["spacing"] == "poisson",
                "packets": told["probes"] if is_ping else told["packets"],
                "period_s": None if is_ping else told["period"] / _PS,
                "streams": streams,
            }
        )

    def _use(self, number: int, group: str) -> TcpUse:
        """How the plan's TCP settings of a number are had."""
        if number not in self._uses:
            refuse = self._refuser(f"traffic.{group}.tcp.")
            settings = self._plan["tcp"][number]
            self._uses[number] = tcp_settings.use(settings, self._profile, refuse)
        return self._uses[number]

    def _hold(self, node: int, use: TcpUse, group: str) -> None:
        """Sets a host's sysctls; another group may want the same ones."""
        held = self._settings.setdefault(self._spaces[node], {})
        for path, value in use.sysctls.items():
            if held.setdefault(path, value) != value:
                self._refuse(
                    f"traffic.{group}.tcp",
                    f"{path.rpartition('/')[2]} is one setting for all of {self._nodes[node]}",
                )

    def _flavour(self, use: TcpUse, group: str) -> int:
        if use.metrics not in self._flavours:
            if len(self._flavours) == _FLAVOURS:
                self._refuse(f"traffic.{group}.tcp", f"more than {_FLAVOURS} different settings")
                return 0
            self._flavours.append(use.metrics)
        return self._flavours.index(use.metrics)

    def _address(self, node: int, flavour: int) -> str:
        """The node's address for a flavour, which it has from then on."""
        base = int(ipaddress.IPv4Address("172.16.0.0")) + (flavour << 16)
        address = str(ipaddress.IPv4Address(base + node + 1))
        if (node, flavour) not in self._given:
            self._given.add((node, flavour))
            self._addresses.setdefault(self._spaces[node], []).append(("lo", address, 32))
        return address

    def _route(self, path: Plan, flavour: int, key: str) -> None:
        """Routes to the end of a path in every node on it."""
        target = self._address(path["to"], flavour)
        metrics = dict(self._flavours[flavour])
        for number in path["links"]:
            link = self._plan["links"][number]
            name = self._spaces[link["from"]]
            is_first = link["from"] == path["from"]
            other = self._addresses_of_link(number)
            # In the unit and with the kernel's own least time-out: only the ends need metrics.
            route = {
                "to": target,
                "device": f"l{number // 2}",
                "via": other,
                "source": self._address(path["from"], flavour) if is_first else None,
                "metrics": metrics if is_first else {},
            }
            held = self._routes.setdefault((name, target), route)
            if held["device"] != route["device"]:
                self._refuse(key, "Linux routes by destination, and another group goes elsewhere")
            elif is_first:
                self._routes[name, target] = route

    def _addresses_of_link(self, number: int) -> str:
        """The address at the far end of a directed link."""
        base = int(ipaddress.IPv4Address("10.0.0.0")) + 4 * (number // 2)
        return str(ipaddress.IPv4Address(base + (1 if number % 2 else 2)))

    # Samples.

    def _samples(self, monitors: Sequence[Plan]) -> dict[str, Any] | None:
        if not monitors:
            return None
        entries = []
        for monitor in monitors:
            number = monitor["link"]
            way = self._plan["links"][number]
            name, device = self._spaces[way["from"]], f"l{number // 2}"
            namespace, stage, handle = self._stages.get(number, (name, device, _ROOT))
            entries.append(
                {
                    "link": way["name"],
                    "queue": (name, device),
                    "root_handle": _ROOT,
                    "queue_handle": _QUEUE,
                    "wire": (namespace, stage),
                    "wire_handle": handle,
                    "ring": bool(_ring_bytes(way)),
                    "propagation_bytes": round(way["rate"] / 8 * way["delay"] / _PS),
                    "lossy": bool(way["loss"]),
                }
            )
        return {"rate": _PS / monitors[0]["interval"], "of": entries}


def _ring_bytes(way: Plan) -> int:
    ring = way["ring"]
    return ring.get("bytes", 0) if ring is not None else 0


def _time(picoseconds: int) -> str:
    # tc reads decimals, but knows no unit below a microsecond.
    return f"{round(picoseconds / 1000) / 1000:.12g}us"

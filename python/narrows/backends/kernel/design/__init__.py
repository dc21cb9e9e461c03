"""From a plan to a job: namespaces, devices, addresses, routes, queues, traffic, samples.

A node is a namespace. A link is a pair of veth devices. If it has a delay, jitter, losses, a ring
or a low rate, its two devices end in another namespace, the *wires*, which redirects packets
between them:

    node a, device l0: shaper (rate, framing) over the queue
      | veth
    wires, w0a --redirect--> w0b: netem (transmission, delay, jitter, loss)
                              | veth
                            node b, device l0

- A shaper above the queue keeps the rate and has no queue of its own (`shapers`). It asks the queue
  for a packet when the transmitter is free, or when the ring has room. Below it, netem acts as
  transmitter and ring and sends at the link's rate.
- netem delays a packet by its transmission time, so that it arrives when its last bit has been
  sent, and by the link's delay. With jitter, netem lets packets overtake each other only if it has
  no rate, so the job then leaves transmission time out. Links of 1 Gbit/s and more without delay
  leave it out too, because they need no netem.
- A size table (`stab`) makes queues count what `framing.queue_overhead` says.

Addresses: a link has a /30 from 10.0.0.0/8. A node has one address from 172.16.0.0/12 on its
loopback device for each *flavour*, which is a set of route metrics, such as ECN. The kernel
resolves neighbours in its usual way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.backends.backend import Refusal
from narrows.backends.kernel.design.hosts import Hosts
from narrows.backends.kernel.design.network import PS, Network, Plan
from narrows.backends.kernel.inside.agent import NAMESPACES
from narrows.backends.kernel.live import refusals
from narrows.backends.kernel.software import Chosen

__all__ = ["Design"]


class Design:
    """A job for the agent, and the parts of the plan that it cannot honour."""

    def __init__(
        self,
        plan: Plan,
        profile: Plan,
        *,
        prefix: str,
        stall_s: float,
        software: Mapping[str, Chosen] | None = None,
    ) -> None:
        """Designs everything.

        Args:
            plan: The plan, as the simulator would get it.
            profile: The settings of the kernel's TCP profile.
            prefix: The prefix of the namespaces' names.
            stall_s: Seconds for which the machine may stall; token buckets are larger by this time.
            software: The real DNS servers, by the names of their groups.
        """
        # Use plain numbers, because a scenario's quantities print with their units.
        plan = json.loads(json.dumps(plan))
        self._plan = plan
        self._network = Network(plan, profile, prefix=prefix, stall_s=stall_s)
        self._hosts = Hosts(self._network, software or {})
        for number in range(len(plan["applications"])):
            self._hosts.add(number)
        self._refuse_encryption()
        self._refuse_samples()

    @property
    def refusals(self) -> Sequence[Refusal]:
        """The keys that Linux cannot honour or that are not supported."""
        return self._network.refusals

    @property
    def kinds(self) -> Mapping[str, str]:
        """For each kind of queue that not every kernel has, the key of a queue of this kind."""
        return self._network.kinds

    @property
    def features(self) -> Mapping[str, str]:
        """For each feature of TCP that not every kernel has, a key that needs it."""
        return self._network.features

    def job(self) -> dict[str, Any]:
        """The job for the agent, as JSON values.

        Raises:
            ValueError: There are refusals.
        """
        if self.refusals:
            raise ValueError(self.refusals[0].key)
        return {
            "seed": self._plan["seed"],
            "duration_s": self._plan["end"] / PS,
            **self._network.job(),
            "dns_servers": self._hosts.programs.jobs,
        }

    def places(self) -> dict[str, Any]:
        """The places of the nodes, for narrows-live."""
        return self._hosts.places(NAMESPACES)

    @property
    def plan(self) -> Plan:
        """The plan, in which the lengths that real servers are asked for are listed."""
        return self._plan

    def real(self) -> dict[str, Any]:
        """The real servers that narrows-live asks, and the queries of their clients."""
        programs = self._hosts.programs
        return {"servers": programs.numbers, "queries": programs.queries}

    def _refuse_samples(self) -> None:
        """Refuses samples of connections whose sender is no socket of narrows-live."""
        monitor = self._plan["flow_monitor"]
        groups = set(monitor["groups"]) if monitor else set()
        for application in self._plan["applications"]:
            name, ((kind, settings),) = application["name"], application["kind"].items()
            if name not in groups:
                continue
            tls = settings["tcp"] and settings["tcp"]["tls"] if kind == "dns-client" else None
            secure = settings["secure"] if kind == "page" else tls
            if secure and secure["quic"]:
                why = f"the QUIC library does not tell the windows of {name}"
            elif kind == "dns-client" and settings["server"] in self._hosts.programs.numbers:
                why = f"a real server does not tell the windows of {name}"
            else:
                continue
            self._network.refuse("monitor.flows.groups", why, f"name groups other than {name}")

    def _refuse_encryption(self) -> None:
        asks = {
            application["name"]
            for application in self._plan["applications"]
            if "dns-client" in application["kind"]
        }
        for name, why in refusals(self._plan, self.real()):
            key = f"dns.{name}.transport" if name in asks else f"traffic.{name}.tls"
            self._network.refuse(key, why)

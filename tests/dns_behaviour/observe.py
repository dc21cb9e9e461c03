"""What a client did, read from its packets."""

from __future__ import annotations

import dns.exception
import dns.flags
import dns.message
import dns.rdatatype

from .lab import Trial
from .packets import FAST_OPEN, FIN, SYN, TCP, UDP, Packet, once


def message(packet: Packet) -> dns.message.Message | None:
    """The DNS message of a datagram, or the first one of a segment."""
    wire = packet.payload[2:] if packet.protocol == TCP else packet.payload
    try:
        return dns.message.from_wire(wire, ignore_trailing=True)
    except (dns.exception.DNSException, ValueError):
        return None


def line(packet: Packet) -> str:
    """A packet as a line of text."""
    arrow = ">" if packet.from_client else "<"
    text = f"{packet.at:9.4f} {packet.client_port:5} {arrow} {packet.letters():8}"
    text += f" payload {len(packet.payload):4} ip {packet.length:4}"
    if packet.payload and packet.protocol in (TCP, UDP) and not packet.offset:
        found = message(packet)
        if found is not None:
            text += f" id {found.id:5} {found.question[0].name if found.question else '-'}"
            if found.question:
                text += f" {dns.rdatatype.to_text(found.question[0].rdtype)}"
            text += f" edns {found.payload}" if found.edns >= 0 else " no edns"
            if found.flags & dns.flags.TC:
                text += " TC"
    cookie = packet.option(FAST_OPEN)
    if cookie is not None:
        text += f" fast-open {len(cookie)}"
    if packet.more:
        text += " more"
    return text


def udp_queries(trial: Trial) -> list[Packet]:
    """The client's queries over UDP."""
    return [p for p in trial.packets if p.from_client and p.protocol == UDP and p.payload]


def tcp_queries(trial: Trial) -> list[Packet]:
    """Segments of the client with data, in a SYN too; each kind of client sends a query whole.

    Segments that the kernel retransmitted are left out, because the client asked only once.
    """
    return [p for p in once(trial.packets) if p.from_client and p.protocol == TCP and p.payload]


def connections(trial: Trial) -> list[Packet]:
    """The first SYN of each connection."""
    first: dict[int, Packet] = {}
    for packet in trial.packets:
        if packet.from_client and packet.flags & SYN:
            first.setdefault(packet.source_port, packet)
    return list(first.values())


def repeated_syns(trial: Trial) -> list[float]:
    """Seconds from the first SYN of the first connection to each of its SYNs."""
    port = connections(trial)[0].source_port
    mine = [p for p in trial.packets if p.from_client and p.client_port == port]
    syns = [p.at for p in mine if p.flags & SYN]
    return [at - syns[0] for at in syns]


def told(trial: Trial) -> float | None:
    """When the first name's user was told something."""
    return trial.asks[0].answered


def extra_bytes(packet: Packet) -> int:
    """Bytes of a query besides header and question."""
    query = message(packet)
    assert query is not None
    question = len(query.question[0].name.to_wire()) + 4
    return len(packet.payload) - 12 - question


def question_type(packet: Packet) -> str:
    """The type of records that a query asks for."""
    query = message(packet)
    assert query is not None
    return dns.rdatatype.to_text(query.question[0].rdtype)


def longest_round_trip(trial: Trial) -> float:
    """The longest time from a query over UDP to its reply, as seen at the line."""
    sent: dict[int, float] = {}
    longest = 0.0
    for packet in trial.packets:
        if packet.protocol == UDP and packet.from_client:
            sent[packet.source_port] = packet.at
        elif packet.protocol == UDP and packet.destination_port in sent:
            longest = max(longest, packet.at - sent[packet.destination_port])
    return longest


def host(packet: Packet) -> str:
    """The first label of the name that a query asks for."""
    query = message(packet)
    assert query is not None
    return query.question[0].name.labels[0].decode().lower()


def unreachable(trial: Trial, timeout: float) -> str:
    """The effect of "port unreachable"; `timeout` is how long the client waits if nothing comes."""
    queries, end = udp_queries(trial), told(trial)
    if len(queries) > 1 and queries[1].at < timeout / 2:
        return "next"
    return "fails" if len(queries) == 1 and end is not None and end < timeout / 2 else "waits"


def format_error(trial: Trial) -> str:
    """The effect of FORMERR."""
    queries = [message(p) for p in udp_queries(trial)]
    if all(query is not None and query.edns < 0 for query in queries):
        return "never"
    last = queries[-1]
    return "plain" if last is not None and last.edns < 0 else "fails"


def retries(trial: Trial) -> str:
    """What follows a connection that failed."""
    made = connections(trial)
    if len(made) < 2:
        return "none"
    between = [p for p in udp_queries(trial) if made[0].at < p.at < made[1].at]
    return "udp-first" if between else "tcp"


def connect_timeout(trial: Trial) -> float | None:
    """Seconds from the first SYN to that of the next connection, or until the user is told."""
    made = connections(trial)
    if not made:
        return None
    if len(made) > 1:
        return made[1].at - made[0].at
    end = told(trial)
    return None if end is None else end - made[0].at


def answer_timeout(trial: Trial, watch: float) -> float | None:
    """Seconds from the first query over TCP to the next, to the FIN, or until the user is told."""
    queries = tcp_queries(trial)
    if not queries:
        return None
    begin = queries[0]
    ends = [p.at for p in queries[1:]] + [
        p.at for p in trial.packets if p.from_client and p.flags & FIN and p.at < watch - 1
    ]
    end = told(trial)
    ends += [end] if end is not None else []
    return min(ends) - begin.at if ends else None


def reused(trial: Trial) -> bool:
    """Whether a connection carried more than one query."""
    return 0 < len(connections(trial)) < len(tcp_queries(trial))


def idle_timeout(trial: Trial) -> float | None:
    """Seconds from the last reply on the first connection to the client's FIN."""
    made = connections(trial)
    if not made:
        return None
    port = made[0].source_port
    mine = [p for p in once(trial.packets) if p.client_port == port and p.protocol == TCP]
    replies = [p.at for p in mine if not p.from_client and p.payload]
    ends = [p.at for p in mine if p.from_client and p.flags & FIN]
    return ends[0] - replies[-1] if ends and replies else None


def pipelined(trial: Trial) -> bool:
    """Whether a query went out while another on its connection waited for its reply."""
    for syn in connections(trial):
        port = syn.source_port
        mine = [p for p in once(trial.packets) if p.client_port == port and p.payload]
        first_reply = next((p.at for p in mine if not p.from_client), float("inf"))
        if sum(p.from_client and p.protocol == TCP and p.at < first_reply for p in mine) > 1:
            return True
    return False


def one_segment(trial: Trial) -> bool:
    """Whether length and query are in one segment."""
    return all(len(p.payload) >= 2 + int.from_bytes(p.payload[:2]) > 2 for p in tcp_queries(trial))


def client_closes(trial: Trial) -> bool:
    """Whether the first FIN of every connection is the client's."""
    for syn in connections(trial):
        ends = [p for p in trial.packets if p.client_port == syn.source_port and p.flags & FIN]
        if ends and not ends[0].from_client:
            return False
    return True

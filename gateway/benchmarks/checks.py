"""Checks that the gateway does what S1 to S4 and S9 of Hayes, Rossi, Armitage 2010 say.

The names are those of `narrows.reproduce.hayes_2010.claims.CHECKS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .beds import Bed, Beds
from .failing import Failing
from .lab import LabError, run
from .servers import ZONE
from .wire import ACK, FIN, PSH, SYN, Ghost, Segment, query

SYNS = 1000
TXT, A = 16, 1

Row = dict[str, Any]
Note = Callable[[str, str, bool, str], None]


def observe(beds: Beds, plain: Bed, keep: Bed, axfr: Bed, *, rounds: int) -> list[Row]:
    """All checks, over IPv4 and IPv6; the beds have one server, alone and behind the gateway.

    Choices of the paper (S2, S3) are checked with all of its settings.
    """
    rows: list[Row] = []
    paper = beds.behind(keep.server.name, "gateway-paper")
    defaults = beds.behind(keep.server.name, "gateway-defaults")
    cut = beds.behind(keep.server.name, "gateway-truncate", truncate_over="512 B")
    for number in range(1, rounds + 1):
        for family in (4, 6):

            def note(id: str, check: str, ok: bool, detail: str = "") -> None:
                row = {"id": id, "round": number, "check": check, "family": family}  # noqa: B023
                rows.append({**row, "ok": ok, "detail": detail})

            _segments(keep, family, note)
            _settings(keep, note)
            if paper is not None:
                _at_once(paper, family, note)
                _fin(paper, family, note)
            if defaults is not None:
                _defaults(defaults, note)
            _transfer(axfr, plain, family, note)
            if cut is not None:
                _truncation(cut, plain, family, note)
            _failure(plain, family, note)
    return rows


def _segments(bed: Bed, family: int, note: Note) -> None:
    gateway = bed.gateway
    assert gateway is not None, "the bed is behind one"
    ghost = Ghost(bed.link, family)
    try:
        tcp, udp = _received(bed, "Tcp", "InSegs"), _datagrams(bed, family)
        opened = ghost.open()
        note("S1", "syn-answered", opened is not None, "")
        entries = gateway.entries()
        for port in range(30_000, 30_000 + SYNS):
            ghost.send(SYN, port, port=port)
        answered = sum(1 for segment in ghost.receive(0.3) if segment.flags & SYN)
        kept = gateway.entries()
        note("S1", "no-state", kept == entries and answered > 0, f"{answered} answers, {kept} kept")
        note("S1", "fin-answered", *_closed(ghost))
        opened = ghost.open()
        replies = _ask(ghost, opened, "h0000001", A)
        data = b"".join(s.payload for s in replies)
        whole = len(data) > 2 and int.from_bytes(data[:2], "big") == len(data) - 2
        note("S1", "translated", whole and _datagrams(bed, family) > udp, f"{len(data)} bytes")
        seen = _received(bed, "Tcp", "InSegs") - tcp
        note("S2", "ack-dropped", seen == 0, f"{seen} segments reached the kernel's TCP")
        asked = ((opened or (0, 0))[0] + len(query(f"h0000001.{ZONE}", A, 1))) % 2**32
        note("S2", "query-acknowledged", any(s.ack == asked for s in replies), _shown(replies))
        opened, counted = ghost.open(), gateway.counters()
        segments = [s for s in _ask(ghost, opened, "large", TXT) if s.payload]
        # The gateway counts them, because the clients' interface may have joined them.
        more = gateway.counters()
        sent = more["reply_segments"] - counted["reply_segments"]
        parts = {s.seq: s.payload for s in segments}
        data = b"".join(parts[seq] for seq in sorted(parts))
        whole = len(data) > 2 and int.from_bytes(data[:2], "big") == len(data) - 2
        note("S2", "reply-segmented", whole and sent > 1, f"{sent} segments, {len(data)} bytes")
        before = gateway.entries()
        if opened is not None:
            seq = opened[0] + len(query(f"large.{ZONE}", TXT, 1))
            ghost.send(ACK, seq, opened[1] + len(data))
            ghost.send(FIN | ACK, seq, opened[1] + len(data))
            list(ghost.receive(0.2))
            # The FIN that came back is acknowledged.
            ghost.send(ACK, seq + 1, opened[1] + len(data) + 1)
            list(ghost.receive(0.2))
        after = gateway.entries()
        note("S2", "entry-removed", after == before - 1, f"{before} entries, then {after}")
    finally:
        ghost.close()


def _closed(ghost: Ghost) -> tuple[bool, str]:
    """Whether a FIN that follows the handshake is acknowledged."""
    opened = ghost.open()
    if opened is None:
        return False, "no SYN/ACK"
    seq, ack = opened
    ghost.send(FIN | ACK, seq, ack)
    answers = [segment for segment in ghost.receive(0.3) if segment.port == ghost.port]
    return any(s.flags & ACK and s.ack == (seq + 1) % 2**32 for s in answers), _shown(answers)


def _at_once(bed: Bed, family: int, note: Note) -> None:
    """Whether the first segment after a query acknowledges it and has no data."""
    ghost = Ghost(bed.link, family)
    try:
        opened = ghost.open()
        replies = _ask(ghost, opened, "h0000001", A)
        asked = ((opened or (0, 0))[0] + len(query(f"h0000001.{ZONE}", A, 1))) % 2**32
        early = bool(replies) and not replies[0].payload and replies[0].ack == asked
        answered = any(segment.payload for segment in replies)
        note("S2", "acknowledged-at-once", early and answered, _shown(replies))
    finally:
        ghost.close()


def _fin(bed: Bed, family: int, note: Note) -> None:
    ghost = Ghost(bed.link, family)
    try:
        segments = [s for s in _ask(ghost, ghost.open(), "large", TXT) if s.payload]
        first, last = segments[:-1], segments[-1:]
        right = bool(last) and bool(last[0].flags & FIN) and not any(s.flags & FIN for s in first)
        note("S2", "fin-on-last", right, _shown(segments))
    finally:
        ghost.close()


def _settings(bed: Bed, note: Note) -> None:
    """The names and defaults of the settings, as the program prints them."""
    assert bed.gateway is not None, "the bed is behind one"
    text = " ".join(run(str(bed.gateway.program), "run", "--help").split())
    found = dict(re.findall(r"--([a-z-]+) <[^>]*> .*?\[default: ([^\]]*)\]", text))
    names = ("timeout", "loglevel", "port", "active", "axfr-detect")
    cache = ("syncache-hashsize", "syncache-cachelimit", "syncache-bucketlimit")
    missing = [name for name in (*names, *cache) if name not in found]
    note("S3", "names", not missing, f"missing: {missing}" if missing else "")
    # 3000 ticks of a millisecond.
    wanted = {"timeout": "3 s", "loglevel": "1", "port": "53"}
    wanted |= {"syncache-hashsize": "512", "syncache-bucketlimit": "30"}
    other = {name: found.get(name) for name in wanted if found.get(name) != wanted[name]}
    note("S3", "defaults", not other, f"{other}" if other else "")


def _defaults(bed: Bed, note: Note) -> None:
    """The settings of a program that runs with the paper's preset alone."""
    assert bed.gateway is not None, "the bed is behind one"
    settings = bed.gateway.settings()
    for check, name in (("default-active", "active"), ("default-axfr-detect", "axfr_detect")):
        note("S3", check, settings[name] is False, f"{name} = {settings[name]}")


def _transfer(bed: Bed, plain: Bed, family: int, note: Note) -> None:
    assert bed.gateway is not None, "the bed is behind one"
    before = bed.gateway.counters().get("to_kernel_transfer", 0)
    ours = _dig(bed, family, "AXFR", ZONE)
    taken = bed.gateway.counters().get("to_kernel_transfer", 0) - before
    note("S4", "transfer-detected", taken == 1, f"{taken} transfers left to the kernel")
    theirs = _dig(plain, family, "AXFR", ZONE)
    whole = len(ours) > 100 and ours == theirs
    note("S4", "transfer-whole", whole, f"{len(ours)} records of {len(theirs)}")


def _truncation(bed: Bed, plain: Bed, family: int, note: Note) -> None:
    name = f"large.{ZONE}"
    said = run(*_dig_command(bed, family), "+notcp", "+ignore", "+bufsize=4096", name, "TXT")
    flags = re.search(r"flags: ([a-z ]+);", said)
    cut = flags is not None and "tc" in flags[1].split()
    note("S9", "truncated", cut, flags[1] if flags else "no answer")
    ours = _dig(bed, family, "TXT", name, "+notcp", "+bufsize=4096")
    theirs = _dig(plain, family, "TXT", name, "+tcp")
    note("S9", "retried", len(ours) > 1 and ours == theirs, f"{len(ours)} of {len(theirs)} records")


def _failure(bed: Bed, family: int, note: Note) -> None:
    """Whether dig turns to TCP when it gets no reply over UDP, and when the reply is an error."""
    turned = []
    for what, reply in (("no reply", b""), ("SERVFAIL", b"\x81\x82")):
        with Failing(bed.link, family, reply) as failing:
            command = _dig_command(bed, family, "+tries=2", "+time=1", "-p", str(failing.port))
            run(*command, f"h0000001.{ZONE}", check=False)
        asked = failing.datagrams > 0
        if failing.connections or not asked:
            turned.append(f"{what}: {failing.connections} connections")
    note("S12", "stays-with-udp", not turned, ", ".join(turned))


def _ask(ghost: Ghost, opened: tuple[int, int] | None, host: str, kind: int) -> list[Segment]:
    """The segments that come after a query on a connection."""
    if opened is None:
        return []
    seq, ack = opened
    ghost.send(ACK | PSH, seq, ack, query(f"{host}.{ZONE}", kind, 4242))
    return [segment for segment in ghost.receive(0.3) if segment.port == ghost.port]


def _dig_command(bed: Bed, family: int, *more: str) -> list[str]:
    server = bed.link.server if family == 4 else bed.link.server6
    more = more or ("+tries=1", "+time=3")
    return bed.link.at_client("dig", f"@{server}", "+nocookie", *more)


def _dig(bed: Bed, family: int, kind: str, name: str, *more: str) -> list[str]:
    """The records of an answer, sorted as text."""
    try:
        said = run(*_dig_command(bed, family), "+noall", "+answer", *more, name, kind)
    except LabError:
        return []
    lines = [" ".join(line.split()) for line in said.splitlines()]
    return sorted(line for line in lines if line and not line.startswith(";"))


def _received(bed: Bed, group: str, name: str) -> int:
    """A counter of the kernel in the server's namespace (/proc/net/snmp)."""
    text = Path(f"/proc/{bed.server.process.pid}/net/snmp").read_text()
    names, values = (line.split() for line in text.splitlines() if line.startswith(f"{group}:"))
    return int(values[names.index(name)])


def _datagrams(bed: Bed, family: int) -> int:
    if family == 4:
        return _received(bed, "Udp", "InDatagrams")
    text = Path(f"/proc/{bed.server.process.pid}/net/snmp6").read_text()
    return int(dict(line.split() for line in text.splitlines())["Udp6InDatagrams"])


def _shown(segments: list[Segment]) -> str:
    """Segments in short: flags and bytes."""
    letters = ((SYN, "S"), (FIN, "F"), (4, "R"), (PSH, "P"), (ACK, "."))
    words = [
        "".join(letter for flag, letter in letters if segment.flags & flag)
        + str(len(segment.payload))
        for segment in segments
    ]
    return " ".join(words)

"""How each client is run: unmodified, with its defaults, and configured only for our server."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode

from ..network import Namespace
from .cases import ROOT, Case, zone

RESOLVED = (
    "/usr/local/lib/narrows-tests/systemd-resolved",
    "/usr/lib/systemd/systemd-resolved",
    "/lib/systemd/systemd-resolved",
)


@dataclass(frozen=True)
class Ask:
    """One name that a user asked a client for."""

    name: str
    asked: float
    """Seconds since the first packet."""
    answered: float | None
    """When the user was told a result; None: never while it was watched."""
    outcome: str


@dataclass(frozen=True)
class Client:
    """A program that asks DNS servers."""

    name: str
    version: Callable[[], str | None]
    """Returns its version, or None if it is not installed."""
    daemon: Callable[[Path, str, dict[str, Case]], list[str]] | None = None
    """Writes its configuration and gives its command line; `places` are our server's addresses."""
    run: Callable[[Namespace, Path, str, Case, list[str], float], list[Ask]] | None = None
    """If it is no daemon: asks for names, and gives up after that many seconds."""
    prepare: Callable[[], object] = lambda: None
    """What it needs once."""


def names(case: Case) -> list[str]:
    """The names that are asked for."""
    if case.asks == "warm":
        return [f"q{i}.{zone(case)}" for i in range(1, 11)] + [f"drop.{zone(case)}"]
    count = {"sequence": 5, "together": 10}.get(case.asks, 1)
    return [f"q{i}.{zone(case)}" for i in range(1, count + 1)]


def said(words: Sequence[str], pattern: str) -> str | None:
    """The version in a program's output; None if the program is not there."""
    if not shutil.which(words[0]):
        return None
    done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else "unknown"


def installed(words: Sequence[str], pattern: str = r"(\d+(?:\.\d+)+)") -> Callable[[], str | None]:
    """A function that asks a program for its version when that is needed."""
    return functools.cache(lambda: said(words, pattern))


def zones(places: dict[str, Case]) -> list[tuple[str, Case]]:
    """The servers of zones."""
    return [(place, case) for place, case in places.items() if case != ROOT]


def unbound(folder: Path, listen: str, places: dict[str, Case]) -> list[str]:
    """As an iterating resolver that knows where each zone's server is."""
    lines = ["server:", f"  interface: {listen}", "  do-ip6: no", '  username: ""']
    lines += ['  chroot: ""', f'  directory: "{folder}"', f'  pidfile: "{folder}/pid"']
    lines += ["  do-daemonize: no", "  use-syslog: no", '  module-config: "iterator"']
    lines += ['  local-zone: "test." nodefault', "remote-control:", "  control-enable: no"]
    for address, case in zones(places):
        lines += ["stub-zone:", f'  name: "{zone(case)}"', f"  stub-addr: {address}"]
    (folder / "unbound.conf").write_text("\n".join(lines) + "\n")
    return ["unbound", "-d", "-c", f"{folder}/unbound.conf"]


def bind(folder: Path, listen: str, places: dict[str, Case]) -> list[str]:
    """As an iterating resolver with zones of type static-stub."""
    lines = [f'options {{ directory "{folder}"; pid-file "{folder}/pid";']
    lines += [f"listen-on {{ {listen}; }}; listen-on-v6 {{ none; }}; dnssec-validation no;"]
    lines += ['session-keyfile "session.key"; };', "controls { };"]
    for address, case in places.items():
        lines += [
            f'zone "{zone(case)}" {{ type static-stub; server-addresses {{ {address}; }}; }};'
        ]
    (folder / "named.conf").write_text("\n".join(lines) + "\n")
    return ["named", "-g", "-n", "1", "-4", "-c", f"{folder}/named.conf"]


def knot_resolver(folder: Path, listen: str, places: dict[str, Case]) -> list[str]:
    """As an iterating resolver that starts at our root."""
    root = next(place for place, case in places.items() if case == ROOT)
    lines = [f"net.listen('{listen}', 53, {{ kind = 'dns' }})", "net.ipv6 = false"]
    lines += ["trust_anchors.remove('.')", "cache.size = 10 * MB"]
    lines += ["modules = { 'hints > iterate' }", f"hints.root({{ ['ns.test.'] = '{root}' }})"]
    lines += ["policy.add(policy.all(policy.PASS))"]
    (folder / "kresd.conf").write_text("\n".join(lines) + "\n")
    return ["kresd", "-n", "-c", f"{folder}/kresd.conf", str(folder)]


def powerdns(folder: Path, listen: str, places: dict[str, Case]) -> list[str]:
    """As an iterating resolver with `forward-zones`."""
    served = ",".join(f"{zone(case)}={address}" for address, case in zones(places))
    lines = [f"local-address={listen}", f"socket-dir={folder}", f"forward-zones={served}"]
    # Its default does not ask servers at private addresses, such as ours.
    lines += ["dont-query=", "daemon=no", "disable-syslog=yes"]
    lines += ["security-poll-suffix=", "threads=1", "setuid=", "setgid="]
    (folder / "recursor.conf").write_text("\n".join(lines) + "\n")
    return ["pdns_recursor", f"--config-dir={folder}"]


def dnsmasq(folder: Path, listen: str, places: dict[str, Case]) -> list[str]:
    """As a forwarder with a server for each zone."""
    lines = ["keep-in-foreground", "bind-interfaces", f"listen-address={listen}", "no-resolv"]
    lines += ["except-interface=none", "no-hosts", "user=root", "pid-file="]
    lines += [f"server=/{zone(case)}/{address}" for address, case in zones(places)]
    (folder / "dnsmasq.conf").write_text("\n".join(lines) + "\n")
    return ["dnsmasq", "-C", f"{folder}/dnsmasq.conf"]


def with_files(binds: dict[Path, str], words: list[str]) -> list[str]:
    """A command line that sees our files instead of the machine's."""
    mounts = " && ".join(f"mount --bind '{ours}' '{theirs}'" for ours, theirs in binds.items())
    return ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", *words]


@functools.cache
def compiled(compiler: str) -> Path:
    """lookup.c, compiled for the C library of a compiler."""
    folder = Path(tempfile.mkdtemp(prefix="nrw-dns-"))
    program, source = folder / "lookup", Path(__file__).parent / "lookup.c"
    words = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", str(program)]
    if compiler == "musl-gcc":
        words.append("-static")
    done = subprocess.run([*words, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def c_library(
    compiler: str,
) -> Callable[[Namespace, Path, str, Case, list[str], float], list[Ask]]:
    """getaddrinfo() of a C library."""

    def run(
        space: Namespace, folder: Path, server: str, case: Case, wanted: list[str], watch: float
    ) -> list[Ask]:
        resolv = folder / f"resolv-{case.name}.conf"
        resolv.write_text(f"nameserver {server}\n")
        words = [str(compiled(compiler)), case.asks, *(f"{name}." for name in wanted)]
        lines = command(space, with_files({resolv: "/etc/resolv.conf"}, words), watch)
        told = {}
        for line in lines:
            name, code, asked, answered = line.split()
            outcome = "answer" if code == "0" else f"error {code}"
            told[name] = Ask(name.rstrip("."), float(asked), float(answered), outcome)
        return [
            told.get(f"{name}.", Ask(name, time.monotonic(), None, "silence")) for name in wanted
        ]

    return run


def command(space: Namespace, words: list[str], watch: float) -> list[str]:
    """The lines that a program wrote until it ended, or until `watch` seconds were over."""
    process = subprocess.Popen(
        space.command(*words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(watch)
    process.kill()
    out, _ = process.communicate()
    return out.splitlines()


def tool(words: list[str]) -> Callable[[Namespace, Path, str, Case, list[str], float], list[Ask]]:
    """A diagnostic tool, which asks for names one after the other."""

    def run(
        space: Namespace, folder: Path, server: str, case: Case, wanted: list[str], watch: float
    ) -> list[Ask]:
        if case.asks == "together":
            return []
        begin = time.monotonic()
        lines = command(space, [*words, f"@{server}", *wanted], watch)
        end = time.monotonic()
        told = sum("192.0.2.80" in line for line in lines)
        done = end if end < begin + watch else None
        # They answer in order, and the names that fail in our cases are the last ones.
        outcomes = ["answer"] * told + ["error"] * (len(wanted) - told)
        return [Ask(name, begin, done, how) for name, how in zip(wanted, outcomes, strict=True)]

    return run


def resolved(
    space: Namespace, folder: Path, server: str, case: Case, wanted: list[str], watch: float
) -> list[Ask]:
    """systemd-resolved, one for each case, asked over its varlink socket."""
    ours = folder / f"run-{case.name}"
    state, config = ours / "resolve", ours / "resolved.conf.d"
    for made in (ours, state, config):
        made.mkdir()
    shutil.chown(state, "nobody")
    lines = ["[Resolve]", "DNS=", f"DNS={server}", "FallbackDNS=", "Domains=~."]
    lines += ["DNSStubListener=no", "LLMNR=no", "MulticastDNS=no", "DNSSEC=no"]
    (config / "zz-ours.conf").write_text("\n".join(lines) + "\n")
    Path("/run/systemd").mkdir(exist_ok=True)
    program = next(path for path in RESOLVED if Path(path).exists())
    capabilities = "+setpcap,+net_raw,+net_bind_service"
    words = ["setpriv", "--reuid=nobody", "--clear-groups", f"--inh-caps={capabilities}"]
    words += [f"--ambient-caps={capabilities}", program]
    binds = {ours: "/run/systemd"}
    with (folder / f"resolved-{case.name}.log").open("wb") as log:
        process = space.start(with_files(binds, words), log)
        try:
            path = state / "io.systemd.Resolve"
            until = time.monotonic() + 10
            while not (state / "resolv.conf").exists():
                assert time.monotonic() < until, f"resolved did not start, see {folder}"
                assert process.poll() is None, f"resolved ended, see {folder}"
                time.sleep(0.02)
            return asked(case, wanted, watch, lambda name, wait: varlink(path, name, wait))
        finally:
            process.kill()
            process.wait()


def varlink(path: Path, name: str, wait: float) -> str | None:
    """Asks systemd-resolved for one name, IPv4 only."""
    call = {
        "method": "io.systemd.Resolve.ResolveHostname",
        "parameters": {"name": name, "family": 2, "flags": 0},
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(wait)
        # A socket's path has at most 107 bytes; the folders of tests may be longer.
        folder = os.open(path.parent, os.O_PATH)
        try:
            sock.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        sock.sendall(json.dumps(call).encode() + b"\0")
        said = b""
        try:
            while not said.endswith(b"\0"):
                part = sock.recv(65535)
                if not part:
                    return "closed"
                said += part
        except TimeoutError:
            return None
    told = json.loads(said[:-1])
    return str(told["error"].rsplit(".", 1)[1]) if "error" in told else "answer"


def front_end(space: Namespace, listen: str, name: str, wait: float) -> str | None:
    """Asks a daemon for one name: over UDP, and over TCP if the reply was truncated."""
    query = dns.message.make_query(name, "A", use_edns=0, payload=4096).to_wire()
    with space.inside():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with udp, tcp:
        begin = time.monotonic()
        udp.settimeout(wait)
        try:
            udp.connect((listen, 53))
            udp.send(query)
            answer = dns.message.from_wire(udp.recv(65535), ignore_trailing=True)
            if answer.flags & dns.flags.TC:
                tcp.settimeout(max(0.1, wait - (time.monotonic() - begin)))
                tcp.connect((listen, 53))
                tcp.sendall(len(query).to_bytes(2) + query)
                with tcp.makefile("rb") as stream:
                    head = stream.read(2)
                    if len(head) < 2:
                        return "closed"
                    answer = dns.message.from_wire(stream.read(int.from_bytes(head)))
        except TimeoutError:
            return None
        except OSError as error:
            return type(error).__name__
    if answer.rcode():
        return dns.rcode.to_text(answer.rcode())
    return "answer" if answer.answer else "empty"


def asked(
    case: Case, wanted: list[str], watch: float, ask: Callable[[str, float], str | None]
) -> list[Ask]:
    """Asks as the case says, and watches until the time is over."""
    begin = time.monotonic()
    told: dict[str, Ask] = {}

    def one(name: str) -> None:
        at = time.monotonic()
        outcome = ask(name, max(0.1, begin + watch - at))
        end = time.monotonic()
        told[name] = Ask(name, at, end if outcome else None, outcome or "silence")

    if case.asks == "together":
        threads = [threading.Thread(target=one, args=(name,)) for name in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for number, name in enumerate(wanted):
            if number:
                time.sleep(0.1 if case.asks == "warm" else 0.3)
            one(name)
    if case.asks in ("sequence", "together"):
        time.sleep(max(0, watch - (time.monotonic() - begin)))
    return [told[name] for name in wanted]


@contextlib.contextmanager
def daemon(
    client: Client, space: Namespace, folder: Path, listen: str, places: dict[str, Case]
) -> Iterator[None]:
    """Runs a daemon until the block ends."""
    assert client.daemon is not None
    words = client.daemon(folder, listen, places)
    with (folder / "log").open("wb") as log:
        process = space.start(words, log)
        try:
            until = time.monotonic() + 20
            while front_end(space, listen, "ready.invalid", 0.2) == "ConnectionRefusedError":
                assert process.poll() is None, f"{client.name} ended, see {folder}/log"
                assert time.monotonic() < until, f"{client.name} did not start, see {folder}/log"
                time.sleep(0.05)
            yield
        finally:
            process.kill()
            process.wait()


def resolved_version() -> str | None:
    """Where a systemd-resolved is."""
    for path in RESOLVED:
        if Path(path).exists() and shutil.which("setpriv"):
            return said([path, "--version"], r"\((\d+[\w.~+-]*)\)")
    return None


def musl_version() -> str | None:
    """The version that musl's loader reports."""
    if not shutil.which("musl-gcc"):
        return None
    loader = next(Path("/lib").glob("ld-musl-*.so.1"), None)
    return said([str(loader)], r"Version (\S+)") if loader else "unknown"


CLIENTS = (
    Client(
        "glibc",
        installed(["getconf", "GNU_LIBC_VERSION"]),
        run=c_library("cc"),
        prepare=lambda: compiled("cc"),
    ),
    Client("musl", musl_version, run=c_library("musl-gcc"), prepare=lambda: compiled("musl-gcc")),
    Client("systemd-resolved", resolved_version, run=resolved),
    Client("dig", installed(["dig", "-v"]), run=tool(["dig"])),
    Client("kdig", installed(["kdig", "--version"]), run=tool(["kdig"])),
    Client("unbound", installed(["unbound", "-V"]), unbound),
    Client("bind", installed(["named", "-v"]), bind),
    Client("knot-resolver", installed(["kresd", "--version"]), knot_resolver),
    Client("pdns-recursor", installed(["pdns_recursor", "--version"], r"Recursor (\S+)"), powerdns),
    Client("dnsmasq", installed(["dnsmasq", "--version"]), dnsmasq),
)

"""DNS servers from packages, each declared once, with its configuration.

Each serves only the root zone. By default it runs with one thread or process, as on a machine with
one core.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from narrows.testbed.needs import PATH, BedError

_VERSION_S = 10.0


class Setup(NamedTuple):
    """The settings of a server."""

    folder: str
    """Its own folder."""
    zone: str
    """The file of the root zone."""
    addresses: Sequence[str]
    settings: Mapping[str, str]
    """More settings, by the server's names for them."""
    pem: str | None = None
    """The file with a private key and its certificate; None for no TLS."""
    threads: int = 1
    """The number of answering threads or processes."""


Configure = Callable[[Setup], str]


@dataclass(frozen=True)
class Software:
    """A server."""

    program: str
    package: str
    """The package in Debian and Ubuntu."""
    version_flag: str
    words: tuple[str, ...]
    """Its arguments to stay in the foreground and log there; `{folder}` has the file `config`."""
    configure: Configure
    """Writes its configuration."""

    def command(self, folder: str, threads: int = 1) -> list[str]:
        """The command line that runs it."""
        words = (word.format(folder=folder, threads=threads) for word in self.words)
        return [self.program, *words]

    def need(self) -> None:
        """Checks that it is installed.

        Raises:
            BedError: It is not installed.
        """
        if not shutil.which(self.program, path=PATH):
            raise BedError(f"{self.program} is not installed; hint: apt-get install {self.package}")

    def version(self) -> str:
        """Its version, as it reports it.

        Raises:
            BedError: It reports none.
        """
        try:
            done = subprocess.run(
                [self.program, self.version_flag],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PATH": PATH},
                timeout=_VERSION_S,
            )
        except subprocess.TimeoutExpired:
            raise BedError(
                f"{self.program} {self.version_flag} printed nothing for {_VERSION_S:g} s; "
                f"hint: try it by hand, or apt-get install --reinstall {self.package}"
            ) from None
        words = (done.stdout or done.stderr).split()
        found = next((word for word in words if word[:1].isdigit() and "." in word), "unknown")
        return f"{self.program} {found}"


def _nsd(to: Setup) -> str:
    lines = ["server:", f"  server-count: {to.threads}"]
    lines += [f"  ip-address: {address}" for address in to.addresses]
    if to.pem is not None:
        lines += [f"  ip-address: {address}@853" for address in to.addresses]
        lines += ["  tls-port: 853", f'  tls-service-key: "{to.pem}"']
        lines += [f'  tls-service-pem: "{to.pem}"']
    lines += [f"  {name}: {value}" for name, value in to.settings.items()]
    lines += ['  username: ""', '  chroot: ""', f'  zonesdir: "{to.folder}"', '  database: ""']
    lines += [f'  pidfile: "{to.folder}/nsd.pid"', f'  xfrdfile: "{to.folder}/xfrd.state"']
    lines += [f'  zonelistfile: "{to.folder}/zone.list"', f'  xfrdir: "{to.folder}"']
    lines += ["  rrl-ratelimit: 0", "remote-control:", "  control-enable: no"]
    lines += ["zone:", "  name: .", f'  zonefile: "{to.zone}"']
    return "\n".join(lines) + "\n"


def _named(to: Setup) -> str:
    listen = "".join(f" {address};" for address in to.addresses)
    lines = ["options {", f'  directory "{to.folder}";', f'  pid-file "{to.folder}/named.pid";']
    lines += [f"  listen-on {{{listen} }};", "  listen-on-v6 { none; };", "  recursion no;"]
    if to.pem is not None:
        lines += [f"  listen-on port 853 tls own {{{listen} }};"]
    lines += [f"  {name} {value};" for name, value in to.settings.items()]
    lines += ["  notify no;", "  dnssec-validation no;", '  session-keyfile "session.key";', "};"]
    if to.pem is not None:
        lines += [f'tls own {{ cert-file "{to.pem}"; key-file "{to.pem}"; }};']
    lines += ["controls { };", f'zone "." {{ type primary; file "{to.zone}"; }};']
    return "\n".join(lines) + "\n"


def _knotd(to: Setup) -> str:
    lines = ["server:", *(f"  listen: {address}@53" for address in to.addresses)]
    lines += [f'  rundir: "{to.folder}"', f"  tcp-workers: {to.threads}"]
    lines += [f"  {name}: {value}" for name, value in to.settings.items()]
    lines += [f"  udp-workers: {to.threads}", "  background-workers: 1"]
    lines += ["database:", f'  storage: "{to.folder}"']
    lines += ["control:", f'  listen: "{to.folder}/knot.sock"', "log:", "  - target: stderr"]
    lines += ["    any: info", "template:", "  - id: default", "    zonefile-load: whole"]
    lines += ["    journal-content: none", "zone:", "  - domain: .", f'    file: "{to.zone}"']
    return "\n".join(lines) + "\n"


def _unbound(to: Setup) -> str:
    lines = ["server:", *(f"  interface: {address}" for address in to.addresses)]
    if to.pem is not None:
        lines += [f"  interface: {address}@853" for address in to.addresses]
        lines += ["  tls-port: 853", f'  tls-service-key: "{to.pem}"']
        lines += [f'  tls-service-pem: "{to.pem}"']
    lines += ['  username: ""', '  chroot: ""']
    lines += [f"  {name}: {value}" for name, value in to.settings.items()]
    lines += [f'  directory: "{to.folder}"', "  use-syslog: no", f'  pidfile: "{to.folder}/pid"']
    lines += ["  do-daemonize: no", f"  num-threads: {to.threads}"]
    lines += ["  access-control: 0.0.0.0/0 allow"]
    lines += ['  module-config: "iterator"', "remote-control:", "  control-enable: no"]
    lines += ["auth-zone:", '  name: "."', f'  zonefile: "{to.zone}"', "  for-upstream: no"]
    lines += ["  for-downstream: yes"]
    return "\n".join(lines) + "\n"


_CONFIG = "{folder}/config"

SOFTWARE: Mapping[str, Software] = {
    "nsd": Software("nsd", "nsd", "-v", ("-d", "-c", _CONFIG), _nsd),
    "bind": Software("named", "bind9", "-v", ("-g", "-n", "{threads}", "-c", _CONFIG), _named),
    "knot": Software("knotd", "knot", "-V", ("-c", _CONFIG), _knotd),
    "unbound": Software("unbound", "unbound", "-V", ("-d", "-p", "-c", _CONFIG), _unbound),
}
"""The servers, by the names that scenarios use."""

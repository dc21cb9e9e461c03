"""The packages: installed, booted, upgraded under an open connection, removed completely.

dpkg and systemd are the real ones, on a machine that is booted in namespaces (`booted.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import booted, gateway
from .booted import Booted, until
from .clients import ask, connect, prefixed, receive
from .conftest import INSTALL, SMALL, Lab, laboratory

PACKAGING = gateway.CHECKOUT / "gateway/packaging"
TOOLS = ("dpkg", "dpkg-deb", "dpkg-shlibdeps", "strip")
UNIT = "narrows-gateway.service"
SETTINGS = "/etc/narrows-gateway/narrows-gateway.toml"
PREPARE = f"""
dpkg --force-depends -i /srv/narrows-gateway_0.9_*.deb
cp /srv/settings {SETTINGS}
systemctl enable {UNIT}
"""
"""As for making a machine's image: systemd does not run yet."""
KEPT = ("./var/lib/dpkg", "./var/log", "./var/lib/systemd", "./var/cache")
"""Where dpkg and systemd record what they have done."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A network with NSD, whose gateway is the package's."""
    for tool in (*TOOLS, *booted.TOOLS):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed; {INSTALL}")
    if not booted.SYSTEMD.exists():
        pytest.skip(f"systemd is not installed; {INSTALL}")
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path_factory.mktemp("package") / "lab", ("nsd",)) as made:
        assert made.gateway is not None
        made.gateway.end()
        yield made


def package(folder: Path, version: str) -> Path:
    """A package of the built gateway, in this version."""
    said = subprocess.run(
        ["sh", str(PACKAGING / "deb.sh"), str(gateway.program()), str(folder)],
        env={**os.environ, "VERSION": version, "DPKG_DEB_COMPRESSOR_TYPE": "none"},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    return Path(said.stdout.strip())


@pytest.fixture(scope="module")
def machine(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """A machine that was booted with the gateway's unit enabled."""
    folder = tmp_path_factory.mktemp("machine")
    for version in ("0.9", "1.0"):
        package(folder, version)
    (folder / "settings").write_text(
        f'interface = "{lab.network.server_link}"\nserver = "{lab.address("nsd", "gateway")}"\n'
        'mode = "native"\nserver_wait = "60 s"\ncheck_every = "1 s"\nloglevel = 2\n'
        'drain_for = "1 s"\n'
    )
    with booted.booted(lab.network.server, folder, PREPARE) as made:
        until("the gateway is up", lambda: made.shown(UNIT, "ActiveState") == "active")
        yield made


def answer(lab: Lab) -> bytes:
    """What a client gets over TCP, on a separate connection."""
    return ask(lab.network.client, lab.address("nsd", "gateway"), SMALL)


def counters(machine: Booted, lab: Lab) -> dict[str, int]:
    """How often each verdict occurred."""
    return dict(machine.status(lab.network.server_link)["counters"])


def process(machine: Booted) -> dict[str, str]:
    """What the kernel reports about the unit's process."""
    pid = machine.shown(UNIT, "MainPID")
    lines = machine.path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def test_a_boot_starts_it(machine: Booted, lab: Lab) -> None:
    assert machine.run("systemctl", "--failed", "--quiet") == ""
    before = counters(machine, lab)["reply"]
    assert answer(lab)
    assert counters(machine, lab)["reply"] == before + 1
    running = process(machine)
    no_capabilities = "0" * 16
    assert {running[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {no_capabilities}
    assert (running["NoNewPrivs"], running["Seccomp"]) == ("1", "2")

    # The client's namespace for its checks was made under the unit's restrictions.
    def checks() -> list[dict[str, object]]:
        return list(machine.status(lab.network.server_link)["checks"])

    until("it has checked", lambda: bool(checks()))
    assert [check["failed"] for check in checks()] == [None]


def test_a_reload_reads_the_settings_again(machine: Booted, lab: Lab) -> None:
    settings = machine.path(SETTINGS)
    as_it_was = settings.read_text()

    def active() -> bool:
        return bool(machine.status(lab.network.server_link)["active"])

    settings.write_text(as_it_was + "active = false\n")
    machine.run("systemctl", "reload", UNIT)
    until("it is read", lambda: not active())
    settings.write_text(as_it_was)
    machine.run("systemctl", "reload", UNIT)
    until("it is read", active)


def test_an_upgrade_keeps_connections_and_settings(machine: Booted, lab: Lab) -> None:
    settings = machine.path(SETTINGS).read_text()
    before = machine.shown(UNIT, "MainPID")
    with connect(lab.network.client, lab.address("nsd", "gateway")) as stream:
        stream.sendall(prefixed(SMALL))
        first = receive(stream)
        later = counters(machine, lab)["query_later"]
        machine.run("sh", "-c", "dpkg --force-depends -i /srv/narrows-gateway_1.0_*.deb")
        assert machine.shown(UNIT, "ActiveState") == "active"
        assert machine.shown(UNIT, "MainPID") != before
        stream.sendall(prefixed(SMALL))
        assert receive(stream) == first
        # The connection continued: this was a later query on it.
        assert counters(machine, lab)["query_later"] == later + 1
    assert machine.path(SETTINGS).read_text() == settings


def test_a_kill_leaves_it_serving_until_systemd_starts_it_again(machine: Booted, lab: Lab) -> None:
    before = machine.shown(UNIT, "MainPID")
    machine.run("systemctl", "kill", "--signal", "KILL", UNIT)
    assert answer(lab)
    until("it is another", lambda: machine.shown(UNIT, "MainPID") not in {"0", before})
    until("it is up", lambda: machine.shown(UNIT, "ActiveState") == "active")
    assert answer(lab)


def test_wrong_settings_are_not_tried_again(machine: Booted, lab: Lab) -> None:
    settings = machine.path(SETTINGS)
    as_it_was = settings.read_text()
    settings.write_text(as_it_was + 'tiemout = "3 s"\n')
    machine.run("systemctl", "stop", UNIT)
    machine.run("systemctl", "start", UNIT, check=False)
    # A unit that waits to be started again is "activating".
    assert machine.shown(UNIT, "ActiveState") == "failed"
    assert machine.shown(UNIT, "ExecMainStatus") == "2"
    assert machine.shown(UNIT, "NRestarts") == "0"
    assert 'no key "tiemout"' in machine.run("journalctl", "--unit", UNIT)
    settings.write_text(as_it_was)
    machine.run("systemctl", "start", UNIT)
    assert machine.shown(UNIT, "ActiveState") == "active"


def test_a_missing_interface_is_waited_for(machine: Booted, lab: Lab) -> None:
    settings = machine.path(SETTINGS)
    as_it_was = settings.read_text()
    link = lab.network.server_link
    settings.write_text(as_it_was.replace(f'"{link}"', '"late0"'))
    machine.run("systemctl", "stop", UNIT)
    machine.run("systemctl", "start", "--no-block", UNIT)
    until("it has failed", lambda: int(machine.shown(UNIT, "NRestarts")) >= 2)
    # While the next process runs, the status is 0.
    until("it ends with 1", lambda: machine.shown(UNIT, "ExecMainStatus") == "1")
    assert machine.shown(UNIT, "ActiveState") == "activating"
    assert 'no interface "late0"' in machine.run("journalctl", "--unit", UNIT)
    server = lab.network.server
    server.run("ip", "link", "add", "late0", "type", "veth", "peer", "name", "late1")
    until("it serves", lambda: machine.shown(UNIT, "ActiveState") == "active")
    # Its interface goes away again.
    before = int(machine.shown(UNIT, "NRestarts"))
    server.run("ip", "link", "delete", "late0")
    until("it waits again", lambda: int(machine.shown(UNIT, "NRestarts")) > before)
    machine.run("systemctl", "stop", UNIT)
    settings.write_text(as_it_was)
    machine.run("systemctl", "start", UNIT)
    assert machine.shown(UNIT, "ActiveState") == "active"


def test_a_removal_leaves_no_trace(machine: Booted, lab: Lab) -> None:
    link = lab.network.server_link
    pins = machine.path("/sys/fs/bpf/narrows-gateway")
    # What a kill leaves attached is also removed if nothing starts the gateway again.
    machine.run("systemctl", "stop", UNIT)
    settings = machine.path(SETTINGS)
    settings.write_text(settings.read_text() + 'on_exit = "keep"\n')
    machine.run("systemctl", "start", UNIT)
    machine.run("systemctl", "stop", UNIT)
    assert "xdp" in lab.network.server.run("ip", "link", "show", link)
    machine.run("systemctl", "start", UNIT)
    machine.run("dpkg", "-r", "narrows-gateway")
    assert "xdp" not in lab.network.server.run("ip", "link", "show", link)
    assert list(pins.glob("*")) == []
    assert machine.shown(UNIT, "LoadState") == "not-found"
    assert answer(lab), "the server's own TCP"
    assert settings.exists()
    # A later installation by hand starts nothing.
    machine.run("sh", "-c", "dpkg --force-depends -i /srv/narrows-gateway_1.0_*.deb")
    assert machine.shown(UNIT, "ActiveState") == "inactive"
    assert machine.run("systemctl", "is-enabled", UNIT, check=False) == "disabled"
    machine.run("dpkg", "-P", "narrows-gateway")
    before = set(machine.path("/srv/before").read_text().split("\n"))
    left = {name for name in machine.layer() - before if not os.path.lexists(f"/{name}")}
    assert {name for name in left if not name.startswith(KEPT)} == set()


def rpm(folder: Path) -> Path:
    """The RPM package of the built gateway."""
    macros = {
        "_topdir": str(folder / "rpm"),
        "_binary_payload": "w1.gzdio",
        "checkout": str(gateway.CHECKOUT),
        "program": str(gateway.program()),
        "version": "1.0",
    }
    defined = [word for item in macros.items() for word in ("--define", " ".join(item))]
    said = subprocess.run(
        ["rpmbuild", "-bb", *defined, str(PACKAGING / "narrows-gateway.spec")],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    (made,) = (folder / "rpm/RPMS").rglob("*.rpm")
    return made


def asked(*words: str) -> list[str]:
    """The output lines of a packaging tool."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_rpm_is_the_same_package(tmp_path: Path) -> None:
    if absent := [tool for tool in (*TOOLS, "rpmbuild") if not shutil.which(tool)]:
        pytest.skip(f"{absent[0]} is not installed; {INSTALL}")
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    packed = [line.split() for line in asked("dpkg-deb", "-c", str(package(tmp_path, "1.0")))]
    made = str(rpm(tmp_path))
    shown = asked("rpm", "-qp", "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\\n]", made)
    there = {words[1]: words[0] for words in map(str.split, shown)}
    # Licences stand in Debian's file "copyright".
    doc = "/usr/share/doc/narrows-gateway"
    licences = {f"{doc}/LICENSE-{name}" for name in ("MIT", "APACHE", "THIRD-PARTY")}
    names = {
        words[-1][1:].replace("/lib/systemd", "/usr/lib/systemd", 1): words for words in packed
    }
    files = {name for name in names if not name.endswith("/")} - {f"{doc}/copyright"}
    assert files == {name for name, mode in there.items() if not mode.startswith("d")} - licences
    for name in files:
        assert there[name] == names[name][0]
    assert asked("rpm", "-qp", "--configfiles", made) == [
        "/etc/narrows-gateway/narrows-gateway.toml"
    ]
    needs = " ".join(asked("rpm", "-qp", "--requires", made))
    assert "libelf.so" in needs
    scripts = "\n".join(asked("rpm", "-qp", "--scripts", made))
    for word in ("daemon-reload", "disable --now", "try-restart", "detach --config"):
        assert word in scripts


@pytest.mark.parametrize(
    ("printed", "code"),
    [("dpkg-shlibdeps: error: cannot find library libelf.so.1", 2), ("", 0)],
    ids=["failed", "said nothing"],
)
def test_no_package_without_its_dependencies(tmp_path: Path, printed: str, code: int) -> None:
    if absent := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.skip(f"{absent[0]} is not installed; {INSTALL}")
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    tool = tmp_path / "dpkg-shlibdeps"
    tool.write_text(f'#!/bin/sh\necho "{printed}" >&2\nexit {code}\n')
    tool.chmod(0o755)
    said = subprocess.run(
        ["sh", str(PACKAGING / "deb.sh"), str(gateway.program()), str(tmp_path)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 2
    assert said.stderr.startswith("error: dpkg-shlibdeps")
    assert len(said.stderr.splitlines()) == 1
    assert "cannot find library libelf.so.1" in said.stderr or not printed
    assert not list(tmp_path.glob("*.deb"))

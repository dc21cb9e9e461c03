"""veth is no cable: what packets carry from namespace to namespace beside their bytes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from narrows.backends import get
from narrows.backends.kernel import available
from narrows.cli import main
from tests.kernel.scenarios import DUMBBELL, dumbbell

HERE = Path(__file__).parent
FQ_CODEL = '{ kind = "fq-codel" }'


@pytest.mark.slow
def test_packets_in_a_guest_carry_what_they_do_on_a_cable(guest: str) -> None:
    """Without the edit of veth, all packets keep their hash, and the last proof is 0 s old."""
    kernel = available.choose(guest.removeprefix("kernel-")).program
    with tempfile.TemporaryDirectory(prefix="narrows-cable-", dir="/tmp") as folder:
        # The kernel splits its command line at spaces.
        inside = Path(available.__file__).parent / "inside"
        for name, place in {"inside": inside, "init": HERE}.items():
            (Path(folder) / name).symlink_to(place)
        start = f"__import__('sys').path[:0]=['{folder}/inside','{folder}/init']"
        command = [
            *(str(kernel), "mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"),
            *("con=null", "con0=null,fd:1", "con1=null", f"uml_dir={folder}", "umid=cable"),
            *("time-travel=inf-cpu", f"init={os.path.realpath(sys.executable)}", "--"),
            *("-I", "-S", "-B", "-c", f"{start};__import__('cable_init')", folder),
        ]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False
        )
        path = Path(folder) / "found.json"
        assert path.exists(), done.stdout.decode(errors="replace")[-2000:]
        found = json.loads(path.read_text())
    assert found["packets"] > 50
    # The sending socket's hash is there to be lost.
    assert found["sent"] == found["packets"] > 50
    assert found["received"] == 0
    assert found["proof_s"] >= 4


def test_what_other_kernels_carry_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    both = dumbbell(
        links__bottleneck__forward__queue=FQ_CODEL, links__bottleneck__neighbours='"arp"'
    )
    for backend in ("kernel-host", "kernel-real"):
        sorted_by, proofs = get(backend).differences(both)
        assert sorted_by.startswith("bottleneck.forward: fq-codel sorts TCP's packets by a random")
        assert "timeout" not in sorted_by
        assert proofs.startswith("bottleneck: TCP's packets confirm the neighbours")
        assert not get(backend).differences(dumbbell())
    for backend in ("sim", "kernel-virtual", "kernel-2010"):
        assert not get(backend).differences(both)
    monkeypatch.setattr(platform, "release", lambda: "5.15.0-91-generic")
    assert "which changes at each timeout" in get("kernel-host").differences(both)[0]


def test_the_backend_without_a_name_speaks_of_the_kernel_that_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = dumbbell(links__bottleneck__forward__queue=FQ_CODEL)
    for virtual in (False, True):
        kernel = available.Kernel("any", "any", None, virtual=virtual)
        monkeypatch.setattr("narrows.backends.kernel.cables.choose", lambda kernel=kernel: kernel)
        assert bool(get("kernel").differences(asked)) is not virtual


def test_a_queue_in_another_is_found() -> None:
    match = 'match = [{ protocol = "tcp" }]'
    for kind, entries in (("classes", "classes"), ("prio", "bands")):
        inner = f'{{ name = "a", {match}, queue = {FQ_CODEL} }}, {{ name = "b" }}'
        queue = f'{{ kind = "{kind}", {entries} = [{inner}] }}'
        found = get("kernel-host").differences(dumbbell(links__bottleneck__forward__queue=queue))
        assert any("fq-codel sorts" in each for each in found)
    fq = dumbbell(links__bottleneck__forward__queue='{ kind = "fq" }')
    assert any("fq sorts" in each for each in get("kernel-host").differences(fq))


def test_check_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fq.toml"
    path.write_text(DUMBBELL, encoding="utf-8")
    queue = f"links.bottleneck.forward.queue={FQ_CODEL}"
    assert main(["check", str(path), "--backend", "kernel-host", "--set", queue]) == 0
    assert "warning: bottleneck.forward: fq-codel sorts" in capsys.readouterr().out
    assert main(["check", str(path), "--backend", "kernel-virtual", "--set", queue]) == 0
    assert "fq-codel sorts" not in capsys.readouterr().out

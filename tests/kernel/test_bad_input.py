"""What a machine may lack: one line names it and the remedy, exit code 2, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from narrows.backends import BackendError, run
from narrows.backends.kernel import available, guest, prepare
from narrows.cli import main
from tests.kernel.scenarios import DUMBBELL, dumbbell
from tests.kernel.test_leftovers import gone, of_folder


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A guest kernel that only sleeps, in the test's own cache and folder for runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    folder = available.guest_folder()
    folder.mkdir(parents=True)
    (folder / "about.json").write_text('{"version": "6.1.192"}')
    program = folder / "linux"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    return program


def left(folder: Path) -> list[Path]:
    """What runs left in their folder; their own empty folders and locks may stay."""
    return list(folder.glob("narrows-kernel-*/*"))


def test_a_guest_that_does_not_boot_in_time(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "BOOT_S", 0.2)
    with pytest.raises(BackendError, match=r"did not boot within 0\.2 s .*; hint: narrows kernel"):
        run(dumbbell(), backend="kernel-virtual")
    assert gone(lambda: bool(of_folder(kernel.parent)))
    assert gone(lambda: bool(left(tmp_path / "runs")))


def test_the_hosts_kernel_without_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    scenario = tmp_path / "small.toml"
    scenario.write_text(DUMBBELL)
    words = ["run", str(scenario), "--backend", "kernel-host", "--out", str(tmp_path / "out")]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.strip().endswith("it needs root; hint: use a guest, or run as root")
    assert len(said.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_no_room_for_a_guests_memory(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "_room_mb", lambda _place: 12)
    with pytest.raises(BackendError, match=r"12 MB are free, but .* needs .* MB; hint: set TMPDIR"):
        run(dumbbell(), backend="kernel-virtual")
    assert gone(lambda: bool(left(tmp_path / "runs")))


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few notes, and no more."""
    place = tmp_path / "full"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=16k", "narrows-test", str(place)]
    done = subprocess.run(words, capture_output=True)
    if done.returncode:
        pytest.skip("a file system cannot be mounted here (SKIP: run as root)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_no_room_for_a_runs_folder(
    kernel: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(full))
    monkeypatch.setattr(guest, "_room_mb", lambda _place: 10_000)
    with pytest.raises(BackendError, match=r"no space left .*; hint: set TMPDIR") as refused:
        run(dumbbell(), backend="kernel-virtual")
    assert "\n" not in str(refused.value)
    assert gone(lambda: bool(left(full)))


MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 1

allnoconfig:
	cp $(KCONFIG_ALLCONFIG) .config
kernelversion:
	@echo 6.1.0
linux:
	echo compiles; sleep 600
"""

# Just enough of the files that guest.toml edits.
EDITED = {
    "arch/um/os-Linux/time.c": "",
    "net/core/dev.c": """\
static int __netif_receive_skb_one_core(struct sk_buff *skb)
{
	int ret;

	return ret;
}

static void net_tx_action(void)
{
	qdisc_run(q);
}
""",
    "drivers/net/veth.c": """\
static netdev_tx_t veth_xmit(struct sk_buff *skb, struct net_device *dev)
{
	skb_tx_timestamp(skb);
	return NETDEV_TX_OK;
}
""",
    "arch/x86/um/os-Linux/registers.c": """\
int save_fp_registers(int pid, unsigned long *fp_regs)
{
	return 0;
}

int restore_fp_registers(int pid, unsigned long *fp_regs)
{
	return 0;
}
""",
    "include/net/codel_impl.h": """\
static struct sk_buff *codel_dequeue(void *ctx)
{
	if (set_ce && INET_ECN_set_ce(skb))
		stats->ce_mark++;
}
""",
}


@pytest.mark.slow
def test_a_build_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "Makefile").write_text(MAKEFILE)
    for name, text in EDITED.items():
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text(text)
    cache, runs = tmp_path / "cache", tmp_path / "runs"
    runs.mkdir()
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "narrows", "kernel", "prepare", "--source", str(source)],
            env={**os.environ, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(runs)},
            stdout=output,
            stderr=output,
        )
    try:
        logs = "narrows/kernel/*.building-*/build.log"
        deadline = time.monotonic() + 120.0
        while not any("compiles" in each.read_text() for each in cache.glob(logs)):
            if process.poll() is not None:
                if "apt-get install" in said.read_text() and not os.environ.get("CI"):
                    pytest.skip(f"no compiler (SKIP: {said.read_text().strip()})")
                raise AssertionError(said.read_text())
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    assert gone(lambda: bool(_below(tmp_path)))
    assert gone(lambda: bool(left(runs) or list(cache.glob("narrows/kernel/*.building*"))))


def test_a_build_that_lacks_a_tool_says_only_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(prepare, "_TOOLS", {"no-such-tool": "a-package", "sh": "dash"})
    assert main(["kernel", "prepare"]) == 2
    assert capsys.readouterr().err == (
        "error: a-package is missing; hint: apt-get install a-package\n"
    )


def _below(folder: Path) -> list[int]:
    """Processes that work in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in (process.cwd(), *process.cmdline()) or any(
                str(folder) in word for word in process.cmdline()
            ):
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return found

"""Bad input of `probe` and `import`, each through the command line.

If nothing of a file or server can be used, there is one line and exit code 2, without a traceback.
If something can be used, there is a run, and the rest is counted. No input takes a gigabyte.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest

from narrows.testbed.old_server import OldServer
from narrows.testbed.servers import PROGRAM

CAPTURES = Path(__file__).parents[1] / "captures" / "data"
MOST_MB = 1000

RESULT = {
    "type": "dns",
    "fw": 5080,
    "prb_id": 1,
    "msm_id": 10101,
    "proto": "TCP",
    "dst_addr": "192.0.2.53",
    "timestamp": 1_700_000_000,
    "result": {"rt": 40.0, "size": 745},
}


DEEP = b'{"type":"dns","result":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"


class Done(NamedTuple):
    """The results of a process."""

    code: int
    out: str
    err: str
    memory_mb: float


def narrows(folder: Path, *words: str, before: tuple[str, ...] = ()) -> Done:
    """Runs `narrows WORDS` in a folder, after the words of another command."""
    command = [*before, sys.executable, "-m", "narrows", *words]
    with (folder / "out").open("w+b") as out, (folder / "err").open("w+b") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    said = (folder / "err").read_text()
    assert "Traceback" not in said
    memory_mb = usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
    return Done(process.returncode, (folder / "out").read_text(), said, memory_mb)


def refused(folder: Path, *words: str, before: tuple[str, ...] = ()) -> str:
    """The one line with which the command ends."""
    done = narrows(folder, *words, before=before)
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err
    assert done.err.startswith("error: ")
    assert "; hint: " in done.err
    assert done.memory_mb < MOST_MB
    assert not list(folder.glob("runs/*"))
    return done.err


def results(text: bytes, folder: Path) -> None:
    (folder / "results").write_bytes(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps(RESULT).encode()[:-30], "cut short"),
        (DEEP, "nested too deep"),
        (DEEP[:500_000], "cut short"),
        (b"[" * 1_000_000, ""),
        (json.dumps(RESULT | {"result": {"rt": [40]}}).encode(), "a key of a wrong type"),
        (json.dumps(RESULT | {"result": "fast"}).encode(), "a key of a wrong type"),
        (json.dumps(RESULT | {"fw": 9999, "result": {"rtt_ns": 1}}).encode(), "no response time"),
        (b'{"type":"dns","name":"' + b"x" * 50_000_000, "too long"),
    ],
    ids=["cut", "deep", "deep-and-cut", "deep-array", "wrong-type", "text", "future", "long"],
)
def test_results_of_which_nothing_can_be_used(tmp_path: Path, text: bytes, reason: str) -> None:
    results(text, tmp_path)
    line = refused(tmp_path, "import", "atlas", "results")
    assert line.startswith("error: results: holds no ")
    assert reason in line
    assert "record 1" in line or not reason


def test_future_firmware_is_read_as_far_as_it_says_the_same(tmp_path: Path) -> None:
    new = {"fw": 9999, "mver": "9.0.0", "qubits": [{"a": None}]}
    more = json.dumps(RESULT | new) + "\n" + json.dumps(RESULT | {"timestamp": "soon"})
    results(more.encode(), tmp_path)
    done = narrows(tmp_path, "import", "atlas", "results", "--out", "run")
    assert done.code == 0
    assert "a key of a wrong type" in done.out + done.err
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["summary"]["answered"] == 1


def test_a_capture_that_ends_in_the_middle(tmp_path: Path) -> None:
    whole = (CAPTURES / "two-interfaces.pcapng").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2 + 1])
    done = narrows(tmp_path, "import", "capture", "half", "--out", "run")
    assert done.code == 0
    assert "ends within a packet" in done.out + done.err
    (tmp_path / "head").write_bytes(whole[:100])
    line = refused(tmp_path, "import", "capture", "head")
    assert line.startswith("error: head: holds no DNS on port 53 in 0 packets")


def test_a_link_type_that_is_not_known(tmp_path: Path) -> None:
    data = bytearray((CAPTURES / "old-two-soa-nanoseconds.pcap").read_bytes())
    data[20:24] = struct.pack("<I", 147)
    (tmp_path / "odd").write_bytes(data)
    line = refused(tmp_path, "import", "capture", "odd")
    assert "an unknown link type; record 1: link type 147 is not read" in line


def test_lengths_that_promise_gigabytes(tmp_path: Path) -> None:
    header = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    (tmp_path / "big").write_bytes(header + struct.pack("<IIII", 1, 0, 2**31, 2**31))
    assert "a packet is longer than 16 MB" in refused(tmp_path, "import", "capture", "big")


def test_a_file_that_is_not_there_or_not_to_be_read(tmp_path: Path) -> None:
    for kind in ("atlas", "capture"):
        line = refused(tmp_path, "import", kind, "gone")
        assert line.startswith("error: gone: no such file or directory")
        assert "is a directory" in refused(tmp_path, "import", kind, ".")


def test_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    line = refused(tmp_path, "probe", "nosuch.invalid")
    assert line.startswith("error: nosuch.invalid: does not resolve")


def without_network() -> tuple[str, ...]:
    """A command that runs another one without any network."""
    rights = () if os.geteuid() == 0 else ("--map-root-user",)
    words = ("unshare", *rights, "--net", "--")
    if not shutil.which("unshare") or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("SKIP: needs root, or user namespaces, for a network of its own")
    return words


def test_a_server_that_cannot_be_reached(tmp_path: Path) -> None:
    words = ("probe", "192.0.2.1", "--count", "1", "--out", "run")
    done = narrows(tmp_path, *words, before=without_network())
    # The measurement was made and is reported; exit code 1 means that nobody answered.
    assert done.code == 1
    assert "unreachable" in done.out
    line = refused(tmp_path, "probe", "elsewhere.example", before=without_network())
    assert "does not resolve" in line


def test_without_the_right_to_raw_sockets_the_kernel_tells_the_segments(tmp_path: Path) -> None:
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("SKIP: setpriv is not installed; hint: apt-get install util-linux")
        before = ("setpriv", "--bounding-set=-net_raw", "--")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = OldServer(address="127.0.0.1", port=port, writing="two")
    serving = [sys.executable, "-c", PROGRAM, settings.text()]
    with subprocess.Popen(serving, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            words = ("--count", "2", "--interval", "0s", "--out", "run")
            done = narrows(tmp_path, "probe", f"127.0.0.1:{port}", *words, before=before)
        finally:
            server.terminate()
    assert done.code == 0, done
    assert "with CAP_NET_RAW they would be exact" in done.err


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = OldServer(address="127.0.0.1", port=port)
        words = [sys.executable, "-c", PROGRAM, settings.text()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"127.0.0.1 port {port}: address already in use; hint: ")
    assert done.stderr.count("\n") == 1


def when_read(pipe: Path, process: subprocess.Popen[bytes]) -> BinaryIO:
    """The writing end of a pipe, as soon as a process has opened the reading end."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError as error:
            assert error.errno == errno.ENXIO
        assert process.poll() is None, "the command has ended"
        assert time.monotonic() < deadline, "the command does not open the pipe"
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["atlas", "capture", "csv", "flent"])
def test_ctrl_c_ends_the_reading_of_a_pipe_that_gives_nothing(kind: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "narrows", "import", kind, str(pipe)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        with when_read(pipe, process):
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.startswith(b"interrupted") and errors.count(b"\n") == 1

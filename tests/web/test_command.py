"""`narrows lab` serves the page until it is interrupted, and says what is wrong."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from narrows.errors import NarrowsError
from narrows.lab.build import SITE
from narrows.lab.server import Server, site


def lab(*words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "narrows", "lab", "--no-open", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def needs_the_page() -> None:
    if not (SITE / "engine.wasm").exists():
        pytest.skip("needs the page: make web")


@pytest.mark.slow
def test_the_page_is_there_until_an_interrupt() -> None:
    needs_the_page()
    with lab() as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urlopen(address, timeout=20) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.slow
def test_what_is_wrong_takes_a_line_and_exit_code_2(tmp_path: Path) -> None:
    needs_the_page()
    bad = tmp_path / "bad.toml"
    bad.write_text("name = 1\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words, says in (
            ((tmp_path / "none.toml",), "none.toml"),
            ((bad,), "bad.toml"),
            (("--port", port), f"port {port}: cannot be used"),
        ):
            with lab(*words) as process:
                said = process.communicate(timeout=60)[1]
            assert process.returncode == 2, said
            assert says in said and "Traceback" not in said


def test_without_the_page_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(NarrowsError, match="hint: run `make web`"):
        site(folder=tmp_path)


def test_a_port_that_is_taken_is_named() -> None:
    with Server({}) as first, pytest.raises(NarrowsError, match="cannot be used"):
        Server({}, first.server_address[1])

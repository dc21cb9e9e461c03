"""A probe of servers on loopback: rows, folder, command."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from narrows import _core
from narrows.cli import main
from narrows.probe import Plan, Progress, Target, probe
from narrows.results import Measurement
from narrows.testbed.old_server import reply

Answer = Callable[[bytes], bytes]


def plain(query: bytes) -> bytes:
    return reply(query, 200)


def sockets(over_tcp: bool) -> tuple[socket.socket, socket.socket | None]:
    """A port that is free for both."""
    while True:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        try:
            return udp, socket.create_server(udp.getsockname()) if over_tcp else None
        except OSError:
            udp.close()


@contextmanager
def server(answer: Answer = plain, *, over_tcp: bool = True) -> Iterator[int]:
    """Answers over UDP and TCP until the block ends, on one port of 127.0.0.1."""
    udp, tcp = sockets(over_tcp)
    port = udp.getsockname()[1]

    def datagrams() -> None:
        while True:
            query, client = udp.recvfrom(4096)
            if not query:
                return
            udp.sendto(answer(query), client)

    def connections() -> None:
        assert tcp is not None
        while True:
            made, _ = tcp.accept()
            with made:
                length = made.recv(2)
                if length == b"":
                    continue
                if length == b"\xff\xff":
                    return
                message = answer(made.recv(int.from_bytes(length)))
                made.sendall(len(message).to_bytes(2) + message)
                made.recv(1)

    threads = [threading.Thread(target=datagrams)]
    if tcp is not None:
        threads.append(threading.Thread(target=connections))
    for thread in threads:
        thread.start()
    try:
        yield port
    finally:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as last:
            last.sendto(b"", ("127.0.0.1", port))
        if tcp is not None:
            with socket.create_connection(("127.0.0.1", port)) as made:
                made.sendall(b"\xff\xff")
        for thread in threads:
            thread.join()
        udp.close()
        if tcp is not None:
            tcp.close()


def asked(port: int, **settings: object) -> Measurement:
    target = Target("mine", "127.0.0.1", port)
    return probe(Plan((target,), count=3, interval_s=0.0, **settings))  # type: ignore[arg-type]


def test_each_round_has_a_row_for_each_transport() -> None:
    seen: list[Progress] = []
    with server() as port:
        made = Plan((Target("mine", "127.0.0.1", port),), count=3, interval_s=0.0)
        found = probe(made, seen.append)
    assert found.complete
    rows = found.exchanges
    assert rows["transport"].to_list() == ["udp", "tcp"] * 3
    assert rows["round"].to_list() == [0, 0, 1, 1, 2, 2]
    assert set(rows["outcome"]) == {"answered"}
    assert rows["exchange"].to_list() == list(range(6))
    assert set(rows["reply_bytes"]) == {200} and set(rows["rcode"]) == {"NOERROR"}
    assert [at.done for at in seen] == [1, 2, 3, 4, 5, 6]
    over_tcp = rows.filter(transport="tcp")
    assert over_tcp["connection"].to_list() == [0, 1, 2]
    assert (over_tcp["total_ms"] >= over_tcp["connect_ms"] + over_tcp["query_ms"] - 0.01).all()
    assert found.connections["connection"].to_list() == [0, 1, 2]
    assert found.connections["server_bytes"].to_list() == [202] * 3
    assert found.connections["closed_by"].to_list() == ["client"] * 3


def test_what_a_server_does_has_its_name() -> None:
    with server(lambda query: b"nonsense") as port:
        found = asked(port, timeout_s=0.2)
    assert set(found.exchanges["outcome"]) == {"malformed"}
    with server(over_tcp=False) as port:
        found = asked(port)
    assert found.exchanges.filter(transport="tcp")["outcome"].to_list() == ["refused"] * 3
    assert found.findings["verdicts"][0]["name"] == "refuses"

    def truncated(query: bytes) -> bytes:
        return bytes([*query[:2], 0x86, *query[3:]])

    with server(truncated) as port:
        found = asked(port, transports=("udp",))
    assert found.exchanges["truncated"].to_list() == [True] * 3


def test_the_kernel_stamps_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time includes the server thread's own work, and nothing that the client does."""
    with server() as port:
        found = asked(port, transports=("udp",))
    assert (found.exchanges["query_ms"] > 0.0).all()
    assert (found.exchanges["query_ms"] <= found.exchanges["total_ms"]).all()


def test_the_command_leaves_a_folder_and_says_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server() as port:
        words = ["probe", f"127.0.0.1:{port}", "--count", "2", "--interval", "0s"]
        assert main([*words, "--out", str(tmp_path / "a")]) == 0
        text = capsys.readouterr()
        assert "it is too near to judge by times" in text.out
        assert f"wrote {tmp_path / 'a'}" in text.err
        assert main([*words, "--out", str(tmp_path / "b"), "--json", "-q"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["summary"]["answered"] == 4
    assert printed["findings"]["verdicts"][0]["transport"] == "tcp"
    loaded = Measurement.load(tmp_path / "a")
    assert loaded.exchanges.height == 4
    assert loaded.settings["name"] == "."


@pytest.mark.parametrize(
    "words",
    [
        ["nosuch.invalid"],
        ["127.0.0.1", "--type", "S-A"],
        ["127.0.0.1", "--name", "a..b"],
        ["127.0.0.1", "--interval", "5"],
        ["127.0.0.1", "--transport", "smoke"],
        ["127.0.0.1", "--source", "::1"],
        ["127.0.0.1", "--family", "5"],
        ["127.0.0.1", "--family", "7"],
        ["127.0.0.1", "--count", "0"],
        [],
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", *words, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1 and "hint: " in said.err
    assert not (tmp_path / "run").exists()


def test_who_looks_for_the_port_is_told_where_it_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["probe", "127.0.0.1", "--port", "5353"]) == 2
    error = capsys.readouterr().err
    assert "no such option: --port; hint: " in error and "SERVER:PORT" in error
    assert "--out" not in error


def test_replies_are_counted_as_such_and_their_codes_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(query: bytes) -> bytes:
        message = bytearray(plain(query))
        message[3] = message[3] & 0xF0 | 5
        return bytes(message)

    with server(refused) as port:
        words = ["probe", f"127.0.0.1:{port}", "--count", "3", "--interval", "0s"]
        assert main([*words, "--out", str(tmp_path / "run")]) == 0
    header, row, *_ = capsys.readouterr().out.splitlines()
    assert "replies" in header and "answered" not in header
    assert "3 REFUSED" in row


def test_nobody_there_is_a_result_and_no_success(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = ["probe", f"127.0.0.1:{port}", "--count", "1", "--out", str(tmp_path / "run"), "-q"]
    assert main(words) == 1
    assert set(Measurement.load(tmp_path / "run").exchanges["outcome"]) == {"refused"}


def test_the_client_refuses_what_is_no_address() -> None:
    with pytest.raises(ValueError, match="is no IP address"):
        _core.DnsClient("elsewhere", 53, "udp")
    with pytest.raises(ValueError, match="is no transport"):
        _core.DnsClient("127.0.0.1", 53, "smoke")
    for seconds in (-1.0, 1e18, float("nan")):
        with pytest.raises(ValueError, match="is not between 0 and a day"):
            _core.DnsClient("127.0.0.1", 53, "udp", timeout_s=seconds)

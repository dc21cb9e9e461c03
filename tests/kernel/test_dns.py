"""DNS over TCP on a real kernel: what becomes of each attempt, and what sockets tell about it."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from narrows import Run, Scenario, run
from tests.kernel.own_servers import attempts, own_servers

pytestmark = pytest.mark.slow

GROUPS = {
    # A connection for each query.
    "fresh": 'transport = "tcp"',
    # The server closes after two queries; the client goes on with a new connection.
    "kept": 'transport = { kind = "tcp", reuse = true }\nanswers.queries_per_connection = 2',
    "pipelined": "workers = 3\n"
    'transport = { kind = "tcp", reuse = true, pipelining = true, shared = true }',
    "refused": 'transport = { kind = "tcp", tries = 3 }\nanswers.tcp = false',
    "reset": 'transport = { kind = "tcp", tries = { reset = 2 } }\nanswers.on_query = "reset"',
    "closed": 'transport = { kind = "tcp", tries = { closed = 2 } }\nanswers.on_query = "close"',
    # The same on connections that the client would keep.
    "kept-closed": 'transport = { kind = "tcp", reuse = true, tries = { closed = 2 } }\n'
    'answers.on_query = "close"',
    # Half of a service's time is too short to wait.
    "kept-silent": 'service = "500 ms"\n'
    'transport = { kind = "tcp", reuse = true, answer_timeout = "250 ms", tries = { silent = 2 } }',
    # One of two workers has the only connection that the server takes.
    "rejected": 'transport = "tcp"\nworkers = 2\nspread = "10 ms"\nservice = "200 ms"\n'
    'answers = { connections = 1, when_full = "reject" }',
    # RFC 7766, 5: a truncated reply is asked for again over TCP.
    "truncated": 'transport = { kind = "udp", edns_size = "512 B" }\n'
    'messages = [{ query = "53 B", reply = "1400 B" }]',
    # The first connection brings a cookie (RFC 7413, 3). With it, the SYNs of others carry queries.
    "fast-open": 'transport = { kind = "tcp", fast_open = true }\nanswers.fast_open = true',
    # A server that gives no cookies.
    "no-cookie": 'transport = { kind = "tcp", fast_open = true }',
    # No answer comes for 1.3 s, which is during the second attempt.
    "given-up": 'transport = { kind = "udp", retry = ["1 s", "2 s"] }\n'
    'gives_up = "1300 ms"\nservice = "3 s"',
    "silent": 'service = "500 ms"\ntransport = { kind = "udp", retry = ["300 ms"], '
    'tcp_if_silent = true, new_port = true, answer_timeout = "2 s" }',
    # Each length in its turn.
    "mixed": 'messages = { query = ["40 B", "300 B", "40 B"], reply = ["80 B", "4 kB", "9 kB"] }\n'
    "queries = 6",
    "arriving": 'arrivals = { per_second = 20, spacing = "even" }\nqueries = 10',
    # A reply takes a little more than 220 ms, so four of five queries find the only place taken.
    "turned-away": 'arrivals = { per_second = 20, spacing = "even", outstanding = 1 }\n'
    'queries = 10\nservice = "200 ms"',
}


def scenario() -> Scenario:
    """The groups, with three queries each unless their keys say otherwise, and an endless one."""
    groups = {
        name: keys if "\nqueries = " in f"\n{keys}" else f"queries = 3\n{keys}"
        for name, keys in GROUPS.items()
    }
    return own_servers('name = "dns"\nduration = "30 s"', {**groups, "endless": ""})


@pytest.fixture(scope="module")
def results(guest: str) -> tuple[Run, Run]:
    """The same on the kernel and in the simulator."""
    found = scenario()
    return run(found, backend=guest), run(found)


@pytest.mark.parametrize("name", GROUPS)
def test_attempts_end_as_in_the_simulator(results: tuple[Run, Run], name: str) -> None:
    columns = ["transport", "fate", "reused", "handshake_round_trips"]
    kernel, simulated = (
        Counter(attempts(result, name).select(columns).iter_rows()) for result in results
    )
    assert kernel == simulated
    answers, expected = (
        result.queries.filter(pl.col("group") == name).select("attempt", "attempts", "late_answers")
        for result in results
    )
    assert Counter(answers.iter_rows()) == Counter(expected.iter_rows())


def test_without_a_number_workers_ask_until_the_end(results: tuple[Run, Run]) -> None:
    kernel, simulated = (result.queries.filter(pl.col("group") == "endless") for result in results)
    # One query per round trip; a millisecond at the end of the run matters little.
    assert kernel.height == pytest.approx(simulated.height, rel=0.01)
    last = kernel.get_column("start_s").max()
    assert isinstance(last, float) and last > 29.9


# It differs which packets the queue has sent when the answer comes.
@pytest.mark.parametrize("name", ["fresh", "truncated", "mixed", "given-up", "kept-silent"])
def test_packets_are_those_of_the_simulator(results: tuple[Run, Run], name: str) -> None:
    columns = ["packets_sent", "bytes_sent", "packets_received", "bytes_received"]
    kernel, simulated = (attempts(result, name).select(columns).rows() for result in results)
    assert kernel == simulated


def test_attempts_on_connections_that_the_server_closes_have_packets(
    results: tuple[Run, Run],
) -> None:
    """It differs whether the acknowledgement of the server's FIN has left when it is read."""
    for result in results:
        rows = attempts(result, "kept-closed")
        # From the client: SYN, ACK, query. From the server: SYN-ACK, FIN, and perhaps an ACK.
        assert set(rows.get_column("packets_sent")) <= {3, 4}
        assert set(rows.get_column("packets_received")) <= {2, 3}


def test_times_are_those_of_the_path(results: tuple[Run, Run]) -> None:
    """The handshake is two SYNs of 60 bytes; 42 and 72 bytes of DNS have 54 of TCP and IP.

    The last query's acknowledgement and end, 52 bytes each, leave before the SYN.
    """
    rows = attempts(results[0], "fresh").filter(pl.col("index") > 0)
    handshake_ms = 2 * 10.0 + 8e3 * (2 * 52 + 60 + 60) / 10e6
    assert rows.get_column("handshake_ms").to_list() == pytest.approx([handshake_ms] * 2, abs=0.02)
    took = 1e3 * (rows.get_column("received_s") - rows.get_column("sent_s"))
    # The acknowledgement of the handshake leaves before the query.
    expected = handshake_ms + 2 * 10.0 + 8e3 * (52 + 96 + 126) / 10e6
    assert took.to_list() == pytest.approx([expected] * 2, abs=0.05)


def test_queries_leave_with_the_syn(results: tuple[Run, Run]) -> None:
    """From the second query on, a SYN with a cookie and 44 bytes gets its reply in a round trip."""
    rows = attempts(results[0], "fast-open").filter(pl.col("index") > 0)
    assert rows.get_column("handshake_round_trips").to_list() == [0, 0]
    took = 1e3 * (rows.get_column("received_s") - rows.get_column("sent_s"))
    # It takes less than two round trips, which have 40 ms of delay alone.
    assert min(took) > 20.0 and max(took) < 21.0


LOSSY = """
name = "lossy"
duration = "60 s"
end = "dns"
nodes = { hosts = ["server", "client"] }

[[links]]
name = "wire"
between = ["server", "client"]
rate = "100 Mbit/s"
delay = "50 ms"
[links.forward]
loss = 0.2

[[dns]]
name = "dns"
server = "server"
client = "client"
transport = "tcp"
workers = 40
queries = 20
reply_size = "4 kB"
"""


def test_a_reply_has_arrived_when_its_lost_segment_has(guest: str) -> None:
    # Without a loss, two round trips of 100 ms bring the SYN-ACK and three segments.
    def share(result: Run) -> float:
        return float((result.queries.get_column("response_ms") < 250.0).mean() or 0.0)

    found = Scenario.parse(LOSSY)
    kernel, simulated = share(run(found, backend=guest)), share(run(found))
    # 0.8^4 is 0.41, and the standard deviation of 800 replies is 0.017. If the stamp of the last
    # segment counted, though an earlier one was lost, it would be 0.8^2.
    assert kernel == pytest.approx(simulated, abs=0.1)

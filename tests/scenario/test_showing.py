"""How a scenario shows itself in a session."""

from narrows import Scenario

TEXT = """
name = "two"
description = "one <two>"
duration = "10 s"
[[links]]
name = "wan"
between = ["a", "b"]
rate = "10 Mbit/s"
forward = { queue = { kind = "pfifo", limit = 50 } }
[[traffic]]
kind = "bulk"
name = "files"
sender = "a"
receiver = "b"
connections = 3
"""


def test_a_line() -> None:
    assert repr(Scenario.parse(TEXT)) == "<Scenario two: 1 link, 3 connections, at most 10 s>"
    dns = '[[dns]]\nname = "d"\nclient = "a"\nserver = "b"\nqueries = 9\n'
    assert "3 connections, 1 resolver worker, at most" in repr(Scenario.parse(TEXT + dns))


def test_a_notebook_shows_links_and_traffic_with_units() -> None:
    html = Scenario.parse(TEXT)._repr_html_()
    for words in ("a to b", "rate 10 Mbit/s", "forward (queue (kind pfifo, limit 50))", "files"):
        assert words in html
    assert "one &lt;two&gt;" in html

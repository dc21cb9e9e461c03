"""Scenarios in which each DNS group has a server of its own, and what became of their attempts."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from narrows import Run, Scenario


def own_servers(head: str, groups: Mapping[str, str], **settings: str) -> Scenario:
    """Groups at one stub, each with a server at a node of its own.

    All share a link of 10 Mbit/s and 10 ms. Each begins a second after the previous one.

    Args:
        head: The scenario's first lines: its name, its duration.
        groups: The keys of each group, which has one worker unless the keys say otherwise.
        settings: Keys of the scenario to change, with `__` for a dot.
    """
    text = f"""
{head}

[[links]]
name = "wan"
between = ["stub", "r"]
rate = "10 Mbit/s"
delay = "10 ms"
"""
    for number, (group, keys) in enumerate(groups.items()):
        workers = "" if "workers" in keys or "arrivals" in keys else "workers = 1\n"
        text += f"""
[[links]]
name = "{group}"
between = ["r", "{group}"]
rate = "1 Gbit/s"

[[dns]]
name = "{group}"
client = "stub"
server = "{group}"
start = "{1 + number} s"
{workers}{keys}
"""
    return Scenario.parse(text, set={key.replace("__", "."): v for key, v in settings.items()})


def attempts(result: Run, name: str) -> pl.DataFrame:
    """The attempts of a group, with each query's worker and its place in the worker's order."""
    queries = result.queries.filter(pl.col("group") == name).select("query", "index", "worker")
    return result.attempts.join(queries, on="query").sort("query", "attempt")

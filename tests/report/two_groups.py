"""A scenario with two groups of connections, for tests of plots."""

TWO_GROUPS = """
name = "two-groups"
duration = "20 s"
[[links]]
name = "wan"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
[[traffic]]
kind = "on-off"
name = "web"
sender = "a"
receiver = "b"
connections = 2
burst = "125 kB"
idle = "2 s"
[[traffic]]
kind = "bulk"
name = "download"
sender = "a"
receiver = "b"
start = "10 s"
"""

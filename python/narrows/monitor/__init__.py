"""Watches the queues and links of a running Linux machine: backlog, drops, marks, rate.

It does what the monitoring program of Harhalakis, Samaras and Vitsas 2011, section III, does, on
any machine: it takes ten samples a second of the kernel's own counters. It only reads, and needs no
special rights.
"""

from narrows.monitor.watch import MonitorError, Reading, Watch

__all__ = ["MonitorError", "Reading", "Watch"]

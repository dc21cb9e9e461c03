"""A real Linux kernel as a backend: namespaces, veth, tc, the kernel's TCP, sockets.

    plan -> design (the tables) -> job -> guest.py -> inside/agent -> tables.py -> run folder

`inside/agent` runs beside the kernel, in a guest or on the host, and starts narrows-live, which
plays the applications (`live.py`). `available.py` says which kernels a machine offers, `prepare.py`
builds one, and `workspace.py` makes sure that a run leaves nothing behind.
"""

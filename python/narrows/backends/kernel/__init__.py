"""A real Linux kernel as a backend: namespaces, veth, tc, the kernel's TCP, sockets.

    plan -> design (the tables) -> job -> guest.py -> inside/agent -> tables.py -> run folder

`inside/agent` runs beside the kernel, in a guest or on the host. `ways.py` says which kernels a
machine offers, `prepare.py` builds one, `workspace.py` sees to it that nothing stays.
"""

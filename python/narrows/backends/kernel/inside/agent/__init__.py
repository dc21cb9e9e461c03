"""The agent, which builds the kernel's network, starts what plays the traffic, and takes samples.

It runs as the first process of a guest, or on the host. It uses only Python's standard library,
because each guest starts Python anew and other imports would cost seconds. `main` reads the job, a
JSON document from `narrows.backends.kernel.design`, and writes columns as JSON.
"""

NAMESPACES = "/run/netns"
"""The folder of the namespaces."""

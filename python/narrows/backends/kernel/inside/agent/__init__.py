"""The agent, which builds the kernel's network, drives traffic over it, and records the results.

It runs as the first process of a guest, or on the host, with nothing but Python's standard library,
because the guest starts Python anew and other imports would cost seconds there. `main` reads the
job, a JSON document that `narrows.backends.kernel.design` makes, and leaves columns as JSON.
"""

"""What runs beside the kernel's network: builds it, drives traffic over it, and records.

It runs as the first process of a guest, or on the host, with nothing but Python's standard library:
the guest starts Python anew, and what it would import besides costs seconds there. `main` reads the
job, a JSON document that `narrows.backends.kernel.job` writes, and leaves columns as JSON.
"""

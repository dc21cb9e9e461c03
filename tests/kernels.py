"""Kernels that tests use where they are built."""

NO_PACKAGE = "no package has this kernel's source, so tests do not build it"
"""Why tests of Linux 7 skip, in CI too, where `narrows kernel prepare --kernel 7` did not run."""

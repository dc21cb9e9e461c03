"""The command `narrows`: a few lines over the Python API for each of its verbs."""

from narrows.cli.app import main

__all__ = ["main"]

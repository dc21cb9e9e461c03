"""Tests of `narrows.cli`."""

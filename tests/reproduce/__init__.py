"""Tests of `narrows.reproduce`."""

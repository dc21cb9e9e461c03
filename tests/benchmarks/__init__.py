"""Tests of the figures that benchmarks compute themselves."""

"""Tests of the metrics that benchmarks compute themselves."""

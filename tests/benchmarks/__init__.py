"""Tests of what benchmarks compute themselves."""

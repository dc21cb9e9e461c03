"""Tests of the laboratory page and of its engine."""

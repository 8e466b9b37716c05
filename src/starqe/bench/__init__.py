"""Benchmarks: every speed claim can be measured on the spot."""

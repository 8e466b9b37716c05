"""Exact answers: what the statements of a graph say, and nothing else."""

"""Evaluation: from scores to filtered ranks, to metrics, to tables next to the paper's."""

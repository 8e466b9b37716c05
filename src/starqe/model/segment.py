"""Segment sums and softmax, in plain torch."""

import torch
from torch import Tensor


def segment_sum(values: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sums the rows of each segment; the sum of a segment without rows is zero. (n, ...) -> (count, ...)."""
    return values.new_zeros(count, *values.shape[1:]).index_add_(0, segment, values)


def segment_softmax(scores: Tensor, segment: Tensor, count: int) -> Tensor:
    """Computes the share of each row in its segment, column by column: exp(score) / Σ exp(score). (n, H) -> (n, H)."""
    index = segment[:, None].expand_as(scores)
    largest = scores.new_full((count, scores.shape[1]), -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
    powers = (scores - largest.index_select(0, segment)).exp()
    return powers / segment_sum(powers, segment, count).index_select(0, segment)

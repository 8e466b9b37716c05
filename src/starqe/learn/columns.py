"""Sampled negatives for the loss: a step that compares with a tenth of the entities takes a fraction of the time."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from starqe.model.weights import STEP

MOST_ANSWERS = 32
"""The maximum number of answers per query that become columns; more are sampled: a query for all people has too many."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The entities that the vectors of a batch are compared with, and their weights."""

    rows: Tensor  # (C,) entities; sampled negatives may occur twice
    logs: Tensor  # (C,) the logarithm of the weight of each


def draw(entities: int, count: int, offsets: Tensor, answers: Tensor, noise: torch.Generator) -> tuple[Columns | None, Tensor, Tensor]:
    """Samples the columns of a batch: its answers with weight 1, and negatives from all other entities, weighted by 1 / their share.

    So Σ weight exp(score) over the columns is on average the sum of exp(score) over all entities.

    Args:
        entities: The number of entities.
        count: The number of negatives, sampled with repetition; 0, or more than half of all, takes all entities instead.
        offsets: Where the answers of each query begin. (B+1,)
        answers: The answers, query by query.
        noise: Decides what is sampled.

    Returns:
        The columns (None: all entities), and the answers of each query as places among them: all, or `MOST_ANSWERS` sampled with
        repetition.
    """
    if not 0 < count <= entities // 2:
        return None, offsets, answers
    device, counts = offsets.device, offsets.diff()
    kept = counts.clamp_max(MOST_ANSWERS)
    starts = torch.cat([kept.new_zeros(1), kept.cumsum(0)])
    query = torch.repeat_interleave(torch.arange(len(kept), device=device), kept)
    in_order = torch.arange(len(query), device=device) - starts[query]
    at_random = (torch.rand(len(query), generator=noise, device=device, dtype=torch.float64) * counts[query]).long()
    place = torch.where(counts[query] > MOST_ANSWERS, at_random, in_order)
    own, chosen = torch.unique(answers[offsets[query] + place], return_inverse=True)
    rest = entities - len(own)
    if not rest:
        return Columns(own, torch.zeros(len(own), device=device)), starts, chosen
    if count > STEP:
        count -= (len(own) + count) % STEP
    others = torch.randint(rest, (count,), generator=noise, device=device)
    # The place of each among the other entities becomes its id: before it are as many answers as have at most this number of others below.
    others += torch.searchsorted(own - torch.arange(len(own), device=device), others, right=True)
    logs = torch.zeros(len(own) + count, device=device)
    logs[len(own) :] = math.log(rest / count)
    return Columns(torch.cat([own, others]), logs), starts, chosen

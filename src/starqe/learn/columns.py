"""Some entities that stand for all in the loss: a step that compares with a tenth of them takes a fraction of the time."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_ANSWERS = 32
"""Of more answers of a query, so many are drawn: a query for all people would make everybody a column."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Entities that the vectors of a batch are compared with, and how many each of them stands for."""

    rows: Tensor  # (C,) entities; those that stand for others may occur twice
    logs: Tensor  # (C,) the logarithm of how many each stands for


def draw(entities: int, count: int, offsets: Tensor, answers: Tensor, noise: torch.Generator) -> tuple[Columns | None, Tensor, Tensor]:
    """Draws the columns of a batch: its answers, which stand for themselves, and a sample of all others, which stands for these.

    So Σ exp(score) over the columns, each times the number that it stands for, is on average the sum over all entities.

    Args:
        entities: How many there are.
        count: How many to draw of the others, with repetition; 0, or more than half of all, takes all entities instead.
        offsets: Where the answers of each query begin. (B+1,)
        answers: The answers, query by query.
        noise: Decides what is drawn.

    Returns:
        The columns (None: all entities), and the answers of each query as places among them: all, or `MOST_ANSWERS` drawn with
        repetition.
    """
    if not 0 < count <= entities // 2:
        return None, offsets, answers
    device, there = offsets.device, offsets.diff()
    kept = there.clamp_max(MOST_ANSWERS)
    starts = torch.cat([kept.new_zeros(1), kept.cumsum(0)])
    query = torch.repeat_interleave(torch.arange(len(kept), device=device), kept)
    in_order = torch.arange(len(query), device=device) - starts[query]
    by_lot = (torch.rand(len(query), generator=noise, device=device, dtype=torch.float64) * there[query]).long()
    place = torch.where(there[query] > MOST_ANSWERS, by_lot, in_order)
    own, chosen = torch.unique(answers[offsets[query] + place], return_inverse=True)
    (rest,) = torch.ones(entities, dtype=torch.bool, device=device).index_fill_(0, own, False).nonzero(as_tuple=True)
    if not len(rest):
        return Columns(own, torch.zeros(len(own), device=device)), starts, chosen
    others = rest[torch.randint(len(rest), (count,), generator=noise, device=device)]
    logs = torch.zeros(len(own) + count, device=device)
    logs[len(own) :] = math.log(len(rest) / count)
    return Columns(torch.cat([own, others]), logs), starts, chosen

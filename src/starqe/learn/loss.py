"""The loss over all entities, or over sampled negatives, fused with the scores: one small buffer, three dense products per step.

B queries · V entities · D width. Autograd would make several (B, V) tensors per step, and new memory of that size costs as
much as the arithmetic. Here a block of queries at a time is scored, turned into its loss and then into its gradient in one
preallocated (rows, V) buffer, and both gradients are products with that buffer.

The targets of query i over the entities are, with k_i answers and the label smoothing ε,

    y = (1 - ε) t + ε / V        where t is, at an answer, 1 / k_i for the softmax loss and 1 for the binary loss, and 0 elsewhere.

The softmax loss may also compare with sampled negatives (`starqe.learn.columns`). Then V is the number of columns; a negative of
weight n counts n times with its score, and has n parts of the smoothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from starqe.errors import ConfigError, InputError
from starqe.learn.columns import Columns
from starqe.model.embedding import Table, adopt_gradient, leaf_of, spread_gradient
from starqe.model.similarity import SIMILARITY

LOWEST = -60.0
"""The minimum exponent of a probability. Subnormal numbers (below exp(-87) in 32 bits) make products 100 times slower, and
the factors of a gradient need some room above that. A probability of exp(-60) instead of less changes no gradient noticeably."""
LOWEST_OF_LOG = -25.0
"""The minimum score in log(1 + exp s), which is much slower below; it changes a loss by less than exp(-25)."""


@dataclass(frozen=True, eq=False)
class Targets:
    """The answers of a block of queries, and the smoothing of the labels."""

    row: Tensor  # (answers,) queries of the block
    cell: Tensor  # (answers,) positions in the flattened (rows, V) buffer
    share: Tensor  # (answers,) 1 / k of the query
    smoothing: float
    spread: Tensor | None = None  # (V,) the share of each column in the smoothing; equal if left out

    def weighted_sum(self, values: Tensor, mass: Tensor) -> Tensor:
        """Computes Σ_v y_v values_v of each query, with a mass at each answer and the smoothing everywhere. (rows, V) -> (rows,)."""
        total = values.new_zeros(len(values)).index_add_(0, self.row, mass * values.view(-1)[self.cell])
        if not self.smoothing:
            return total
        mean = values.mean(1) if self.spread is None else values @ self.spread
        return total.add_(mean, alpha=self.smoothing)

    def subtract(self, values: Tensor, mass: Tensor) -> None:
        """Subtracts y, in place. (rows, V)."""
        if self.smoothing:
            values.sub_(self.smoothing / values.shape[1] if self.spread is None else self.smoothing * self.spread)
        values.view(-1).index_add_(0, self.cell, mass, alpha=-1)


Scratch = Callable[[], Tensor]
"""Returns a second buffer of the shape of the scores, if one is needed."""


def softmax_loss(scores: Tensor, targets: Targets, scratch: Scratch) -> tuple[Tensor, float]:  # noqa: ARG001
    """Computes the cross-entropy -Σ_v y_v log softmax(s)_v of each query, and leaves its gradient softmax(s) - y in the scores.

    Returns:
        The losses, and the factor by which the gradient in the buffer has to be multiplied. (rows,)
    """
    torch.log_softmax(scores, 1, out=scores)
    mass = targets.share * (1 - targets.smoothing)
    losses = -targets.weighted_sum(scores, mass)
    scores.clamp_min_(LOWEST).exp_()
    targets.subtract(scores, mass)
    return losses, 1.0


def binary_loss(scores: Tensor, targets: Targets, scratch: Scratch) -> tuple[Tensor, float]:
    """Computes the mean binary cross-entropy (1/V) Σ_v (log(1 + exp s_v) - y_v s_v) of each query; the gradient is (σ(s) - y) / V.

    Returns:
        The losses, and the factor by which the gradient in the buffer has to be multiplied. (rows,)
    """
    entities = scores.shape[1]
    mass = torch.full_like(targets.share, 1 - targets.smoothing)
    linear = targets.weighted_sum(scores, mass)
    bounded = torch.clamp_min(scores, LOWEST_OF_LOG, out=scratch())
    losses = (torch.logaddexp(bounded, bounded.new_zeros(()), out=bounded).sum(1) - linear) / entities
    targets.subtract(scores.clamp_min_(LOWEST).sigmoid_(), mass)
    return losses, 1 / entities


Loss = Callable[[Tensor, Targets, Scratch], tuple[Tensor, float]]

LOSSES: Mapping[str, Loss] = {"softmax": softmax_loss, "binary": binary_loss}
"""The losses: softmax cross-entropy with the mass spread evenly over the answers, and the paper's binary cross-entropy."""


class ScoreLoss:
    """Compares query vectors with the entities, and computes the mean loss per query with its gradients.

        loss_per_query = score_loss(vectors, encoder.entity_matrix(), batch.answer_offsets, batch.answers)
        loss_per_query.backward()

    The gradients are computed together with the loss. ``backward()`` hands the one of the vectors to autograd and puts the one
    of the entities into ``.grad`` of their parameter: if that was None, as after ``zero_grad()``, a buffer that this object keeps
    becomes the gradient, and with all entities nothing is copied or cleared. Not-a-number anywhere in the scores shows in the loss.

    Args:
        similarity: A key of `SIMILARITY`.
        loss: A key of `LOSSES`.
        smoothing: The share ε of label smoothing.
        rows: The number of queries that are scored at a time; 128 keep the buffer in the CPU cache, and are enough for fast products.

    Raises:
        ConfigError: A name is in no table, or a number is out of range.
    """

    def __init__(self, similarity: str = "dot", loss: str = "softmax", smoothing: float = 0.0, rows: int = 128) -> None:
        for name, table in ((similarity, SIMILARITY), (loss, LOSSES)):
            if name not in table:
                raise ConfigError(f"expected one of {', '.join(table)}, found '{name}'")
        if not 0 <= smoothing < 1 or rows < 1:
            raise ConfigError(f"label smoothing lies in [0, 1) and rows are at least 1, found {smoothing} and {rows}")
        self.similarity = SIMILARITY[similarity]
        self.loss = LOSSES[loss]
        self.smoothing = smoothing
        self.rows = rows
        self.calls = 0
        """How often the loss was computed: the gradient in the buffer belongs to the last call."""
        self._buffers: dict[str, Tensor] = {}

    def __call__(
        self,
        vectors: Tensor,
        entities: Tensor,
        answer_offsets: Tensor,
        answers: Tensor,
        weights: Tensor | None = None,
        columns: Columns | None = None,
    ) -> Tensor:
        """Computes the mean loss per query, each times its weight.

        Args:
            vectors: The query vectors. (B, D)
            entities: A leaf, or a view of the leading rows of one. (V, D)
            answer_offsets: Where the answers of each query begin. (B+1,)
            answers: The answers, query by query: entities, or places among the columns.
            weights: The weight of each query; 1 if left out. (B,)
            columns: Which entities to compare with; all if left out.

        Raises:
            InputError: A query has no answer.
            ConfigError: Negatives are sampled for the softmax loss only.
        """
        if columns is not None and self.loss is not softmax_loss:
            raise ConfigError("negatives are sampled for the softmax loss only, found another loss. Compare with all entities")
        counts = answer_offsets.diff()
        if int(counts.min()) == 0:
            raise InputError(f"a query to learn from has an answer, found none for query {int(counts.argmin())} of the batch")
        loss: Tensor = _Fused.apply(vectors, entities, self, answer_offsets, answers, weights, columns)  # type: ignore[no-untyped-call]
        return loss

    @torch.no_grad()
    def compute(
        self,
        vectors: Tensor,
        entities: Tensor,
        offsets: Tensor,
        answers: Tensor,
        weights: Tensor | None,
        logs: Tensor | None,
        learn: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the mean loss and, to learn, its gradients without autograd.

        ``logs`` is the logarithm of the weight of each column, or None where the columns are all entities. (V,)

        Returns:
            The loss, the gradient of the vectors, and that of the entities: where they are all, of their leaf, in a buffer that is
            reused. (), (B, D), (V or the rows of the leaf, D)
        """
        self.calls += 1
        similarity, queries = self.similarity, len(vectors)
        terms = similarity.terms(entities)
        into = vectors.new_empty(0)
        if learn:
            into = self._gradient_buffer(entities) if logs is None else torch.empty_like(entities)
        column_sums = entities.new_zeros(len(entities)) if learn and similarity.sums else None
        pulled, total = torch.empty_like(vectors), vectors.new_zeros(())
        spread, excess = None, 0.0
        if logs is not None:  # a column that represents n entities has n shares of the smoothing, and the score of one
            spread = logs.softmax(0)
            excess = self.smoothing * float(spread @ logs)
        for first in range(0, queries, self.rows):
            part = vectors[first : first + self.rows]
            buffer = self._buffer("scores", part, len(entities))
            scores = similarity.scores(part, entities, buffer, terms)
            kept = self._buffer("kept", part, len(entities)).copy_(scores) if similarity.keeps_scores and learn else None
            targets = replace(self._targets(first, len(part), offsets, answers, scores), spread=spread)
            if logs is not None:
                scores.add_(logs)
            losses, factor = self.loss(scores, targets, partial(self._buffer, "scratch", part, len(entities)))
            losses.add_(excess)
            weight = None if weights is None else weights[first : first + len(part)]
            total += losses.sum() if weight is None else losses @ weight
            if learn:
                scale = factor / queries
                slope = similarity.slope(scores, kept, terms)
                sums = slope.sum(1) if similarity.sums else None
                pull, operand = similarity.pull_vectors(slope @ entities, sums, part).mul_(scale), similarity.operand(part)
                if weight is not None:  # the weight of a row of H is applied to the products, which are smaller than H
                    pull, operand = pull.mul_(weight[:, None]), operand * weight[:, None]
                pulled[first : first + len(part)] = pull
                into[: len(entities)].addmm_(slope.T, operand, beta=int(first > 0), alpha=scale)
                if column_sums is not None:
                    column_sums.add_(slope.sum(0) if weight is None else weight @ slope, alpha=scale)
        if learn:
            similarity.pull_entities(into[: len(entities)], column_sums, entities, terms)
        return total / queries, pulled, into

    def _targets(self, first: int, rows: int, offsets: Tensor, answers: Tensor, scores: Tensor) -> Targets:
        bounds = offsets[first : first + rows + 1]
        counts = bounds.diff()
        row = torch.repeat_interleave(torch.arange(rows, device=offsets.device), counts)
        cell = row * scores.shape[1] + answers[int(bounds[0]) : int(bounds[-1])]
        return Targets(row, cell, counts.to(scores.dtype).reciprocal()[row], self.smoothing)

    def _buffer(self, name: str, part: Tensor, entities: int) -> Tensor:
        """Returns a (rows, V) buffer, the same one in every call that fits into it."""
        size = len(part) * entities
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size or buffer.dtype != part.dtype or buffer.device != part.device:
            buffer = self._buffers[name] = part.new_empty(size)
        return buffer[:size].view(len(part), entities)

    def begin_gradient(self, entities: Tensor) -> None:
        """Sets the gradient of the entities' leaf to zeros if it has none, in reused memory, which is faster than new memory."""
        leaf = leaf_of(entities)
        if leaf.grad is None and not isinstance(leaf, Table):
            leaf.grad = self._kept(leaf).zero_()

    def _gradient_buffer(self, entities: Tensor) -> Tensor:
        """Returns the buffer for the gradient of the entities' leaf, with zeros after the rows of the entities."""
        buffer = self._kept(leaf_of(entities))
        buffer[len(entities) :].zero_()
        return buffer

    def _kept(self, leaf: Tensor) -> Tensor:
        """Returns a buffer of the shape of a leaf: the same one in every call, unless it is currently the leaf's gradient."""
        buffer = self._buffers.get("gradient")
        unfit = buffer is None or buffer.shape != leaf.shape or buffer.dtype != leaf.dtype or buffer.device != leaf.device
        # A gradient that is accumulated over several batches keeps its memory; the next ones use another buffer.
        if buffer is None or unfit or (leaf.grad is not None and leaf.grad.data_ptr() == buffer.data_ptr()):
            buffer = self._buffers["gradient"] = torch.empty_like(leaf, requires_grad=False)
        return buffer


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        entities: Tensor,
        owner: ScoreLoss,
        offsets: Tensor,
        answers: Tensor,
        weights: Tensor | None,
        columns: Columns | None,
    ) -> Tensor:
        ctx.rows, logs, compared = None, None, entities
        if columns is None and isinstance(leaf_of(entities), Table):  # touches every row
            columns = Columns(torch.arange(len(entities), device=entities.device), vectors.new_zeros(len(entities)))
        if columns is not None:
            ctx.rows, logs = columns.rows, columns.logs.to(vectors)
            compared = entities.detach().index_select(0, columns.rows).to(vectors)
        loss, ctx.pulled, ctx.gradient = owner.compute(vectors, compared, offsets, answers, weights, logs, any(ctx.needs_input_grad))
        ctx.entities, ctx.owner, ctx.call = entities, owner, owner.calls
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None, None, None]:
        assert ctx.call == ctx.owner.calls, "backward() runs before the next loss is computed"
        assert ctx.gradient is not None, "backward() runs once"
        if ctx.needs_input_grad[1]:
            if ctx.rows is None:
                adopt_gradient(ctx.entities, ctx.gradient, float(gradients[0]))
            else:
                ctx.owner.begin_gradient(ctx.entities)
                spread_gradient(ctx.entities, ctx.rows, ctx.gradient * gradients[0])
        ctx.gradient = None
        return ctx.pulled * gradients[0], None, None, None, None, None, None

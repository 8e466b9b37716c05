"""The loss over all entities, or over sampled negatives, fused with the scores: one buffer, three dense products per step.

B queries · V entities · D width. Autograd would make several (B, V) tensors per step, and new memory of that size costs as
much as the arithmetic. Here the scores are computed block by block, `BLOCK` entities at a time, into one preallocated buffer; what has
to be known of all blocks (the normaliser of the softmax) is added up while a block is in the processor's cache. Then each block
becomes its own gradient, and both gradients are products with it.

The softmax loss may also compare with sampled negatives (`starqe.learn.columns`). Then V is the number of columns; a negative of
weight n counts n times with its score, and has n parts of the smoothing.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from starqe.errors import ConfigError, InputError
from starqe.learn.columns import Columns
from starqe.learn.steps.losses import BLOCK, LOSSES, Loss, SoftmaxLoss, targets_of
from starqe.model.embedding import Table, adopt_gradient, leaf_of, spread_gradient
from starqe.model.similarity import SIMILARITY, Similarity

BUFFER_BYTES = 1 << 27
"""The maximum size of the buffer of scores, if it has room for `FEWEST` queries."""
FEWEST, MOST = 128, 512
"""The number of queries that are scored at a time: products with fewer are slower, and with more no faster."""


def buffer_rows(entities: int) -> int:
    """Returns the maximum number of queries that are scored at a time."""
    return max(FEWEST, min(MOST, BUFFER_BYTES // (4 * entities)))


@dataclass(frozen=True, eq=False)
class _Block:
    """Some of the entities, with the terms of their similarity and the logarithms of their weights."""

    place: slice
    entities: Tensor  # (n, D)
    terms: Tensor | None  # (n,)
    logs: Tensor | None  # (n,)


class _Compared:
    """The entities that a batch is compared with, in blocks, and what is added up for their gradient."""

    def __init__(self, similarity: Similarity, entities: Tensor, logs: Tensor | None, into: Tensor | None) -> None:
        terms = similarity.terms(entities)
        self.entities, self.terms, self.into = entities, terms, into
        # A column that represents n entities has n shares of the smoothing.
        self.spread = None if logs is None else logs.softmax(0)
        self.sums = entities.new_zeros(len(entities)) if into is not None and similarity.sums else None
        places = [slice(start, min(start + BLOCK, len(entities))) for start in range(0, len(entities), BLOCK)]
        self.blocks = [
            _Block(own, entities[own], None if terms is None else terms[own], None if logs is None else logs[own]) for own in places
        ]


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
        rows: The maximum number of queries that are scored at a time: the buffer has a number for each of them and each entity.
        members: The number of parts of a vector, of equal width: each is compared with its part of the entities alone, as if there were
            that many models. The loss is the mean over them.

    Raises:
        ConfigError: A name is in no table, or a number is out of range.
    """

    def __init__(self, similarity: str = "dot", loss: str = "softmax", smoothing: float = 0.0, rows: int = MOST, members: int = 1) -> None:
        for name, table in ((similarity, SIMILARITY), (loss, LOSSES)):
            if name not in table:
                raise ConfigError(f"expected one of {', '.join(table)}, found '{name}'")
        if not 0 <= smoothing < 1 or rows < 1:
            raise ConfigError(f"label smoothing lies in [0, 1) and rows are at least 1, found {smoothing} and {rows}")
        self.similarity = SIMILARITY[similarity]
        self.loss = LOSSES[loss]
        self.smoothing = smoothing
        self.rows = rows
        self.members = members
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
        if columns is not None and self.loss is not SoftmaxLoss:
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
        into = (self._gradient_buffer(entities) if logs is None else torch.empty_like(entities)) if learn else None
        pulled, total = torch.empty_like(vectors), vectors.new_zeros(())
        width = vectors.shape[1] // self.members
        for start in range(0, vectors.shape[1], width):
            own = slice(start, start + width)
            of_member = None if into is None else into[:, own]
            compared = _Compared(self.similarity, entities[:, own], logs, of_member)
            total += self._member(vectors[:, own], compared, offsets, answers, weights, pulled[:, own])
            if of_member is not None:
                self.similarity.pull_entities(of_member[: len(entities)], compared.sums, entities[:, own], compared.terms)
        return total / (len(vectors) * self.members), pulled, vectors.new_empty(0) if into is None else into

    def _member(
        self, vectors: Tensor, compared: _Compared, offsets: Tensor, answers: Tensor, weights: Tensor | None, pulled: Tensor
    ) -> Tensor:
        """Returns the sum of the losses of one member; to learn, computes its gradients. ()."""
        total, count = vectors.new_zeros(()), len(compared.entities)
        rows = min(self.rows, buffer_rows(count))
        for first in range(0, len(vectors), rows):
            own = slice(first, first + rows)
            part, weight = vectors[own], None if weights is None else weights[own]
            targets = targets_of(offsets[first : first + len(part) + 1], answers, count, self.smoothing, compared.spread, part.dtype)
            loss, scores = self.loss(targets), self._split("scores", part, count)
            keeps = self.similarity.keeps_scores and compared.into is not None
            kept = self._split("kept", part, count) if keeps else None
            for number, block in enumerate(compared.blocks):
                self.similarity.scores(part, block.entities, scores[number], block.terms)
                if kept is not None:
                    kept[number].copy_(scores[number])
                loss.see(number, scores[number], block.logs)
            losses = loss.losses()
            total += losses.sum() if weight is None else losses @ weight
            if compared.into is not None:
                scale = loss.factor / (len(vectors) * self.members)
                pulled[own] = self._pull(loss, part, weight, compared, scores, kept, first > 0, scale)
        return total

    def _pull(
        self,
        loss: Loss,
        part: Tensor,
        weight: Tensor | None,
        compared: _Compared,
        scores: list[Tensor],
        kept: list[Tensor] | None,
        add: bool,
        scale: float,
    ) -> Tensor:
        """Returns the gradient of some vectors, and adds their part to that of the entities (or begins it). (rows, D)."""
        assert compared.into is not None
        similarity, operand = self.similarity, self.similarity.operand(part)
        operand = operand if weight is None else operand * weight[:, None]  # smaller than H, whose rows would have the weight
        product, sums = torch.zeros_like(part), part.new_zeros(len(part)) if similarity.sums else None
        for number, block in enumerate(compared.blocks):
            loss.differentiate(number, scores[number])
            slope = similarity.slope(scores[number], None if kept is None else kept[number], block.terms)
            place = compared.into[block.place]
            product.addmm_(slope, block.entities)
            place.addmm_(slope.T, operand, beta=int(add), alpha=scale)
            if sums is not None and compared.sums is not None:
                sums += slope.sum(1)
                compared.sums[block.place].add_(slope.sum(0) if weight is None else weight @ slope, alpha=scale)
        pull = similarity.pull_vectors(product, sums, part).mul_(scale)
        return pull if weight is None else pull.mul_(weight[:, None])

    def _split(self, name: str, part: Tensor, entities: int) -> list[Tensor]:
        """Returns a (rows, V) buffer block by block: (rows, n) each."""
        blocks = torch.split(self._buffer(name, part, entities).view(-1), len(part) * BLOCK)
        return [block.view(len(part), -1) for block in blocks]

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

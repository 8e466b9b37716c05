"""A training task: a model, its batches, their loss, and its validation.

The loop (`starqe.learn.train`) needs nothing else, so everything that is written as a lesson is trained, checkpointed and
resumed in the same way.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from starqe.errors import QueryError
from starqe.learn.columns import MOST_ANSWERS, draw
from starqe.learn.config import LoopConfig
from starqe.learn.loss import ScoreLoss, buffer_rows
from starqe.learn.run import Run, RunFolder
from starqe.learn.scorer import EncoderScorer
from starqe.learn.training_queries import Part, TrainingQueries
from starqe.measure.baseline import FrequencyScorer
from starqe.measure.evaluate import Measure, Scorer, batch_for, evaluate, workers_for
from starqe.measure.rows import ALL, Row
from starqe.model import SIMILARITY, Encoder, collate
from starqe.model.embedding import MakeTable, table
from starqe.model.weights import weight
from starqe.queries import QueryTable, check_tables

Batch = TypeVar("Batch")

Validation = Mapping[str, float]
"""The result of a validation, in percent: the MRR by shape and its mean, ``average``; and `POOLED`, if models are chosen by that. Empty
without validation."""
POOLED = "pooled Hits@10"
"""Hits@10 over all answers of all validation queries, whatever their shape: what the authors stopped by."""


class Lesson(Protocol[Batch]):
    """The interface between the training loop and a model with its data."""

    @property
    def per_epoch(self) -> int:
        """The number of queries per epoch."""

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches per epoch."""

    @property
    def validates(self) -> bool:
        """Whether there is something to validate on."""

    def new_model(self) -> nn.Module:
        """Makes a model with its initial weights, which depend on the seed."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yields the batches of an epoch, from the given one on; they depend only on the seed and the epoch."""

    def shards(self, batch: Batch, count: int) -> list[tuple[Batch, int]]:
        """Divides a batch into at most this many parts of about equal size, each with the number of its queries; none is empty."""

    def loss_per_query(self, model: nn.Module, batch: Batch, noise: torch.Generator) -> tuple[Tensor, int]:
        """Computes the mean loss over the queries of a batch, ready for ``backward``, and their number."""

    def validate(self, model: nn.Module) -> Validation:
        """Measures a model on validation."""

    def baseline(self) -> Validation:
        """Measures the most frequent entity per relation on the same validation, as the baseline of a model."""

    def memory_mb(self, weights: int) -> int:
        """Estimates the memory that training takes, with this many bytes of weights, gradients and moments."""


class QueryLesson:
    """Teaches an encoder to answer queries.

    Raises:
        MismatchError: The queries are of another graph.
        QueryError: There are no queries of a wanted shape.
    """

    def __init__(self, run: Run, queries: Mapping[str, QueryTable], validation: Mapping[str, QueryTable] | None = None) -> None:
        recipe = run.recipe
        self._run, self._config = run, recipe.train
        check_tables(run.graph, [*queries.values(), *(validation or {}).values()])
        pool = {name: _first(_table(queries, name), self._config.pool_per_shape) for name in self._config.shapes}
        self.queries = TrainingQueries(run.graph, pool, self._config, recipe.seed)
        self.per_epoch, self.steps_per_epoch = self.queries.per_epoch, self.queries.steps_per_epoch
        count = self._config.validation_queries
        self._validation = {name: _first(table, count) for name, table in (validation or {}).items() if len(table)}
        self._loss = ScoreLoss(recipe.model.similarity, self._config.loss, self._config.smoothing)

    @property
    def validates(self) -> bool:
        """Whether there are validation queries, and they are wanted."""
        return bool(self._config.validation_queries and self._validation)

    def new_model(self) -> Encoder:
        """Makes an encoder with its initial weights."""
        return Encoder(self._run.recipe.model, self._run.space, self._run.recipe.seed, table_of(self._run))

    def batches(self, epoch: int, start: int = 0) -> Iterator[list[Part]]:
        """Yields the batches of an epoch, from the given one on."""
        return self.queries.batches(epoch, start)

    def shards(self, batch: list[Part], count: int) -> list[tuple[list[Part], int]]:
        """Divides a batch into at most this many parts, each with about the same number of queries of every shape."""
        if count == 1:
            return [(batch, sum(len(rows) for _, rows in batch))]
        starts = np.cumsum([0, *(len(rows) for _, rows in batch)])
        found = []
        for shard in range(min(count, int(starts[-1]))):
            parts = [(table, rows[(shard - start) % count :: count]) for (table, rows), start in zip(batch, starts, strict=False)]
            found.append(([(table, rows) for table, rows in parts if len(rows)], sum(len(rows) for _, rows in parts)))
        return found

    def loss_per_query(self, model: nn.Module, batch: list[Part], noise: torch.Generator) -> tuple[Tensor, int]:
        """Computes the mean loss over the queries of a batch, and their number."""
        assert isinstance(model, Encoder)
        device = model.embedding.weight.device
        collated = collate(batch, model.space).to(device)
        with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
            vectors = model(collated, noise)  # (B, D)
        entities = model.entity_matrix()
        columns, offsets, answers = draw(len(entities), self._config.candidates, collated.answer_offsets, collated.answers, noise)
        return self._loss(vectors.float(), entities, offsets, answers, columns=columns), len(collated)

    def validate(self, model: nn.Module) -> Validation:
        """Computes the mean MRR (macro, paper protocol) of each shape and over the shapes, in percent."""
        if not self.validates:
            return {}
        rows = self.measure(model)
        return _mrr(rows) if self._config.choose_by == "MRR" else {**_mrr(rows), POOLED: _pooled_hits(rows)}

    def baseline(self) -> Validation:
        """Measures the most frequent entity per relation on the same validation."""
        return _mrr(self._measured(FrequencyScorer(self._run.graph))) if self.validates else {}

    def measure(self, model: nn.Module) -> list[Row]:
        """Ranks the answers of the validation queries; returns all metrics (paper protocol)."""
        assert isinstance(model, Encoder)
        return self._measured(EncoderScorer(model, self._run.graph, self._config.variant))

    def _measured(self, scorer: Scorer) -> list[Row]:
        return evaluate(scorer, self._validation, len(self._run.graph.entities), Measure(replicates=0))

    def memory_mb(self, weights: int) -> int:
        """Estimates the memory that training takes beyond the program and the graph: weights, optimizer, buffers, queries."""
        tables = sum(table.nbytes for table in self.queries.tables)
        entities, keeps = len(self._run.graph.entities), SIMILARITY[self._run.recipe.model.similarity].keeps_scores
        return round((weights + buffer_bytes(self._config, entities, 2 if keeps else 1) + tables) / 1e6)


def _mrr(rows: list[Row]) -> Validation:
    return {row.shape: round(row.ours, 3) for row in rows if (row.metric, row.average) == ("MRR", "macro") and row.ours is not None}


def _pooled_hits(rows: list[Row]) -> float:
    return next(round(row.number, 3) for row in rows if (row.metric, row.average, row.shape) == ("Hits@10", "micro", ALL))


def table_of(run: RunFolder[Any]) -> MakeTable:
    """Returns what makes the entity embeddings for training, as the recipe says."""
    config = run.recipe.train
    if config.optimizer == "dense":
        return weight
    return partial(table, folder=run.folder if config.mapped else None)


def buffer_bytes(config: LoopConfig, entities: int, buffers: int = 1) -> int:
    """Estimates the buffers of scores: those of the loss, and one for each thread that ranks in validation."""
    columns = entities
    if 0 < config.candidates <= entities // 2:
        columns = min(entities, config.candidates + MOST_ANSWERS * config.batch)
    return 4 * buffers * min(config.batch, buffer_rows(columns)) * columns + _ranking_bytes(entities)


def evaluation_bytes(run: RunFolder[Any]) -> int:
    """Estimates the memory that ranking with the models of a run takes beyond the program and the graph: weights and scores."""
    weights = sum(file.stat().st_size for file in run.folder.rglob("weights.safetensors"))
    return 2 * weights + _ranking_bytes(len(run.graph.entities))


def _ranking_bytes(entities: int) -> int:
    """Estimates the buffers of all threads that rank."""
    return 4 * batch_for(entities, Measure().batch) * workers_for(torch.get_num_threads()) * entities


def _first(table: QueryTable, count: int) -> QueryTable:
    return table if len(table) <= count else table.take(range(count))


def _table(queries: Mapping[str, QueryTable], name: str) -> QueryTable:
    found = [shape for shape, table in queries.items() if len(table)]
    if name not in found:
        raise QueryError(
            f"there are no training queries of the shape '{name}' (there are some of {', '.join(found) or 'none'}). Generate them "
            "(with qualifiers 0 for a graph without qualifiers), or leave it out of train.shapes"
        )
    return queries[name]

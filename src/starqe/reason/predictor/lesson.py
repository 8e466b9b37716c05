"""The lesson of a one-hop predictor, for the training loop of `starqe.learn`."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from starqe.learn.columns import draw
from starqe.learn.lesson import Validation, buffer_bytes, table_of
from starqe.learn.loss import ScoreLoss
from starqe.measure.baseline import FrequencyScorer
from starqe.measure.links import LINKS, GapScorer, rank_links, some_statements
from starqe.queries.gaps import RELATION, Gaps, asked_relation
from starqe.ragged import BoolArray
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.predictor.training_questions import TrainingQuestions


class PredictLesson:
    """Trains a predictor to find what is missing in statements (a `starqe.learn.lesson.Lesson`).

    Args:
        run: The run of the predictor.
        validated: The maximum number of validation statements, if it is less than the recipe says: there may be little time.

    Raises:
        InputError: The splits to train on have no statements.
    """

    def __init__(self, run: PredictorRun, validated: int | None = None) -> None:
        self._run, self._config = run, run.recipe.train
        self.questions = TrainingQuestions(run.learned, self._config, run.recipe.seed)
        self.per_epoch, self.steps_per_epoch = self.questions.per_epoch, self.questions.steps_per_epoch
        limit = 0 if "valid" in self._config.splits else self._config.validation_questions
        limit = limit if validated is None else min(limit, validated)
        self._validation = some_statements(run.learned, "valid", limit, run.recipe.seed)
        members, config = run.recipe.model.members, self._config
        self._of_entities, self._of_relations = (ScoreLoss("dot", config.loss, config.smoothing, members=members) for _ in range(2))

    @property
    def validates(self) -> bool:
        """Whether there are validation statements, and they are wanted."""
        return bool(len(self._validation))

    def new_model(self) -> Predictor:
        """Makes a predictor with its initial weights."""
        return self._run.new_predictor(table_of(self._run))

    def batches(self, epoch: int, start: int = 0) -> Iterator[Gaps]:
        """Yields the batches of an epoch, from the given one on, without their answers."""
        return self.questions.asked(epoch, start)

    def shards(self, batch: Gaps, count: int) -> list[tuple[Gaps, int]]:
        """Divides a batch into at most this many parts of about the same number of questions."""
        parts = [batch.take(np.arange(shard, len(batch), count)) for shard in range(min(count, len(batch)))] if count > 1 else [batch]
        return [(part, len(part)) for part in parts]

    def loss_per_query(self, model: nn.Module, batch: Gaps, noise: torch.Generator) -> tuple[Tensor, int]:
        """Computes the weighted mean loss of the questions of a batch, with the penalty; and the number of questions."""
        assert isinstance(model, Predictor)
        device, batch = model.device, self.questions.entailed.answered(batch)
        with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
            vectors = model(batch, noise)  # (B, D)
        # The penalty comes first, so that the backward pass begins with the loss, whose memory becomes the gradient of the embeddings.
        penalty = self._config.penalty
        total = penalty * model.penalty(batch, noise) if penalty else vectors.new_zeros((), dtype=torch.float32)
        of_numbers = batch.answers.items >= len(self._run.graph.entities)
        if of_numbers.any():
            total = total + self._number_loss(model, batch, vectors.float() / self._run.recipe.model.members, of_numbers)
            batch = replace(batch, answers=batch.answers.where(~of_numbers))
        for_entities = (batch.position != RELATION) & (batch.answers.counts > 0)
        for loss, rows in ((self._of_entities, for_entities), (self._of_relations, batch.position == RELATION)):
            if not rows.any():
                continue
            own = np.flatnonzero(rows)
            part = batch if len(own) == len(batch) else batch.take(own)
            own_vectors = vectors.float() if part is batch else vectors.float().index_select(0, torch.from_numpy(own).to(device))
            matrix = model.entity_matrix() if loss is self._of_entities else model.relation_matrix()
            offsets, answers = (
                torch.from_numpy(column.astype(np.int64)).to(device) for column in (part.answers.offsets, part.answers.items)
            )
            weight = None if part.weight is None else torch.from_numpy(part.weight).to(device, torch.float32)
            columns, offsets, answers = draw(len(matrix), self._config.candidates, offsets, answers, noise)
            total = total + loss(own_vectors, matrix, offsets, answers, weight, columns) * (len(own) / len(batch))
        return total, len(batch)

    def _number_loss(self, model: Predictor, batch: Gaps, vectors: Tensor, of_numbers: BoolArray) -> Tensor:
        """Computes the cross entropy of the knots of the scales that answers are on, as a part of the mean over the batch. ()."""
        scales = self._run.scales
        assert scales is not None, "numbers are on scales"
        answers = batch.answers.where(of_numbers)
        rows = np.flatnonzero(answers.counts)
        answers, relation = answers.take(rows), asked_relation(batch)[rows]
        below, share = scales.between(relation[answers.owner], answers.items)
        share, each = share.astype(np.float32), (1 / answers.counts[answers.owner]).astype(np.float32)
        present, own = np.unique(scales.relation[relation], return_inverse=True)
        column = np.full(len(scales.knots), -1, np.int64)
        places = scales.places.take(present)
        column[places.items] = np.arange(len(places.items))
        wanted = np.zeros((len(rows), len(places.items)), np.float32)
        np.add.at(wanted, (answers.owner, column[below]), each * (1 - share))
        np.add.at(wanted, (answers.owner, column[below + 1]), each * share)
        logits = model.number_logits(vectors.index_select(0, torch.from_numpy(rows).to(vectors.device)), present)  # (rows, knots)
        elsewhere = torch.from_numpy(places.owner[None, :] != own[:, None]).to(logits.device)
        log_shares = logits.masked_fill(elsewhere, -torch.inf).log_softmax(1).masked_fill(elsewhere, 0.0)
        weight = np.ones(len(rows), np.float32) if batch.weight is None else batch.weight[rows].astype(np.float32)
        return -(log_shares * torch.from_numpy(wanted * weight[:, None]).to(logits.device)).sum() / len(batch)

    def validate(self, model: nn.Module) -> Validation:
        """Computes the mean MRR of tails, heads and both, in percent: filtered by train and valid, all entities candidates."""
        assert isinstance(model, Predictor)
        return self._measured(PredictorScorer(model)) if self.validates else {}

    def baseline(self) -> Validation:
        """Measures the most frequent entity per relation on the same validation."""
        return self._measured(FrequencyScorer(self._run.graph)) if self.validates else {}

    def _measured(self, scorer: GapScorer) -> Validation:
        sums = rank_links(scorer, self._run.learned, self._validation, LINKS["ours"], ("train", "valid"))
        found = {name: 100 * part.estimate("MRR", "macro").value for name, part in sums.items()}
        return {name: round(value, 3) for name, value in {**found, "average": sum(found.values()) / len(found)}.items()}

    def memory_mb(self, weights: int) -> int:
        """Estimates the memory that training takes beyond the program and the graph: weights, optimizer, buffers, questions."""
        buffers = buffer_bytes(self._config, len(self._run.graph.entities))
        questions = 4 * 8 * (self.per_epoch + 2 * len(self._run.graph.pair_value))
        return round((weights + buffers + questions) / 1e6)
